"""User solvers in processes: creating them, serving the master, relaying their logs.

Read in this order: `load_solver` (and test sequences) with `import_module`, `main_models` (classes
of a notebook for other processes), `hosted_solver` (checks of results), `group` (many solvers as
one), `linearise` (a step as a matrix), `own_integration` (the error of a step) and `linear_model`
(continuous dynamics), `slack_trial` (probing in real time), `reference_model` (probing of a model
that represents a subsystem), `solver_process` (``hilrt solver``), `database_bench` (a bench
emulated from its table, with a solver or constants) and `database_node` (a node of any database),
`sequence_process` (``hilrt sequence``).
"""
