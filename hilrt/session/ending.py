"""The last stages of every session: prepare, run, bring benches to rest, summarise.

They follow `hilrt.session.assembly`: `prepare` creates the loop with its observers, `run` ticks to
the end, `Ending` brings benches to rest, and `summarise` puts the outcome into the result.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hilrt.errors import ExitStatus, HilrtError, PeerLost
from hilrt.exchange.exchange import Exchange
from hilrt.exchange.master import End, Master
from hilrt.exchange.slack_renewal import SlackRenewal
from hilrt.expect.judge import Judge
from hilrt.expect.outcome import exit_status
from hilrt.monitor.session_state import SessionState
from hilrt.record.feed import Feed
from hilrt.reliability.alarms import STOP, Ranges
from hilrt.reliability.estimates import Estimate
from hilrt.reliability.guard import DIVERGED
from hilrt.session.assembly import Assembled
from hilrt.session.event_log import EventLog
from hilrt.session.observers import make_judge, make_master, results_of
from hilrt.session.opening import Connected
from hilrt.session.result import Result
from hilrt.session.summary import RunFacts, build_summary, case_summary
from hilrt.step.numerics import Numerics
from hilrt.tables.given import LARGEST, StepInput
from hilrt.tables.network import Network
from hilrt.timing.host import NO_USE, HostUse
from hilrt.timing.pace import Pace, RealTime
from hilrt.timing.timeline import Timeline
from hilrt.wording import MISSED_BECAUSE, unit_text

if TYPE_CHECKING:
    from hilrt.session.benches import Benches
    from hilrt.session.operation import Operator
    from hilrt.session.processes import Processes


class Prepared(NamedTuple):
    """A session that is ready to tick, with its loop and observers."""

    connected: Connected
    master: Master
    feed: Feed
    judge: Judge
    events: EventLog
    #: Estimated errors from other runs, in place of those from the session's own steps.
    errors: Mapping[str, Estimate] | None = None

    def now_ns(self) -> int:
        """Session time of the last communication point, ns."""
        return self.master.progress.t_ns


def prepare(
    connected: Connected,
    assembled: Assembled,
    pace: Pace,
    feed: Feed,
    events: EventLog,
    collect: Callable[[int], bool] | None = None,
    errors: Mapping[str, Estimate] | None = None,
) -> Prepared:
    """Create the loop of a session and its observers; `collect` as for `make_master`.

    `errors` are estimated errors from other runs, in place of those from the session's own steps.

    Raises
    ------
    ConfigError
        For expectations with unknown signals or wrong units.
    """
    events.publisher.errors = errors
    judge = make_judge(connected.file.tables, connected.links, feed, events)
    master = make_master(
        assembled,
        pace,
        feed,
        events.publisher,
        judge,
        alarms=events.alarms,
        on_impaired=events.impaired,
        collect=collect,
    )
    renews = bool(assembled.numerics.plan.session["error_renewed"][0])
    if renews and isinstance(pace, RealTime):
        tables, links = connected.file.tables, connected.links
        master.observers.add(SlackRenewal(assembled.numerics, tables, links))
    return Prepared(connected, master, feed, judge, events, errors)


class LoopEnd(NamedTuple):
    """End of the master's loop: the reason, or the fault and the lost subsystem."""

    end: End | None
    fault: str | None = None
    lost: str = ""


async def run(
    prepared: Prepared, epoch_ns: int, now_ns: Callable[[], int] | None = None
) -> LoopEnd:
    """Tick from session time 0, which is `epoch_ns` on the clock, to the session's end.

    `now_ns` returns the time for events, ns; default: that of the last communication point.
    """
    connected, master, feed, _, events, _ = prepared
    exchange = master.exchange
    events.open(feed, now_ns or prepared.now_ns)
    events.go(SessionState.RUNNING, "first tick")
    try:
        end = await master.run(round(connected.duration * 1e9), epoch_ns)
        ended = LoopEnd(end, value_fault(master.numerics) if end is End.ALARMED else None)
        if end is End.FAULTY:
            ended = LoopEnd(end, master.fault)
    except HilrtError as error:
        ended = _lost(master, exchange, error)
    finally:
        exchange.close()
    if ended.fault is not None:
        events.go(SessionState.SAFE, ended.fault, level="error")
    feed.flush()  # so that its losses also count
    return ended


def finish(
    events: EventLog, exchange: Exchange, result: Result, fault: str | None, rest: str = "finished"
) -> None:
    """Enter the final state: after a fault, or after a normal end with the cause `rest`."""
    if fault is None:
        events.go(SessionState.STOPPED, "; ".join([*own_ends(exchange), rest]))
    else:
        result.fail(fault)
        events.go(SessionState.FAULT, fault, level="error")


def summarise(
    prepared: Prepared,
    result: Result,
    wall_s: float,
    *,
    real_time: bool = False,
    secured: str = "",
    host_use: HostUse = NO_USE,
    strangers: Mapping[str, int] = MappingProxyType({}),
    brief: bool = False,
) -> None:
    """Put the current summary, and the exit status of the expectations, into the result.

    For the parameters after the first two see `RunFacts`. A `brief` summary is a `case_summary`.
    """
    connected, master, feed, judge, events, errors = prepared
    results, tables = results_of(judge), connected.file.tables
    paced = real_time and tables.session.pace == "realtime"
    facts = RunFacts(
        tables.session.name,
        str(events.state),
        wall_s,
        real_time,
        result.fault,
        feed.dropped,
        feed.lost_events,
        secured,
        host_use,
        strangers,
        results,
        events.columns,
        events.alarms.as_json(prepared.now_ns() / 1e9),
        errors,
        tables.master.dispatch_deadline if paced else 0.0,
    )
    if brief:
        made = case_summary(master.numerics, master.progress, facts)
    else:
        made = build_summary(master.numerics, master.exchange, master.progress, facts)
    result.summary = made | connected.file.origin
    result.end_with(exit_status(one["result"] for one in results))


def _lost(master: Master, exchange: Exchange, error: HilrtError) -> LoopEnd:
    """Fault for a lost subsystem, with the last step of a test sequence."""
    if not isinstance(error, PeerLost):
        return LoopEnd(None, str(error))
    exchange.receive_reports()
    master.report_events()
    link = next((link for link in exchange.links if link.name == error.name), None)
    end = End.FAULTY if link is not None and link.stops_in_order else None
    step = exchange.reports.step_of(error.name)
    text = f"{error}; its last step: {step}" if step else str(error)
    if "master_timeout" in text:
        text += f"; {held_up(master.progress.timeline, master.pace.now_ns())}"
    return LoopEnd(end, text, error.name)


def held_up(timeline: Timeline, now_ns: int) -> str:
    """Sentence about the master's longest recent delay, up to `now_ns` on its clock [ns]."""
    waited_ns = now_ns - timeline.rested_ns
    cause = "previous" if timeline.slack_ns > waited_ns else "wake"
    longest_us = max(timeline.slack_ns, waited_ns) * 1e-3
    for tick in timeline.slowest()[:1]:
        if tick["lateness_us"] > longest_us:
            cause, longest_us = tick["cause"], tick["lateness_us"]
    why = MISSED_BECAUSE[cause]
    return f"the master was held up for {longest_us / 1e3:.0f} ms: {why}; see hilrt doctor"


def own_ends(exchange: Exchange) -> list[str]:
    """Texts about subsystems that ended the session by ending their own simulation."""
    return [f"subsystem {name!r}: {reason}" for name, reason in exchange.ended.items()]


def value_fault(numerics: Numerics) -> str:
    """Text about alarms, impossible values or divergence that ended the loop."""
    state, given = numerics.state, numerics.given
    if state.session[0].alarm_level == DIVERGED:
        return describe_divergence(numerics.network, given)
    alarms = numerics.alarms.ending(state)
    causes = [f"alarm: {', '.join(alarms)}"] if alarms else []
    return "; ".join(causes + Ranges(numerics.network, numerics.plan).ending(state, given))


class Ending:
    """The end of a session after its last tick.

    Parameters
    ----------
    benches, operator, events, processes
        Parts of the session.
    result : Result
        Receives fault, exit status and warnings.
    interrupted : callable
        Returns why a signal or an operator requests the end, or "".
    """

    def __init__(
        self,
        benches: Benches,
        operator: Operator,
        events: EventLog,
        processes: Processes,
        result: Result,
        interrupted: Callable[[], str],
    ) -> None:
        self._benches, self._operator, self._events = benches, operator, events
        self._processes, self._result, self._interrupted = processes, result, interrupted

    async def bring_down(self, assembled: Assembled, master: Master, ended: LoopEnd) -> str | None:
        """Bring benches to rest in the way the loop's end requires; return the fault, if any."""
        numerics, exchange, _ = assembled
        end, fault, result = ended.end, ended.fault, self._result
        stops = numerics.state.session[0].alarm_level == STOP
        if end is End.FINISHED and self._benches.armed:
            names = ", ".join(link.name for link in self._benches.armed)
            self._events.go(SessionState.STOPPING, f"bringing {names} to rest")
        if end in (End.FINISHED, End.FAULTY) or (end is End.ALARMED and stops):
            unwanted = master.stopping
            result.warnings += await self._benches.run_stop_sequence(assembled, unwanted)
        if end is not None and master.stopping():  # requested in the loop or in the stop sequence
            await self._interrupt(master)
        await self._benches.secure(fault or self._interrupted() or "session finished")
        self._benches.note_reports(exchange)
        not_at_rest = self._benches.not_at_rest()
        if fault is None:  # this must not look like a normal end
            fault = "; ".join(not_at_rest) or None
        else:
            result.warnings += not_at_rest
        if fault is not None:
            fault = await self._processes.with_end_of(ended.lost, fault)
        rest = "benches are at rest" if self._benches.armed else "finished"
        finish(self._events, exchange, result, fault, rest)
        return fault

    async def _interrupt(self, master: Master) -> None:
        reason = self._interrupted() or master.stop_requested
        self._events.go(SessionState.SAFE, reason, level="warning")
        if self._benches.armed:
            self._benches.secured = f"benches run their safe profile: {reason}"
            self._events.note("warning", "session", self._benches.secured, cause="safe_profile")
        self._result.end_with(ExitStatus.INTERRUPTED)
        self._result.stopped = reason
        if self._operator.held:
            await self._benches.hold_safe(master.stop_requested, self._interrupted)


# Diverging values: where they occur, and the loop of the topology that contains them.

#: Number of an output, and number of an input connected to it.
Connection = tuple[int, int]


def describe_divergence(network: Network, given: StepInput) -> str:
    """Text about the largest diverging sample and its loop, with remedies."""
    samples = np.where(given.outputs["fresh"] != 0, np.abs(given.outputs["y"]), 0.0)
    samples[~(samples > LARGEST)] = 0.0
    output = int(np.argmax(samples))
    value, unit = float(given.outputs["y"][output]), network.outputs.units[output]
    what = f"{network.outputs.names[output]} = {value:.3g} {unit_text(unit)}".rstrip()
    loop = shortest_loop(network, output)
    if not loop:
        subsystem = network.members[network.outputs.member[output]]
        return (
            f"divergence: {what}; no connection leads back to {subsystem}, so check its model "
            "and its inputs"
        )
    names = network.outputs.names, network.inputs.names
    path = ", ".join(f"{names[0][a]} -> {names[1][b]}" for a, b in loop)
    return (
        f"divergence: {what}, in the loop {path}; a smaller macro step or a lower order of "
        "extrapolation may be stable: `hilrt advise` runs the models with both"
    )


def shortest_loop(network: Network, output: int) -> list[Connection]:
    """Connections from a subsystem back to itself, starting at `output` if possible.

    Within a subsystem every output is assumed to depend on every input. Empty if there is no loop.
    """
    start = int(network.outputs.member[output])
    from_subsystem: dict[int, list[Connection]] = defaultdict(list)
    of = network.outputs.member[network.L.column].tolist()
    for giver, a, b in zip(of, network.L.column.tolist(), network.L.row.tolist(), strict=True):
        from_subsystem[giver].append((a, b))
    others = from_subsystem[start]
    first = [(a, b) for a, b in others if a == output]
    return _way_back(network, from_subsystem, first, start) or _way_back(
        network, from_subsystem, others, start
    )


def _way_back(
    network: Network,
    from_subsystem: Mapping[int, list[Connection]],
    first: list[Connection],
    start: int,
) -> list[Connection]:
    """Shortest chain of connections that begins with one of `first` and ends at `start`."""
    ways = deque([connection] for connection in first)
    seen: set[int] = set()
    while ways:
        way = ways.popleft()
        reached = int(network.inputs.member[way[-1][1]])
        if reached == start:
            return way
        if reached not in seen:
            seen.add(reached)
            ways += [[*way, c] for c in from_subsystem.get(reached, ())]
    return []
