"""A session from connected subsystems to benches at rest.

This module imports the numerics and with them the compiler, so `hilrt.session.session` imports it
while the processes of the session start.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from time import time_ns as wall_ns

from hilrt.compilation import code_cache
from hilrt.errors import ConfigError
from hilrt.exchange.exchange import load_channels
from hilrt.expect.log_signals import load_margins
from hilrt.monitor.session_state import SessionState
from hilrt.monitor.telemetry import display_order
from hilrt.record.feed import Feed
from hilrt.reliability.estimates import Estimate
from hilrt.session.assembly import (
    Assembled,
    as_fast_as_possible,
    assemble,
    real_time,
    refuse_start,
    say_when_compiling,
)
from hilrt.session.benches import Benches
from hilrt.session.ending import Ending, Prepared, prepare, run
from hilrt.session.initialization import InitializedSession, initialize
from hilrt.session.loop_thread import in_abandonable_thread
from hilrt.session.opened import Opened
from hilrt.session.opening import Connected
from hilrt.session.recording_watch import LogsWatch, RecordingWatch, RowsToCome, compare_room
from hilrt.session.run_summary import RunSummary
from hilrt.session.session_log import SessionLog
from hilrt.session.simulate import errors_found_before
from hilrt.session.summary import remarks
from hilrt.step.load_step import load_step
from hilrt.step.numerics import Numerics
from hilrt.step_log.gather import load_gather
from hilrt.step_log.signals import build_topics
from hilrt.timing.count_times import load_counting
from hilrt.timing.host import freeze_gc
from hilrt.timing.monotonic import monotonic_ns
from hilrt.timing.pace import Pace


def load_numerics(expects: bool = False) -> None:
    """Load the compiled code of a session, or compile it, as a tick has no time for that.

    `expects`: include the code for expectations.
    """
    say_when_compiling()
    load_step()
    load_channels()
    load_gather()
    load_counting()
    if expects:
        load_margins()


async def run_connected(
    opened: Opened, connected: Connected, benches: Benches, summary: RunSummary
) -> None:
    """Initialize the subsystems, bring benches up, tick, and bring benches down."""
    tables, events = opened.tables, opened.events
    opened.result.warnings += code_cache.problems
    opened.publisher.announce(str(events.state), "initializing the subsystems")
    initialized = await initialize(connected)
    events.go(SessionState.INITIALIZED, "all subsystems have initialized")
    in_slack = opened.real_time
    assembled = await assemble(
        initialized,
        shadow=opened.options.shadow,
        renews=not in_slack or tables.reliability.trials == "along",
        in_slack=in_slack,
        note=events.note_column,
    )
    initialized = assembled.initialized or initialized
    numerics, outputs = assembled.numerics, initialized.network.outputs
    of_benches = [connected.links[owner].physical for owner in outputs.owner]
    opened.publisher.order = display_order(outputs.names, of_benches, tables.monitor.values)
    refuse_start(numerics)
    errors = await _repeat(opened, connected)
    log = await _open_log(opened, initialized, numerics)
    timing = opened.timing
    opened.note_host(await timing.take_place())
    typed = not opened.monitoring.view_has_keys and events.on_change is None
    await benches.bring_up(initialized, assembled, typed)
    timing.give_idle_priority(opened.processes.with_idle_priority())
    opened.note_host(timing.enter_real_time())
    await _tick(opened, connected, assembled, benches, summary, log, errors)


async def _repeat(opened: Opened, connected: Connected) -> dict[str, Estimate] | None:
    """Repeat a session of models at shorter steps, if its file requests that."""
    reliability = connected.file.tables.reliability
    if reliability.repeat == reliability.reference == "off":
        return None
    if opened.options.shadow:
        raise ConfigError(
            '--shadow: cannot be repeated; set [reliability] repeat and reference to "off"'
        )
    opened.publisher.announce(
        str(opened.events.state), "runs at shorter steps first, for the verdict"
    )
    file, duration = connected.file, connected.duration
    found: list[dict[str, Estimate] | None] = []
    await in_abandonable_thread(lambda: found.append(errors_found_before(file, duration)))
    return found[0]


async def _open_log(
    opened: Opened, initialized: InitializedSession, numerics: Numerics
) -> SessionLog | None:
    """Open the log once the recorder is ready; None if nothing is recorded."""
    if opened.recording is None:
        return None
    log = opened.recording.open_log(opened.folder, numerics, initialized, opened.real_time)
    _check_disk_space(opened, initialized.connected.duration, len(log.feed.row))
    opened.publisher.announce(str(opened.events.state), "waiting for the recorder")
    await log.wait_for_recorder(opened.processes.children)
    return log


def _check_disk_space(opened: Opened, duration: float, signals: int) -> None:
    """Refuse a disk without space for the first minute; warn if the whole session will not fit."""
    if opened.tables.record.trigger:
        return  # the amount of data is not known in advance
    master = opened.tables.master
    control = master.step_control
    step = master.step if control.method == "fixed" else control.maximum
    warning = compare_room(opened.folder, RowsToCome(signals, step, duration))
    if warning:
        opened.events.warn_of_recorder(warning, "disk_full")


async def _tick(
    opened: Opened,
    connected: Connected,
    assembled: Assembled,
    benches: Benches,
    summary: RunSummary,
    log: SessionLog | None,
    errors: dict[str, Estimate] | None,
) -> None:
    """Run all ticks, then bring benches to rest."""
    events, operator, hub = opened.events, opened.operator, opened.hub
    numerics = assembled.numerics
    feed = Feed(build_topics(numerics)) if log is None else log.feed
    pace = _choose_pace(opened, connected, assembled, log)
    ahead_ns = 2 * pace.step_ns if opened.timing.clock is not None else 0
    with freeze_gc() as collect:
        prepared = prepare(connected, assembled, pace, feed, events, collect, errors)
        operator.master = master = prepared.master
        if opened.must_record:
            feed.max_gap_ns, feed.on_gap = 1e9 * opened.tables.record.max_gap, master.request_end
        if operator.interrupted:
            master.request_stop(operator.interrupted)
        hub.epoch_ns = epoch_ns = monotonic_ns() + ahead_ns
        if log is not None:
            log.begin(
                wall_ns() + ahead_ns,
                epoch_ns,
                duration=connected.duration,
                pace=str(opened.pace),
                shadow=opened.options.shadow,
            )

        def now_ns() -> int:
            """Session time, ns, on the shifted grid; 0 before the first tick."""
            return max(0, monotonic_ns() - hub.epoch_ns) if opened.real_time else prepared.now_ns()

        steps = summary.begin(prepared, benches)
        with _watched(opened, log, prepared, now_ns):
            ended = await run(prepared, epoch_ns, now_ns)
    steps.loop_ended()
    ending = Ending(
        benches,
        operator,
        events,
        opened.processes,
        opened.result,
        lambda: operator.interrupted,
    )
    await ending.bring_down(assembled, master, ended)
    benches.brought_down = True
    opened.result.warnings += remarks(numerics, master.progress)


@contextlib.contextmanager
def _watched(
    opened: Opened, log: SessionLog | None, prepared: Prepared, now_ns: Callable[[], int]
) -> Iterator[None]:
    """Watch the recording and the processes' output while the loop runs."""
    logs = LogsWatch(opened.processes.children.log_dir, opened.events)
    if log is None:
        task = asyncio.ensure_future(logs.run())
    else:
        end = prepared.master.request_end if opened.must_record else lambda reason: None
        duration = prepared.connected.duration
        watch = RecordingWatch(log.progress, log.feed, opened.events, logs, duration, end)
        task = asyncio.ensure_future(watch.run(now_ns))
    try:
        yield
    finally:
        task.cancel()


def _choose_pace(
    opened: Opened, connected: Connected, assembled: Assembled, log: SessionLog | None
) -> Pace:
    """Create the session's pace."""
    clock, tables = opened.timing.clock, opened.tables
    if clock is None:
        waits = [] if log is None else [log.wait_for_room]
        return as_fast_as_possible(assembled, tables, connected.links, waits)
    factor = opened.pace if isinstance(opened.pace, (int, float)) else 1.0

    def shift(shift_ns: int) -> None:
        opened.hub.epoch_ns += shift_ns
        if log is not None:
            log.feed.stretched(monotonic_ns(), shift_ns)

    return real_time(assembled, tables, clock, factor, shift)
