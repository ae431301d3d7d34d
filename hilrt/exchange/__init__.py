"""Samples and inputs of all subsystems, as the master handles them.

Read in this order: `exchange` (the cut and the fan-out) with `missed_samples`, `pending_intervals`,
`peer_times`, `rejoin` and `waiter`; the beginning: `initial_loop`, `jacobians`; between two steps:
`event_points`, `jacobian_renewal`.
"""
