"""The live status, built a few times per second in the master's slack."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
import numpy as np

from hilrt.config.units import conversion
from hilrt.monitor.telemetry import (
    AlarmStatus,
    BondStatus,
    EventStatus,
    PeerStatus,
    Percentiles,
    PromptStatus,
    RaisedFlag,
    ResultStatus,
    SetPointStatus,
    Status,
    Telemetry,
)
from hilrt.reliability.alarms import AlarmHistory
from hilrt.reliability.estimates import Estimate, InParts, errors_in_parts
from hilrt.reliability.flags import active_flags, flag_totals
from hilrt.reliability.verdict import SessionCourse, verdict
from hilrt.sequences.prompts import Question
from hilrt.tables.channels import ChannelRow
from hilrt.timing.grid import SlackBudget
from hilrt.timing.histogram import Recent
from hilrt.timing.monotonic import monotonic_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hilrt.link import Link
    from hilrt.record.feed import Feed
    from hilrt.solver import Floats
    from hilrt.step.numerics import Numerics
    from hilrt.tables.record import Table
    from hilrt.timing.timeline import Progress

PERIOD_NS = 200_000_000
#: Period of the announcement while the loop does not run, s.
ALIVE_S = 0.5
#: Newest events in a status; views group them by kind.
MAX_EVENTS = 20
#: Maximum alarms in a status.
MAX_ALARMS = 100
#: Maximum results in a status; passed ones are dropped first.
MAX_RESULTS = 20


#: States in which the session does not wait for anything.
NO_WAIT = ("RUNNING", "IMPAIRED", "STOPPED", "FAULT")


class Exchanged(Protocol):
    """The parts of the exchange that views need."""

    @property
    def links(self) -> Sequence[Link]:
        """Links of the subsystems."""
        ...

    @property
    def channels(self) -> Table[ChannelRow]:
        """Rows of the channels, in the order of `links`."""
        ...

    @property
    def age(self) -> Floats:
        """Ages of the subsystems' newest samples, shape (ns,), s."""
        ...


class Shown(Protocol):
    """Parts of a session that a status shows."""

    numerics: Numerics
    progress: Progress
    feed: Feed

    @property
    def exchange(self) -> Exchanged:
        """Exchange with the subsystems."""
        ...


class StatusPublisher:
    """Publisher of a `Status` every `PERIOD_NS` of wall time, if there is a telemetry socket."""

    def __init__(
        self,
        telemetry: Telemetry | None,
        session: str,
        duration: float,
        run: str = "",
        adjustable: Iterable[str] = (),
    ) -> None:
        self.telemetry = telemetry
        self.session, self.run = session, run
        self.duration = duration
        self._adjustable = tuple(adjustable)
        #: Estimated errors from other runs, on which the verdict rests in place of those from the
        #: session's own steps.
        self.errors: Mapping[str, Estimate] | None = None
        #: Line and text of the newest step of each test sequence.
        self.sequences: dict[str, str] = {}
        #: Questions of test sequences that wait for an operator.
        self.prompts = OpenPrompts()
        self.state, self._message = "CONFIGURED", ""
        #: Indices of the outputs in the order in which views show them; default: the network's.
        self.order: Sequence[int] | None = None
        #: Alarms that have been raised.
        self.alarms = AlarmHistory()
        self._next_ns = 0
        self._since_ns: int | None = None  # time of the announcement that began the current wait
        self._looked_ns = self._looked_steps = 0
        self._newest: Status | None = None
        self._parts: InParts[Status] | None = None  # of the status that is being built
        self._budget = SlackBudget()
        self._lateness = Recent()
        self._events: deque[EventStatus] = deque(maxlen=MAX_EVENTS)
        self._results: list[ResultStatus] = []
        self._result_counts: Counter[str] = Counter()

    def remember(self, t: float, text: str, value: float | None = None) -> None:
        """Show an event at session time `t` [s] with the next status; see `EventStatus`."""
        self._events.append(EventStatus(round(t, 1), text, value))

    def add_result(self, result: ResultStatus) -> None:
        """Show a result of an expectation or a measurement with the next status."""
        self._result_counts[result.result] += 1
        if len(self._results) == MAX_RESULTS:
            passed = (i for i, one in enumerate(self._results) if one.result == "passed")
            del self._results[next(passed, 0)]
        self._results.append(result)

    def announce(self, state: str, message: str = "", *, still: bool = False) -> None:
        """Publish a change of the session's state, or of its reason for waiting, at once.

        With `still` the wait continues, and only its text changes.
        """
        self.state, self._message = state, message
        if not still or self._since_ns is None:
            self._since_ns = monotonic_ns()
        self.repeat()

    async def keep_alive(self) -> None:
        """Repeat the announcement until cancelled, while no loop runs."""
        while True:
            await asyncio.sleep(ALIVE_S)
            if monotonic_ns() >= self._next_ns + PERIOD_NS:
                self.repeat()

    def repeat(self) -> None:
        """Repeat the last announcement, so that watchers do not consider the session ended."""
        if self.telemetry is None or self._since_ns is None:
            return
        known = self._newest or Status(
            session=self.session, state=self.state, run=self.run, duration=self.duration
        )
        waited_s = 0.0 if self.state in NO_WAIT else (monotonic_ns() - self._since_ns) * 1e-9
        self.telemetry.publish(
            msgspec.structs.replace(
                known,
                state=self.state,
                message=self._message,
                waited_s=waited_s,
                events=list(self._events),
                alarms=self._alarms(),
                prompts=self.prompts.waiting(known.t),
                results=list(self._results),
                result_counts=dict(self._result_counts),
            )
        )

    def update(self, shown: Shown, left_ns: float = math.inf) -> None:
        """Build a status that is due, and publish it.

        Built at once, a status took 2 ms with cold caches and two missed ticks. It is therefore
        built in parts, as time permits before the next tick, in `left_ns` [ns]. One that is overdue
        by a period is finished at once, so that a session without any slack stays visible.
        """
        if self.telemetry is None:
            return
        begun_ns = monotonic_ns()
        if self._parts is None:
            if begun_ns < self._next_ns:
                return
            self._next_ns = begun_ns + PERIOD_NS
            self._parts = self._build(shown)
        elif begun_ns >= self._next_ns:
            left_ns = math.inf
        while self._parts is not None and self._budget.fits(left_ns):
            try:
                next(self._parts)
            except StopIteration as end:
                self._parts, self._newest = None, end.value
                self.telemetry.publish(end.value)
            now_ns = monotonic_ns()
            self._budget.add(now_ns - begun_ns)
            left_ns -= now_ns - begun_ns
            begun_ns = now_ns

    def publish_last(self, shown: Shown) -> None:
        """Publish the status of the present step, after the last one."""
        self._parts, self._next_ns = None, 0
        self.update(shown)

    def _alarms(self) -> list[AlarmStatus]:
        return [
            AlarmStatus(
                name,
                record.count,
                record.first_t,
                record.last_t,
                record.cleared_t,
                record.acknowledged_by,
                record.acknowledged_t,
            )
            for name, record in list(self.alarms.records.items())[:MAX_ALARMS]
        ]

    def _rate(self, steps: int, now_ns: int) -> float:
        """Macro steps per second of wall time since the last call, 1/s; 0 at the first."""
        elapsed_ns = now_ns - self._looked_ns if self._looked_ns else 0
        done = steps - self._looked_steps
        self._looked_ns, self._looked_steps = now_ns, steps
        return 1e9 * done / elapsed_ns if elapsed_ns > 0 else 0.0

    def _build(self, shown: Shown) -> InParts[Status]:
        # Imported here because it loads the compiler, which the session has loaded by now.
        from hilrt.step.source_changes import present_sources

        numerics, progress, exchange = shown.numerics, shown.progress, shown.exchange
        state, given, outputs = numerics.state, numerics.given.session[0], numerics.network.outputs
        rate_hz = self._rate(progress.steps, monotonic_ns())
        lateness = self._lateness.update(progress.lateness, (0.5, 0.99, 1.0))
        yield
        errors, made = yield from errors_in_parts(numerics.network, numerics.plan, state)
        yield
        totals = flag_totals(numerics.checks, state)
        yield
        course = SessionCourse(
            float(given.t),
            None,
            progress.missed,
            steps=progress.steps,
            unrecorded=shown.feed.dropped,
            errors=self.errors or errors,
            bonds=made,
        )
        so_far = verdict(totals, course)
        yield
        # No pause from here on, so that time, values, set-points and flags are those of one step.
        t, sources = float(given.t), present_sources(numerics)
        return Status(
            session=self.session,
            run=self.run,
            state=self.state,
            sequences=dict(self.sequences),
            sources=sources,
            prompts=self.prompts.waiting(t),
            results=list(self._results),
            result_counts=dict(self._result_counts),
            t=t,
            duration=self.duration,
            tick=int(given.tick),
            missed=progress.missed,
            rate_hz=rate_hz,
            lateness_us=None if lateness is None else Percentiles(*lateness),
            values=self._values(outputs.names, state.outputs["y"].tolist()),
            units=dict(zip(outputs.names, outputs.units, strict=True)),
            flags=[RaisedFlag(*flag) for flag in active_flags(numerics.checks, state)],
            set_points=set_points_of(numerics, sources),
            bonds=_bonds(numerics),
            peers=_peers(exchange),
            verdict=so_far.word,
            reasons=so_far.reasons,
            evidence_lacking=so_far.evidence_lacking,
            message=self._message if self.state == "IMPAIRED" else "",
            shadow=bool(numerics.plan.session[0].shadow or not given.apply),
            events=list(self._events),
            alarms=self._alarms(),
            adjustable={
                what: shown.numerics.changes.present_number(state, what)
                for what in self._adjustable
            },
        )

    def _values(self, names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
        order = range(len(names)) if self.order is None else self.order
        return {names[i]: values[i] for i in order}


def _bonds(numerics: Numerics) -> dict[str, BondStatus]:
    return {
        table.name: BondStatus(
            float(bond.power),
            float(bond.residual_energy),
            float(bond.tracking_energy),
            float(bond.corrected_energy),
        )
        for table, bond in zip(numerics.network.bonds.tables, numerics.state.bonds, strict=True)
    }


def _peers(exchange: Exchanged) -> dict[str, PeerStatus]:
    return {
        link.name: PeerStatus(
            int(exchange.channels["late"][s]),
            link.lost,
            max(float(exchange.age[s]), 0.0) * 1e3,  # a sample may be ahead of the tick
            link.dropped,
        )
        for s, link in enumerate(exchange.links)
    }


def set_points_of(numerics: Numerics, sources: dict[str, str]) -> dict[str, SetPointStatus]:
    """Demanded, sent and measured value of each bench input, and what drives it.

    Parameters
    ----------
    numerics : Numerics
    sources : dict
        Inputs driven by something other than connections, and what drives them.
    """
    plan, state, network = numerics.plan, numerics.state, numerics.network
    inputs, outputs, found = network.inputs, network.outputs, {}
    for i in np.flatnonzero(plan.subsystems["physical"][plan.inputs["subsystem"]]).tolist():
        at, u, name = plan.inputs[i], state.inputs[i], inputs.names[i]
        first = int(at.first_connection)
        links = plan.connections["source"][first : first + int(at.connections)].tolist()
        own = ", ".join(outputs.names[source] for source in links) or "its start value"
        measured, j = math.nan, int(at.realised_by)
        if j >= 0:
            factor, offset = conversion(outputs.units[j], inputs.units[i])
            measured = factor * float(state.outputs[j].sample) + offset
        found[name] = SetPointStatus(
            float(state.drives[at.drive].demanded if at.drive >= 0 else u.extrapolated[0]),
            float(u.last),
            measured,
            inputs.units[i],
            sources.get(name, own),
        )
    return found


# Questions of test sequences that wait for an operator, as kept in the session.

#: Maximum questions shown: a sequence that never stops asking must not fill the status.
MAX_PROMPTS: Final = 20

_decoder = msgspec.json.Decoder(Question)


class OpenPrompts:
    """Questions of sequences, until they are answered or their deadline."""

    def __init__(self) -> None:
        self._count = 0
        self._open: dict[int, tuple[PromptStatus, int]] = {}

    def ask(self, sequence: str, text: str) -> None:
        """Add the question that an event contains, if it contains one."""
        try:
            question = _decoder.decode(text)
        except msgspec.MsgspecError:
            return
        if len(self._open) >= MAX_PROMPTS:
            return
        self._count += 1
        shown = PromptStatus(
            self._count,
            sequence,
            question.text,
            question.answers,
            question.declared,
            question.until,
        )
        self._open[self._count] = (shown, question.number)

    def waiting(self, t: float) -> list[PromptStatus]:
        """Prompts waiting at session time `t` [s], the oldest first."""
        for number in [n for n, (prompt, _) in self._open.items() if prompt.until <= t]:
            del self._open[number]
        return [prompt for prompt, _ in self._open.values()]

    def find(self, number: float, t: float) -> PromptStatus | None:
        """Prompt of a number, if it is waiting at session time `t` [s]."""
        return next((one for one in self.waiting(t) if one.number == number), None)

    def own_number(self, prompt: PromptStatus) -> int:
        """Number that the prompt has within its sequence."""
        return self._open[prompt.number][1]

    def close(self, prompt: PromptStatus) -> None:
        """Remove a prompt that was answered."""
        self._open.pop(prompt.number, None)

    def clear(self) -> None:
        """Forget all prompts."""
        self._open.clear()
