"""A user's solver in a process: bringing it up, serving the master, relaying its log.

Read in this order: `load_solver` (and test sequences) with `import_module`, `main_models` (classes
of a notebook for other processes), `hosted_solver` (checking what it returns), `group` (many
solvers as one), `linearise` (its step as a matrix) and `linear_model` (its continuous dynamics),
`slack_trial` (the same in real time), `reference_model` (the same of a model that stands for a
subsystem), `solver_process` (``hilrt solver``), `database_bench` (a bench emulated by its table,
with a solver or constants) and `database_node` (a node of any database), `sequence_process`
(``hilrt sequence``).
"""
