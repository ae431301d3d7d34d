"""The commands. Each imports its modules only when called, so that a solver process stays small.

`main` contains the program with `run`, `check` and `schema`, and the panels of its help. The other
commands are grouped by subject: `analyze_commands` (also reports, replay), `process_commands` (also
views, FMUs), `log_commands`, `sequence_commands` (also expectations), `study_commands`,
`can_commands` (also `hilrt new`). All use `common`, which maps commands and errors to documentation
pages. Processes of a session: `forked_solvers` (starts many solvers) and
`recorder_process`. `pytest_plugin` runs test sequences under pytest.
"""
