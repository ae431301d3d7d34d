"""What keeps a session's processes, sockets and folders to themselves.

Read in this order: `temporary_folder` (of this account alone, and gone with its process),
`local_sockets` (between the processes of one session), `child_environment` (what a child inherits),
`limited_process` (a child for parsers that may crash), `idle_process` (kept for the next file).
"""
