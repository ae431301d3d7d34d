"""FMUs of FMI 2.0 and 3.0 as solvers, loaded by FMPy (extra ``hilrt[fmu]``).

Read in this order: `variables` (types and values), `description` (an FMU without its binary),
`fmu_ports` (variables to ports, and their units), `instance` (one loaded FMU)
with `fmi2` and `fmi3` (the calls of each version), `values`, `derivatives`;
`clocks` and `clockwork` (clocks of FMI 3); `trial` (whether its steps may be repeated);
`fmu_solver` and `fmu_options` (its table in a session file); `command` (an FMU that a session
hosts), `info` (``hilrt fmu info``); `ssp` and `ssp_session` (``hilrt import-ssp``).
"""
