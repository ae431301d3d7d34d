"""Run a session, from the session file to a closed log, with all failures.

docs/session_life.md draws the states and their transitions. Every exit path (end, Ctrl-C, SIGTERM,
exception, dead peer) unwinds this module's exit stack: benches run their safe profile, every
started process ends, every file is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from hilrt.check.check_host import is_guarded, unguarded
from hilrt.config.session_file import SessionFile, open_session
from hilrt.config.structs import Session
from hilrt.errors import ConfigError, ExitStatus, HilrtError, PeerLost
from hilrt.isolation.temporary_folder import remove_abandoned_folders
from hilrt.monitor.session_state import SessionState
from hilrt.peers.hub import Hub
from hilrt.session.benches import Benches
from hilrt.session.loop_thread import LoopThread, in_abandonable_thread, loop_runs
from hilrt.session.opened import Opened, open_parts
from hilrt.session.opening import Connected, Described, connect, describe, read
from hilrt.session.result import RunResult
from hilrt.session.run import RunOptions, route_signals, take_signals
from hilrt.session.run_summary import RunSummary
from hilrt.timing.host import load_without_gc
from hilrt.timing.realtime import cpu_latency_limit

NUMERICS = "the numerics (a first start compiles them)"
#: Number of awaited items listed by name; further ones are only counted.
MAX_NAMED = 6


class SessionRun:
    """One run of a session file. `run` may be called once.

    Parameters
    ----------
    file : SessionFile
    options : RunOptions
    on_change : callable, optional
        Called when the state has changed, or the benches can be armed. If given, a program
        operates the session, and the keyboard cannot arm it.

    Raises
    ------
    ConfigError
        For a session with errors, and for an address or a folder that cannot be used.
    """

    def __init__(
        self,
        file: SessionFile,
        options: RunOptions,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        self._file = read(file, pace=options.pace)
        self._options, self._on_change = options, on_change
        #: None before `run`.
        self.opened: Opened | None = None

    def interrupt(self, reason: str) -> None:
        """End the session as a signal does; call this in the session's thread."""
        if self.opened is not None:
            self.opened.operator.interrupt(reason)

    async def run(self) -> RunResult:
        """Run the session to its end and return its result.

        The result reports faults (exit status 3), interruptions (130) and incomplete runs (5);
        `ConfigError` and programming errors are raised after everything has been closed.
        """
        self.opened = opened = open_parts(self._file, self._options, self._on_change)
        operator, result = opened.operator, opened.result
        task = asyncio.ensure_future(self._run(opened))

        def interrupt(reason: str) -> None:
            if operator.interrupted or opened.processes.ending:
                return
            operator.interrupted = reason
            if operator.master is not None:
                operator.master.request_stop(reason)
            else:
                task.cancel()

        operator.interrupt = interrupt
        with (
            route_signals(interrupt),
            opened.events.take_log_records(),
            cpu_latency_limit(opened.real_time and opened.tables.master.pacing.awake) as problem,
        ):
            opened.note_host([problem] if problem else [])
            try:
                await task
            except asyncio.CancelledError:
                if not operator.interrupted:
                    raise
            if operator.interrupted:
                result.end_with(ExitStatus.INTERRUPTED)
                result.stopped = operator.interrupted
        return result

    async def _run(self, opened: Opened) -> None:
        """Run all stages; each pushes its clean-up on the exit stack."""
        summary, benches = RunSummary(opened), None
        async with contextlib.AsyncExitStack() as undo:
            alive = asyncio.ensure_future(opened.publisher.keep_alive())
            close_opened(undo, opened, summary, alive)
            try:
                _start_views(opened)
                operated = opened.monitoring.answers_prompts
                described = describe(opened.file, carrier=opened.hub, operated=operated)
                benches = Benches(
                    described.links,
                    opened.tables,
                    opened.events,
                    opened.publisher,
                    opened.operator,
                )
                close_described(undo, opened, described, benches)
                with _ended_by_loss(opened.hub):
                    await _start_processes(opened, described)
                    connected = await self._connect(opened, described)
                    from hilrt.session.running import run_connected  # loaded by `_connect`

                    await run_connected(opened, connected, benches, summary)
            except (HilrtError, OSError) as error:
                if isinstance(error, ConfigError):
                    opened.result.fault = str(error)
                    raise
                await _fail(opened, benches, error)
            except Exception as error:  # a defect, which the summary also reports
                opened.result.fault = f"{type(error).__name__}: {error}"
                raise
            finally:
                opened.processes.ending = True

    async def _connect(self, opened: Opened, described: Described) -> Connected:
        """Load the numerics while the processes start, and wait for the subsystems.

        Peers get replies meanwhile, as a first compilation takes longer than their timeout. Their
        clocks are measured again afterwards, when the master replies promptly.
        """

        def report(left: Sequence[str]) -> None:
            more = f" and {len(left) - MAX_NAMED} more" if len(left) > MAX_NAMED else ""
            message = f"waiting for {', '.join(left[-MAX_NAMED:])}{more}"
            opened.publisher.announce(str(opened.events.state), message, still=True)

        expects = may_expect(opened.tables)
        connected = await connect(
            described,
            limited=True,
            duration=opened.options.duration,
            beside={NUMERICS: in_abandonable_thread(lambda: _load_numerics(expects))},
            on_wait=report,
        )
        opened.hub.protocol.compare_clocks_again()
        return connected


@contextlib.contextmanager
def _ended_by_loss(hub: Hub) -> Iterator[None]:
    """Until the session starts, raise `PeerLost` in the body as soon as a peer is lost.

    Otherwise only a wait for that peer would report its loss, and a wait for another one, or for
    the operator, would go on.
    """
    task, lost = asyncio.current_task(), list[PeerLost]()
    assert task is not None
    loop = asyncio.get_running_loop()

    def end(error: PeerLost) -> None:
        if hub.on_loss is report and not hub.epoch_ns and not lost:
            lost.append(error)
            task.cancel()

    def report(error: PeerLost) -> None:
        # A cancellation from inside of the task would take effect after the body.
        loop.call_soon(end, error)

    hub.on_loss = report
    try:
        yield
    except asyncio.CancelledError:
        if not lost:
            raise
        raise lost[0] from None
    finally:
        hub.on_loss = lambda error: None
        if lost:
            task.uncancel()


def _start_views(opened: Opened) -> None:
    """Start the views first, to show progress; warn of an address without authentication."""
    opened.timing.shorten_slices()
    opened.monitoring.start(opened.processes.children, opened.operator)
    opened.events.go(SessionState.CONNECTING, "starting subsystems")
    listen = opened.tables.master.listen
    if not is_guarded(opened.tables.master):
        sys.stderr.write(f"warning: {unguarded(listen)}\n")
        opened.events.note("warning", "session", unguarded(listen), "insecure")


async def _start_processes(opened: Opened, described: Described) -> None:
    """Start the processes of the subsystems and the recorder, which take long to start."""
    cpus, recording = opened.timing.cpus_for_children, opened.recording
    frames = {} if recording is None else recording.frames
    await opened.processes.start_subsystems(
        described, cpus, opened.environment, frames, opened.options.cluster
    )
    if recording is not None:
        recording.start(opened.processes, cpus, opened.monitoring.rows)


async def _fail(opened: Opened, benches: Benches | None, error: Exception) -> None:
    fault = str(error)
    if isinstance(error, PeerLost):
        if benches is not None:
            await benches.secure(fault)  # before the report on how a process ended
        fault = await opened.processes.with_end_of(error.name, fault)
    opened.result.fail(fault)
    opened.events.go(SessionState.FAULT, fault, level="error")


def may_expect(tables: Session) -> bool:
    """Whether the file has expectations, or a sequence may add some during the session."""
    adapters = {options.adapter for options in tables.subsystems.values()}
    return bool(tables.expect) or "sequence" in adapters


def _load_numerics(expects: bool) -> None:
    """Import modules that need the compiler, and load the compiled code.

    This takes most of the time of a start; without a cache it also compiles the code.
    """
    with load_without_gc():
        from hilrt.session.running import load_numerics

        load_numerics(expects)


def run_session(
    session: str | Path | SessionFile,
    overrides: Mapping[str, object] | None = None,
    *,
    options: RunOptions | None = None,
) -> RunResult:
    """Run a session to its end, as ``hilrt run`` does, and return its result.

    If an event loop runs, as in a notebook, the session gets its own thread. Ctrl-C and SIGTERM
    bring benches to rest and end the session; the result then has the exit status 130.

    Parameters
    ----------
    session : str, Path or SessionFile
        The session file, or one from `load_session`.
    overrides : mapping, optional
        Values that replace the file's, by ``"table.key"``, such as ``{"session.duration": 10.0}``.
    options : RunOptions, optional

    Returns
    -------
    RunResult
        Result with the run's folder, summary and log; a fault is in ``result.fault``.

    Raises
    ------
    ConfigError
        For a session with errors, and for an address or a folder that cannot be used.
    """
    run = SessionRun(open_session(session, overrides), options or RunOptions())
    if not loop_runs():
        return asyncio.run(run.run())
    thread = LoopThread(run.run)

    def interrupt(reason: str) -> None:
        thread.call(lambda: run.interrupt(reason), None)

    with take_signals(interrupt):
        thread.start()
        return thread.ended.result()


# The end of a session after every outcome: benches at rest, complete files, no process left.
#
# Each stage pushes its clean-up on one exit stack, which runs them in reverse order. All run even
# if an earlier one fails; an error is raised after the last.


def close_opened(
    undo: AsyncExitStack, opened: Opened, summary: RunSummary, alive: asyncio.Future[None]
) -> None:
    """Push the clean-up of the log, the processes and all parts on the exit stack.

    The task `alive` repeats announcements until it is cancelled.
    """
    undo.callback(opened.timing.release)
    undo.callback(opened.monitoring.close)
    undo.callback(alive.cancel)
    undo.callback(summary.write)
    undo.push_async_callback(_end_processes, opened, summary)
    undo.callback(summary.write)
    undo.push_async_callback(_end_log, opened, summary)
    undo.callback(opened.hub.close)


def close_described(
    undo: AsyncExitStack, opened: Opened, described: Described, benches: Benches
) -> None:
    """Push the clean-up of the links on the exit stack; benches run their safe profile first."""
    for link in described.links:
        undo.push_async_callback(link.close)
    undo.push_async_callback(_secure, opened, benches)


async def _secure(opened: Opened, benches: Benches) -> None:
    result = opened.result
    if not benches.brought_down:
        reason = result.fault or opened.operator.interrupted or "session could not start"
        await benches.secure(reason)
        result.warnings += benches.not_at_rest()


async def _end_log(opened: Opened, summary: RunSummary) -> None:
    """Send the end of the log to the recorder, or write the events to a file if there is no log."""
    result = opened.result
    await opened.processes.report_ends()
    summary.make()
    if opened.recording is not None:
        await opened.recording.end(opened.processes, result.summary)
    known = result.warnings
    known += [text for text in opened.events.unlogged() if text not in known]
    known += opened.events.keep(opened.folder / "events.txt")
    opened.publisher.repeat()  # keeps the last state and its cause in view


async def _end_processes(opened: Opened, summary: RunSummary) -> None:
    result, recording = opened.result, opened.recording
    has_log = recording is not None and recording.log is not None
    # A view ends by itself only in one of these states.
    final = opened.events.state in (SessionState.STOPPED, SessionState.FAULT)
    result.warnings += await opened.processes.end(["view"] * final + ["recorder"] * has_log)
    if recording is not None and has_log:
        failure = opened.processes.recorder_failure()
        lost = await recording.close(failed=bool(failure))
        result.lack([*lost, *failure])
        summary.make(failure)  # includes the lost rows
    result.judge(opened.options.fail_on)
    remove_abandoned_folders()  # left by processes that crashed or were killed
