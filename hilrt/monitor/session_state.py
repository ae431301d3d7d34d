"""The states of a session's life."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from enum import StrEnum
from typing import TextIO

from hilrt.errors import ConfigError


class SessionState(StrEnum):
    """State of a session; docs/session_life.md draws the transitions."""

    CONFIGURED = "CONFIGURED"
    CONNECTING = "CONNECTING"
    INITIALIZED = "INITIALIZED"
    ARMED = "ARMED"
    RUNNING = "RUNNING"
    IMPAIRED = "IMPAIRED"
    STOPPING = "STOPPING"
    SAFE = "SAFE"
    STOPPED = "STOPPED"
    FAULT = "FAULT"


# Manual arming: a session with ``arm = "manual"`` waits for its operator.


async def operator_arms(stream: TextIO | None = None) -> None:
    """Wait until the operator presses Enter.

    Parameters
    ----------
    stream : text file, optional
        Stream that the operator types into; default: standard input.

    Raises
    ------
    ConfigError
        If nobody can type: the stream is not a terminal or pipe, or has ended.
    """
    stream = sys.stdin if stream is None else stream
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def readable() -> None:
        if not typed.done():
            typed.set_result(stream.readline())

    try:
        descriptor = stream.fileno()
        loop.add_reader(descriptor, readable)
    except (OSError, ValueError, AttributeError, NotImplementedError):
        raise _nobody() from None
    try:
        if not await typed:
            raise _nobody()
    finally:
        with contextlib.suppress(ValueError):
            loop.remove_reader(descriptor)


def owns_terminal() -> bool:
    """Whether standard input is a terminal, and this process is in its foreground."""
    try:
        return sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


def _nobody() -> ConfigError:
    return ConfigError(
        "[session] arm = 'manual': nobody can press Enter on the standard input; "
        "run it in a terminal, or with --arm"
    )
