"""Samples and inputs between the master and its subsystems.

In reading order:

* the cut and the fan-out: `exchange`, `missed_samples`, `pending_intervals`, `peer_times`,
  `rejoin`, `waiter`;
* the wire protocol, without I/O: `wire`, `announced_ports`; the master's side `master_protocol`,
  `remote_peer`, `peer_events`, `clock_offset`, `unused_messages`; a peer's side `peer_protocol`;
* I/O around it: `hub` and `remote_link` (master), `peer`, `transport`, `keys`, `addresses`;
* the beginning: `initial_loop`, `jacobians`, `probe`; between two steps: `event_points`,
  `jacobian_renewal`.
"""
