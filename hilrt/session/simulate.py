"""A session in this process: no files, no other processes, the log in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hilrt.config.session_file import SessionFile
from hilrt.errors import ConfigError, HilrtError
from hilrt.expect.outcome import exit_status
from hilrt.monitor.session_state import SessionState
from hilrt.monitor.status import StatusPublisher
from hilrt.record.feed import Feed
from hilrt.record.memory_feed import MemoryFeed
from hilrt.session.assembly import (
    Assembled,
    as_fast_as_possible,
    assemble,
    initialize,
    refuse_start,
)
from hilrt.session.ending import own_ends, run_loop
from hilrt.session.event_log import EventLog
from hilrt.session.loop_thread import run_in_loop
from hilrt.session.observers import make_judge, make_master, results_of
from hilrt.session.opening import Connected, connect, describe, elsewhere, read
from hilrt.session.result import Result
from hilrt.session.summary import RunFacts, build_summary, remarks
from hilrt.step_log.signals import build_topics
from hilrt.timing.monotonic import monotonic_ns


def simulate(
    session: str | Path | SessionFile,
    overrides: Mapping[str, object] | None = None,
    *,
    record: bool = True,
) -> Result:
    """Run a session in this process, as fast as possible, and return its signals.

    The steps and their results are those of `run_session`, bit for bit. There is no bench, no other
    process and no file, so that thousands of sessions can be run in a row. It works where an event
    loop runs, as in a notebook, too.

    Parameters
    ----------
    session : str, Path or SessionFile
        The session file, or one from `load_session`.
    overrides : mapping, optional
        ``"table.key"`` to a value instead of the file's, such as ``{"connections.0.order": 1}``.
    record : bool
        Without it the result has a summary and no log.

    Returns
    -------
    Result
        ``result.log["subsystem.port"]`` are a signal's values, ``result.verdict`` says how far they
        can be trusted. A fault of a subsystem ends in ``result.fault``.

    Raises
    ------
    ConfigError
        For a session with errors, and for one with subsystems in other processes.
    """
    file = read(session, overrides, pace="asap")
    if problems := elsewhere(file):
        raise ConfigError(problems)
    return run_in_loop(lambda: _simulate(file, record))


async def _simulate(file: SessionFile, record: bool) -> Result:
    tables, result = file.tables, Result()
    events = EventLog(StatusPublisher(None, tables.session.name, tables.session.duration))
    described, reason = describe(file, called=True), "session could not start"
    try:
        events.go(SessionState.CONNECTING, "starting subsystems")
        connected = await connect(described, limited=False)
        initialized = await initialize(connected)
        events.go(SessionState.INITIALIZED, "all subsystems have initialized")
        assembled = await assemble(initialized, note=events.note_column)
        refuse_start(assembled.numerics)
        events.go(SessionState.ARMED, "nothing to arm")
        reason = await _run(connected, assembled, events, result, record)
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


async def _run(
    connected: Connected,
    assembled: Assembled,
    events: EventLog,
    result: Result,
    record: bool,
) -> str:
    """Tick to the end, and note in the result what is left; why the subsystems are to end."""
    (file, links, duration), (numerics, exchange) = connected, assembled
    topics, tables = build_topics(numerics), file.tables
    memory = MemoryFeed(topics)
    feed: Feed = memory if record else Feed(topics)
    pace = as_fast_as_possible(assembled, tables, links)
    judge = make_judge(tables, links, feed, events)
    master = make_master(
        assembled, pace, feed, events.publisher, judge, on_degraded=events.degraded
    )
    events.open(feed, lambda: master.progress.t_ns)
    events.go(SessionState.RUNNING, "first tick")
    began_ns = monotonic_ns()
    fault = (await run_loop(master, exchange, events, duration, began_ns)).fault
    wall_s = (monotonic_ns() - began_ns) * 1e-9
    if fault is None:
        events.go(SessionState.STOPPED, "; ".join([*own_ends(exchange), "finished"]))
    else:
        result.fail(fault)
        events.go(SessionState.FAULT, fault, level="error")
    results = results_of(judge)
    result.end_with(exit_status(one["result"] for one in results))
    facts = RunFacts(
        tables.session.name,
        str(events.state),
        wall_s,
        False,
        fault,
        results=results,
        columns=events.columns,
    )
    result.warnings += remarks(numerics, master.progress)
    result.summary = build_summary(numerics, exchange, master.progress, facts)
    if record:
        result.log = memory.log(file.path, {"session": tables.session.name})
    return fault or "session finished"
