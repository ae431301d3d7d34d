"""Solvers and gateways in other processes: one protocol, and what carries it.

Read in this order. The protocol, without I/O: `wire`, `linear_answer`, `announced_ports`; the
master's side `master_protocol`, `remote_peer`, `peer_events`, `clock_exchanges`, `clock_offset`,
`unused_messages`; a peer's side `peer_protocol`. I/O around it: `hub` and `remote_link` (master),
`peer`, `transport`, `addresses`.
Who may connect: `keys` with `key_permissions`, `session_token`, `authenticator`, `origin`.
"""
