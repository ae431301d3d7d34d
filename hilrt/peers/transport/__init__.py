"""Transport of encoded messages between the master and its peers, independent of their meaning.

The master's `Hub` has server transports; a `Peer` has one client transport, connected to one of
them. In reading order: `base`, `zeromq_sockets` (between machines), `local` (within one).
"""
