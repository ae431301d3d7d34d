"""A session's life: from the session file to a closed log, whatever happens on the way.

The states and their transitions are drawn in docs/session_life.md. Every exit path (end, Ctrl-C,
SIGTERM, exception, dead peer) goes through the stack of `hilrt.session.session`: benches run their
safe profile, every process that was started ends, every file is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from hilrt.check.check_host import is_guarded, unguarded
from hilrt.config.session_file import SessionFile, open_session
from hilrt.config.structs import Session
from hilrt.errors import ConfigError, ExitStatus, HilrtError, PeerLost
from hilrt.isolation.temporary_folder import remove_abandoned_folders
from hilrt.monitor.session_state import SessionState
from hilrt.session.benches import Benches
from hilrt.session.loop_thread import LoopThread, in_left_thread, loop_runs
from hilrt.session.opened import Opened, open_parts
from hilrt.session.opening import Connected, Described, connect, describe, read
from hilrt.session.result import RunResult
from hilrt.session.run import RunOptions, route_signals, take_signals
from hilrt.session.run_summary import RunSummary
from hilrt.timing.host import load_without_gc
from hilrt.timing.realtime import cpu_latency_limit

NUMERICS = "the numerics (a first start compiles them)"
#: What a session waits for is named, up to so many; the others are counted.
MAX_NAMED = 6


class SessionRun:
    """One run of a session file. `run` may be called once.

    Parameters
    ----------
    file : SessionFile
    options : RunOptions
    on_change : callable, optional
        Called when the state has changed, or the benches wait to be armed. With it a program
        operates the session, and nothing that is typed arms it.

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
        #: Reason for waiting before its first tick.
        self.awaited: list[str] = []
        #: Once it runs.
        self.opened: Opened | None = None

    def interrupt(self, reason: str) -> None:
        """End it as a signal does; for the thread that it runs in."""
        if self.opened is not None:
            self.opened.operator.interrupt(reason)

    async def run(self) -> RunResult:
        """Run the session to its end and return its result.

        Faults end in the result (exit status 3), an interruption (130) and what is missing (5) too;
        `ConfigError` and programming errors are raised, after everything was closed.
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
        """All stages; each pushes its clean-up on the stack."""
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
                await _start_processes(opened, described)
                connected = await self._connect(opened, described)
                from hilrt.session.running import run_connected  # loaded by now, see `_connect`

                await run_connected(opened, connected, benches, summary)
            except (HilrtError, OSError) as error:
                if isinstance(error, ConfigError):
                    opened.result.fault = str(error)
                    raise
                await _fail(opened, benches, error)
            except Exception as error:  # a defect: the summary says so, too
                opened.result.fault = f"{type(error).__name__}: {error}"
                raise
            finally:
                opened.processes.ending = True

    async def _connect(self, opened: Opened, described: Described) -> Connected:
        """Load the numerics, while the processes start, and wait for the subsystems.

        Peers are answered meanwhile: compiling for the first time takes longer than they wait. But
        their clocks are compared again afterwards, by a master that answers at once.
        """

        def tell(left: Sequence[str]) -> None:
            self.awaited = list(left)
            more = f" and {len(left) - MAX_NAMED} more" if len(left) > MAX_NAMED else ""
            said = f"waiting for {', '.join(left[-MAX_NAMED:])}{more}"
            opened.publisher.announce(str(opened.events.state), said, still=True)

        expects = may_expect(opened.tables)
        connected = await connect(
            described,
            limited=True,
            duration=opened.options.duration,
            beside={NUMERICS: in_left_thread(lambda: _load_numerics(expects))},
            on_wait=tell,
        )
        self.awaited = []
        opened.hub.protocol.compare_clocks_again()
        return connected


def _start_views(opened: Opened) -> None:
    """First an output that shows progress."""
    opened.timing.shorten_slices()
    opened.monitoring.start(opened.processes.children, opened.operator)
    opened.events.go(SessionState.CONNECTING, "starting subsystems")
    listen = opened.tables.master.listen
    if not is_guarded(opened.tables.master):
        sys.stderr.write(f"warning: {unguarded(listen)}\n")
        opened.events.note("warning", "session", unguarded(listen), "insecure")


async def _start_processes(opened: Opened, described: Described) -> None:
    """Then the processes that start slowly."""
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
            await benches.secure(fault)  # first: how a process ended can wait
        fault = await opened.processes.with_end_of(error.name, fault)
    opened.result.fail(fault)
    opened.events.go(SessionState.FAULT, fault, level="error")


def may_expect(tables: Session) -> bool:
    """Whether anything is to be expected: by the file, or by a sequence while it runs."""
    adapters = {options.adapter for options in tables.subsystems.values()}
    return bool(tables.expect) or "sequence" in adapters


def _load_numerics(expects: bool) -> None:
    """Import modules that need the compiler, and prepare compiled code; this is most of the start's
    time.

    Where nothing is cached yet, this compiles.
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
    """Run a session to its end, as ``hilrt run`` does, and wait for that.

    Where an event loop runs, as in a notebook, the session has a thread of its own. Ctrl-C and
    SIGTERM end the session in order; the result then has the exit status 130.

    Parameters
    ----------
    session : str, Path or SessionFile
        The session file, or one from `load_session`.
    overrides : mapping, optional
        ``"table.key"`` to a value instead of the file's, such as ``{"session.duration": 10.0}``.
    options : RunOptions, optional

    Returns
    -------
    RunResult
        With the run's folder, summary and log. A fault ends in ``result.fault``.

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


# The end of a session, whatever led to it: benches at rest, whole files, no process left.
#
# Clean-up is on one stack, on which each stage pushes its own: the last one runs first. Each is
# done, whatever the outcome of those before it; an error is raised after the last.


def close_opened(
    undo: AsyncExitStack, opened: Opened, summary: RunSummary, alive: asyncio.Future[None]
) -> None:
    """Put the end of the log, of the processes and of all parts on the stack.

    `alive` repeats announcements until it is cancelled.
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
    """Put the end of the subsystems on the stack: first benches to their safe profile."""
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
    """Hand over the end of the log, or keep it if there is no log."""
    result = opened.result
    await opened.processes.report_ends()
    summary.make()
    if opened.recording is not None:
        await opened.recording.end(opened.processes, result.summary)
    known = result.warnings
    known += [text for text in opened.events.untold() if text not in known]
    known += opened.events.keep(opened.folder / "events.txt")
    opened.publisher.repeat()  # the last state with its cause: it stays in view


async def _end_processes(opened: Opened, summary: RunSummary) -> None:
    result, recording = opened.result, opened.recording
    has_log = recording is not None and recording.log is not None
    # A view ends by itself at one of these states; before them it would be waited for in vain.
    final = opened.events.state in (SessionState.STOPPED, SessionState.FAULT)
    result.warnings += await opened.processes.end(["view"] * final + ["recorder"] * has_log)
    if recording is not None and has_log:
        failure = opened.processes.recorder_failure()
        lost = await recording.close(failed=bool(failure))
        result.lack([*lost, *failure])
        summary.make(failure)  # with the rows that are lost
    result.judge(opened.options.fail_on)
    remove_abandoned_folders()  # of processes that crashed or were killed
