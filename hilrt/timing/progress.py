"""What the master's loop has counted so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hilrt.timing.histogram import Distribution
from hilrt.timing.slack import SlackBudget
from hilrt.timing.tick_marks import TickMarks
from hilrt.timing.timeline import Timeline


@dataclass(slots=True)
class Progress:
    """What the loop counted.

    Attributes
    ----------
    steps : int
        Macro steps completed.
    t_ns : int
        Session time of the last communication point, ns.
    missed : int
        Ticks whose inputs were not all dispatched within the deadline, those skipped included.
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
