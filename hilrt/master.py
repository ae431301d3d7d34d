"""The master's loop: wait for a communication point, cut, macro step, dispatch, and the slack.

One turn of the loop is one macro step. What differs between sessions is chosen before the loop
starts: how session time passes is the `Pace`, with it what happens to ticks that have passed, and
what happens between two steps (discontinuities, renewed Jacobians).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import numpy as np

from hilrt.errors import PeerLost
from hilrt.exchange.exchange import Exchange
from hilrt.expect.judge import Judge
from hilrt.expect.of_sequences import not_at_its_end, take_told
from hilrt.monitor.status import StatusPublisher
from hilrt.record.feed import Feed
from hilrt.record.messages import Level
from hilrt.reliability.alarms import STOP
from hilrt.reliability.degradation import Degradation
from hilrt.reliability.flags import flag_changes
from hilrt.sequences.bench import STEP
from hilrt.sequences.prompts import ASK
from hilrt.step.numerics import Numerics
from hilrt.step.source_changes import source_changes
from hilrt.step_log.signals import RowWriter
from hilrt.step_log.snapshots import Snapshots
from hilrt.timing.grid import CommunicationPoint
from hilrt.timing.pace import Pace
from hilrt.timing.tick_marks import TickMarks

#: Flag changes noted per tick; more are only counted, so that a storm of flags costs no ticks.
CHANGES_PER_TICK = 20
#: The garbage collector gets a chance in the slack of every that many ticks.
GARBAGE_TICKS = 64


class End(StrEnum):
    """Why the loop ended."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    ALARMED = "alarmed"
    FAULTY = "faulty"


class Master:
    """Runs macro steps until the duration is reached or it is asked to stop.

    Parameters
    ----------
    numerics, exchange
        The tables of the macro step, and the links.
    pace : Pace
        When communication points come.
    feed, publisher
        Where rows and status go in the slack.

    Attributes
    ----------
    progress : Progress
        The pace's.
    degradation : Degradation
    changes : Changes
        The numerics'.
    collect_garbage : callable, optional
        Told how much time there is, ns.
    judge : Judge, optional
        Of the session's expectations.
    stop_requested : str
        Why the loop is to end; empty if it is not.
    fault : str
        Why it is to end with the stop sequence and in a fault; empty if it is not.
    """

    def __init__(
        self,
        numerics: Numerics,
        exchange: Exchange,
        pace: Pace,
        feed: Feed,
        publisher: StatusPublisher,
    ) -> None:
        self.numerics, self.exchange = numerics, exchange
        self.pace, self.feed, self.publisher = pace, feed, publisher
        self.progress = pace.progress
        self.degradation = Degradation(exchange.benches, numerics.alarms)
        self.collect_garbage: Callable[[int], bool] | None = None
        self.judge: Judge | None = None
        self.stop_requested = self.fault = ""
        self.changes = numerics.changes
        self.row = RowWriter(numerics, exchange.channels, feed.row)
        self.snapshots = Snapshots(feed, numerics, self.changes)
        self._identifies = bool(numerics.plan.model.settings[0].identifies)
        self._missed, self._learns = numerics.slack["missed"], numerics.slack["learns"]
        self._moved = numerics.state.session["moved"]
        self._alarm_level = numerics.state.session["alarm_level"]
        self._turned = numerics.state.session["turned"]

    def request_stop(self, reason: str) -> None:
        """Let the loop end at the next communication point (a signal handler may call this)."""
        self.stop_requested = self.stop_requested or reason

    def request_end(self, fault: str) -> None:
        """Let the loop end at the next communication point by a fault that lets benches stop."""
        self.fault = self.fault or fault

    def stopping(self) -> bool:
        """Whether the loop was asked to stop."""
        return bool(self.stop_requested)

    async def run(self, duration_ns: int, epoch_ns: int) -> End:
        """Run from session time 0, which is `epoch_ns` on the clock, to `duration_ns` or beyond.

        The run ends at the first communication point at or after its duration. `PeerLost` and
        whatever else goes wrong is raised to the caller, which brings the benches to safety.
        """
        self.pace.begin(epoch_ns, duration_ns)
        try:
            return await self._run(duration_ns)
        finally:  # what is watched ends with the numbers that the summary has
            self.publisher.prompts.clear()
            self.publisher.update(self, at_once=True)

    async def _run(self, duration_ns: int) -> End:
        pace, marks = self.pace, TickMarks(self.pace.now_ns)
        point = CommunicationPoint(tick=0, t_ns=0, elapsed_ns=0)
        while True:
            point = await pace.reach(point, self.stopping)
            if self.stopping():
                return End.INTERRUPTED
            marks.begin()
            self.exchange.cut(*point)
            self.changes.put_into(self.numerics.given)
            marks.taken()
            self.numerics.macro_step()
            marks.stepped()
            h_ns = round(self.numerics.h_next * 1e9)
            alarmed = bool(self._alarm_level[0] >= STOP)
            last = bool(alarmed or point.t_ns >= duration_ns or self.exchange.ended or self.fault)
            if not last:
                self.exchange.dispatch(point.t_ns, h_ns)
            marks.dispatched()
            self._note_timing(point, marks)
            self._slack(point, h_ns, marks)
            self.progress.timeline.rest(marks.done_ns, pace.now_ns())
            if last:
                if alarmed:
                    return End.ALARMED
                return End.FAULTY if self.fault else self._finish(point.t_ns)
            point = pace.next_point(point, h_ns)

    def _finish(self, t_ns: int) -> End:
        """The regular end; `PeerLost` for a subsystem whose own end is to be a fault."""
        for name, reason in self.exchange.ended.items():
            self.feed.event(t_ns, "info", "ended", name, reason)
        for link in self.exchange.links:
            if link.stops_in_order and link.name not in self.exchange.ended and self.judge:
                step = self.exchange.reports.step_of(link.name)
                self.judge.measured(not_at_its_end(link.name, step, t_ns * 1e-9))
            if link.name in self.exchange.ended and link.options.when_ended == "fault":
                raise PeerLost(link.name, self.exchange.ended[link.name])
        return End.FINISHED

    def _note_timing(self, point: CommunicationPoint, marks: TickMarks) -> None:
        missed = self.pace.judge(point, marks)
        self._missed[0] = missed or self.pace.overran  # ticks that passed raise the flag, too
        self.progress.enter(point.tick, point.t_ns * 1e-9, marks, missed, self._late_subsystems)
        if point.elapsed_ns:
            self.progress.count_step(point.elapsed_ns)
        self.progress.t_ns = point.t_ns

    def _late_subsystems(self) -> list[str]:
        names = self.numerics.network.subsystems
        return [names[s] for s in np.flatnonzero(self.numerics.given.subsystems["late"])]

    def _slack(self, point: CommunicationPoint, h_ns: int, marks: TickMarks) -> None:
        """Everything that need not be done before the inputs are on the wire."""
        t_ns = point.t_ns
        self._assess(t_ns + h_ns)
        judge = self.judge if self.judge is not None and self.judge.reads else None
        if self.feed.records or judge is not None:
            newest = self.progress.timeline.newest
            self.row.fill(h_ns * 1e-9, marks.late_ns, marks.compute_ns, newest)
        self.exchange.upkeep()
        self.snapshots.look(t_ns)
        self.feed.commit(t_ns)
        if judge is not None:
            judge.take(t_ns, self.feed.row)
        self._report_flags(t_ns)
        if self._turned[0]:
            self._report_sources(t_ns)
        if self.exchange.reports.any:
            self.report_events(t_ns)
        self.degradation.look(t_ns)
        self.publisher.update(self)
        self.exchange.run_local()  # what raises here has its step in the log
        if judge is not None:
            judge.work(self.pace.time_left_ns(t_ns + h_ns))
        if self.collect_garbage is not None and point.tick % GARBAGE_TICKS == 0:
            self.collect_garbage((self.pace.step_ns - marks.late_ns) // 2)

    def _assess(self, next_ns: int) -> None:
        """Judge the step; what is to be identified learns if that fits before the next tick."""
        if not self._identifies:
            self.numerics.assess()
            return
        budget, begun_ns = self.progress.learning, self.pace.now_ns()
        self._learns[0] = budget.fits(self.pace.time_left_ns(next_ns))
        self.numerics.assess()
        if self._learns[0]:
            budget.add(self.pace.now_ns() - begun_ns)

    def _report_sources(self, t_ns: int) -> None:
        for where, text in source_changes(self.numerics)[:CHANGES_PER_TICK]:
            self.feed.event(t_ns, "info", "source", where, text)

    def _report_flags(self, t_ns: int) -> None:
        if not self._moved[0]:
            return
        changes = flag_changes(self.numerics.checks, self.numerics.state, t_ns * 1e-9)
        for change in changes[:CHANGES_PER_TICK]:
            level: Level = "warning" if change.raised else "info"
            text = f"{change.cause} {'raised' if change.raised else 'cleared'}: {change.where}"
            self.feed.event(t_ns, level, change.cause, change.where, text)
        for change in changes:
            self.degradation.note(change)

    def report_events(self, t_ns: int) -> None:
        """Log what the subsystems told, and show what is more than information."""
        for name, event in self.exchange.reports.take():
            self.feed.event(t_ns, event.level, event.cause, name, event.text)
            if event.cause == STEP:
                self.publisher.sequences[name] = f"{event.text} (since {t_ns * 1e-9:.1f} s)"
            elif event.cause == ASK:
                self.publisher.prompts.ask(name, event.text)
            elif self.judge is not None:
                take_told(self.judge, self.numerics, name, event.cause, event.text)
            if event.level != "info":
                text = f"{name}: {event.text}"
                self.publisher.remember(f"{t_ns * 1e-9:.1f} s  {text}")
                self.publisher.announce(self.publisher.state, text)
