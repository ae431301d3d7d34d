"""Communication points, their time grid, and the clock readings of a tick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class CommunicationPoint(NamedTuple):
    """Communication point, at which samples and inputs are exchanged.

    Attributes
    ----------
    tick : int
        Its number.
    t_ns, elapsed_ns : int
        Its session time, and the time since the point before, ns; 0 at the first.
    """

    tick: int
    t_ns: int
    elapsed_ns: int


@dataclass(frozen=True, slots=True)
class Grid:
    """Communication points on a clock, computed from integers without accumulating errors.

    Parameters
    ----------
    epoch_ns : int
        Clock reading at session time 0, ns.
    step_ns : int
        Base step in session time, ns.
    pace : float
        Session seconds per second on the clock.
    """

    epoch_ns: int
    step_ns: int
    pace: float = 1.0

    def time(self, k: int) -> int:
        """Clock reading of grid point `k`, ns."""
        return self.clock_ns(k * self.step_ns)

    def clock_ns(self, session_ns: int) -> int:
        """Clock reading at a session time (both ns), for variable steps."""
        if self.pace == 1.0:
            return self.epoch_ns + session_ns
        numerator, denominator = self.pace.as_integer_ratio()
        return self.epoch_ns + session_ns * denominator // numerator

    def seconds(self, k: int) -> float:
        """Session time of grid point `k`, s; rounded once."""
        return k * self.step_ns / 1_000_000_000

    def index(self, now_ns: int) -> int:
        """Newest grid point reached at the clock reading `now_ns`; negative before 0."""
        numerator, denominator = self.pace.as_integer_ratio()
        k = (now_ns - self.epoch_ns) * numerator // (self.step_ns * denominator)
        while self.time(k + 1) <= now_ns:  # with rounding down, several points may share a ns
            k += 1
        return k


class TickMarks:
    """Clock readings of one tick, ns: each method records the end of a part.

    Parameters
    ----------
    now_ns : callable
        The clock.

    Attributes
    ----------
    target_ns : int
        Time at which the tick was due; if unknown, when it began.
    late_ns : int
        Time from `target_ns` until its inputs were dispatched; 0 if the due time is unknown.
    begun_ns, cut_ns, stepped_ns, done_ns : int
        When the tick began, its samples were taken, its macro step was computed, and its inputs
        were dispatched.
    """

    __slots__ = ("_now_ns", "begun_ns", "cut_ns", "done_ns", "late_ns", "stepped_ns", "target_ns")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self.target_ns = self.late_ns = 0
        self.begun_ns = self.cut_ns = self.stepped_ns = self.done_ns = 0

    def begin(self) -> None:
        """Record the beginning of the tick."""
        self.begun_ns = self._now_ns()

    def taken(self) -> None:
        """Record the end of the cut: samples are taken."""
        self.cut_ns = self._now_ns()

    def stepped(self) -> None:
        """Record the end of the macro step."""
        self.stepped_ns = self._now_ns()

    def dispatched(self) -> None:
        """Record that the inputs have been sent."""
        self.done_ns = self._now_ns()

    @property
    def compute_ns(self) -> int:
        """Time from the beginning of the tick until its inputs were sent, ns."""
        return self.done_ns - self.begun_ns


# Deferrable work, done in a tick's slack only if the remaining time suffices.

#: A turn of this work starts only if this many times its usual duration is left.
MARGIN = 1.5


class SlackBudget:
    """Estimate, from earlier durations, of whether one more turn of some work fits into the slack.

    Attributes
    ----------
    took_ns : int
        Running estimate of a turn's duration, ns; it rises fast and falls slowly.
    made, skipped : int
        Turns performed, and turns skipped for lack of time.
    """

    __slots__ = ("made", "skipped", "took_ns")

    def __init__(self) -> None:
        self.took_ns = self.made = self.skipped = 0

    def fits(self, left_ns: float) -> bool:
        """Whether a turn may start if the next tick needs the processor in `left_ns` [ns]."""
        if MARGIN * self.took_ns < left_ns:
            return True
        self.skipped += 1
        self.took_ns -= self.took_ns >> 6  # a few slow turns must not block the work permanently
        return False

    def add(self, took_ns: int) -> None:
        """Update the duration estimate; an outlier counts as at most twice the estimate."""
        self.made += 1
        if self.made == 1:
            self.took_ns = took_ns
        elif took_ns > self.took_ns:
            self.took_ns = min(took_ns, 2 * self.took_ns)
        else:
            self.took_ns -= (self.took_ns - took_ns) >> 3
