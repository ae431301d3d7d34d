"""Communication with solvers and gateways in other processes: one protocol, and its transports.

Read in this order. The protocol, without I/O: `wire`, `announced_ports`; the
master's side `master_protocol`, `remote_peer`, `peer_events`, `clock_offset`; a peer's side
`peer_protocol`. I/O around it: `hub` and `remote_link` (master), `peer`, `transport`, `addresses`.
Authentication: `keys`, `authenticator` (and the session's token).
"""
