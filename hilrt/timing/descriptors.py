"""File descriptors of a process: how many it may have, and enough of them before a session starts.

A process without descriptors can open no file and take no connection, and libzmq aborts it. The
session therefore makes sure before anything starts, and its sockets limit strangers' connections
to the number that was counted on.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Final, NamedTuple

from hilrt.errors import ConfigError

if sys.platform != "win32":
    import resource

#: Of a session without subsystems, while everything is switched on: sockets of its processes, log,
#: timers, views, and files that are open for a moment. A bench, a solver and a page: 63 in all.
OF_A_SESSION: Final = 96
#: Of one subsystem: connection, process, its output.
OF_A_SUBSYSTEM: Final = 4
#: What most systems give, and what is enough for a hundred subsystems.
COMMON: Final = 1024


class DescriptorLimit(NamedTuple):
    """Descriptors that this process may have, and how far it may raise that by itself."""

    now: int
    at_most: int


def descriptor_limit() -> DescriptorLimit | None:
    """The limit; None where there is none that matters."""
    if sys.platform == "win32":
        return None
    now, at_most = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    return DescriptorLimit(
        sys.maxsize if now == unlimited else now,
        sys.maxsize if at_most == unlimited else at_most,
    )


def reserve_descriptors(subsystems: int, strangers: int) -> None:
    """Make sure that a session has descriptors enough; the limit is raised if that is permitted.

    Parameters
    ----------
    subsystems : int
        How many the session has.
    strangers : int
        Connections of strangers that may stand at once.

    Raises
    ------
    ConfigError
        If it may not have as many.
    """
    limit = descriptor_limit()
    if limit is None:
        return
    needed = in_use() + OF_A_SESSION + OF_A_SUBSYSTEM * subsystems + strangers
    if needed <= limit.now:
        return
    if needed <= limit.at_most and sys.platform != "win32":
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, limit.at_most))
            return
    raise ConfigError(
        f"this process may open {limit.now} files and sockets at once, and the session needs up to "
        f"{needed}: raise the limit, `ulimit -n {max(needed, COMMON)}`, or LimitNOFILE of its unit"
    )


def in_use() -> int:
    """Descriptors that are open."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            return len(os.listdir(Path(folder)))
    return 0
