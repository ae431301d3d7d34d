"""A user's solver in a process: bringing it up, serving the master, relaying its log.

Read in this order: `user_solver` (loading it, checking what it returns), `solver_process`
(``hilrt solver``), `log_relay`.
"""
