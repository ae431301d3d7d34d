"""Observers of the loop: their notifications, and the handling of their defects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from hilrt.errors import HilrtError, SessionFault
from hilrt.timing.grid import CommunicationPoint, TickMarks

Level = Literal["info", "warning", "error"]


class Turn(NamedTuple):
    """One macro step: its communication point, length [ns], and clock readings."""

    point: CommunicationPoint
    h_ns: int
    marks: TickMarks


class Observer:
    """Base of observers, which are notified in the slack; its methods do nothing.

    A `HilrtError` that a method raises ends the session: it is a finding, such as a lost subsystem.
    Any other exception is a defect. It ends the session safely if the observer is `required`;
    otherwise the observer is removed, and the others are notified of a warning.

    Attributes
    ----------
    name : str
        Used in messages.
    required : bool
    """

    name = "observer"
    required = False

    def stepped(self, turn: Turn) -> None:
        """Handle a macro step whose inputs were sent and whose last interval was assessed."""

    def event(
        self,
        t_ns: int,
        level: Level,
        cause: str,
        source: str,
        text: str,
        value: float | None = None,
    ) -> None:
        """Handle a report of the subsystem `source` in the step at session time `t_ns` [ns].

        `value`: see `hilrt.peers.wire.Event`.
        """

    def idle(self, left_ns: float) -> None:
        """Do deferred work; the loop needs the processor again in `left_ns` [ns]."""

    def closing(self, finished: bool) -> None:
        """Handle the end of the loop; `finished` if it ended regularly."""

    def removed(self, reason: str) -> None:
        """Handle the observer's own removal after a defect."""


class Observers:
    """The observers of a loop, notified in a fixed order.

    Parameters
    ----------
    observers : iterable of Observer
    """

    def __init__(self, observers: Iterable[Observer]) -> None:
        self.present = tuple(observers)
        self._t_ns = 0

    def add(self, observer: Observer) -> None:
        """Add an observer; it is notified after the others."""
        self.present += (observer,)

    def stepped(self, turn: Turn) -> None:
        """See `Observer.stepped`; `SessionFault` for a defect of a required observer."""
        self._t_ns = turn.point.t_ns
        self._notify(lambda observer: observer.stepped(turn))

    def event(
        self,
        t_ns: int,
        level: Level,
        cause: str,
        source: str,
        text: str,
        value: float | None = None,
    ) -> None:
        """See `Observer.event`."""
        self._notify(lambda observer: observer.event(t_ns, level, cause, source, text, value))

    def idle(self, time_left_ns: Callable[[], float]) -> None:
        """See `Observer.idle`; each observer receives the time then left."""
        self._notify(lambda observer: observer.idle(time_left_ns()))

    def closing(self, finished: bool) -> None:
        """See `Observer.closing`."""
        self._notify(lambda observer: observer.closing(finished))

    def _notify(self, notice: Callable[[Observer], None]) -> None:
        for observer in self.present:
            try:
                notice(observer)
            except HilrtError:
                raise
            except Exception as error:
                self._handle_defect(observer, error)

    def _handle_defect(self, observer: Observer, error: Exception) -> None:
        text = f"{observer.name}: a bug, {type(error).__name__}: {error}"
        if observer.required:
            raise SessionFault(text) from error
        self.present = tuple(one for one in self.present if one is not observer)
        observer.removed(text)
        text += "; the session continues without it"
        self.event(self._t_ns, "warning", "observer_removed", observer.name, text)
