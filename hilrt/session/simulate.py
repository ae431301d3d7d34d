"""A session in this process: no files, no other processes, the log in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hilrt.config.session_file import SessionFile
from hilrt.errors import ConfigError, HilrtError
from hilrt.monitor.session_state import SessionState
from hilrt.monitor.status import StatusPublisher
from hilrt.record.feed import Feed
from hilrt.record.memory_feed import MemoryFeed
from hilrt.session.assembly import as_fast_as_possible, assemble, initialize, refuse_start
from hilrt.session.ending import finish, prepare, run, summarise
from hilrt.session.event_log import EventLog
from hilrt.session.loop_thread import run_in_loop
from hilrt.session.opening import connect, describe, elsewhere, read
from hilrt.session.result import Result
from hilrt.session.summary import remarks
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
        topics, links = build_topics(assembled.numerics), connected.links
        feed = MemoryFeed(topics) if record else Feed(topics)
        pace = as_fast_as_possible(assembled, tables, links)
        prepared = prepare(connected, assembled, pace, feed, events)
        began_ns = monotonic_ns()
        fault = (await run(prepared, began_ns)).fault
        wall_s = (monotonic_ns() - began_ns) * 1e-9
        finish(events, assembled.exchange, result, fault)
        result.warnings += remarks(assembled.numerics, pace.progress)
        summarise(prepared, result, wall_s)
        if isinstance(feed, MemoryFeed):
            result.log = feed.log(file.path, {"session": tables.session.name})
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
