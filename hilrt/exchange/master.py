"""The master's loop: wait for a communication point, cut, macro step, dispatch, and the slack.

One pass of the loop is one macro step. Differences between sessions are chosen before the loop
starts: the `Pace` controls session time, handling of missed ticks, and work between two steps;
`Observer`s record, display and check the steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import partial

import numpy as np

from hilrt.errors import PeerLost
from hilrt.exchange.exchange import Exchange
from hilrt.step.numerics import Numerics
from hilrt.step.observer import Observer, Observers, Turn
from hilrt.timing.grid import CommunicationPoint, TickMarks
from hilrt.timing.pace import Pace


class End(StrEnum):
    """Reason why the loop ended."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    ALARMED = "alarmed"
    FAULTY = "faulty"


class Master:
    """Runs macro steps until the duration is reached or a stop is requested.

    Parameters
    ----------
    numerics, exchange
        The tables of the macro step, and the links.
    pace : Pace
        Timing of the communication points.
    observers : iterable of Observer
        Notified in this order.

    Attributes
    ----------
    progress : Progress
        Progress, shared with the pace.
    stop_requested, fault : str
        Reason why the loop should end, normally or by a fault after the stop sequence; else empty.
    """

    def __init__(
        self, numerics: Numerics, exchange: Exchange, pace: Pace, observers: Iterable[Observer] = ()
    ) -> None:
        self.numerics, self.exchange, self.pace = numerics, exchange, pace
        self.progress, self.observers = pace.progress, Observers(observers)
        self.stop_requested = self.fault = ""
        self._identifies = bool(numerics.plan.model.settings[0].identifies)
        self._missed, self._learns = numerics.slack["missed"], numerics.slack["learns"]
        self._alarm_level = numerics.state.session["alarm_level"]

    def request_stop(self, reason: str) -> None:
        """End the loop at the next communication point; may be called by a signal handler."""
        self.stop_requested = self.stop_requested or reason

    def request_end(self, fault: str) -> None:
        """End the loop by a fault at the next communication point, after the stop sequence."""
        self.fault = self.fault or fault

    def stopping(self) -> bool:
        """Whether a stop was requested."""
        return bool(self.stop_requested)

    async def run(self, duration_ns: int, epoch_ns: int) -> End:
        """Run from session time 0, which is `epoch_ns` on the clock, to `duration_ns` or beyond.

        The run ends at the first communication point at or after its duration. `PeerLost` and any
        other error are raised to the caller, which secures the benches.
        """
        self.pace.begin(epoch_ns, duration_ns)
        end: End | None = None
        try:
            end = await self._run(duration_ns)
            return end
        finally:
            self.observers.closing(end is End.FINISHED)

    async def _run(self, duration_ns: int) -> End:
        pace, marks = self.pace, TickMarks(self.pace.now_ns)
        point = CommunicationPoint(tick=0, t_ns=0, elapsed_ns=0)
        while True:
            point = await pace.reach(point, self.stopping)
            if self.stopping():
                return End.INTERRUPTED
            marks.begin()
            self.exchange.cut(*point)
            self.numerics.changes.put_into(self.numerics.given)
            marks.taken()
            self.numerics.macro_step()
            marks.stepped()
            h_ns = round(self.numerics.h_next * 1e9)
            alarmed = self.numerics.alarms.end_session(self._alarm_level[0])
            last = bool(alarmed or point.t_ns >= duration_ns or self.exchange.ended or self.fault)
            if not last:
                self.exchange.dispatch(point.t_ns, h_ns)
            marks.dispatched()
            self._note_timing(point, marks)
            self._slack(Turn(point, h_ns, marks))
            self.progress.timeline.rest(marks.done_ns, pace.now_ns())
            if last:
                if alarmed:
                    return End.ALARMED
                return End.FAULTY if self.fault else self._finish(point.t_ns)
            point = pace.next_point(point, h_ns)

    def _finish(self, t_ns: int) -> End:
        """End normally, or by `PeerLost` if a subsystem's own end counts as a fault."""
        for name, reason in self.exchange.ended.items():
            self.observers.event(t_ns, "info", "ended", name, reason)
        for link in self.exchange.links:
            if link.name in self.exchange.ended and link.options.when_ended == "fault":
                raise PeerLost(link.name, self.exchange.ended[link.name])
        return End.FINISHED

    def _note_timing(self, point: CommunicationPoint, marks: TickMarks) -> None:
        missed = self.pace.judge(point, marks)
        self._missed[0] = missed or self.pace.overran  # skipped ticks raise the flag, too
        self.progress.enter(point.tick, point.t_ns / 1e9, marks, missed, self._late_subsystems)
        if point.elapsed_ns:
            self.progress.count_step(point.elapsed_ns)
        self.progress.t_ns = point.t_ns

    def _late_subsystems(self) -> list[str]:
        names = self.numerics.network.subsystems
        return [names[s] for s in np.flatnonzero(self.numerics.given.subsystems["late"])]

    def _slack(self, turn: Turn) -> None:
        """Do the work that can wait until the inputs have been sent."""
        t_ns = turn.point.t_ns
        self._assess(t_ns + turn.h_ns)
        self.observers.stepped(turn)
        self.report_events()
        self.exchange.upkeep()  # samples received here belong to the next point
        self.exchange.run_local()  # after the row, so that a step that raises is in the log
        self.observers.idle(partial(self.pace.time_left_ns, t_ns + turn.h_ns))

    def _assess(self, next_ns: int) -> None:
        """Assess the step; identification learns if time permits before the next tick."""
        if not self._identifies:
            self.numerics.assess()
            return
        budget, begun_ns = self.progress.learning, self.pace.now_ns()
        self._learns[0] = budget.fits(self.pace.time_left_ns(next_ns))
        self.numerics.assess()
        if self._learns[0]:
            budget.add(self.pace.now_ns() - begun_ns)

    def report_events(self) -> None:
        """Forward reports of the subsystems to the observers."""
        if self.exchange.reports.any:
            for name, event in self.exchange.reports.take():
                fields = event.level, event.cause, name, event.text, event.value
                self.observers.event(self.progress.t_ns, *fields)
