"""Open the parts of a session with processes that need no other process yet."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hilrt.check.check_host import is_guarded
from hilrt.config.session_file import SessionFile
from hilrt.config.structs import Pacing, Session
from hilrt.isolation.temporary_folder import LocalAddresses
from hilrt.monitor.status import StatusPublisher
from hilrt.peers import authenticator, keys
from hilrt.peers.authenticator import Authenticator, KeyAuthenticator, TokenAuthenticator
from hilrt.peers.hub import Hub
from hilrt.peers.transport.base import SPARE_CONNECTIONS
from hilrt.record import frame_feed
from hilrt.record.recorder_feed import close_feed_socket, open_feed_socket
from hilrt.session.event_log import EventLog
from hilrt.session.monitoring import Monitoring
from hilrt.session.operation import Operator
from hilrt.session.placer import refuse_open_cluster
from hilrt.session.processes import Processes, RecorderSockets
from hilrt.session.recording_watch import require_room
from hilrt.session.reserved_file import ReservedFile
from hilrt.session.result import RunResult
from hilrt.session.run import RunOptions, run_folder
from hilrt.timing.clock import MAX_SPIN_NS, WallClock, measure_spin_ns
from hilrt.timing.host import (
    available_cpus,
    give_idle_priority,
    move_other_threads,
    other_cpus,
    reserve_descriptors,
    set_affinity,
)
from hilrt.timing.realtime import (
    enter_real_time,
    granted_priority,
    leave_real_time,
    request_short_slice,
    request_usual_slice,
)

if TYPE_CHECKING:
    from hilrt.session.initialization import InitializedSession
    from hilrt.session.session_log import SessionLog
    from hilrt.step.numerics import Numerics

# A session's resources on the host: processors, clock, priorities.

#: Largest share of the macro step that `pacing.spin = "auto"` busy-waits.
LONGEST_SPIN = 0.7
#: Likewise with a real-time priority: the kernel stops a process that never sleeps for 50 ms.
LONGEST_SPIN_REAL_TIME = 0.3


class TimingSetup:
    """Settings of ``[master.pacing]`` on the host, and their undoing.

    Parameters
    ----------
    pacing : Pacing
    step : float
        Base macro step, s.
    real_time : bool
        Whether ticks follow a clock.

    Attributes
    ----------
    cpus_for_children : list of int
        Processors for the processes that the master starts.
    clock : WallClock or None
        Created by `take_place`.
    """

    def __init__(self, pacing: Pacing, step: float, real_time: bool) -> None:
        self.cpus_for_children = other_cpus(pacing.affinity)
        self.clock: WallClock | None = None
        self._pacing, self._step, self._real_time = pacing, step, real_time
        self._allowed = available_cpus()

    def shorten_slices(self) -> None:
        """Request short scheduler slices for this process and those that it starts from now on."""
        if self._real_time:
            request_short_slice()

    async def take_place(self) -> list[str]:
        """Move to the master's processors, measure the timer; return settings without effect."""
        problem = set_affinity(self._pacing.affinity)
        if self._pacing.affinity:
            move_other_threads(self.cpus_for_children)
        if self._real_time:
            self.clock = await self._make_clock()
        return [problem] if problem else []

    async def _make_clock(self) -> WallClock:
        if self._pacing.spin != "auto":
            return WallClock(round(self._pacing.spin * 1e3))
        priority = granted_priority(self._pacing.priority)
        share = LONGEST_SPIN_REAL_TIME if priority else LONGEST_SPIN
        longest_ns = min(MAX_SPIN_NS, round(share * self._step * 1e9))
        return WallClock(min(await measure_spin_ns(), longest_ns), longest_ns)

    def give_idle_priority(self, processes: Iterable[int]) -> None:
        """Give idle priority to `processes` that can wait, so that they delay no tick."""
        if self.clock is not None:
            for pid in processes:
                give_idle_priority(pid, self.cpus_for_children)

    def enter_real_time(self) -> list[str]:
        """Set priority and lock memory; return settings that this host refuses."""
        if self.clock is None:
            return []
        return enter_real_time(self._pacing, self.clock.spin_ns * 1e-9 / self._step)

    def release(self) -> None:
        """Undo all settings, as the program that ran the session may continue."""
        if self.clock is not None:
            self.clock.close()
            leave_real_time()
        if self._real_time:
            request_usual_slice()
        if self._pacing.affinity:
            set_affinity(self._allowed)
            move_other_threads(self._allowed)


# Recording of a session, from the recorder's socket to the closed log.


class SessionRecording:
    """Recording of a session.

    Parameters
    ----------
    local : LocalAddresses
        Addresses of the session, including those of the recorder's sockets.

    Attributes
    ----------
    log : SessionLog or None
        Opened once the numerics are known.
    """

    def __init__(self, local: LocalAddresses) -> None:
        self._local = local
        self._feed, self._progress = local.get("feed"), local.get("progress")
        self._frames = local.get("frames")
        self._socket = open_feed_socket(self._feed)
        self.log: SessionLog | None = None

    @property
    def frames(self) -> Mapping[str, str]:
        """Environment variables with the recorder's address for CAN frames."""
        return {frame_feed.VARIABLE: self._frames, **self._local.environment}

    def start(self, processes: Processes, cpus: Sequence[int], tap: str) -> None:
        """Start the recorder's process, which publishes rows for views at the address `tap`."""
        sockets = RecorderSockets(self._feed, tap, self._frames, self._progress)
        processes.start_recorder(sockets, cpus, self._local.environment)

    def open_log(
        self, folder: Path, numerics: Numerics, initialized: InitializedSession, real_time: bool
    ) -> SessionLog:
        """Open the log, and write the data that a replay needs."""
        from hilrt.session.session_log import SessionLog  # imports the numerics

        file, links, _ = initialized.connected
        self.log = SessionLog(
            file,
            folder,
            links,
            numerics,
            initialized,
            self._socket,
            self._progress,
            real_time=real_time,
        )
        return self.log

    async def end(self, processes: Processes, summary: dict[str, Any]) -> None:
        """Send the end of the log to the recorder, if a log was opened."""
        if self.log is None:
            close_feed_socket(self._socket)
        else:
            processes.resume_recorder()
            await self.log.end(summary)

    async def close(self, failed: bool) -> list[str]:
        """Close the recording after the recorder has ended; return texts about losses."""
        return [] if self.log is None else await self.log.close(failed=failed)


#: Size reserved for summary.json, bytes: enough for some three thousand ports.
SUMMARY_BYTES = 1 << 20


@dataclass(frozen=True)
class Opened:
    """Parts of an open session.

    Attributes
    ----------
    file, options
        Session file and options that it was opened with.
    folder : Path
        The run's folder.
    environment : dict of str to str
        Added to the environment of processes that connect to the master.
    summary_file : ReservedFile
    recording : SessionRecording or None
        None if nothing is recorded.
    hub, monitoring, events, operator, processes, timing
        See their classes.
    result : RunResult
        Filled by the stages.
    """

    file: SessionFile
    options: RunOptions
    folder: Path
    environment: dict[str, str]
    summary_file: ReservedFile
    recording: SessionRecording | None
    hub: Hub
    monitoring: Monitoring
    events: EventLog
    operator: Operator
    processes: Processes
    timing: TimingSetup
    result: RunResult

    @property
    def tables(self) -> Session:
        """Tables of the session file."""
        return self.file.tables

    @property
    def publisher(self) -> StatusPublisher:
        """Publisher of the live status."""
        return self.monitoring.publisher

    @property
    def pace(self) -> str | float:
        """``"realtime"``, ``"asap"`` or a factor."""
        return pace_of(self.tables, self.options)

    @property
    def real_time(self) -> bool:
        """Whether ticks follow the wall clock."""
        return self.pace != "asap"

    @property
    def must_record(self) -> bool:
        """Whether the session ends if its recording is lost."""
        required = self.tables.record.required
        return self.real_time if required is None else required

    def note_host(self, problems: list[str]) -> None:
        """Record settings without effect on this host."""
        for problem in problems:
            self.events.note("warning", "host", problem, "host")
            self.result.warnings.append(problem)


def pace_of(tables: Session, options: RunOptions) -> str | float:
    """Pace of a run: from its options, or from the session file."""
    return tables.session.pace if options.pace is None else options.pace


def open_parts(
    file: SessionFile, options: RunOptions, on_change: Callable[[], None] | None = None
) -> Opened:
    """Open resources of a session before its first process.

    Parameters
    ----------
    file : SessionFile
        Session file without errors.
    options : RunOptions
    on_change : callable, optional
        Called when the state, or the reason for waiting, has changed.

    Raises
    ------
    ConfigError
        For an unusable address or folder; everything is closed then.
    """
    tables, master = file.tables, file.tables.master
    if options.cluster is not None:
        refuse_open_cluster(options.cluster, master.listen)
    name, real_time = tables.session.name, pace_of(tables, options) != "asap"
    # Applies to both transports, because an unknown peer may also run under this account.
    reserve_descriptors(len(tables.subsystems), 2 * SPARE_CONNECTIONS)
    authenticator, environment = _authenticator(file)
    with contextlib.ExitStack() as undo:  # parts that can fail come first
        monitoring = Monitoring(tables, options, real_time)
        undo.callback(monitoring.close)
        monitoring.listen()
        hub = Hub(
            name,
            master.listen,
            connect_timeout=master.connect_timeout,
            authenticator=authenticator,
        )
        undo.callback(hub.close)
        folder = run_folder(options, name)
        if options.record:
            require_room(folder)
        summary_file = ReservedFile(folder / "summary.json", SUMMARY_BYTES)
        undo.pop_all()
    result, events = RunResult(folder=folder), EventLog(monitoring.publisher)
    events.on_change = on_change
    return Opened(
        file=file,
        options=options,
        folder=folder,
        environment=environment,
        summary_file=summary_file,
        recording=SessionRecording(monitoring.local) if options.record else None,
        hub=hub,
        monitoring=monitoring,
        events=events,
        operator=Operator(events, tables),
        processes=Processes(folder, events, result.warnings, hub.process_ended),
        timing=TimingSetup(master.pacing, master.step, real_time),
        result=result,
    )


def _authenticator(file: SessionFile) -> tuple[Authenticator | None, dict[str, str]]:
    """Create the authenticator of peers, and the environment of peers that the session starts.

    With keys, it admits peers by their keys. Without keys, peers need a token that only this
    account knows if the address is local to this machine; otherwise any peer is admitted.
    """
    master = file.tables.master
    if master.keys is not None:
        folder = file.folder / master.keys
        return KeyAuthenticator(folder), {keys.VARIABLE: str(folder)}
    if not is_guarded(master):
        return None, {}
    token = authenticator.SessionToken()
    return TokenAuthenticator(token), {authenticator.TOKEN_VARIABLE: token.text}
