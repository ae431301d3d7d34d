"""Samples and inputs of all subsystems, as the master handles them.

Read in this order: `exchange` (the cut and the fan-out) with `inbox` and `channel_table`, which are
compiled; `channel`, `reports`, `peer_times`, `waiter`; the beginning: `initial_loop`, `jacobians`,
`verify_corrections`, `sensitivities`; between two steps: `event_points`, `implicit_scheme`,
`repeated_steps` with `local_errors`; `jacobian_renewal` and the
rest of `verify_corrections`; in real time `slack_renewal`.
"""
