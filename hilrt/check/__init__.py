"""Checks of a session file before anything starts: ``hilrt check``.

`check` reads the file, collects the known ports, and calls the other modules, one per part of the
file: `check_master` (steps, duration, pace, step and order control), `check_topology` (connections,
bonds, loops; names places in the file), `check_corrections` (of bonds), `check_subsystems`
(benches, ranges, reference models, sequences), `check_stimuli`, `check_faults`, `check_expect`
(expectations, alarms, calculated channels), `check_monitor` (views and recording), `check_host`
(this machine, addresses). `draft_session` writes a first file, for ``hilrt new``.
"""
