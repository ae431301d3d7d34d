"""What a transport knows of the process that has sent a message, whatever the message says."""

from __future__ import annotations

import os
from typing import NamedTuple


class Origin(NamedTuple):
    """Where a message came from.

    Attributes
    ----------
    where : str
        For people: process and account, or address and key.
    names : frozenset of str, optional
        Subsystems that its key admits; None: its transport admits it under any name.
    local : bool
        Whether it is on this machine, so that process numbers mean something here.
    pid : int
        Its process, told by the kernel; 0 where the transport does not know it.
    """

    where: str
    names: frozenset[str] | None = None
    local: bool = False
    pid: int = 0

    def described(self, said_pid: int) -> str:
        """For people: where the message came from, and the process that it claims (0: none)."""
        claims = said_pid and not self.pid
        return self.where + (f" (by its own words process {said_pid})" if claims else "")


UNKNOWN = Origin("an unknown place")


def process_group(origin: Origin, said_pid: int) -> int | None:
    """Number of its process group; 0 on another machine, None if it cannot be told.

    `said_pid` is what the other side says of itself, which counts where the kernel says nothing.
    """
    if not origin.local:
        return 0
    pid = origin.pid or said_pid
    if pid <= 0 or not hasattr(os, "getpgid"):
        return None
    try:
        return os.getpgid(pid)
    except OSError:
        return None
