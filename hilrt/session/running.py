"""A session from connected subsystems to benches at rest.

This imports the numerics, and with them the compiler: `hilrt.session.session` does it while the
processes of the session start.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

from hilrt.compilation import code_cache
from hilrt.exchange.exchange import load_channels
from hilrt.expect.log_signals import load_margins
from hilrt.master import Master
from hilrt.monitor.display_order import display_order
from hilrt.monitor.session_state import SessionState
from hilrt.record.feed import Feed
from hilrt.session.assembly import (
    Assembled,
    InitializedSession,
    as_fast_as_possible,
    assemble,
    initialize,
    real_time,
    refuse_start,
)
from hilrt.session.ending import Ending, run_loop
from hilrt.session.observers import make_judge, make_master
from hilrt.session.opening import Connected
from hilrt.session.parts import SessionParts
from hilrt.session.recording_room import RowsToCome, compare_room
from hilrt.session.recording_watch import RecordingWatch
from hilrt.session.run_summary import RunSummary
from hilrt.session.session_log import SessionLog
from hilrt.session.summary import without_derivatives
from hilrt.step.numerics import Numerics, load_step
from hilrt.step_log.gather import load_gather
from hilrt.step_log.signals import build_topics
from hilrt.timing.count_times import load_counting
from hilrt.timing.host import freeze_gc
from hilrt.timing.monotonic import monotonic_ns
from hilrt.timing.pace import Pace


def load_numerics(expects: bool = False) -> None:
    """Load the compiled code of a session, or compile it: a tick has no time for that.

    `expects`: also that of expectations.
    """
    load_step()
    load_channels()
    load_gather()
    load_counting()
    if expects:
        load_margins()


async def run_connected(parts: SessionParts, connected: Connected) -> None:
    """Initialize the subsystems, bring benches up, tick, and bring benches down."""
    tables, links = parts.tables, connected.links
    parts.result.warnings += code_cache.problems
    parts.publisher.announce(str(parts.events.state), "initializing the subsystems")
    initialized = await initialize(connected)
    parts.events.go(SessionState.INITIALIZED, "all subsystems have initialized")
    shadow = parts.options.shadow
    assembled = await assemble(initialized, shadow=shadow, note=parts.events.note_column)
    numerics = assembled.numerics
    outputs = numerics.network.outputs
    of_benches = [links[owner].physical for owner in outputs.owner]
    parts.publisher.order = display_order(outputs.names, of_benches, tables.monitor.values)
    refuse_start(numerics)
    feed = await _open_log(parts, numerics, initialized)
    timing = parts.timing
    parts.note_host(await timing.take_place())
    typed = not parts.monitoring.view_has_keys and not parts.by_program
    await parts.benches.bring_up(initialized, assembled, typed)
    timing.give_idle_priority(parts.processes.with_idle_priority())
    parts.note_host(timing.enter_real_time())
    await _tick(parts, assembled, feed)


async def _open_log(
    parts: SessionParts, numerics: Numerics, initialized: InitializedSession
) -> Feed:
    """Where rows and events go: to the recorder, once it takes them, or nowhere."""
    if parts.recorder is None:
        return Feed(build_topics(numerics))
    parts.log = log = SessionLog(
        parts.file,
        parts.folder,
        parts.links,
        numerics,
        initialized,
        parts.recorder,
        parts.progress_address,
        real_time=parts.real_time,
    )
    _look_at_room(parts, len(log.feed.row))
    parts.publisher.announce(str(parts.events.state), "waiting for the recorder")
    await log.wait_for_recorder(parts.processes.children)
    return log.feed


def _look_at_room(parts: SessionParts, signals: int) -> None:
    """Refuse a disk without room for the first minute, and tell of one that will be too small."""
    if parts.tables.record.trigger:
        return  # how much will be recorded is not known before
    master = parts.tables.master
    control = master.step_control
    step = master.step if control.method == "fixed" else control.maximum
    told = compare_room(parts.folder, RowsToCome(signals, step, parts.duration))
    if told:
        parts.events.warn_of_recorder(told, "disk_full")


async def _tick(parts: SessionParts, assembled: Assembled, feed: Feed) -> None:
    """Ticks from the first to the last, and benches to rest."""
    numerics, exchange = assembled
    pace = _choose_pace(parts, assembled)
    judge = make_judge(parts.tables, parts.links, feed, parts.events)
    ahead_ns = 2 * pace.step_ns if parts.timing.clock is not None else 0
    with freeze_gc() as collect:
        parts.master = parts.operator.master = master = make_master(
            assembled,
            pace,
            feed,
            parts.publisher,
            judge,
            on_degraded=parts.events.degraded,
            collect=collect,
        )
        if parts.must_record:
            feed.max_gap_ns, feed.on_gap = 1e9 * parts.tables.record.max_gap, master.request_end
        if parts.interrupted:
            master.request_stop(parts.interrupted)
        parts.epoch_ns = parts.hub.epoch_ns = monotonic_ns() + ahead_ns
        if parts.log is not None:
            parts.log.begin(
                time.time_ns() + ahead_ns,
                parts.epoch_ns,
                duration=parts.duration,
                pace=str(parts.pace),
                shadow=parts.options.shadow,
            )
        parts.events.open(feed, parts.now_ns)
        parts.events.go(SessionState.RUNNING, "first tick")
        summary = RunSummary(parts, master, feed, judge)
        parts.summarize = summary.make
        with _watched(parts, master):
            ended = await run_loop(master, exchange, parts.events, parts.duration, parts.epoch_ns)
    feed.flush()  # what is lost of it counts, too
    summary.loop_ended()
    ending = Ending(
        parts.benches,
        parts.operator,
        parts.events,
        parts.processes,
        parts.result,
        lambda: parts.interrupted,
    )
    await ending.bring_down(assembled, master, ended)
    parts.brought_down, parts.secured = True, ending.secured
    parts.result.warnings += without_derivatives(numerics)


@contextlib.contextmanager
def _watched(parts: SessionParts, master: Master) -> Iterator[None]:
    """The recording is watched while the loop runs."""
    if parts.log is None:
        yield
        return
    end = master.request_end if parts.must_record else lambda reason: None
    watch = RecordingWatch(parts.log.progress, parts.log.feed, parts.events, parts.duration, end)
    task = asyncio.ensure_future(watch.run(parts.now_ns))
    try:
        yield
    finally:
        task.cancel()


def _choose_pace(parts: SessionParts, assembled: Assembled) -> Pace:
    """How session time passes."""
    clock, tables = parts.timing.clock, parts.tables
    if clock is None:
        waits = [] if parts.log is None else [parts.log.wait_for_room]
        return as_fast_as_possible(assembled, tables, parts.links, waits)
    factor = parts.pace if isinstance(parts.pace, (int, float)) else 1.0
    return real_time(assembled, tables, clock, factor, parts.stretched)
