"""Counts of the master's loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hilrt.timing.grid import TickMarks
from hilrt.timing.histogram import Distribution
from hilrt.timing.timeline import Timeline

# Work that can wait: done in the slack of a tick only if it fits into what is left of it.

#: A turn begins only if this many times its usual duration is left.
MARGIN = 1.5


class SlackBudget:
    """Whether one more turn of some work fits, going by how long its turns took.

    Attributes
    ----------
    took_ns : int
        Typical duration of a turn: quick to rise, slow to fall, ns.
    made, skipped : int
        Turns that were made, and that were skipped for lack of time.
    """

    __slots__ = ("made", "skipped", "took_ns")

    def __init__(self) -> None:
        self.took_ns = self.made = self.skipped = 0

    def fits(self, left_ns: float) -> bool:
        """Whether a turn may begin with `left_ns` until the next tick wants the processor."""
        if MARGIN * self.took_ns < left_ns:
            return True
        self.skipped += 1
        self.took_ns -= self.took_ns >> 6  # some slow turns must not end them all
        return False

    def add(self, took_ns: int) -> None:
        """Take note of a turn; one that was held up by something else counts as twice as long."""
        self.made += 1
        if self.made == 1:
            self.took_ns = took_ns
        elif took_ns > self.took_ns:
            self.took_ns = min(took_ns, 2 * self.took_ns)
        else:
            self.took_ns -= (self.took_ns - took_ns) >> 3


@dataclass(slots=True)
class RepeatedCounts:
    """Counts of macro steps that were made more than once, in a session whose steps can be.

    Attributes
    ----------
    steps : int
        Steps that were made again, shorter.
    refused : int
        Attempts at a step whose error was too large.
    unsettled : int
        Attempts at a step whose corrector did not converge.
    corrections : int
        Corrector steps of the implicit scheme.
    largest_scaling : float
        Largest finite scaling factor of a step that passed; 0 before the first one.
    """

    steps: int = 0
    refused: int = 0
    unsettled: int = 0
    corrections: int = 0
    largest_scaling: float = 0.0


@dataclass(slots=True)
class Progress:
    """Counts of the loop.

    Attributes
    ----------
    steps : int
        Macro steps completed.
    t_ns : int
        Session time of the last communication point, ns.
    missed : int
        Ticks whose inputs were not all dispatched within the deadline, including skipped ones.
    stretched_ns : int
        By how much session time was held back to shift the grid, on the clock, ns.
    lateness : Distribution
        Tick to dispatch complete (real time only).
    timeline : Timeline
        Where the time went, and which subsystems were late.
    learning : SlackBudget
        Time for identification.
    first_h, min_h, max_h : int
        Macro step sizes, ns.
    repeated : RepeatedCounts or None
        None where every step is made once.
    """

    steps: int = 0
    t_ns: int = 0
    missed: int = 0
    lateness: Distribution = field(default_factory=Distribution)
    timeline: Timeline = field(default_factory=Timeline)
    learning: SlackBudget = field(default_factory=SlackBudget)
    stretched_ns: int = 0
    first_h: int = 0
    min_h: int = 0
    max_h: int = 0
    repeated: RepeatedCounts | None = None

    def enter(
        self, tick: int, t: float, marks: TickMarks, missed: bool, late: Callable[[], list[str]]
    ) -> None:
        """Count a tick whose inputs are on the wire; parameters as for `Timeline.add`."""
        self.timeline.add(tick, t, marks, missed, late)
        self.missed += missed + self.timeline.skipped

    def skip(self, ticks: int) -> None:
        """Ticks have passed without being served: they are missed, and count with the next one."""
        self.timeline.skip(ticks)

    def count_step(self, h_ns: int) -> None:
        """Count one completed macro step of size `h_ns`."""
        if self.steps == 0:
            self.first_h = self.min_h = self.max_h = h_ns
        self.steps += 1
        if h_ns < self.min_h:
            self.min_h = h_ns
        elif h_ns > self.max_h:
            self.max_h = h_ns
