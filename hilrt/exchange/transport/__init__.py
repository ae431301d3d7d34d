"""How encoded messages travel between the master and its peers: doors and lines.

The master's `Hub` has doors, each of another transport; a `Peer` has one line that leads to one of
them. Neither knows what a message means.
"""
