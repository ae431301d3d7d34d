"""The commands. Each imports its modules when it is called, so a solver process loads no report.

`main` has the program with `run`, `check` and `schema`; `new_command` writes a first session. The
others by their subject:
`analyze_commands` (and reports, replay), `process_commands` (and views, FMUs), `log_commands`,
`sequence_commands` (and expectations), `study_commands`, `can_commands`. They share `common`,
which has the page of each command and error. `forked_solvers` is a session's start of many solvers.
"""
