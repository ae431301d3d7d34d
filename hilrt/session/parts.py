"""What a session consists of, and its time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hilrt.check.check_listen import is_guarded
from hilrt.config.session_file import SessionFile
from hilrt.link import Link
from hilrt.peers import keys, session_token
from hilrt.peers.authenticator import Authenticator, KeyAuthenticator, TokenAuthenticator
from hilrt.peers.hub import Hub
from hilrt.peers.transport.base import SPARE_CONNECTIONS
from hilrt.record.recorder_feed import open_feed_socket
from hilrt.session.benches import Benches
from hilrt.session.event_log import EventLog
from hilrt.session.monitoring import Monitoring
from hilrt.session.operation import Operator
from hilrt.session.processes import Processes
from hilrt.session.recording_room import require_room
from hilrt.session.reserved_file import ReservedFile
from hilrt.session.result import RunResult
from hilrt.session.run import RunOptions, run_folder
from hilrt.session.timing_setup import TimingSetup
from hilrt.timing.descriptors import reserve_descriptors
from hilrt.timing.monotonic import monotonic_ns

if TYPE_CHECKING:
    from hilrt.master import Master
    from hilrt.session.session_log import SessionLog

#: Room for summary.json, bytes: some three thousand ports.
SUMMARY_BYTES = 1 << 20


class SessionParts:
    """Everything of a session that needs no other process yet.

    Parameters
    ----------
    file : SessionFile
        Without errors.
    options : RunOptions

    Attributes
    ----------
    duration : float
        Session time, s.
    pace : str or float
        ``"realtime"``, ``"asap"`` or a factor.
    links : list of Link
        One for each subsystem, once processes are started.
    recorder : zmq.Socket or None
        Where the recorder takes rows; None if nothing is recorded.
    feed_address : str
        Where the recorder connects.
    log : SessionLog or None
        Opened when the numerics are known.
    master : Master or None
        From the first tick on.
    environment : dict of str to str
        Added to the environment of processes that connect to the master.
    interrupted : str
        Why a signal or an operator wants the session to end.
    summarize : callable or None
        Makes the summary, given the fault; from the first tick on.
    summary_file : ReservedFile
        Where it is written.
    brought_down : bool
        Whether the benches have been brought to rest after the last tick.
    secured : str
        That an operator or a signal brought them to their safe profile, and why; else empty.
    epoch_ns : int
        Reading of the monotonic clock at session time 0, ns.

    Raises
    ------
    ConfigError
        For an address or a folder that cannot be used.
    """

    def __init__(self, file: SessionFile, options: RunOptions) -> None:
        self.file, self.tables, self.options = file, file.tables, options
        self.name, master = file.tables.session.name, file.tables.master
        self.duration = options.duration or self.tables.session.duration
        self.pace = self.tables.session.pace if options.pace is None else options.pace
        # Of both transports: the peers' own account may be the stranger, too.
        reserve_descriptors(len(self.tables.subsystems), 2 * SPARE_CONNECTIONS)
        authenticator, self.environment = _authenticator(file)
        with contextlib.ExitStack() as undo:  # first what may be refused
            self.monitoring = Monitoring(self.tables, options, self.real_time)
            undo.callback(self.monitoring.close)
            self.monitoring.listen()
            self.hub = Hub(
                self.name,
                master.listen,
                connect_timeout=master.connect_timeout,
                authenticator=authenticator,
            )
            undo.callback(self.hub.close)
            self.folder = run_folder(options, self.name)
            if options.record:
                require_room(self.folder)
            self.summary_file = ReservedFile(self.folder / "summary.json", SUMMARY_BYTES)
            undo.pop_all()
        self.result = RunResult(folder=self.folder)
        self.links: list[Link] = []
        self.publisher = self.monitoring.publisher
        self.events = EventLog(self.publisher)
        self.operator = Operator(self.events, self.tables)
        self.benches = Benches(self.links, self.tables, self.events, self.publisher, self.operator)
        self.timing = TimingSetup(master.pacing, master.step, self.real_time)
        self.processes = Processes(self.folder, self.links, self.events, self.result.warnings)
        self.feed_address = self.monitoring.local.get("feed") if options.record else ""
        self.progress_address = self.monitoring.local.get("progress") if options.record else ""
        self.recorder = open_feed_socket(self.feed_address) if options.record else None
        self.log: SessionLog | None = None
        self.master: Master | None = None
        self.summarize: Callable[[str | None], dict[str, Any]] | None = None
        self.brought_down = False
        self.secured = ""
        self.interrupted = ""
        #: Whether a program operates the session, and not what is typed.
        self.by_program = False
        self.epoch_ns = 0

    @property
    def real_time(self) -> bool:
        """Whether ticks follow the wall clock."""
        return self.pace != "asap"

    @property
    def must_record(self) -> bool:
        """Whether a session whose recording is lost ends."""
        required = self.tables.record.required
        return self.real_time if required is None else required

    def now_ns(self) -> int:
        """Session time, ns."""
        if self.real_time:
            return max(0, monotonic_ns() - self.epoch_ns)  # the first tick is a little ahead
        return self.master.progress.t_ns if self.master is not None else 0

    def stretched(self, shift_ns: int) -> None:
        """The grid has moved, and so has what benches' clock readings are compared with."""
        self.epoch_ns += shift_ns
        self.hub.epoch_ns += shift_ns
        if self.log is not None:
            self.log.feed.stretched(monotonic_ns(), shift_ns)

    def note_host(self, problems: list[str]) -> None:
        """Note what did not take effect on this host."""
        for problem in problems:
            self.events.note("warning", "host", problem, "host")
            self.result.warnings.append(problem)


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
