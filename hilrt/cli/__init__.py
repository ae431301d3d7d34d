"""The commands; each imports what it needs when it is called: a solver process needs no report.

`main` has the program with `run`, `check` and `schema`. The others by their subject:
`analyze_commands`, `process_commands`, `watch_commands`, `log_commands`, `report_commands`,
`expect_commands`, `sequence_commands`, `replay_commands`, `can_commands`, `fmu_commands`. They
share `common`; `threads` bounds the threads of the libraries that a command loads, `interrupts`
says what signals do before and after its work.
"""
