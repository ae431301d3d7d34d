"""Models of the demonstration and of tests: two masses, a vehicle, emulated benches.

`two_mass`, and `linear` (by its matrices); both step by `integrate` where asked for the exact
solution. The vehicle: `vehicle`, `driveline`, `driver`, `vehicle_data`. Emulated benches:
`bench_sequence` (enable and faults), `dynamometer`, `engine_bench` (as a model: `engine_on_dyno`),
`motor_bench`, `hydraulic_axis_bench`. The other benchmark problems are in `bench_configs/models`,
beside their session files.
"""
