"""A session's life: from the session file to a closed log, whatever happens on the way.

The states, and what leads from one to the next, are drawn in docs/session.md. Every exit path (end,
Ctrl-C, SIGTERM, exception, dead peer) goes through `close_session`: benches run their safe profile,
every process that was started ends, every file is closed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hilrt.check.check_listen import is_guarded, unguarded
from hilrt.config.session_file import SessionFile, open_session
from hilrt.config.structs import Session
from hilrt.errors import ConfigError, HilrtError, PeerLost
from hilrt.exit_status import ExitStatus
from hilrt.monitor.session_state import SessionState
from hilrt.peers.remote_link import RemoteLink
from hilrt.record import frame_feed
from hilrt.session.closing import close_session
from hilrt.session.left_thread import in_left_thread
from hilrt.session.loop_thread import LoopThread, loop_runs
from hilrt.session.opening import Connected, Described, connect, describe, read
from hilrt.session.parts import SessionParts
from hilrt.session.processes import RecorderSockets
from hilrt.session.result import RunResult
from hilrt.session.run import RunOptions, route_signals, take_signals
from hilrt.timing.cpu_latency import cpu_latency_limit
from hilrt.timing.host import load_without_gc

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
        Told when the state has changed, or the benches wait to be armed. With it a program operates
        the session, and nothing that is typed arms it.

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
        self._file, self._options, self._on_change = (
            read(file, pace=options.pace),
            options,
            on_change,
        )
        #: What it waits for before its first tick.
        self.awaited: list[str] = []
        #: Once it runs.
        self.parts: SessionParts | None = None

    def interrupt(self, reason: str) -> None:
        """End it as a signal does; for the thread that it runs in."""
        if self.parts is not None:
            self.parts.operator.interrupt(reason)

    async def run(self) -> RunResult:
        """Run the session to its end and return what is left of it.

        Faults end in the result (exit status 3), an interruption (130) and what is missing (5) too;
        `ConfigError` and programming errors are raised, after everything was closed.
        """
        self._parts = self.parts = parts = SessionParts(self._file, self._options)
        parts.by_program = self._on_change is not None
        parts.events.on_change = self._on_change
        task = asyncio.ensure_future(self._run())
        parts.operator.interrupt = lambda reason: self._interrupt(reason, task)
        with (
            route_signals(lambda reason: self._interrupt(reason, task)),
            parts.events.take_log_records(),
            cpu_latency_limit(parts.real_time and parts.tables.master.pacing.awake) as problem,
        ):
            parts.note_host([problem] if problem else [])
            try:
                await task
            except asyncio.CancelledError:
                if not parts.interrupted:
                    raise
            if parts.interrupted:
                parts.result.end_with(ExitStatus.INTERRUPTED)
                parts.result.stopped = parts.interrupted
        return parts.result

    def _interrupt(self, reason: str, task: asyncio.Future[None]) -> None:
        parts = self._parts
        if parts.interrupted or parts.processes.ending:
            return
        parts.interrupted = reason
        if parts.master is not None:
            parts.master.request_stop(reason)
        else:
            task.cancel()

    async def _run(self) -> None:
        parts = self._parts
        alive = asyncio.ensure_future(parts.publisher.keep_alive())
        try:
            described = self._start_processes()
            connected = await self._connect(described)
            from hilrt.session.running import run_connected  # loaded by now, see `_connect`

            await run_connected(parts, connected)
        except (HilrtError, OSError) as error:
            if isinstance(error, ConfigError):
                parts.result.fault = str(error)
                raise
            await self._fail(error)
        except Exception as error:  # a defect: the summary says so, too
            parts.result.fault = f"{type(error).__name__}: {error}"
            raise
        finally:
            await close_session(parts)
            alive.cancel()
            parts.monitoring.close()
            parts.timing.release()

    def _start_processes(self) -> Described:
        """Views first, which show that something happens; then what takes long to start."""
        parts = self._parts
        parts.timing.shorten_slices()
        parts.monitoring.start(parts.processes.children, parts.operator)
        parts.events.go(SessionState.CONNECTING, "starting subsystems")
        listen = parts.tables.master.listen
        if not is_guarded(parts.tables.master):
            sys.stderr.write(f"warning: {unguarded(listen)}\n")
            parts.events.note("warning", "session", unguarded(listen), "insecure")
        described = describe(parts.file, operated=parts.monitoring.answers_prompts)
        for link in described.links:
            if isinstance(link, RemoteLink):
                parts.hub.add(link)
        parts.links.extend(described.links)
        cpus = parts.timing.cpus_for_children
        local = parts.monitoring.local
        frames = local.get("frames") if parts.options.record else ""
        handed = {frame_feed.VARIABLE: frames, **local.environment} if frames else {}
        parts.processes.start_subsystems(parts.file, cpus, parts.environment, handed)
        if parts.recorder is not None:
            recorder = RecorderSockets(
                parts.feed_address, parts.monitoring.rows, frames, parts.progress_address
            )
            parts.processes.start_recorder(recorder, cpus, local.environment)
        return described

    async def _connect(self, described: Described) -> Connected:
        """Load the numerics, while the processes start, and wait for the subsystems.

        Peers are answered meanwhile: compiling for the first time takes longer than they wait. But
        their clocks are compared again afterwards, by a master that answers at once.
        """
        parts = self._parts

        def tell(left: Sequence[str]) -> None:
            self.awaited = list(left)
            more = f" and {len(left) - MAX_NAMED} more" if len(left) > MAX_NAMED else ""
            said = f"waiting for {', '.join(left[-MAX_NAMED:])}{more}"
            parts.publisher.announce(str(parts.events.state), said, still=True)

        expects = may_expect(parts.tables)
        connected = await connect(
            described,
            limited=True,
            duration=parts.duration,
            beside={NUMERICS: in_left_thread(lambda: _load_numerics(expects))},
            on_wait=tell,
        )
        self.awaited = []
        parts.hub.protocol.compare_clocks_again()
        parts.duration = connected.duration
        return connected

    async def _fail(self, error: Exception) -> None:
        parts, fault = self._parts, str(error)
        if isinstance(error, PeerLost):
            await parts.benches.secure(fault)  # first: how a process ended can wait
            fault = await parts.processes.with_end_of(error.name, fault)
        parts.result.fail(fault)
        parts.events.go(SessionState.FAULT, fault, level="error")


def may_expect(tables: Session) -> bool:
    """Whether anything is to be expected: by the file, or by a sequence while it runs."""
    adapters = {options.adapter for options in tables.subsystems.values()}
    return bool(tables.expect) or "sequence" in adapters


def _load_numerics(expects: bool) -> None:
    """Import what needs the compiler, and have compiled code ready; this takes the time of a start.

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
