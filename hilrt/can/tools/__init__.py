"""Work of ``hilrt can``: watch a bus, send a frame, draft a session file from a database.

Read in this order: `bus_watcher` and `bus_watcher`, `typed_frame`, `session_draft` and
`port_lines`; `session_draft` says which signals of a database cannot be.
"""
