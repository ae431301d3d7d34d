"""Interface between the master and a subsystem, independent of its implementation."""

from __future__ import annotations

import abc
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from hilrt.documentation import in_documentation
from hilrt.errors import ConfigError
from hilrt.solver import Floats, Parameter, Port, Ports, Sample, Solver

if TYPE_CHECKING:
    from pathlib import Path

    from hilrt.config.session_file import SessionFile
    from hilrt.config.structs import SubsystemOptions

#: Everything that an adapter needs in addition to `hilrt.solver`.
__all__ = [
    *("Carrier", "CodeRun", "Command", "Description", "LinearModel", "Link", "Ports", "Probes"),
    *("Asks", "Repeats", "Returns", "Rewinds", "SampleSink", "SessionContext"),
]


#: Maximum numbers in the state of a probed subsystem, as each costs a few steps.
LARGEST_STATE = 48
#: Defects of a subsystem that may be found before the start, by the names of the causes.
FINDINGS = ("steps_final", "inputs_ignored")


class SampleSink(Protocol):
    """Destination of the samples that a link receives from its subsystem."""

    def put(
        self,
        sample: Sample,
        t_arrived: float,
        *,
        uncertainty: float | None = None,
        round_trip_us: float | None = None,
        way_us: float = math.nan,
    ) -> None:
        """Accept a sample; never blocks, and copies the arrays.

        Parameters
        ----------
        sample : Sample
            By default, a solver's sample is valid at the end of its step, a bench's at its arrival.
            NaN in `t_valid`: no new value of this output.
        t_arrived : float
            Session time of its arrival, s.
        uncertainty : float, optional
            For a bench: uncertainty of its clock, s; NaN: not known yet. A time of validity farther
            in the future indicates a wrong clock, and is replaced by `t_arrived`.
        round_trip_us, way_us : float, optional
            For a solver in another process: time from sending the step until the answer was read,
            and until the solver received it.

        Raises
        ------
        SolverError
            If the number of outputs is not the announced one.
        """


class _Nowhere:
    """Sink that drops samples, before there is an exchange."""

    def put(self, *arguments: object, **more: object) -> None:
        pass


#: Outputs within a step, according to a trial: unknown, smooth, or not smooth.
UNSEEN, SMOOTH, SWITCHES = range(3)


class LinearModel(NamedTuple):
    """A subsystem linearised about its present state: ``x' = A x + B u``, ``y = C x + D u``.

    Attributes
    ----------
    A, B, C, D : ndarray, shape (nx, nx), (nx, nu), (ny, nx), (ny, nu)
    fineness : ndarray, shape (nu,)
        Resolution of each input within a macro step: 1 continuous, 0 start value only, 1 - 1/n with
        n internal steps.
    linear : bool
        Whether it is valid for any state; with `own`, also at any time.
    lacking : tuple of int
        Outputs without any information.
    of_reference : bool
        Whether it belongs to a reference model.
    slope : ndarray, shape (nu,), optional
        Share of an input polynomial's change within a macro step that acts: 0 only the start value,
        as if held, 1 (the default) all of it.
    inside : int
        Whether its outputs were observed between communication points: `UNSEEN`, `SMOOTH`, or
        `SWITCHES`.
    own : ndarray, shape (nx, 2 (nx + 2 nu + 1) + 1), optional
        If its own integration errs: its state; its macro step, as a map from state, inputs at the
        step's beginning, their change within the step, and 1; and the error of that map.
    """

    A: Floats
    B: Floats
    C: Floats
    D: Floats
    fineness: Floats
    linear: bool
    lacking: tuple[int, ...] = ()
    of_reference: bool = False
    slope: Floats | None = None
    inside: int = 0
    own: Floats | None = None


class Command(NamedTuple):
    """A process that `hilrt run` starts for a subsystem: its name, and its argument list.

    `connects` says whether it connects to the master, and therefore receives the session's keys.
    `takes_lines` says whether it reads lines from its standard input, `Link.send_line`, and answers
    by lines on its standard output, `Link.on_line`.
    """

    name: str
    argv: list[str]
    connects: bool = True
    takes_lines: bool = False


class CodeRun(NamedTuple):
    """Foreign code that is run to check a table.

    Attributes
    ----------
    key : str
        The table's key that names the code.
    does : str
        Action of the code, as text.
    tells : str
        Information available only by running it.
    """

    key: str
    does: str
    tells: str


class FrameTime(NamedTuple):
    """A message on a bench's bus, by its table and database.

    Attributes
    ----------
    message : str
    sent : bool
        Sent by the session; else by the bench.
    interval : float
        Time between frames, s; 0: at every communication point, or more often if these are far
        apart; NaN if unknown.
    bits : int
        Length of the longest frame, with all possible stuff bits; 0 if unknown.
    """

    message: str
    sent: bool
    interval: float
    bits: int


class EmulatedMessage(NamedTuple):
    """A message that an emulated bench sends.

    Parameters
    ----------
    signals : tuple of str
        Signals without its counter and its checksum.
    counts, guarded, enables : bool
        Whether it has a counter, a checksum, and the state with which the bench confirms enabling.
    """

    signals: tuple[str, ...]
    counts: bool
    guarded: bool
    enables: bool = False


@dataclass(frozen=True, kw_only=True)
class Description:
    """Description of a subsystem by its table, without connecting.

    Attributes
    ----------
    ports : Ports or None
        None if known only after connecting. If there are `problems`, all ports named by the table;
        their limits may be unknown.
    unclear : frozenset of str
        Ports of which only the name is known.
    problems : sequence of str
        Errors of the table, one line each, with location and remedy.
    remarks : sequence of str
        Warnings about the table.
    code : CodeRun or None
        Code that was not run although it would provide more information.
    wrong_starts : mapping of str
        Inputs whose start value in the table the subsystem would refuse, with the reason.
    unsupported_variables : mapping of str
        Variables that no port can represent, with the reason.
    missing_on_host : sequence of str
        Requirements that this host does not meet, each with a remedy.
    tells_events : bool
        Whether `Link.tells_events` is known to be true after `open`.
    restores : bool or None
        Whether it can repeat a step; None if known only after `Link.open`.
    end_time : float
        Last session time for which the table allows the subsystem to run, s.
    frames : sequence of FrameTime
        For a bench: messages on its bus due to the session.
    emulated : callable
        Creates an emulated bench, and returns the messages that it sends; None otherwise.
    """

    ports: Ports | None = None
    unclear: frozenset[str] = frozenset()
    problems: Sequence[str] = ()
    remarks: Sequence[str] = ()
    code: CodeRun | None = None
    wrong_starts: Mapping[str, str] = field(default_factory=dict)
    unsupported_variables: Mapping[str, str] = field(default_factory=dict)
    missing_on_host: Sequence[str] = ()
    tells_events: bool = False
    restores: bool | None = None
    end_time: float = math.inf
    frames: Sequence[FrameTime] = ()
    emulated: Callable[[], Mapping[str, EmulatedMessage]] | None = None

    @classmethod
    def from_solver(cls, make: Callable[[], Solver]) -> Description:
        """Describe the solver that `make` returns, or the `ConfigError` that it raises."""
        try:
            solver = make()
        except ConfigError as error:
            return cls(problems=error.problems)
        ports = Ports(tuple(solver.inputs), tuple(solver.outputs))
        restores = solver.can_restore() and solver.any_step
        return cls(ports=ports, tells_events=solver.tells_events, restores=restores)


#: Names in earlier versions of `Link`, with their replacements.
_REPLACED = {
    **dict.fromkeys(("poll", "take"), "receive"),
    **dict.fromkeys(("learn", "commands", "operated"), "prepare"),
    **dict.fromkeys(("ports", "ports_without_code", "runs_code", "remarks"), "describe"),
    **dict.fromkeys(("jacobian", "response", "linear_model"), "probes"),
    **dict.fromkeys(("can_go_back",), "rewinds"),
}


class Carrier(Protocol):
    """Carrier of messages, shared by several connections: the hub of remote peers.

    Attributes
    ----------
    changed, reporting : dict
        Connections, as keys, whose peer was lost or has returned, and those with new `events`. The
        caller removes them.
    """

    changed: dict[Any, None]
    reporting: dict[Any, None]

    def clock(self) -> int:
        """Reading of the clock that limits `receive` and `upkeep`, ns."""

    def session_time(self) -> float:
        """Session time now, s."""

    def fileno(self) -> int:
        """Descriptor that is readable when a message of any connection has arrived."""

    def receive(self, until_ns: int) -> int:
        """Deliver received messages until `until_ns`; return their number. Never blocks."""

    def watch_again(self) -> None:
        """Rearm the descriptor, after `receive` has found no message."""

    def drain(self) -> None:
        """Deliver all received messages, and do the work of `upkeep`; never blocks."""

    def flush(self) -> None:
        """Send all messages dispatched since the last call; never blocks."""

    def upkeep(self, until_ns: int) -> None:
        """Send due heartbeats and accept connections, until `until_ns`; never blocks."""

    def why_dropped(self, name: str) -> str:
        """Newest unusable message of subsystem `name`, with the reason; empty if there is none."""


class SessionContext(NamedTuple):
    """Facts of a session for a connection before it opens.

    Attributes
    ----------
    file : SessionFile
    carrier : Carrier or None
        Connection point of remote peers; None in a session without processes.
    operated : bool
        Whether an operator can answer prompts of a subsystem.
    """

    file: SessionFile
    carrier: Carrier | None = None
    operated: bool = False


# Optional abilities of connections. A connection with one sets the attribute of `Link` in `open`.


class Probes:
    """Probing of a subsystem between two steps; by default nothing is supported.

    All methods refer to its present state and leave it unchanged. The macro step is `h` [s], the
    inputs about which it is probed are `u`, shape (n_inputs,).
    """

    async def jacobian(
        self, source: str, t: float, h: float, order: int, u: Floats
    ) -> Floats | None:
        """Interface Jacobians Γ_0 … Γ_order at `t` [s]; None if there are none.

        `source` is "solver" (provided by the solver) or "probe" (probed). The result has the shape
        (order + 1, n_outputs, n_inputs).
        """
        return None

    async def response(self, t: float, h: float, u: Floats, direction: Floats) -> Floats | None:
        """Change of the outputs, shape (n_outputs,), when the inputs change by `direction`.

        At `t` [s]; `direction`, shape (order + 1, n_inputs), is in the normalised power basis. None
        if the subsystem cannot restore its state.
        """
        return None

    async def linear_model(self, h: float, u: Floats) -> LinearModel | None:
        """Linear model about the state before the first step; None if it cannot be probed.

        It serves only for an estimate: late or invalid results count as None.
        """
        return None

    async def renewed_model(self, t: float, h: float, u: Floats) -> LinearModel | None:
        """A, B, C and D at `t` [s], while the session runs; None if not available.

        Later steps of the subsystem are not affected.
        """
        return None


class TriesInSlack(Protocol):
    """A subsystem that can be probed between its steps while the session runs."""

    def begin_trial(self, h: float, u: Floats) -> None:
        """Begin a trial for macro steps `h` [s], about inputs `u`, shape (n_inputs,).

        Never blocks. The subsystem chooses the state, at one of its next steps.
        """

    def trial_result(self) -> tuple[bool, LinearModel | None]:
        """Whether the trial has ended, and its result, if there is one."""

    def abandon_trial(self) -> None:
        """Stop waiting for the trial."""


class Rewinds(Protocol):
    """A stepped subsystem that can undo its last step."""

    def keep_states(self) -> None:
        """Keep the state before each step from now on."""

    def go_back(self, tick: int, h: float) -> None:
        """Undo the step of the last dispatch and repeat it with the length `h` [s].

        Never blocks; the answer goes to the inbox. Requires `keep_states`.
        """


class Repeats(Protocol):
    """An in-process subsystem that can repeat its last step with other inputs.

    Requires `Rewinds.keep_states`; `coefficients` have the shape (order + 1, n_inputs), `h` is in
    s.
    """

    @property
    def apart(self) -> Sequence[tuple[slice, slice]]:
        """Inputs and outputs of parts that do not depend on each other within a step."""

    def repeat(self, h: float, coefficients: Floats) -> None:
        """Undo the last step and repeat it with these inputs; it runs in `Link.receive`."""

    def tried(self, h: float, coefficients: Floats) -> Floats:
        """Outputs at the end of the step with these inputs; the state stays unchanged."""


class Asks(Protocol):
    """A subsystem that prompts operators."""

    def answer(self, number: int, answer: str, who: str) -> bool:
        """Send an operator's answer to the prompt `number`; return False if that fails."""


class Returns(Protocol):
    """A subsystem that may be lost and return while the session runs."""

    @property
    def returned(self) -> bool:
        """Whether it has reconnected and waits for `initialize_again`."""

    def initialize_again(self, t0: float, u0: Floats) -> None:
        """Initialize it at `t0` [s] with the inputs `u0`, shape (n_inputs,).

        Never blocks; the answer goes to the inbox.
        """


class Link(abc.ABC):
    """Connection of the master to a subsystem.

    Life cycle: `prepare` → `open` → `initialize` → `arm` → (`dispatch`, `receive`)* → `stop` →
    `close`, with `safe` at any time after `open`. `dispatch` and `receive` are called at every tick
    and must not block; everything else relies on that. Every awaited method has its own deadline
    and raises `PeerLost` when it passes; `safe`, `stop` and `close` never raise and may be called
    twice. An adapter must implement `open`, `initialize`, `dispatch` and `receive`.

    Parameters
    ----------
    name : str
        The subsystem's name in the session file.
    options : SubsystemOptions
        Its table, an instance of the class's `Options`.
    folder : Path
        Base of relative paths in `options` (the session file's folder).
    """

    # Properties of the adapter, known before any connection.

    Options: ClassVar[type[SubsystemOptions]]
    #: Struct of a ``[groups.NAME]`` table; None if the adapter does not support groups.
    GroupOptions: ClassVar[type[SubsystemOptions] | None] = None
    #: A physical bench, or another subsystem that runs on its own and cannot be stepped.
    physical: ClassVar[bool] = False
    #: A peer that connects to the session's address, see `SessionContext.carrier`.
    remote: ClassVar[bool] = False
    #: Whether the session starts the table's ``spawn`` command.
    spawns: ClassVar[bool] = False
    #: Whether benches run their stop sequence if it is lost, because it only drives the test.
    stops_in_order: ClassVar[bool] = False
    #: Equivalent class in the master's process, for simulations; None if this class is one.
    called: ClassVar[type[Link] | None] = None

    # Properties of the subsystem, known after `open`.

    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    #: Parameters that `set_parameter` may change.
    parameters: Sequence[Parameter] = ()
    #: Delay from sending a set-point to its effect [s]; the master sends them this much earlier.
    actuation_delay: float = 0.0
    #: Longest time between two values of a bench's output, if known beforehand, s; else 0.
    sending_interval: float = 0.0
    #: Likewise for its most frequent output, which determines when a bench is late.
    fastest_interval: float = 0.0
    #: Session time after which there are no more data [s]; the session ends regularly at the first
    #: communication point at or after it.
    ends: float = math.inf
    #: Defects found before the start: names of `FINDINGS`.
    findings: Sequence[str] = ()
    #: Whether samples may report discontinuities.
    tells_events: bool = False
    #: Files copied into the log (a CAN database, a model description).
    files: Sequence[Path] = ()
    #: Buses whose frames the subsystem's process sends to the recorder.
    buses: Sequence[str] = ()
    #: Outputs that are multiplexers in a CAN database: they select the form of a message.
    multiplexers: Sequence[str] = ()
    #: Objects shared with other connections, if any; set by `prepare`.
    carrier: Carrier | None = None
    probes: Probes = Probes()
    in_slack: TriesInSlack | None = None
    rewinds: Rewinds | None = None
    repeats: Repeats | None = None
    asks: Asks | None = None
    returns: Returns | None = None

    # Values that change while the session runs.

    #: Receives samples; set once `inputs` and `outputs` are known.
    inbox: SampleSink = _Nowhere()
    #: Newest outputs of a bench, also while no session runs; None if unknown.
    latest: Floats | None = None
    #: Number of messages known to be lost.
    lost: int = 0
    #: Number of messages that arrived but were unusable: malformed, too large or of unknown type;
    #: for a bench or a log also invalid frames, such as damaged ones.
    dropped: int = 0
    #: Reports of the subsystem for the log; a `carrier`, if any, lists it in `reporting`.
    events: deque[Any] | None = None
    #: Changes of the session's numbers by a test sequence, for the next cut.
    demands: deque[tuple[str, float]] | None = None
    #: Reason why a lost subsystem that may return cannot be stepped.
    absent: str = ""
    #: Sends a line to the process whose `Command` has `takes_lines`, without waiting.
    send_line: Callable[[str], None] | None = None
    #: Called with each line that this process writes.
    on_line: Callable[[str], None] | None = None
    #: Begins or ends a named fault of an emulated bench, without waiting.
    switch_fault: Callable[[str, bool], None] | None = None
    #: Reason why an enabled bench may not be at rest after `safe` or `stop`; empty if it is at
    #: rest, and for models.
    not_at_rest: str = ""

    def __init__(self, name: str, options: SubsystemOptions, folder: Path) -> None:
        self.name = name
        self.options = options
        self.folder = folder

    def __init_subclass__(cls) -> None:
        """Refuse an adapter for an earlier version, whose methods would never be called."""
        old = [name for name in _REPLACED if name in vars(cls)]
        if old and not cls.remote and not issubclass(cls, Probes):
            raise ConfigError(
                f"{cls.__module__}:{cls.__qualname__} is an adapter for an earlier version: "
                f"{', '.join(f'{name} is now {_REPLACED[name]}' for name in old)}; "
                f"{in_documentation('docs/moving_adapters.md')} explains how to update it"
            )

    @classmethod
    def describe(
        cls, name: str, options: SubsystemOptions, folder: Path, run_code: bool = True
    ) -> Description:
        """Describe a subsystem by its table, without connecting.

        Problems of the table are in the result, not raised; a user's code may raise any exception.

        Parameters
        ----------
        name, options, folder
            As for the class.
        run_code : bool
            Run foreign code, such as a model's constructor; otherwise `Description.code` names the
            code that was skipped.
        """
        return Description()

    def prepare(self, context: SessionContext) -> Sequence[Command]:
        """Read the session's settings, before `open`; return the processes to start, in order.

        They are stopped in reverse order.
        """
        return ()

    @abc.abstractmethod
    async def open(self) -> None:
        """Connect, and determine `inputs` and `outputs`."""

    @abc.abstractmethod
    async def initialize(self, t0: float, u0: Floats) -> Sample:
        """Set the inputs `u0`, shape (n_inputs,), at `t0` [s] and return the outputs there."""

    async def arm(self, u0: Floats) -> None:
        """Enable the bench and bring its inputs to `u0` within their limits; no-op for models."""

    def set_parameter(self, name: str, value: float) -> str:
        """Change a parameter from the next step on; return the reason for a refusal, or "".

        Never blocks.
        """
        return "it has no parameters that can change while it runs"

    @abc.abstractmethod
    def dispatch(self, tick: int, t: float, h: float, coefficients: Floats) -> None:
        """Send the inputs for ``[t, t + h]`` [s]; never blocks.

        `coefficients`, shape (order + 1, n_inputs), are Taylor coefficients about `t`; the caller
        may reuse the array afterwards. With a `carrier`, sending may wait for its `flush`.
        """

    @abc.abstractmethod
    def receive(self) -> None:
        """Put samples that arrived since the last call into `inbox`; never blocks.

        A stepped subsystem puts one sample per dispatch. Samples may also be put between two calls,
        as soon as they arrive.

        Raises
        ------
        PeerLost
            If the subsystem is gone; also at every later call.
        """

    def fileno(self) -> int | None:
        """Descriptor that is readable when data has arrived; None: poll `receive`."""
        return None

    async def safe(self, reason: str) -> None:
        """Run the bench's safe profile; no effect for models."""

    async def stop(self, reason: str) -> None:
        """Stop regularly: run the safe profile, withdraw enabling, release the solver."""

    async def close(self) -> None:
        """Release all resources."""
