"""Samples and inputs of all subsystems, as the master handles them.

Read in this order: `exchange` (the cut and the fan-out) with `channel`, `channel_table` (compiled),
`step_input_writer`, `pending_intervals`, `missed_samples`, `reports`, `peer_times`, `waiter`; the
beginning: `initial_loop`, `jacobians`, `verify_corrections`, `sensitivities`; between two steps:
`event_points`, `jacobian_renewal`, `recheck_corrections`.
"""
