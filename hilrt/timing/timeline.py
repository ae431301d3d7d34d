"""Timeline of every tick on the wall clock: where its time went, and what made it late.

    target ── wake ──▸ begun ── cut ──▸ ── macro_step ──▸ ── dispatch ──▸ done ── slack ──▸ rested

A tick is missed when `done` is later than its deadline. The part that took most of the time since
the target is named as the cause; a wake-up is late either because the slack of the tick before
reached beyond the target, or because the host did not run the master.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from hilrt.timing.histogram import Distribution, Quantiles
from hilrt.timing.tick_marks import TickMarks

#: Parts of a tick, in their order.
STAGES: Final = ("wake", "cut", "macro_step", "dispatch", "slack")
#: Slowest ticks that are kept whole.
KEPT: Final = 10


@dataclass(frozen=True, slots=True)
class SlowTick:
    """One of the slowest ticks.

    Attributes
    ----------
    tick, t : int, float
        Its number and session time, s.
    lateness_us : float
        Target to dispatch complete, µs.
    wake_us, cut_us, macro_step_us, dispatch_us, slack_us : float
        Its parts, µs; the slack is that of the tick before.
    cause : str
        The part that took most, a key of `hilrt.wording.MISSED_BECAUSE`.
    late : list of str
        Subsystems whose samples were late at it.
    """

    tick: int
    t: float
    lateness_us: float
    wake_us: float
    cut_us: float
    macro_step_us: float
    dispatch_us: float
    slack_us: float
    cause: str
    late: list[str]


@dataclass(slots=True)
class Timeline:
    """What is kept of all ticks, at a constant cost per tick and in constant memory.

    Attributes
    ----------
    stages : dict
        Distribution of each of `STAGES`.
    causes : Counter
        Missed ticks by cause, keys of `hilrt.wording.MISSED_BECAUSE`.
    slack_ns, rested_ns : int
        Slack of the newest tick, and when it ended, ns.
    """

    stages: dict[str, Distribution] = field(
        default_factory=lambda: {stage: Distribution() for stage in STAGES}
    )
    causes: Counter[str] = field(default_factory=Counter)
    slack_ns: int = 0
    rested_ns: int = 0
    _parts_ns: tuple[int, ...] = (0,) * len(STAGES)
    _critical: tuple[Distribution, ...] = ()
    _slowest: list[tuple[int, int, SlowTick]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._critical = tuple(self.stages[stage] for stage in STAGES[:-1])

    @property
    def parts_us(self) -> tuple[float, ...]:
        """Of the newest tick, in the order of `STAGES`; the slack is that of the tick before."""
        return tuple([part * 1e-3 for part in self._parts_ns])

    def add(
        self,
        tick: int,
        t: float,
        marks: TickMarks,
        missed: bool,
        late: Callable[[], list[str]],
    ) -> None:
        """Enter a tick whose inputs are on the wire.

        Parameters
        ----------
        tick, t : int, float
            Its number and session time, s.
        marks : TickMarks
        missed : bool
            Whether it missed its deadline.
        late : callable
            Gives the subsystems whose samples were late; asked where the tick is kept.
        """
        target, done = marks.target_ns, marks.done_ns
        begun, cut, stepped = marks.begun_ns, marks.cut_ns, marks.stepped_ns
        wake, taken, step, sent = self._critical
        parts = (max(begun - target, 0), cut - begun, stepped - cut, done - stepped)
        wake.add(parts[0])
        taken.add(parts[1])
        step.add(parts[2])
        sent.add(parts[3])
        lateness = done - target
        self._parts_ns = (*parts, self.slack_ns)
        slow = len(self._slowest) < KEPT or lateness > self._slowest[0][0]
        if not (missed or slow):
            return
        longest = max(range(4), key=parts.__getitem__)
        cause = STAGES[longest]
        if cause == "wake" and self.rested_ns > target:
            cause = "previous"
        if missed:
            self.causes[cause] += 1
        if slow:
            self._keep(tick, t, lateness, cause, late())

    def _keep(self, tick: int, t: float, lateness: int, cause: str, late: list[str]) -> None:
        """Keep the newest tick among the slowest."""
        wake_us, cut_us, step_us, sent_us, slack_us = self.parts_us
        kept = SlowTick(
            tick, t, lateness * 1e-3, wake_us, cut_us, step_us, sent_us, slack_us, cause, late
        )
        push = heapq.heappush if len(self._slowest) < KEPT else heapq.heapreplace
        push(self._slowest, (lateness, tick, kept))

    def rest(self, done_ns: int, now_ns: int) -> None:
        """The slack of the tick dispatched at `done_ns` ends at `now_ns`."""
        self.slack_ns, self.rested_ns = now_ns - done_ns, now_ns
        self.stages["slack"].add(self.slack_ns)

    def skip(self, ticks: int) -> None:
        """Count ticks that passed while the master was busy."""
        if ticks:
            self.causes["skipped"] += ticks

    def quantiles(self) -> dict[str, Quantiles]:
        """Of each stage, µs."""
        return {stage: times.quantiles() for stage, times in self.stages.items()}

    def slowest(self) -> list[dict[str, Any]]:
        """The slowest ticks, slowest first."""
        return [asdict(entry) for _, _, entry in sorted(self._slowest, reverse=True)]
