"""Run sessions in this process, without files or other processes; repeat them at shorter steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from hilrt.config.session_file import SessionFile, open_session
from hilrt.config.structs import Session
from hilrt.errors import ConfigError, HilrtError
from hilrt.monitor.session_state import SessionState
from hilrt.monitor.status import StatusPublisher
from hilrt.monitor.stream import session_graph
from hilrt.record.cdr import signal_slices
from hilrt.record.feed import Feed
from hilrt.record.messages import Level, Signal, Topic
from hilrt.record.reader import Log, LogChannel, LogEvent, make_log
from hilrt.reliability.estimates import Estimate, make_estimate
from hilrt.session.assembly import KnownSensitivities, as_fast_as_possible, assemble, refuse_start
from hilrt.session.ending import finish, prepare, run, summarise
from hilrt.session.event_log import EventLog
from hilrt.session.initialization import initialize
from hilrt.session.loop_thread import run_in_loop
from hilrt.session.opening import connect, describe, elsewhere, read
from hilrt.session.repeat import (
    ALONE,
    FACTORS,
    MOST_STEPS,
    TOLERANCE,
    Reference,
    Repeated,
    compare_with_reference,
    extrapolated,
)
from hilrt.session.result import Result
from hilrt.session.summary import remarks
from hilrt.solver import Floats
from hilrt.step_log.signals import build_topics
from hilrt.timing.monotonic import monotonic_ns


def simulate(
    session: str | Path | SessionFile,
    overrides: Mapping[str, object] | None = None,
    *,
    record: bool = True,
) -> Result:
    """Run a session in this process, as fast as possible, and return its signals.

    The steps and their results are identical to those of `run_session`, bit for bit. There is no
    bench, no other process and no file, so thousands of sessions can be run in a row. It also works
    while an event loop runs, as in a notebook.

    Parameters
    ----------
    session : str, Path or SessionFile
        The session file, or one from `load_session`.
    overrides : mapping, optional
        Values that replace the file's, by ``"table.key"``, such as ``{"connections.0.order": 1}``.
    record : bool
        If False, the result has a summary but no log.

    Returns
    -------
    Result
        ``result.log["subsystem.port"]`` contains a signal's values, ``result.verdict`` says how far
        they can be trusted. A subsystem's fault is in ``result.fault``.

    Raises
    ------
    ConfigError
        For a session with errors, and for one with subsystems in other processes.
    """
    return simulate_again(session, overrides, record, None)


def simulate_again(
    session: str | Path | SessionFile,
    overrides: Mapping[str, object] | None,
    record: bool,
    known: KnownSensitivities | None,
    only: Collection[str] | None = None,
) -> Result:
    """Simulate as `simulate` does, for a study of many sessions.

    With `known`, unchanged results of earlier sessions are reused, and the summary is brief, see
    `case_summary`. With `only`, the log contains just the signals of these ports.
    """
    file = read(session, overrides, pace="asap")
    if problems := elsewhere(file):
        raise ConfigError(problems)
    errors = errors_found_before(file)
    return run_in_loop(lambda: _simulate(file, record, errors, known, only))


async def _simulate(
    file: SessionFile,
    record: bool,
    errors: Mapping[str, Estimate] | None,
    known: KnownSensitivities | None,
    only: Collection[str] | None,
) -> Result:
    tables, result = file.tables, Result()
    events = EventLog(StatusPublisher(None, tables.session.name, tables.session.duration))
    described, reason = describe(file, called=True), "session could not start"
    try:
        events.go(SessionState.CONNECTING, "starting subsystems")
        connected = await connect(described, limited=False)
        initialized = await initialize(connected)
        events.go(SessionState.INITIALIZED, "all subsystems have initialized")
        assembled = await assemble(initialized, renews=True, note=events.note_column, known=known)
        refuse_start(assembled.numerics)
        events.go(SessionState.ARMED, "nothing to arm")
        topics = build_topics(assembled.numerics) if record or _reads_rows(tables) else ()
        feed, links = MemoryFeed(topics, only) if record else Feed(topics), connected.links
        pace = as_fast_as_possible(assembled, tables, links)
        prepared = prepare(connected, assembled, pace, feed, events, errors=errors)
        began_ns = monotonic_ns()
        fault = (await run(prepared, began_ns)).fault
        wall_s = (monotonic_ns() - began_ns) * 1e-9
        finish(events, assembled.exchange, result, fault)
        result.warnings += remarks(assembled.numerics, pace.progress)
        summarise(prepared, result, wall_s, brief=known is not None)
        if isinstance(feed, MemoryFeed):
            graph = msgspec.json.encode(session_graph(tables)).decode()
            metadata = {"session": tables.session.name, "topology": graph}
            result.log = feed.log(file.path, metadata)
        reason = fault or "session finished"
    except (HilrtError, OSError) as error:
        if isinstance(error, ConfigError):
            raise
        reason = str(error)
        result.fail(reason)
    finally:
        for link in described.links:
            await link.stop(reason)
            await link.close()
    return result


def _reads_rows(tables: Session) -> bool:
    """Whether a session without a log may need the names of its rows, or their values."""
    sequences = any(options.is_sequence for options in tables.subsystems.values())
    return sequences or bool(tables.expect or tables.calculated)


# The same session at other steps; `hilrt.session.repeat` evaluates the runs.


def repeat(
    session: str | Path | SessionFile, overrides: Mapping[str, object] | None = None
) -> dict[str, Repeated]:
    """Run a session of models at H, H/2 and H/4, and extrapolate every coupling signal.

    Parameters
    ----------
    session, overrides
        As for `simulate`.

    Raises
    ------
    ConfigError
        For a session that `simulate` refuses, and for one with a variable step.
    HilrtError
        If a run ends with a fault, or not at the same time as the others.
    """
    file = open_session(session, overrides)
    master = file.tables.master
    if master.step_control.method != "fixed":
        raise ConfigError(
            [
                "[master.step_control]: a variable step cannot be halved; `hilrt analyze "
                "reference` finds the error of such a session, or set method = 'fixed'"
            ]
        )
    runs = [_run(file, {**ALONE, "master.step": master.step / factor}) for factor in FACTORS]
    names = runs[0].summary["estimated_error"]
    found = {}
    for name, estimate in names.items():
        whole, half, quarter = _course(runs, name)
        found[name] = extrapolated(whole, half, quarter, estimate["unit"])
    return found


def reference(
    session: str | Path | SessionFile,
    overrides: Mapping[str, object] | None = None,
    *,
    tolerance: float = TOLERANCE,
    most_steps: int = MOST_STEPS,
    progress: Callable[[str], None] = lambda _: None,
) -> Reference:
    """Run a session of models at shorter and shorter steps, for the true error of every signal.

    Parameters
    ----------
    session, overrides
        As for `simulate`; its step may vary, that of the reference does not.
    tolerance, most_steps, progress
        As for `compare_with_reference`.

    Raises
    ------
    ConfigError
        For a session that `simulate` refuses.
    HilrtError
        If the session ends with a fault, or every run at a shorter step does.
    """
    file = open_session(session, overrides)
    return compare_with_reference(
        file, lambda changes: _run(file, changes), tolerance, most_steps, progress
    )


def _run(file: SessionFile, changes: Mapping[str, object]) -> Result:
    """Run with other settings; the result's log contains all signals that have an estimate.

    These are the sources of connections, and the signals that calculated channels read.
    """
    tables = file.tables
    kept = None if tables.calculated else {one.source for one in tables.connections}
    found = simulate_again(file, changes, True, None, kept)
    if found.fault:
        step = changes.get("master.step", file.tables.master.step)
        raise HilrtError(f"with a step of {step:g} s the session ended with a fault: {found.fault}")
    return found


def _course(runs: list[Result], name: str) -> list[Floats]:
    """Values of a signal in each run at the longest step's points; NaN between samples."""
    times = [run.log.t[::factor] for run, factor in zip(runs, FACTORS, strict=True)]
    for t in times[1:]:
        if len(t) != len(times[0]) or not np.allclose(t, times[0], rtol=0.0, atol=1e-9):
            raise HilrtError(
                "the runs do not end at the same time; give the session a duration of whole steps"
            )
    pairs = zip(runs, FACTORS, strict=True)
    return [run.log[name][::factor] for run, factor in pairs]


def errors_found_before(
    file: SessionFile, duration: float | None = None
) -> dict[str, Estimate] | None:
    """Errors estimated by other runs of the session; None if its file requests none.

    If a run with a shorter step fails, the errors are unknown, with the reason.
    """
    tables = file.tables
    seconds = tables.session.duration if duration is None else duration
    changes = {"session.duration": seconds}
    try:
        if tables.reliability.reference == "before":
            compared = reference(file, changes).signals
            return {name: one.as_estimate for name, one in compared.items()}
        if tables.reliability.repeat == "half":
            return {name: one.estimate for name, one in repeat(file, changes).items()}
    except HilrtError as error:
        how = f"unknown: {error}"
        names = {connection.source for connection in tables.connections}
        return {name: make_estimate("", math.nan, math.nan, how) for name in sorted(names)}
    return None


# Rows and events kept in memory, for sessions without a log file.

#: Rows per block.
BLOCK_ROWS = 1024


class MemoryFeed(Feed):
    """Feed that keeps everything in memory.

    Parameters
    ----------
    topics : sequence of Topic
        Contents of a row: the topics' signals in sequence.
    only : collection of str, optional
        Ports whose signals are kept; default: all signals.
    """

    records = True

    def __init__(self, topics: Sequence[Topic], only: Collection[str] | None = None) -> None:
        super().__init__(topics)
        self._kept = self.topics
        self._columns: Any = slice(None)
        if only is not None:

            def counts(signal: Signal) -> bool:
                return signal.name.partition("[")[0] in only

            self._kept = [Topic(t.name, list(filter(counts, t.signals))) for t in self.topics]
            every = [signal for topic in self.topics for signal in topic.signals]
            self._columns = np.flatnonzero([counts(signal) for signal in every])
        self._width = sum(len(topic.signals) for topic in self._kept)
        self._blocks: list[Floats] = []
        self._times: list[NDArray[np.int64]] = []
        self._events: list[LogEvent] = []

    def commit(self, t_ns: int) -> None:
        """Record a row; see `Feed.commit`."""
        n = self.rows % BLOCK_ROWS
        if n == 0:
            self._blocks.append(np.empty((BLOCK_ROWS, self._width)))
            self._times.append(np.empty(BLOCK_ROWS, np.int64))
        self._blocks[-1][n] = self.row[self._columns]
        self._times[-1][n] = t_ns
        self.rows += 1

    def event(
        self,
        t_ns: int,
        level: Level,
        cause: str,
        source: str,
        text: str,
        value: float | None = None,
    ) -> None:
        """Record an event; see `Feed.event`."""
        self.events += 1
        self._events.append(LogEvent(t_ns / 1e9, level, cause, source, text, value=value))

    def log(self, path: Path, metadata: dict[str, str]) -> Log:
        """Log of everything so far, as from `hilrt.load_log`; `path` is the session's origin."""
        left = self.rows - BLOCK_ROWS * (len(self._blocks) - 1)
        blocks = [*self._blocks[:-1], *(block[:left] for block in self._blocks[-1:])]
        times = np.concatenate([np.empty(0, np.int64), *self._times])[: self.rows]
        parts = list(zip(self._kept, signal_slices(self._kept), strict=True))
        return make_log(
            path,
            [LogChannel(topic.name, topic.signals) for topic in self._kept],
            {topic.name: times for topic in self._kept},
            {topic.name: [block[:, part] for block in blocks] for topic, part in parts},
            self._events,
            metadata,
        )
