"""``hilrt solver MODULE:CLASS`` or ``MODEL.fmu``: the process that hosts a solver for a master.

One thread waits for a message, steps the solver and replies. ZeroMQ sockets belong to one thread,
so nothing is sent while the solver computes. The master does not count that as silence, and the
process reads messages that arrived in the meantime before it checks whether the master is silent.

The process ends when the master stops it, when the master is silent or gone, on SIGTERM, and when
its parent ends; Ctrl-C is left to the master. `Solver.stop` is called in all these cases.
"""

from __future__ import annotations

import gc
import logging
import math
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any, Literal

import numpy as np

from hilrt.config.from_toml import parse_params
from hilrt.errors import ConfigError, HilrtError, ProtocolError, SolverError
from hilrt.hosting.group import GroupOptions
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linear_model import (
    can_be_renewed,
    can_be_renewed_in_parts,
    find_linear_model,
    may_have_linear_model,
    renew_linear_model,
)
from hilrt.hosting.load_solver import load_solver
from hilrt.hosting.slack_trial import SlackTrial
from hilrt.peers import wire
from hilrt.peers.announced_ports import linear_answer
from hilrt.peers.peer import Peer
from hilrt.peers.wire import Event
from hilrt.solver import Sample, Solver
from hilrt.timing.parent import end_with_parent

__all__ = ["load_solver", "main", "serve"]

log = logging.getLogger("hilrt.solver")

#: Time allowed for the master's answer to the hello, s.
CONNECT_TIMEOUT_S = 30.0
#: Delay before SIGTERM is sent again after its exception was dropped, s.
AGAIN_S = 0.01

EXIT_OK = 0
EXIT_SOLVER = 1
EXIT_CONFIG = 2
EXIT_MASTER = 3
EXIT_TERMINATED = 128 + int(signal.SIGTERM)


class Terminated(BaseException):
    """SIGTERM; not an `Exception`, so that a solver's ``except Exception`` does not catch it."""


class MasterGone(Exception):
    """The master is silent or reported an error."""


def main(
    target: str,
    connect: str,
    name: str,
    params: Mapping[str, str],
    options: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Host a solver until the session ends.

    Parameters
    ----------
    target : str
        ``"module:Class"`` (the current folder is searched first), or the path of an FMU.
    connect : str
        The master's address.
    name : str
        The subsystem's name in the session file.
    params : mapping of str
        Keyword arguments of the class, or parameters of the FMU, as written on the command line.
    options : mapping of str, optional
        Keys of ``adapter = "fmu"``; only for an FMU.

    Returns
    -------
    int
        Exit status: 0 stopped by the master, 1 the solver failed, 2 wrong arguments, 3 the master
        is lost or did not accept the solver or its ports, 143 SIGTERM.
    """

    def make() -> Solver:
        return _load(target, parse_params(params), parse_params(options))

    return run_process(make, connect, name)


def host_group(session: Path, connect: str, name: str, overrides: Sequence[str]) -> int:
    """Host the group `name` of a session file; parameters and exit status as for `main`."""

    def make() -> Solver:
        from hilrt.config.session_file import load_session  # other solvers do not need it

        options = load_session(session, overrides).tables.subsystems.get(name)
        if not isinstance(options, GroupOptions):
            raise ConfigError(f"{session} has no group {name!r}; add [groups.{name}]")
        return options.make(session.resolve().parent)

    return run_process(make, connect, name)


def run_process(
    make: Callable[[], Solver],
    connect: str,
    name: str,
    on_peer: Callable[[Peer], None] = lambda peer: None,
) -> int:
    """Create and host a solver until the session ends; return the exit status, as `main`.

    `on_peer` is called with the connection before it is established.
    """
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, _on_sigterm)
        sys.unraisablehook = _on_unraisable
    end_with_parent()
    try:
        try:
            return _host(HostedSolver(make()), connect, name, on_peer)
        finally:  # nothing is left to clean up
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, _do_nothing)
    except ConfigError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        return EXIT_CONFIG
    except Terminated:
        return EXIT_TERMINATED


def _load(target: str, params: dict[str, Any], options: dict[str, Any]) -> Solver:
    """Create a solver from its class or FMU."""
    if target.lower().endswith(".fmu"):
        from hilrt.fmu.command import load_fmu  # FMPy is an extra

        solver = load_fmu(target, params, options)
        solver.fmu.need_binary()
        return solver
    if options:
        raise ConfigError("--option is for FMUs; give parameters of a class with --param")
    return load_solver(target, params, [Path.cwd()])


def _host(solver: HostedSolver, connect: str, name: str, on_peer: Callable[[Peer], None]) -> int:
    offers = [
        ("events", solver.solver.tells_events),
        ("go_back", solver.can_go_back),
        ("linearise", may_have_linear_model(solver)),
        ("linearise_again", can_be_renewed(solver)),
        ("linearise_in_slack", can_be_renewed_in_parts(solver)),
    ]
    capabilities = [word for word, there in offers if there] + solver.findings
    peer = Peer(
        connect,
        name,
        "solver",
        solver.inputs,
        solver.outputs,
        capabilities=capabilities,
        parameters=solver.parameters,
    )
    on_peer(peer)
    reason = "the solver process ends"
    relay = LogRelay()
    logging.getLogger("hilrt").addHandler(relay)
    try:
        peer.connect(CONNECT_TIMEOUT_S)
        reason = serve(peer, solver, relay)
        if solver.initialized:
            return EXIT_OK
        print(f"error: the session did not begin: {reason}", file=sys.stderr)
        return EXIT_MASTER
    except SolverError as error:
        reason = str(error)
        print(f"error: {reason}", file=sys.stderr)
        return EXIT_SOLVER
    except ConfigError:
        raise
    except (MasterGone, HilrtError) as error:
        reason = str(error)
        print(f"error: {reason}", file=sys.stderr)
        return EXIT_MASTER
    except Terminated:
        reason = "SIGTERM"
        peer.send(wire.Error(text="the solver process received SIGTERM", leaving=True))
        return EXIT_TERMINATED
    finally:
        logging.getLogger("hilrt").removeHandler(relay)
        solver.stop(reason)
        peer.close()


def serve(peer: Peer, solver: HostedSolver, relay: LogRelay | None = None) -> str:
    """Step the solver as requested by the master, until it is stopped.

    Parameters
    ----------
    peer : Peer
        Connected.
    solver : HostedSolver
        Not yet initialized.
    relay : LogRelay, optional
        Warnings for the session's log; they are sent when no answer is due, at most once a second,
        and before the end.

    Returns
    -------
    str
        The master's reason for stopping.

    Raises
    ------
    SolverError
        If the solver failed; the master has been notified.
    MasterGone
        If the master is silent for too long or reported an error.
    """
    relay, trial = relay or LogRelay(), SlackTrial(solver)
    while True:
        messages = peer.wait(peer.heartbeat_s)
        for message in messages:
            try:
                _handle(peer, solver, relay, message, trial)
                if isinstance(message, wire.Stop):
                    return message.reason
            except ProtocolError as error:
                peer.malformed(str(error))
            except SolverError as error:
                relay.send(peer)
                peer.send(wire.Error(text=str(error)))
                raise
        if relay.is_due:
            relay.send(peer)
        if not messages and (lost := peer.master_lost()) is not None:
            raise MasterGone(lost)


def _handle(
    peer: Peer, solver: HostedSolver, relay: LogRelay, message: wire.Message, trial: SlackTrial
) -> None:
    """Execute a message, and reply to it."""
    if isinstance(message, wire.Advance):
        received_ns = peer.heard_ns
        trial.step_begins()
        u = wire.unpack(message.coefficients, -1, solver.n_inputs)
        solver.keeps = message.keep
        sample = solver.advance(message.t, message.h, u)
        peer.send(_advanced(message.tick, sample, received_ns))
        trial.step_ended(message.t + message.h)
        if trial.work():
            peer.send(linear_answer(trial.found))
    elif isinstance(message, wire.Stop):
        # The solver is stopped before the answer, because the process may be killed after it.
        solver.stop(message.reason)
        relay.send(peer)
        peer.send(wire.Stopped())
    elif isinstance(message, wire.Initialize):
        _initialize(peer, solver, message)
        trial.restart()
    elif isinstance(message, wire.SetParameter) and solver.initialized:
        trial.restart()
        refused = solver.set_parameter(message.name, message.value)
        if refused:
            text = f"parameter {message.name} = {message.value:g} is refused: {refused}"
            peer.send(Event(level="warning", cause="parameter_refused", text=text))
    elif isinstance(message, wire.PromptAnswer) and peer.on_answer is not None:
        peer.on_answer(message)
    elif isinstance(message, wire.GoBack):
        peer.send(_advanced(message.tick, solver.go_back(message.h)))
    elif isinstance(message, wire.Probe):
        _probe(peer, solver, message)
    elif isinstance(message, wire.Linearise) and solver.initialized:
        _linearise(peer, solver, message, trial)
    elif isinstance(message, wire.Error):
        raise MasterGone(f"the master reported an error: {message.text}")
    elif isinstance(message, wire.Reject):
        raise MasterGone(f"the master does not readmit it: {message.reason}")
    elif not isinstance(message, wire.Heartbeat):
        peer.unexpected(message)


def _initialize(peer: Peer, solver: HostedSolver, message: wire.Initialize) -> None:
    sample = solver.initialize(message.t0, wire.unpack(message.u0, solver.n_inputs))
    # Existing objects live as long as the process: exclude them from garbage collections.
    gc.collect()
    gc.freeze()
    peer.send(wire.Initialized(y=wire.pack(sample.y)))


def _probe(peer: Peer, solver: HostedSolver, message: wire.Probe) -> None:
    u = wire.unpack(message.u, solver.n_inputs)
    if message.direction is None:
        gamma = solver.jacobian(message.source, message.t, message.h, message.order, u)
    else:
        direction = wire.unpack(message.direction, message.order + 1, solver.n_inputs)
        gamma = solver.response(message.t, message.h, u, direction)
    peer.send(wire.Probed(gamma=None if gamma is None else wire.pack(gamma)))


def _linearise(
    peer: Peer, solver: HostedSolver, message: wire.Linearise, trial: SlackTrial
) -> None:
    u = wire.unpack(message.u, solver.n_inputs)
    if not (0.0 < message.h < math.inf and np.isfinite(u).all()):
        raise ProtocolError(f"Linearise: h = {message.h} s, u = {u.tolist()}")
    if message.in_slack:
        trial.begin(u, message.h)
        return
    if message.t is None:
        found = find_linear_model(solver, u, message.h, message.within)
    elif math.isfinite(message.t):
        found = renew_linear_model(solver, message.t, u, message.h, message.within)
    else:
        raise ProtocolError(f"Linearise: t = {message.t} s")
    peer.send(linear_answer(found))


def _advanced(tick: int, sample: Sample, received_ns: int = 0) -> wire.Advanced:
    return wire.Advanced(
        tick=tick,
        y=wire.pack(sample.y),
        dy=None if sample.dy is None else wire.pack(sample.dy),
        y_mid=None if sample.y_mid is None else wire.pack(sample.y_mid),
        y_mean=None if sample.y_mean is None else wire.pack(sample.y_mean),
        compute_us=sample.compute_us,
        received_ns=received_ns,
        event_t=sample.event_t,
        ended=sample.ended,
    )


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not interrupt the shutdown
    raise Terminated


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing; unlike `signal.SIG_IGN`, this is not inherited by started processes."""


def _on_unraisable(problem: sys.UnraisableHookArgs) -> None:
    """Send SIGTERM again a moment later if Python dropped its `Terminated`.

    The signal may arrive while a destructor or a weak reference's callback runs; an exception
    raised there is printed and dropped, and SIGTERM would have no effect.
    """
    if not isinstance(problem.exc_value, Terminated):
        sys.__unraisablehook__(problem)
        return
    signal.signal(signal.SIGTERM, _on_sigterm)
    main_thread = threading.main_thread().ident  # only a signal to that thread ends its waiting
    again = threading.Timer(AGAIN_S, signal.pthread_kill, (main_thread, signal.SIGTERM))
    again.daemon = True
    again.start()


# Warnings logged by a solver process, for the session's log.

#: Maximum messages buffered for sending; the process's own log contains all.
KEPT = 64
#: Time between two transmissions, s: a solver that warns at every step must not burden the master.
PAUSE_S = 1.0


class LogRelay(logging.Handler):
    """Buffer of log messages of all threads; the thread that owns the peer sends them.

    Parameters
    ----------
    now : callable
        A clock, s.

    Attributes
    ----------
    lost : int
        Messages dropped for lack of space since the last `send`.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._now = now
        self._kept: deque[Event] = deque()
        self._sent_at = -PAUSE_S
        self.lost = 0

    @property
    def is_due(self) -> bool:
        """Whether there are messages, and the last transmission is at least `PAUSE_S` ago."""
        return bool(self._kept) and self._now() - self._sent_at >= PAUSE_S

    def emit(self, record: logging.LogRecord) -> None:
        """Buffer a message."""
        if len(self._kept) < KEPT:
            level: Literal["error", "warning"] = "warning"
            if record.levelno >= logging.ERROR:
                level = "error"
            self._kept.append(Event(level=level, cause="log", text=record.getMessage()))
        else:
            self.lost += 1

    def send(self, peer: Peer) -> None:
        """Send the buffered messages, and the number of dropped ones."""
        self._sent_at = self._now()
        for _ in range(len(self._kept)):
            peer.send(self._kept.popleft())
        lost, self.lost = self.lost, 0
        if lost:
            text = f"{lost} more messages, only in the log of its process"
            peer.send(Event(level="warning", cause="log", text=text))
