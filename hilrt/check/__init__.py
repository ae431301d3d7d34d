"""What is wrong with a session file, found before anything starts: ``hilrt check``.

`check` reads the file, collects the ports that are known, and calls the others, one for each part
of the file: `check_time` (steps, duration, pace), `check_topology` (connections, bonds, loops),
`check_sequences`, `check_control` (step and order control), `check_stepping`, `check_bench`,
`check_stimuli`, `check_calculated`, `check_alarms` (alarms, start, stop, match), `check_expect`,
`check_ranges`, `check_reference`, `check_record`, `check_monitor`, `check_listen`, `check_host`.
`places` says where in the file a finding is.
"""
