"""What Ctrl-C and SIGTERM do to a command from its first line to the end of its process."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from hilrt.exit_status import ExitStatus

_BOTH = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does, with exit status 130, where it is not taken.

    Commands that take signals themselves do so when they have loaded what they need: a second or
    more after the start.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise SystemExit(ExitStatus.INTERRUPTED)


def ignore_both() -> None:
    """Ignore both from now on: at the end of the process its exit status is decided.

    The interpreter takes 0.1 s and more to unload; with the system's handling, which it restores
    before, a signal would end the process with its own number in place of the status.
    """
    for number in _BOTH:
        signal.signal(number, signal.SIG_IGN)
