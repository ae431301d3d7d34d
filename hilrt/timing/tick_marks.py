"""Clock readings of a tick: when each of its parts ended."""

from __future__ import annotations

from collections.abc import Callable


class TickMarks:
    """Readings of one tick, ns, each taken by the method of its name.

    Parameters
    ----------
    now_ns : callable
        The clock.

    Attributes
    ----------
    target_ns : int
        When the tick was due; where nothing says so, when it began.
    late_ns : int
        Time from then until its inputs were dispatched; 0 where nothing says when it was due.
    begun_ns, cut_ns, stepped_ns, done_ns : int
        When the tick began, when its samples were taken, when the macro step was made, and when
        its inputs were dispatched.
    """

    __slots__ = ("_now_ns", "begun_ns", "cut_ns", "done_ns", "late_ns", "stepped_ns", "target_ns")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self.target_ns = self.late_ns = 0
        self.begun_ns = self.cut_ns = self.stepped_ns = self.done_ns = 0

    def begin(self) -> None:
        """The tick begins."""
        self.begun_ns = self._now_ns()

    def taken(self) -> None:
        """The cut has been made: samples are taken."""
        self.cut_ns = self._now_ns()

    def stepped(self) -> None:
        """The macro step has been made."""
        self.stepped_ns = self._now_ns()

    def dispatched(self) -> None:
        """The inputs are on the wire."""
        self.done_ns = self._now_ns()

    @property
    def compute_ns(self) -> int:
        """Time from the beginning of the tick to its inputs on the wire, ns."""
        return self.done_ns - self.begun_ns
