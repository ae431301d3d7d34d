"""Timeline of the ticks on the wall clock: durations of their parts, and causes of lateness.

    target ─ wake ▸ begun ─ cut ▸ cut ─ macro_step ▸ stepped ─ dispatch ▸ done ─ slack ▸ rested

A tick is missed if `done` is later than its deadline. The cause is the part that took longest
between `target` and `done`. A wake-up is late either because the previous tick's slack extended
past the target, or because the host did not run the master.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from hilrt.solver import Floats
from hilrt.timing.count_times import count_tick_entry
from hilrt.timing.grid import SlackBudget, TickMarks
from hilrt.timing.histogram import BINS, Distribution, Quantiles

#: Parts of a tick, in their order.
STAGES: Final = ("wake", "cut", "macro_step", "dispatch", "slack")
#: Possible causes: the part that took longest until the inputs were sent; the log contains the
#: index. "previous" is a wake-up that was late due to the previous tick's slack.
LONGEST: Final = ("wake", "previous", "cut", "macro_step", "dispatch")
#: Number of slowest ticks kept with all their parts.
KEPT: Final = 10


class Timeline:
    """Statistics of all ticks, at a constant cost per tick and in constant memory.

    Attributes
    ----------
    newest : ndarray, shape (8,)
        The newest tick: its parts [µs], whether it missed its deadline, the number of ticks
        skipped right before it, and the part that took longest (index in `LONGEST`).
    parts_us : ndarray, shape (5,)
        View of the parts in `newest`, in the order of `STAGES`; the slack is that of the previous
        tick, or NaN.
    skipped : int
        Number of ticks skipped right before the newest one.
    causes : Counter
        Missed ticks by cause, keys of `hilrt.wording.MISSED_BECAUSE`.
    slack_ns, rested_ns : int
        Slack of the newest completed tick (negative before the first), and when it ended, ns.
    """

    def __init__(self) -> None:
        self.newest: Floats = np.zeros(len(STAGES) + 3)
        self.parts_us = self.newest[: len(STAGES)]
        self.skipped = self._passed = 0
        self.causes: Counter[str] = Counter()
        self.slack_ns, self.rested_ns = -1, 0
        # One row per stage, and one for the time from a tick's beginning to its dispatch's end.
        self._counts = np.zeros((len(STAGES) + 1, BINS), np.int64)
        self._longest_ns = np.zeros(len(STAGES) + 1, np.int64)
        self._count_tick = count_tick_entry(self.parts_us, self._counts, self._longest_ns)
        self._slowest: list[tuple[int, int, dict[str, Any]]] = []

    def add(
        self,
        tick: int,
        t: float,
        marks: TickMarks,
        missed: bool,
        late: Callable[[], list[str]],
    ) -> None:
        """Add a tick whose inputs have been sent.

        Parameters
        ----------
        tick, t : int, float
            Its number and session time, s.
        marks : TickMarks
        missed : bool
            Whether it missed its deadline.
        late : callable
            Returns the subsystems whose samples were late; called only for ticks that are kept.
        """
        longest = self._count_tick(
            self.parts_us,
            self._counts,
            self._longest_ns,
            marks.target_ns,
            marks.begun_ns,
            marks.cut_ns,
            marks.stepped_ns,
            marks.done_ns,
            self.slack_ns,
        )
        lateness = marks.done_ns - marks.target_ns
        if longest or self.rested_ns > marks.target_ns:
            longest += 1  # `LONGEST` has "previous" after "wake"
        self.skipped, self._passed = self._passed, 0
        newest = self.newest
        newest[-3], newest[-2], newest[-1] = missed, self.skipped, longest
        if missed:
            self.causes[LONGEST[longest]] += 1
        if self.skipped:
            self.causes["skipped"] += self.skipped
        if lateness > (self._slowest[0][0] if len(self._slowest) == KEPT else 0):
            self._keep(tick, t, lateness, LONGEST[longest], late())

    def _keep(self, tick: int, t: float, lateness: int, cause: str, late: list[str]) -> None:
        """Add the newest tick to the slowest ones."""
        wake_us, cut_us, step_us, sent_us, slack_us = self.parts_us.tolist()
        before_us = None if math.isnan(slack_us) else slack_us
        kept = {
            "tick": tick,
            "t": t,
            "lateness_us": lateness * 1e-3,
            "wake_us": wake_us,
            "cut_us": cut_us,
            "macro_step_us": step_us,
            "dispatch_us": sent_us,
            "slack_us": before_us,
            "cause": cause,
            "late": late,
        }
        push = heapq.heappush if len(self._slowest) < KEPT else heapq.heapreplace
        push(self._slowest, (lateness, -tick, kept))  # of equally slow ticks keep the earliest

    def rest(self, done_ns: int, now_ns: int) -> None:
        """Record the slack of the newest tick, from `done_ns` to `now_ns`."""
        self.slack_ns, self.rested_ns = now_ns - done_ns, now_ns

    def skip(self, ticks: int) -> None:
        """Record ticks that passed while the master was busy; the next `newest` includes them."""
        self._passed += ticks

    @property
    def stages(self) -> dict[str, Distribution]:
        """Distribution of each of `STAGES`."""
        return {stage: self._distribution(kind) for kind, stage in enumerate(STAGES)}

    @property
    def compute(self) -> Distribution:
        """Distribution of the time from the beginning of a tick to the end of its dispatch."""
        return self._distribution(len(STAGES))

    def _distribution(self, kind: int) -> Distribution:
        return Distribution(self._counts[kind].tolist(), int(self._longest_ns[kind]))

    def quantiles(self) -> dict[str, Quantiles]:
        """Quantiles of each stage, µs."""
        return {stage: times.quantiles() for stage, times in self.stages.items()}

    def slowest(self) -> list[dict[str, Any]]:
        """The slowest ticks, slowest first; keys as in docs/summary.md."""
        return [entry for _, _, entry in sorted(self._slowest, reverse=True)]


# Counts of the master's loop.


@dataclass(slots=True)
class RepeatedCounts:
    """Counts of repeated macro steps, in a session whose steps can be repeated.

    Attributes
    ----------
    steps : int
        Steps repeated with a shorter length.
    refused : int
        Attempts at a step whose error was too large.
    unsettled : int
        Attempts at a step whose corrector did not converge.
    corrections : int
        Corrector steps of the implicit scheme.
    largest_scaling : float
        Largest finite factor by which an accepted step could have been longer; 0 before one.
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
        Total shift of the grid on the clock, ns.
    lateness : Distribution
        Times from a tick's target to the end of its dispatch (only with a real-time pace).
    timeline : Timeline
        Durations of each tick's parts, and late subsystems.
    learning : SlackBudget
        Budget for identification in the slack.
    first_h, min_h, max_h : int
        First, smallest and largest macro step, ns.
    repeated : RepeatedCounts or None
        None if every step is computed once.
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
        """Count a tick whose inputs have been sent; parameters as for `Timeline.add`."""
        self.timeline.add(tick, t, marks, missed, late)
        self.missed += missed + self.timeline.skipped

    def skip(self, ticks: int) -> None:
        """Count ticks that passed unserved as missed, when the next tick is entered."""
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
