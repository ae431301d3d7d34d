"""Processes, sockets and folders of a session, kept from other accounts.

In reading order: `temporary_folder` (of this account alone, gone with its process; sockets between
the processes of a session), `limited_process` (environment of a child, children for parsers that
may crash, one kept for the next file).
"""
