"""Isolation of a session's processes, sockets and folders from other accounts.

In reading order: `temporary_folder` (private, removed with its process; sockets between the
processes of a session), `limited_process` (environment of a child, children for parsers that may
crash, with one kept for reuse).
"""
