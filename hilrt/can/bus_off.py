"""Recovery from bus-off: when a controller that has left the bus is restarted, and how often."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hilrt.config.table import Positive, Table

NS = 1_000_000_000


class BusOffRecovery(Table):
    """``bus_off_recovery``: restart a controller that has left the bus (bus-off).

    Without this table it stays off, unless the interface restarts it by itself.
    """

    #: How long it stays off the bus before each restart, s.
    delay: Positive = 0.1
    #: Restarts in a session; after them it stays off.
    attempts: Annotated[int, msgspec.Meta(ge=1)] = 3


class RestartSchedule:
    """Says when a controller is to be restarted. No I/O.

    Parameters
    ----------
    options : BusOffRecovery, optional
        None: never.

    Attributes
    ----------
    attempts : int
        Restarts so far.
    """

    def __init__(self, options: BusOffRecovery | None) -> None:
        self.attempts = 0
        self._options = options
        self._due_ns: int | None = None

    def due(self, now: int, off: bool) -> bool:
        """Whether to restart the controller at `now` [ns]; `off` says that it is bus-off."""
        options = self._options
        if options is None or not off:
            self._due_ns = None
            return False
        if self._due_ns is None:
            self._due_ns = now + round(options.delay * NS)
        if now < self._due_ns or self.attempts >= options.attempts:
            return False
        self.attempts += 1
        self._due_ns = now + round(options.delay * NS)
        return True

    def text(self) -> str:
        """Which attempt the last one was."""
        options = self._options
        return f"{self.attempts} of {options.attempts}" if options is not None else ""

    @property
    def exhausted(self) -> bool:
        """Whether no attempt is left."""
        return self._options is not None and self.attempts >= self._options.attempts
