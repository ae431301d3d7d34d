"""The master's loop: clock, cut, macro step, dispatch, and the slack. Only numerics and exchange.

One turn of the loop is one macro step. In real time the loop sleeps until the next grid point and
waits for nobody; as fast as possible it waits for the solvers instead of the clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import Literal

import numpy as np

from hilrt.errors import SessionFault
from hilrt.exchange.event_points import EventPoints
from hilrt.exchange.exchange import Exchange
from hilrt.exchange.jacobians import JacobianKeeper
from hilrt.monitor.status import StatusPublisher
from hilrt.record.feed import Feed
from hilrt.record.messages import Level
from hilrt.record.signals import RowWriter
from hilrt.record.snapshots import Snapshots
from hilrt.reliability.alarms import STOP
from hilrt.reliability.degradation import Degradation
from hilrt.step.macro_step import assess, macro_step
from hilrt.step.plan import Plan
from hilrt.step.step_state import StepInput, StepState
from hilrt.timing.clock import Clock, Grid, monotonic_ns
from hilrt.timing.progress import Progress
from hilrt.timing.timeline import Marks

#: Flag changes noted per tick; more are only counted, so that a storm of flags costs no ticks.
CHANGES_PER_TICK = 20
#: As fast as possible, signals, commands and heartbeats get their turn at least this often, ns, or
#: after every step that takes longer.
BREATH_NS = 5_000_000
#: The garbage collector gets a chance in the slack of every that many ticks.
GARBAGE_TICKS = 64
#: Most that is skipped at once, so that a long stall shows in the log at least once a second.
LONGEST_SKIP_NS = 1_000_000_000
#: A tick that would begin later than this share of the step is left out, where ticks may be: it
#: would come too late itself and delay the next one, too.
LATEST_START = 0.5
#: Nothing is begun for solvers that are behind so shortly before the master wakes for a tick.
QUIET_NS = 100_000


class End(StrEnum):
    """Why the loop ended."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    ALARMED = "alarmed"


class Master:
    """Runs macro steps until the duration is reached or somebody asks it to stop.

    Parameters
    ----------
    plan, state, exchange
        The numerics and the links.
    clock : Clock
        `WallClock` in real time; None as fast as possible.
    pace : float
        Session seconds per second on the clock.
    deadline_ns : int
        Time from the tick to the end of the dispatch that is still on time.
    overrun : {"skip", "stretch", "stop"}
        What happens when a whole tick has passed unserved.
    feed, publisher
        Where rows and status go in the slack.
    """

    def __init__(
        self,
        plan: Plan,
        state: StepState,
        exchange: Exchange,
        clock: Clock | None,
        feed: Feed,
        publisher: StatusPublisher,
        *,
        pace: float = 1.0,
        deadline_ns: int = 0,
        overrun: Literal["skip", "stretch", "stop"] = "skip",
        step_timeout: float = 60.0,
    ) -> None:
        self.plan, self.state, self.exchange = plan, state, exchange
        self.clock, self.feed, self.publisher = clock, feed, publisher
        self.pace, self.deadline_ns, self.step_timeout = pace, deadline_ns, step_timeout
        self.overrun = overrun
        self._now = clock.now_ns if clock is not None else monotonic_ns
        self.progress = Progress()
        self.jacobians: JacobianKeeper | None = None
        #: Puts communication points at discontinuities.
        self.events: EventPoints | None = None
        if clock is None and EventPoints.possible(exchange, plan):
            self.events = EventPoints(exchange, plan)
        self.degradation = Degradation(exchange.benches, plan.alarms)
        #: Told by how much the grid was shifted, ns.
        self.on_stretched: Callable[[int], None] | None = None
        self._overran = self._woke_late = False
        self.collect_garbage: Callable[[int], bool] | None = None
        self.stop_requested = ""
        self.row = RowWriter(plan, feed.row)
        self.snapshots = Snapshots(feed, state)
        self.step_ns = round(plan.step * 1e9)
        self._latest_start_ns = round(LATEST_START * self.step_ns / pace)
        #: Added to the time now it gives that of the tick that may still begin. Not with several
        #: rates: who is due every tenth tick only would miss more than one tick.
        one_rate = not plan.variable_step and bool(np.all(plan.network.every == 1))
        leaves_out = overrun == "skip" and one_rate
        self._ahead_ns = round((1 - LATEST_START) * self.step_ns / pace) - 1 if leaves_out else 0

    def request_stop(self, reason: str) -> None:
        """Let the loop end at the next communication point (a signal handler may call this)."""
        self.stop_requested = self.stop_requested or reason

    def stopping(self) -> bool:
        """Whether somebody asked the loop to stop."""
        return bool(self.stop_requested)

    async def run(self, duration_ns: int, epoch_ns: int) -> End:
        """Run from session time 0, which is `epoch_ns` on the clock, to `duration_ns` or beyond.

        The run ends at the first communication point at or after its duration. `PeerLost` and
        whatever else goes wrong is raised to the caller, who brings the benches to safety.
        """
        try:
            return await self._run(duration_ns, epoch_ns)
        finally:  # what is watched ends with the numbers that the summary has
            self.publisher.update(self, self.exchange.given, at_once=True)

    async def _run(self, duration_ns: int, epoch_ns: int) -> End:
        grid = Grid(epoch_ns, self.step_ns, self.pace)
        tick, t_ns, elapsed_ns, breathe_ns, marks = 0, 0, 0, 0, Marks()
        while True:
            if self.clock is not None:
                await self._sleep_until(self.clock, grid.clock_ns(t_ns))
                later_ns = self._held_up(self.clock, grid, t_ns, duration_ns) if elapsed_ns else 0
                if later_ns:
                    t_ns, elapsed_ns = t_ns + later_ns, elapsed_ns + later_ns
                    tick += later_ns // self.step_ns
                    continue
            else:
                await self.exchange.collect(t_ns, self.step_timeout, self.stopping)
                if self.events is not None and elapsed_ns and not self.stopping():
                    before = t_ns - elapsed_ns
                    t_ns = await self.events.stop(before, t_ns, self.step_timeout, self.stopping)
                    elapsed_ns = t_ns - before
                if self.jacobians is not None and not self.stopping():
                    await self.jacobians.look(tick, t_ns * 1e-9, self.state.measured[0])
                if self._now() >= breathe_ns:  # nothing else lets others have their turn
                    await asyncio.sleep(0)
                    breathe_ns = self._now() + BREATH_NS
            if elapsed_ns:  # as long as it was in the end: a discontinuity may have cut it
                self.progress.count_step(elapsed_ns)
            if self.stopping():
                return End.INTERRUPTED
            marks.begun = marks.target = self._now()
            given = self.exchange.cut(tick, t_ns, elapsed_ns)
            marks.cut = self._now()
            macro_step(self.plan, self.state, given)
            marks.stepped = self._now()
            h_ns = round(self.state.h_next * 1e9)
            alarmed = self.state.alarms.level >= STOP
            last = t_ns >= duration_ns or alarmed
            if not last:
                self.exchange.dispatch(self.state, t_ns, h_ns)
            marks.done = self._now()
            if self.clock is not None:
                marks.target = grid.clock_ns(t_ns)
            self._note_timing(given, marks)
            self.progress.t_ns = t_ns
            self._slack(given, t_ns, h_ns, marks)
            self.progress.timeline.rest(marks.done, self._now())
            if last:
                return End.ALARMED if alarmed else End.FINISHED
            before, t_ns = t_ns, t_ns + h_ns
            if self.clock is not None:
                grid, t_ns = self._overrun(self.clock, grid, t_ns, duration_ns)
            elapsed_ns = t_ns - before
            # Event points count, too: there is one rate then, and no use of the grid's numbers.
            tick += 1 if self.plan.variable_step else max(1, elapsed_ns // self.step_ns)

    async def _sleep_until(self, clock: Clock, target_ns: int) -> None:
        """Sleep; solvers that are behind get what they missed meanwhile."""
        if not self.exchange.behind:
            await clock.sleep_until(target_ns)
            return
        until_ns = clock.wake_ns(target_ns) - QUIET_NS
        pursuit = asyncio.ensure_future(self.exchange.catch_up(until_ns))
        try:
            await clock.sleep_until(target_ns, stand_still=False)
        finally:
            pursuit.cancel()
        if pursuit.done() and not pursuit.cancelled():
            pursuit.result()  # raises what it has found out

    def _note_timing(self, given: StepInput, marks: Marks) -> None:
        progress, late_ns = self.progress, marks.done - marks.target
        progress.compute.add(marks.done - marks.begun)
        missed = self.clock is not None and late_ns > self.deadline_ns
        progress.missed += missed
        given.missed = missed or self._overran  # what passed before this tick raises the flag, too
        if self.clock is not None:
            progress.lateness.add(late_ns)
        progress.timeline.add(given.tick, given.t, marks, missed, self._who_is_late)

    def _who_is_late(self) -> list[str]:
        names = self.plan.network.subsystems
        return [names[s] for s in np.flatnonzero(self.exchange.given.late)]

    def _held_up(self, clock: Clock, grid: Grid, t_ns: int, duration_ns: int) -> int:
        """How far to go on, ns, when the master wakes too late for a tick; the tick is missed.

        Only where that is the exception: with a clock that is always late, ticks run late.
        """
        now_ns = clock.now_ns()
        behind_ns = now_ns - grid.clock_ns(t_ns)
        was_late, self._woke_late = self._woke_late, behind_ns > self._latest_start_ns
        if not self._ahead_ns or not self._woke_late or was_late or self._overran:
            return 0
        passed = grid.index(now_ns + self._ahead_ns) - t_ns // self.step_ns
        later_ns = self._leave_out(passed, t_ns, duration_ns) - t_ns
        self._overran = later_ns > 0
        return later_ns

    def _overrun(self, clock: Clock, grid: Grid, t_ns: int, duration_ns: int) -> tuple[Grid, int]:
        """Grid and next communication point; ticks that have wholly passed are not run late.

        They are missed ticks. The grid stays where it is and they are left out, with one that could
        only begin too late; or it is shifted by the overrun and none is left out; or the session
        ends.
        """
        now_ns = clock.now_ns()
        passed = grid.index(now_ns + self._ahead_ns) - t_ns // self.step_ns
        self._overran = passed > 0
        if not self._overran:
            return grid, t_ns
        behind_ns = now_ns - grid.clock_ns(t_ns)
        if self.overrun == "stop":
            raise SessionFault(
                f"overrun: the macro step at t = {t_ns * 1e-9:g} s is {behind_ns * 1e-6:.1f} ms "
                'behind the clock and master.pacing.overrun is "stop"; see the slowest ticks in '
                "summary.json for who was late"
            )
        if self.overrun == "stretch":
            self.progress.stretched_ns += behind_ns
            if self.on_stretched is not None:
                self.on_stretched(behind_ns)
            self._count_missed(passed)
            return replace(grid, epoch_ns=grid.epoch_ns + behind_ns), t_ns
        return grid, self._leave_out(passed, t_ns, duration_ns)

    def _leave_out(self, ticks: int, t_ns: int, duration_ns: int) -> int:
        """Communication point that many ticks after `t_ns`, or as far as one may go at once."""
        end_ns = min(duration_ns, t_ns + LONGEST_SKIP_NS)
        later_ns = max(min(t_ns + ticks * self.step_ns, end_ns), t_ns)
        self._count_missed((later_ns - t_ns) // self.step_ns)
        return later_ns

    def _count_missed(self, ticks: int) -> None:
        self.progress.missed += ticks
        self.progress.timeline.skip(ticks)

    def _slack(self, given: StepInput, t_ns: int, h_ns: int, marks: Marks) -> None:
        """Everything that need not be done before the inputs are on the wire."""
        late_ns = marks.done - marks.target if self.clock is not None else 0
        self._assess(given, marks, h_ns)
        if self.feed.records:
            self.row.fill(
                self.state,
                given,
                self.exchange,
                h_ns * 1e-9,
                late_ns,
                marks.done - marks.begun,
                self.progress.timeline.parts_us,
            )
        if self.exchange.remote:
            self.exchange.times.count()
            self.exchange.readmit()
        self.snapshots.look(self.state, t_ns)
        self.feed.commit(t_ns)
        self._report_flags()
        if self.exchange.remote:
            self._report_events(t_ns)
        self.degradation.look(t_ns)
        self.publisher.update(self, given)
        self.exchange.run_local()  # what raises here has its step in the log
        if self.collect_garbage is not None and given.tick % GARBAGE_TICKS == 0:
            self.collect_garbage((self.step_ns - late_ns) // 2)

    def _assess(self, given: StepInput, marks: Marks, h_ns: int) -> None:
        """Judge the step; what is to be identified learns if that fits before the next tick."""
        given.learns = True
        if self.state.model is None:
            assess(self.plan, self.state, given)
            return
        budget, begun = self.progress.learning, self._now()
        if self.clock is not None:
            ready_ns = self.clock.wake_ns(marks.target + round(h_ns / self.pace))
            given.learns = budget.fits(ready_ns - begun)
        assess(self.plan, self.state, given)
        if given.learns:
            budget.add(self._now() - begun)

    def _report_flags(self) -> None:
        changes = self.state.monitor.changes
        if not changes:
            return
        for change in changes[:CHANGES_PER_TICK]:
            level: Level = "warning" if change.raised else "info"
            text = f"{change.cause} {'raised' if change.raised else 'cleared'}: {change.where}"
            self.feed.event(round(change.t * 1e9), level, change.cause, change.where, text)
        for change in changes:
            self.degradation.note(change)
        changes.clear()

    def _report_events(self, t_ns: int) -> None:
        """Log what the subsystems told, and show what is more than information."""
        for name, event in self.exchange.absences.reports():
            self.feed.event(t_ns, event.level, event.cause, name, event.text)
            if event.level != "info":
                text = f"{name}: {event.text}"
                self.publisher.remember(f"{t_ns * 1e-9:.1f} s  {text}")
                self.publisher.announce(self.publisher.state, text)
