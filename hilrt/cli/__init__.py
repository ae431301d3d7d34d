"""The commands. Each imports its modules when it is called, so a solver process loads no report.

`main` contains the program with `run`, `check` and `schema`, and the panels of its help. The other
commands are grouped by subject: `analyze_commands` (and reports, replay), `process_commands` (and
views, FMUs), `log_commands`, `sequence_commands` (and expectations), `study_commands`,
`can_commands` (and `hilrt new`). All use `common`, which maps commands and errors to documentation
pages. Processes of a session: `forked_solvers` (starts many solvers) and
`recorder_process`. `pytest_plugin` runs test sequences under pytest.
"""
