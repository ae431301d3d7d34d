"""Warnings that a solver process logs, for the session's log."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Literal

from hilrt.peers.peer import Peer
from hilrt.peers.wire import Event

#: Messages kept until they are told; all of them are in the process's own log.
KEPT = 64
#: Time between two tellings, s: a solver that warns at every step must not burden the master.
PAUSE_S = 1.0


class LogRelay(logging.Handler):
    """Keeps what is logged, from any thread, until the thread that owns the peer tells it.

    Parameters
    ----------
    now : callable
        A clock, s.

    Attributes
    ----------
    lost : int
        Messages that found no place, since the last `tell`.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._now = now
        self._kept: deque[Event] = deque()
        self._told_at = -PAUSE_S
        self.lost = 0

    @property
    def is_due(self) -> bool:
        """Whether there is anything to tell, and the last time was a while ago."""
        return bool(self._kept) and self._now() - self._told_at >= PAUSE_S

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message."""
        if len(self._kept) < KEPT:
            level: Literal["error", "warning"] = "warning"
            if record.levelno >= logging.ERROR:
                level = "error"
            self._kept.append(Event(level=level, cause="log", text=record.getMessage()))
        else:
            self.lost += 1

    def tell(self, peer: Peer) -> None:
        """Send what was kept, and how much was not."""
        self._told_at = self._now()
        for _ in range(len(self._kept)):
            peer.send(self._kept.popleft())
        lost, self.lost = self.lost, 0
        if lost:
            text = f"{lost} more messages, which only the log of its process has"
            peer.send(Event(level="warning", cause="log", text=text))
