"""A physical bench: the gateway, which owns and guards its bus, and emulated benches.

In reading order:

* the table in a session file: `bench_options`, `check_signals`, `read_bench`;
* the guard, without I/O: `guard_states` (states, settings, safe profile, settling), `set_points`,
  `guardian`;
* the gateway: `bus_traffic` (frames), `master_dialogue` (messages), `gateway_process`;
* emulated benches: `emulate`, `bench_on_bus`, `disturb` (deliberate faults).
"""
