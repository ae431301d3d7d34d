"""A session with processes that is open: everything of it that needs no other process yet."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hilrt.check.check_host import is_guarded
from hilrt.config.session_file import SessionFile
from hilrt.config.structs import Session
from hilrt.monitor.status import StatusPublisher
from hilrt.peers import keys, session_token
from hilrt.peers.authenticator import Authenticator, KeyAuthenticator, TokenAuthenticator
from hilrt.peers.hub import Hub
from hilrt.peers.transport.base import SPARE_CONNECTIONS
from hilrt.session.event_log import EventLog
from hilrt.session.monitoring import Monitoring
from hilrt.session.operation import Operator
from hilrt.session.processes import Processes
from hilrt.session.recording_watch import require_room
from hilrt.session.reserved_file import ReservedFile
from hilrt.session.result import RunResult
from hilrt.session.run import RunOptions, run_folder
from hilrt.session.session_recording import SessionRecording
from hilrt.session.timing_setup import TimingSetup
from hilrt.timing.descriptors import reserve_descriptors

#: Room for summary.json, bytes: some three thousand ports.
SUMMARY_BYTES = 1 << 20


@dataclass(frozen=True)
class Opened:
    """Parts of an open session.

    Attributes
    ----------
    file, options
        From which it was opened.
    folder : Path
        Its own.
    environment : dict of str to str
        Added to the environment of processes that connect to the master.
    summary_file : ReservedFile
    recording : SessionRecording or None
        None if nothing is recorded.
    hub, monitoring, events, operator, processes, timing
        See their classes.
    result : RunResult
        What each stage has to report goes here.
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
        """The session file's."""
        return self.file.tables

    @property
    def publisher(self) -> StatusPublisher:
        """Of the live status."""
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
        """Whether a session whose recording is lost ends."""
        required = self.tables.record.required
        return self.real_time if required is None else required

    def note_host(self, problems: list[str]) -> None:
        """Note what did not take effect on this host."""
        for problem in problems:
            self.events.note("warning", "host", problem, "host")
            self.result.warnings.append(problem)


def pace_of(tables: Session, options: RunOptions) -> str | float:
    """Pace of a run: its own, or the session file's."""
    return tables.session.pace if options.pace is None else options.pace


def open_parts(
    file: SessionFile, options: RunOptions, on_change: Callable[[], None] | None = None
) -> Opened:
    """Open what a session needs before its first process.

    Parameters
    ----------
    file : SessionFile
        Without errors.
    options : RunOptions
    on_change : callable, optional
        Told when the state, or what the session waits for, has changed.

    Raises
    ------
    ConfigError
        For an address or a folder that cannot be used; nothing stays open then.
    """
    tables, master = file.tables, file.tables.master
    name, real_time = tables.session.name, pace_of(tables, options) != "asap"
    # Of both transports: the peers' own account may be the stranger, too.
    reserve_descriptors(len(tables.subsystems), 2 * SPARE_CONNECTIONS)
    authenticator, environment = _authenticator(file)
    with contextlib.ExitStack() as undo:  # first what may be refused
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
        processes=Processes(folder, events, result.warnings),
        timing=TimingSetup(master.pacing, master.step, real_time),
        result=result,
    )


def _authenticator(file: SessionFile) -> tuple[Authenticator | None, dict[str, str]]:
    """Which peers are let in, and the environment by which the session's own ones are.

    By their keys; without, on an address that only this machine reaches, by a token that only this
    account knows; without both, any.
    """
    master = file.tables.master
    if master.keys is not None:
        folder = file.folder / master.keys
        return KeyAuthenticator(folder), {keys.VARIABLE: str(folder)}
    if not is_guarded(master):
        return None, {}
    token = session_token.SessionToken()
    return TokenAuthenticator(token), {session_token.VARIABLE: token.text}
