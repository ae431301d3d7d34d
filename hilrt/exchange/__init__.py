"""Exchange of samples and inputs between the master and all subsystems.

Read in this order: `master` (the loop), `exchange` (the cut and the fan-out) with `inbox` and
`channel_table`, which are compiled; `channel`, `reports`, `peer_times`, `waiter`; the beginning:
`jacobians`, `verify_corrections`, `sensitivities`; between two steps:
`implicit_scheme`, `repeated_steps` with `local_errors`, and the rest of `jacobians` and
`verify_corrections`; in real time `slack_renewal`.
"""
