"""Benchmark problems, a demonstration vehicle and emulated benches, one file each.

Linear benchmark problems: `two_mass`, `two_mass_rotational`, `two_mass_chain`, `mass_chain`,
`linear`. Nonlinear ones: `nonlinear_oscillator`, `nonlinear_coupling`, `nonlinear_chain`,
`contact_oscillator`, `coupled_pendula`, `hydraulic_crane`; all integrate by `integrate` where asked
for the exact solution. The vehicle: `vehicle`, `driveline`, `driver`, `vehicle_data`. Emulated
benches:
`bench_sequence` (enable and faults), `dynamometer`, `engine_bench` (as a model:
`engine_on_dyno`), `motor_bench`, `hydraulic_axis_bench`.
"""
