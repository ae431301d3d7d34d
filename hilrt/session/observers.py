"""Observers of a session's loop: recording, flags, live status, expectations, garbage.

They are notified in this order, see `hilrt.step.observer`. Recording and flags are required:
without them the reliability of the results is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from hilrt.config.session_tables import FaultTable
from hilrt.config.structs import Session
from hilrt.exchange.exchange import Exchange
from hilrt.exchange.master import Master
from hilrt.expect.expectation import expectations_of
from hilrt.expect.judge import Judge
from hilrt.expect.log_signals import LogSignals
from hilrt.expect.of_sequences import judge_event, not_at_its_end
from hilrt.expect.outcome import ResultEntry, outcome_line
from hilrt.link import Link
from hilrt.monitor.status import StatusPublisher
from hilrt.monitor.telemetry import ResultStatus
from hilrt.record.feed import Feed
from hilrt.record.messages import Level
from hilrt.reliability.alarms import AlarmHistory
from hilrt.reliability.flags import Impairment, flag_changes
from hilrt.sequences.bench import STEP
from hilrt.sequences.prompts import ASK
from hilrt.session.assembly import Assembled
from hilrt.session.event_log import EventLog
from hilrt.step.numerics import Numerics
from hilrt.step.observer import Observer, Turn
from hilrt.step.source_changes import fault_changes, mu_changes, source_changes
from hilrt.step_log.signals import RowWriter
from hilrt.step_log.snapshot import Snapshots
from hilrt.timing.monotonic import monotonic_ns
from hilrt.timing.pace import Pace
from hilrt.timing.timeline import Progress

#: Changes logged per step; further ones are only counted, so that a burst of flags costs no ticks.
CHANGES_PER_TICK = 20
#: Number of ticks between two attempts to collect garbage in the slack.
GARBAGE_TICKS = 64


class RecordingObserver(Observer):
    """Recorder of every step's row, of snapshots, and of subsystems' reports.

    Parameters
    ----------
    numerics, exchange, progress, feed
        Parts of the session.
    judge : Judge, optional
        Another reader of the rows; without any reader, rows are not filled.
    """

    name, required = "recording", True

    def __init__(
        self,
        numerics: Numerics,
        exchange: Exchange,
        progress: Progress,
        feed: Feed,
        judge: Judge | None = None,
    ) -> None:
        self.feed, self._judge, self._timeline = feed, judge, progress.timeline
        self._make_row = partial(RowWriter, numerics, exchange.channels, feed.row)
        self._row = self._make_row() if self._needs_rows() else None
        self._snapshots = Snapshots(feed, numerics, numerics.changes) if feed.records else None

    def stepped(self, turn: Turn) -> None:
        """Fill and commit the row, after any snapshot or change that belongs to it."""
        t_ns, marks = turn.point.t_ns, turn.marks
        if self._needs_rows():
            if self._row is None:  # an expectation was added during a session without a log
                self._row = self._make_row()
            self._row.fill(turn.h_ns / 1e9, marks.late_ns, marks.compute_ns, self._timeline.newest)
        if self._snapshots is not None:
            self._snapshots.record(t_ns)
        self.feed.commit(t_ns)

    def _needs_rows(self) -> bool:
        return self.feed.records or (self._judge is not None and self._judge.reads)

    def event(
        self,
        t_ns: int,
        level: Level,
        cause: str,
        source: str,
        text: str,
        value: float | None = None,
    ) -> None:
        """Log the event."""
        self.feed.event(t_ns, level, cause, source, text, value)


class FlagObserver(Observer):
    """Logger of changes of flags, inputs' sources and faults, and of impairment.

    Parameters
    ----------
    numerics, exchange, feed
        Parts of the session. Emulated benches receive the beginning and end of their faults.
    alarms : AlarmHistory
        Notified of alarms that are raised or cleared.
    on_impaired : callable, optional
        Called with whether the session is impaired from now on, and why.
    """

    name, required = "flags", True

    def __init__(
        self,
        numerics: Numerics,
        exchange: Exchange,
        feed: Feed,
        alarms: AlarmHistory,
        on_impaired: Callable[[bool, str], None] | None = None,
    ) -> None:
        self._numerics, self._feed, self._alarms = numerics, feed, alarms
        self._links = {link.name: link for link in exchange.links}
        self._impairment = Impairment(exchange.benches, numerics.alarms)
        self._impairment.on_change = on_impaired
        self._moved = numerics.state.session["moved"]
        self._turned = numerics.state.session["turned"]
        self._parameters_turned = numerics.state.session["parameters_turned"]
        self._outcomes = numerics.changes.outcomes
        self._faults_turned = numerics.state.session["faults_turned"]
        self._mus_turned = numerics.state.session["mus_turned"]

    def stepped(self, turn: Turn) -> None:
        """Log changes in this step."""
        t_ns = turn.point.t_ns
        if self._moved[0]:
            self._report_flags(t_ns)
        if self._turned[0] or self._parameters_turned[0]:
            for where, text in source_changes(self._numerics)[:CHANGES_PER_TICK]:
                self._feed.event(t_ns, "info", "source", where, text)
        if self._faults_turned[0]:
            for fault, active in fault_changes(self._numerics):
                self._switch(fault, active)
                text = f"fault {fault.name} ({fault.kind}) {'begins' if active else 'ends'}"
                text += f" at {fault.place}"
                self._feed.event(t_ns, "info", "fault_injected", fault.place, text)
        if self._mus_turned[0]:
            for where, text in mu_changes(self._numerics):
                self._feed.event(t_ns, "info", "mu_adapted", where, text)
        if self._outcomes:
            for level, cause, where, text in self._outcomes:
                self._feed.event(t_ns, level, cause, where, text)
            self._outcomes.clear()
        self._impairment.update(t_ns)

    def closing(self, finished: bool) -> None:
        """End the faults of emulated benches before these are brought to rest."""
        faults = zip(self._numerics.faults, self._numerics.state.faults, strict=True)
        for fault, now in faults:
            if now.active:
                self._switch(fault, False)

    def _switch(self, fault: FaultTable, active: bool) -> None:
        """Begin or end a fault of an emulated bench."""
        switch = self._links[fault.emulated].switch_fault if fault.emulated else None
        if switch is not None:
            switch(fault.name, active)

    def _report_flags(self, t_ns: int) -> None:
        changes = flag_changes(self._numerics.checks, self._numerics.state, t_ns / 1e9)
        for change in changes[:CHANGES_PER_TICK]:
            level: Level = "warning" if change.raised else "info"
            text = f"{change.cause} {'raised' if change.raised else 'cleared'}: {change.where}"
            self._feed.event(t_ns, level, change.cause, change.where, text)
        for change in changes:
            self._impairment.note(change)
            if change.cause == "alarm":
                self._alarms.note(change.where, change.t, raised=change.raised)


class StatusObserver(Observer):
    """Publisher of the status for views, including sequences, prompts and warnings.

    Parameters
    ----------
    numerics, exchange, progress, feed, publisher
        Parts of the session.
    """

    name = "live status"

    def __init__(
        self,
        numerics: Numerics,
        exchange: Exchange,
        progress: Progress,
        feed: Feed,
        publisher: StatusPublisher,
    ) -> None:
        self.numerics, self.exchange, self.progress = numerics, exchange, progress
        self.feed, self._publisher = feed, publisher

    def idle(self, left_ns: float) -> None:
        """Build a status that is due, as far as time permits, and publish it."""
        self._publisher.update(self, left_ns)

    def event(
        self,
        t_ns: int,
        level: Level,
        cause: str,
        source: str,
        text: str,
        value: float | None = None,
    ) -> None:
        """Show a sequence's step or prompt, and all events above the level "info"."""
        publisher = self._publisher
        if cause == STEP:
            publisher.sequences[source] = f"{text} (since {t_ns / 1e9:.1f} s)"
        elif cause == ASK:
            publisher.prompts.ask(source, text)
        if level != "info":
            publisher.remember(t_ns / 1e9, f"{source}: {text}", value)
            publisher.announce(publisher.state, f"{source}: {text}")

    def closing(self, finished: bool) -> None:
        """Publish final numbers that match the summary."""
        self._publisher.prompts.clear()
        self._publisher.publish_last(self)


class ExpectationObserver(Observer):
    """Forwarder of rows and sequences' reports to the judge, which evaluates them in the slack.

    A sequence's expectation that cannot be evaluated raises `PeerLost` for the sequence.

    Parameters
    ----------
    judge : Judge
    numerics, exchange, progress, feed
        Parts of the session.
    """

    name = "expectations"

    def __init__(
        self,
        judge: Judge,
        numerics: Numerics,
        exchange: Exchange,
        progress: Progress,
        feed: Feed,
    ) -> None:
        self._judge, self._network, self._exchange = judge, numerics.network, exchange
        self._progress, self._row = progress, feed.row
        self._errors = numerics.state.outputs["estimated_error"]

    def stepped(self, turn: Turn) -> None:
        """Pass the row to the judge."""
        if self._judge.reads:
            self._judge.take(turn.point.t_ns, self._row)

    def event(
        self,
        t_ns: int,
        level: Level,
        cause: str,
        source: str,
        text: str,
        value: float | None = None,
    ) -> None:
        """Pass a sequence's measurement or expectation to the judge."""
        judge_event(self._judge, self._network, self._errors, source, cause, text)

    def idle(self, left_ns: float) -> None:
        """Evaluate as many rows as time permits."""
        self._judge.work(left_ns)

    def removed(self, reason: str) -> None:
        """Mark outcomes as inconclusive if rows after the defect could have changed them."""
        self._judge.abandon(reason)

    def closing(self, finished: bool) -> None:
        """Mark measurements as inconclusive if their sequences did not reach them."""
        exchange = self._exchange
        for link in exchange.links if finished else ():
            if link.stops_in_order and link.name not in exchange.ended:
                step, t = exchange.reports.step_of(link.name), self._progress.t_ns / 1e9
                self._judge.measured(not_at_its_end(link.name, step, t))


class GarbageObserver(Observer):
    """Garbage collection in the slack of some steps.

    Parameters
    ----------
    collect : callable
        Collects if that fits into the given time, ns.
    step_ns : int
        Base macro step, ns.
    """

    name = "garbage collection"

    def __init__(self, collect: Callable[[int], bool], step_ns: int) -> None:
        self._collect, self._step_ns = collect, step_ns
        self._tick = self._late_ns = 0

    def stepped(self, turn: Turn) -> None:
        """Record the lateness of the step."""
        self._tick, self._late_ns = turn.point.tick, turn.marks.late_ns

    def idle(self, left_ns: float) -> None:
        """Collect within at most half of the remaining step."""
        if self._tick % GARBAGE_TICKS == 0:
            self._collect((self._step_ns - self._late_ns) // 2)


def make_master(
    assembled: Assembled,
    pace: Pace,
    feed: Feed,
    publisher: StatusPublisher,
    judge: Judge | None = None,
    *,
    alarms: AlarmHistory | None = None,
    on_impaired: Callable[[bool, str], None] | None = None,
    collect: Callable[[int], bool] | None = None,
) -> Master:
    """Create the master of a session, with its observers.

    Parameters
    ----------
    assembled
        Numerics and exchange of the session.
    pace, feed, publisher
        Its pace; destination of rows and events; destination of the live status.
    judge : Judge, optional
        Judge of its expectations.
    alarms, on_impaired : optional
        See `FlagObserver`.
    collect : callable, optional
        See `GarbageObserver`.
    """
    numerics, exchange, _ = assembled
    progress = pace.progress
    observers: list[Observer] = [
        RecordingObserver(numerics, exchange, progress, feed, judge),
        FlagObserver(numerics, exchange, feed, alarms or AlarmHistory(), on_impaired),
        StatusObserver(numerics, exchange, progress, feed, publisher),
    ]
    if judge is not None:
        observers.append(ExpectationObserver(judge, numerics, exchange, progress, feed))
    if collect is not None:
        observers.append(GarbageObserver(collect, pace.step_ns))
    return Master(numerics, exchange, pace, observers)


def make_judge(tables: Session, links: Sequence[Link], feed: Feed, events: EventLog) -> Judge:
    """Create the judge of a session's expectations, which reads the feed's rows.

    Raises
    ------
    ConfigError
        For expectations with unknown signals or wrong units.
    """
    units = {signal.name: signal.unit for topic in feed.topics for signal in topic.signals}
    benches = {link.name for link in links if link.physical}
    coupled = bool(tables.connections)
    signals = LogSignals.of_session(
        units, coupled, benches, tables.calculated, tables.lookup_tables
    )
    judge = Judge(
        expectations_of(tables.expect), signals, list(units), tables.master.step, monotonic_ns
    )

    def report(outcome: ResultEntry) -> None:
        text = f"{outcome.result}: {outcome_line(outcome)}"
        level: Level = "info" if outcome.result == "passed" else "warning"
        events.note(level, outcome.name, text, cause="expectation")
        events.publisher.add_result(ResultStatus(outcome.name, outcome.result, text))

    judge.on_outcome = report
    judge.on_loss = lambda text: events.note("warning", "expectations", text, "expectation_lost")
    return judge


def results_of(judge: Judge) -> list[dict[str, Any]]:
    """Return all outcomes for the summary, after the last row."""
    found: list[dict[str, Any]] = msgspec.to_builtins(judge.finish())
    return found
