"""A physical bench: the process that owns its bus and guards it, and its emulation.

Read in this order. The table in a session file: `bench_options`, `check_signals`, `read_bench`. The
guard, without I/O: `guard_states` (states, settings), `set_points`, `settling`, `safe_profile`,
`guardian`. The gateway: `bus_traffic` (frames), `master_dialogue` (messages), `gateway_loop`,
`gateway_process`. Emulated benches: `emulated_benches`, `bench_on_bus`, `disturb` (what goes wrong
on purpose), `emulator_ending`, `emulate`.
"""
