"""Pace of session time: by a clock (in real time or at a factor), or as fast as possible.

A `Pace` determines when a communication point is reached, which point is next, and whether a tick
was late. In real time, the clock and its grid determine this, and the master waits for no solver;
as fast as possible, the master waits for the solvers.
"""

from __future__ import annotations

import abc
import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from hilrt.timing.clock import Clock
from hilrt.timing.early_reception import EarlyReceiver, EarlyReception
from hilrt.timing.grid import CommunicationPoint, Grid, TickMarks
from hilrt.timing.monotonic import monotonic_ns
from hilrt.timing.overrun import Overrun
from hilrt.timing.timeline import Progress

#: As fast as possible, signals, commands and heartbeats are handled at least this often, ns, or
#: after every step that takes longer.
TURN_NS = 5_000_000
#: Solvers that are behind are not served for this long before the master wakes for a tick, ns.
QUIET_NS = 100_000

#: Returns whether the loop must end.
Stopping = Callable[[], bool]
#: Work at a point that all solvers have reached, before its samples are used; it may move the
#: point.
BetweenSteps = Callable[[CommunicationPoint, Stopping], Awaitable[CommunicationPoint]]


class Samples(EarlyReceiver, Protocol):
    """Interface of the exchange for a pace."""

    @property
    def behind(self) -> bool:
        """Whether any solver has queued intervals, which wait for its previous answer."""

    async def catch_up(self, until_ns: int) -> None:
        """Send queued intervals as fast as the solvers reply, until `until_ns` (monotonic), ns."""

    async def collect(self, t_ns: int, timeout: float, stopping: Stopping) -> None:
        """Wait until every solver has answered up to `t_ns`; `PeerLost` after `timeout` [s]."""


class Pace(abc.ABC):
    """Times of communication points.

    Parameters
    ----------
    step_ns : int
        Base macro step, ns.
    variable_step : bool
        Whether the step's length varies: points are then counted, not numbered by the grid.
    progress : Progress
        Counts missed ticks and lateness.
    """

    def __init__(self, step_ns: int, variable_step: bool, progress: Progress) -> None:
        self.step_ns, self.variable_step, self.progress = step_ns, variable_step, progress

    @property
    def overran(self) -> bool:
        """Whether ticks have passed unserved between the last two points."""
        return False

    @abc.abstractmethod
    def begin(self, epoch_ns: int, end_ns: int) -> None:
        """Set session time 0 to `epoch_ns` on the clock, and the session's end to `end_ns`, ns."""

    @abc.abstractmethod
    def now_ns(self) -> int:
        """Reading of the clock that times the ticks, ns."""

    @abc.abstractmethod
    async def reach(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Wait for `point`; return the point to continue with, which may be a later one."""

    @abc.abstractmethod
    def judge(self, point: CommunicationPoint, marks: TickMarks) -> bool:
        """Set the marks' target and lateness; return whether the tick missed its deadline."""

    @abc.abstractmethod
    def time_left_ns(self, t_ns: int) -> float:
        """Time until the point at `t_ns` needs the processor, ns; infinite if it can wait."""

    @abc.abstractmethod
    def next_point(self, point: CommunicationPoint, h_ns: int) -> CommunicationPoint:
        """Point after a macro step of `h_ns` from `point`, once all its work is done."""

    def _point(self, before: CommunicationPoint, t_ns: int) -> CommunicationPoint:
        """Point at `t_ns` that follows `before`."""
        elapsed_ns = t_ns - before.t_ns
        # An event's point is numbered, too: with one rate, as in such sessions, numbers do not
        # matter.
        ticks = 1 if self.variable_step else max(1, elapsed_ns // self.step_ns)
        return CommunicationPoint(before.tick + ticks, t_ns, elapsed_ns)


class RealTime(Pace):
    """Pace by a clock: in real time, or at a factor.

    Parameters
    ----------
    clock : Clock
    overrun : Overrun
        Policy for ticks that have passed.
    samples : Samples
        Sends solvers that are behind their missed intervals while the master sleeps.
    step_ns, variable_step, progress
        As for `Pace`.
    factor : float
        Session seconds per second on the clock.
    deadline_ns : int
        Longest time from a tick to the end of its dispatch that counts as on time, ns.
    """

    def __init__(
        self,
        clock: Clock,
        overrun: Overrun,
        samples: Samples,
        step_ns: int,
        variable_step: bool,
        progress: Progress,
        *,
        factor: float = 1.0,
        deadline_ns: int = 0,
    ) -> None:
        super().__init__(step_ns, variable_step, progress)
        self.clock, self.overrun, self.samples = clock, overrun, samples
        self.factor, self.deadline_ns = factor, deadline_ns
        self.reception = EarlyReception(samples, round(step_ns / factor), clock.now_ns)

    @property
    def overran(self) -> bool:
        """See `Overrun.overran`."""
        return self.overrun.overran

    def begin(self, epoch_ns: int, end_ns: int) -> None:
        """See `Pace.begin`."""
        self.overrun.begin(Grid(epoch_ns, self.step_ns, self.factor), end_ns)

    def now_ns(self) -> int:
        """See `Pace.now_ns`."""
        return self.clock.now_ns()

    async def reach(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Sleep until `point`; continue with a later one if the master woke too late."""
        while True:
            await self._sleep_until(self.overrun.grid.clock_ns(point.t_ns))
            if not point.elapsed_ns:  # the first point is always served
                return point
            later_ns = self.overrun.wake(point.t_ns, self.clock.now_ns()) - point.t_ns
            if not later_ns:
                return point
            tick, t_ns, elapsed_ns = point
            ticks = later_ns // self.step_ns
            point = CommunicationPoint(tick + ticks, t_ns + later_ns, elapsed_ns + later_ns)

    async def _sleep_until(self, target_ns: int) -> None:
        """Sleep and receive; meanwhile send missed intervals to solvers that are behind."""
        if not self.samples.behind:
            self.reception.begin(target_ns)
            await self.clock.sleep_until(target_ns, reception=self.reception)
            return
        until_ns = self.clock.wake_ns(target_ns) - QUIET_NS
        pursuit = asyncio.ensure_future(self.samples.catch_up(until_ns))
        try:
            await self.clock.sleep_until(target_ns, stand_still=False)
        finally:
            pursuit.cancel()
        if pursuit.done() and not pursuit.cancelled():
            pursuit.result()  # raises its exception, if any

    def judge(self, point: CommunicationPoint, marks: TickMarks) -> bool:
        """See `Pace.judge`."""
        marks.target_ns = self.overrun.grid.clock_ns(point.t_ns)
        marks.late_ns = marks.done_ns - marks.target_ns
        self.progress.lateness.add(marks.late_ns)
        return marks.late_ns > self.deadline_ns

    def time_left_ns(self, t_ns: int) -> float:
        """See `Pace.time_left_ns`."""
        return self.clock.wake_ns(self.overrun.grid.clock_ns(t_ns)) - self.clock.now_ns()

    def next_point(self, point: CommunicationPoint, h_ns: int) -> CommunicationPoint:
        """Point after a macro step; the overrun policy handles ticks that have passed entirely."""
        t_ns = self.overrun.after_step(point.t_ns + h_ns, self.clock.now_ns())
        return self._point(point, t_ns)


class AsFastAsPossible(Pace):
    """Pace by the solvers: a point is reached when all solvers have reached it.

    Parameters
    ----------
    samples : Samples
    step_ns, variable_step, progress
        As for `Pace`.
    step_timeout : float
        Time limit for one step of a solver, s.
    between_steps : sequence of BetweenSteps
        Work at each point before its samples are taken, in this order.
    """

    now_ns = staticmethod(monotonic_ns)

    def __init__(
        self,
        samples: Samples,
        step_ns: int,
        variable_step: bool,
        progress: Progress,
        *,
        step_timeout: float = 60.0,
        between_steps: Sequence[BetweenSteps] = (),
    ) -> None:
        super().__init__(step_ns, variable_step, progress)
        self.samples, self.step_timeout = samples, step_timeout
        self.between_steps = list(between_steps)
        self._turn_ns = 0

    def begin(self, epoch_ns: int, end_ns: int) -> None:
        """Do nothing: this pace depends on neither time."""

    async def reach(self, point: CommunicationPoint, stopping: Stopping) -> CommunicationPoint:
        """Wait for the solvers, and do the work between two steps."""
        await self.samples.collect(point.t_ns, self.step_timeout, stopping)
        for happens in self.between_steps:
            if not stopping():
                point = await happens(point, stopping)
        if monotonic_ns() >= self._turn_ns:  # the loop may have no other chance to run
            await asyncio.sleep(0)
            self._turn_ns = monotonic_ns() + TURN_NS
        return point

    def judge(self, point: CommunicationPoint, marks: TickMarks) -> bool:
        """Set the marks' target to the beginning; no tick can be late without a clock."""
        marks.target_ns, marks.late_ns = marks.begun_ns, 0
        return False

    def time_left_ns(self, t_ns: int) -> float:
        """See `Pace.time_left_ns`."""
        return math.inf

    def next_point(self, point: CommunicationPoint, h_ns: int) -> CommunicationPoint:
        """See `Pace.next_point`."""
        return self._point(point, point.t_ns + h_ns)
