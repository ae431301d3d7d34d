"""Models of the demonstration and of tests: two masses, a vehicle, emulated benches.

`two_mass`, and `linear` (from matrices); both use `integrate` for the exact solution. The vehicle:
`vehicle`, `driveline`, `driver`, `vehicle_data`. Emulated benches: `bench_sequence` (enabling and
faults), `dynamometer`, `engine_bench` (as a solver: `engine_on_dyno`), `motor_bench`,
`hydraulic_axis_bench`. Other benchmark problems are in `bench_configs/models`, beside their session
files.
"""
