"""The commands; each imports what it needs when it is called.

`main` has the program and the commands about sessions; `log_commands`, `report_commands`,
`replay_commands`, `can_commands` and `fmu_commands` the others; `threads` bounds the threads of
the libraries that a command loads.
"""
