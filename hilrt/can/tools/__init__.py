"""Functions of ``hilrt can``: watch a bus, send a frame, draft a session file from a database.

Read in this order: `bus_watcher`, `typed_frame`, `session_draft` (also on unusable signals of a
database) and `port_lines`.
"""
