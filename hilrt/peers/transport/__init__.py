"""Transport of encoded messages between the master and its peers; their meaning is not known here.

The master's `Hub` has server transports, to which peers connect; a `Peer` has one client transport
that leads to one of them. In reading order: `base`, `zeromq_sockets` (between machines), `local`
(within one).
"""
