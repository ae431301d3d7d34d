"""Interface of the master to a subsystem, whatever is behind it."""

from __future__ import annotations

import abc
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from hilrt.errors import ConfigError
from hilrt.solver import Floats, Parameter, Port, Ports, Sample, Solver

if TYPE_CHECKING:
    from pathlib import Path

    from hilrt.config.session_file import SessionFile
    from hilrt.config.structs import SubsystemOptions

#: Everything that an adapter needs beside `hilrt.solver`.
__all__ = [
    *("Carrier", "CodeRun", "Command", "Description", "LinearModel", "Link", "Ports", "Probes"),
    *("Asks", "Repeats", "Returns", "Rewinds", "SampleSink", "SessionContext"),
]


#: Subsystems with more numbers in their state are not probed: each costs a few steps.
LARGEST_STATE = 48
#: Defects of a subsystem that can be found before the start, by the names of the causes.
FINDINGS = ("steps_final", "inputs_ignored")


class SampleSink(Protocol):
    """Receives the samples of a subsystem from its link."""

    def put(
        self,
        sample: Sample,
        t_arrived: float,
        *,
        uncertainty: float | None = None,
        round_trip_us: float | None = None,
        way_us: float = math.nan,
    ) -> None:
        """Put a sample in; never blocks, and copies the arrays.

        Parameters
        ----------
        sample : Sample
            A solver's is valid at the end of its step, a bench's when it arrived, where it says
            nothing else. NaN in `t_valid`: no new value of this output.
        t_arrived : float
            When it arrived, in session time, s.
        uncertainty : float, optional
            Of a bench: how well its clock is known, s; NaN: not yet. Validity that lies in the
            future by more than that shows how far the clock is off, and is set to `t_arrived`.
        round_trip_us, way_us : float, optional
            Of a solver in another process: time from sending the step until the answer was read,
            and until the solver took it.

        Raises
        ------
        SolverError
            If it does not have as many outputs as were announced.
        """


class _Nowhere:
    """Drops samples: there is no exchange yet."""

    def put(self, *arguments: object, **more: object) -> None:
        pass


#: Outputs inside a step, in a trial: not seen; as smooth as their ends suggest; not so smooth.
UNSEEN, SMOOTH, SWITCHES = range(3)


class LinearModel(NamedTuple):
    """A subsystem about its present state: ``x' = A x + B u``, ``y = C x + D u``.

    Attributes
    ----------
    A, B, C, D : ndarray, shape (nx, nx), (nx, nu), (ny, nx), (ny, nu)
    fineness : ndarray, shape (nu,)
        How finely the subsystem follows each input inside a macro step: 1 continuously, 0 only the
        value at its start, 1 - 1/n in n steps of its own.
    linear : bool
        Whether it holds for any state.
    lacking : tuple of int
        Outputs of which nothing is known.
    of_reference : bool
        Whether it is that of a model beside the subsystem.
    slope : ndarray, shape (nu,), optional
        How much of an input polynomial's change inside a macro step acts: 0 its start alone, as if
        it were held, 1 all; without it, all.
    inside : int
        Whether its outputs were seen between communication points: `UNSEEN`, `SMOOTH`, or
        `SWITCHES`.
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


class Command(NamedTuple):
    """A process that `hilrt run` starts for a subsystem: its name, and its argument list.

    `connects` says whether it connects to the master: only then it is given the session's keys.
    `told` says whether it takes lines on its standard input, `Link.tell`, and answers by lines on
    its standard output, `Link.hear`.
    """

    name: str
    argv: list[str]
    connects: bool = True
    told: bool = False


class CodeRun(NamedTuple):
    """Code that is not hilrt's own, and is run to check a table.

    Attributes
    ----------
    key : str
        The table's key that names it.
    does : str
        What is done with it, as text.
    tells : str
        What is known only after running it.
    """

    key: str
    does: str
    tells: str


class FrameTime(NamedTuple):
    """A message on a bench's bus, as its table and its database say.

    Attributes
    ----------
    message : str
    sent : bool
        By the session; else by the bench.
    interval : float
        From one frame to the next, s; 0: at every communication point, or more often if those
        are far apart; NaN if it is not known.
    bits : int
        Of the longest frame, with all stuff bits that it can have; 0 if it is not known.
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
        Without its counter and its checksum.
    counts, guarded, enables : bool
        Whether it has a counter, a checksum, and the state by which the bench confirms its enable.
    """

    signals: tuple[str, ...]
    counts: bool
    guarded: bool
    enables: bool = False


@dataclass(frozen=True, kw_only=True)
class Description:
    """A subsystem as its table describes it, as far as that is known without connecting.

    Attributes
    ----------
    ports : Ports or None
        None if they are known only after connecting. With `problems`, every port that the table
        names; their limits may be unknown.
    unclear : frozenset of str
        Ports of which nothing but the name is known.
    problems : sequence of str
        Errors of the table, a line each, with place and remedy.
    remarks : sequence of str
        Warnings about the table.
    code : CodeRun or None
        Code that was not run and that would tell more.
    wrong_starts : mapping of str
        Inputs whose start value in the table the subsystem would refuse, and why.
    unsupported_variables : mapping of str
        Variables that no port can carry, and why.
    missing_on_host : sequence of str
        Requirements that this host does not meet, each with a remedy.
    tells_events : bool
        Whether `Link.tells_events` is known to be true after `open`.
    restores : bool or None
        Whether it can make a step again; None if that is known only after `Link.open`.
    end_time : float
        Last session time that the table allows the subsystem, s.
    frames : sequence of FrameTime
        Of a bench: what is on its bus because of the session.
    emulated : callable
        Makes an emulated bench, and returns the messages that it sends; None for all else.
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


#: Names in earlier versions of `Link`, and their replacements.
_REPLACED = {
    **dict.fromkeys(("poll", "take"), "receive"),
    **dict.fromkeys(("learn", "commands", "operated"), "prepare"),
    **dict.fromkeys(("ports", "ports_without_code", "runs_code", "remarks"), "describe"),
    **dict.fromkeys(("jacobian", "response", "linear_model"), "probes"),
    **dict.fromkeys(("can_go_back",), "rewinds"),
}


class Carrier(Protocol):
    """Shared carrier of several connections' messages: the hub of remote peers.

    Attributes
    ----------
    changed, reporting : dict
        Connections, as keys, whose peer was lost or has returned, and those with `events`, since
        they were removed here.
    """

    changed: dict[Any, None]
    reporting: dict[Any, None]

    def clock(self) -> int:
        """Reading of the clock that `receive` and `upkeep` end by, ns."""

    def session_time(self) -> float:
        """Session time now, s."""

    def fileno(self) -> int:
        """Descriptor that is readable when something has arrived for any of the connections."""

    def receive(self, until_ns: int) -> int:
        """Pass on arrived messages, until then; returns their number. Never blocks."""

    def drain(self) -> None:
        """Pass on all arrived messages, and do the work of `upkeep`; never blocks."""

    def flush(self) -> None:
        """Send the messages dispatched since the last call, together; never blocks."""

    def upkeep(self, until_ns: int) -> None:
        """Send heartbeats that are due and accept connections, until then; never blocks."""

    def why_dropped(self, name: str) -> str:
        """The newest message from subsystem `name` that could not be used, and why; else empty."""


class SessionContext(NamedTuple):
    """Facts of a session for a connection that is about to open.

    Attributes
    ----------
    file : SessionFile
    carrier : Carrier or None
        Where remote peers connect; None in a session without processes.
    operated : bool
        Whether an operator can answer what a subsystem asks.
    """

    file: SessionFile
    carrier: Carrier | None = None
    operated: bool = False


# Optional abilities of connections. Such a connection sets the attribute of `Link` in `open`.


class Probes:
    """Answers questions about a subsystem between two steps; by itself, none.

    All are about its present state, which the answer leaves as it is. The macro step is `h` [s],
    the inputs around which it is probed are `u`, shape (n_inputs,).
    """

    async def jacobian(
        self, source: str, t: float, h: float, order: int, u: Floats
    ) -> Floats | None:
        """Interface Jacobians Γ_0 … Γ_order at `t` [s]; None if there are none.

        `source` is "solver" (what the solver says) or "probe" (probed). The result has the shape
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
        """The subsystem about its state before the first step; None if it cannot be probed.

        It is for an estimate alone: values that are late or invalid are None.
        """
        return None

    async def renewed_model(self, t: float, h: float, u: Floats) -> LinearModel | None:
        """The same at `t` [s], while the session runs: A, B, C and D; None if there are none.

        The subsystem's steps from there on are those that it would have made without.
        """
        return None


class TriesInSlack(Protocol):
    """A subsystem that is probed while it makes its steps, in the time between them."""

    def begin_trial(self, h: float, u: Floats) -> None:
        """Have it probed, for macro steps `h` [s], about inputs `u`, shape (n_inputs,).

        Never waits. It chooses the state, that of one of its next steps.
        """

    def take_trial(self) -> tuple[bool, LinearModel | None]:
        """Whether the trial has ended, and what it found; None if that is nothing."""

    def give_up_trial(self) -> None:
        """Do not wait for it any more."""


class Rewinds(Protocol):
    """A stepped subsystem that can undo its last step."""

    def keep_states(self) -> None:
        """Keep the state before each step from now on."""

    def go_back(self, tick: int, h: float) -> None:
        """Undo the step of the last dispatch and make it again with the length `h` [s].

        Never blocks; the answer goes to the inbox. Only after `keep_states`.
        """


class Repeats(Protocol):
    """A subsystem in this process that can make its last step with other inputs.

    Only after `Rewinds.keep_states`; `coefficients` have the shape (order + 1, n_inputs), `h` is
    in s.
    """

    @property
    def apart(self) -> Sequence[tuple[slice, slice]]:
        """Inputs and outputs of parts that do not depend on each other within a step."""

    def repeat(self, h: float, coefficients: Floats) -> None:
        """Undo the last step and make it with these inputs; it runs in `Link.receive`."""

    def tried(self, h: float, coefficients: Floats) -> Floats:
        """Outputs at the end of the step with these inputs; the subsystem stays where it is."""


class Asks(Protocol):
    """A subsystem that asks operators."""

    def answer(self, number: int, answer: str, who: str) -> bool:
        """Hand on an operator's answer to the prompt `number`; False if that cannot be done."""


class Returns(Protocol):
    """A subsystem that may be lost and take its place again while the session runs."""

    @property
    def returned(self) -> bool:
        """Whether it is connected again, and waits for `initialize_again`."""

    def initialize_again(self, t0: float, u0: Floats) -> None:
        """Have it initialize at `t0` [s] with the inputs `u0`, shape (n_inputs,).

        Never blocks; the answer goes to the inbox.
        """


class Link(abc.ABC):
    """A subsystem as the master drives it.

    Life: `prepare` → `open` → `initialize` → `arm` → (`dispatch`, `receive`)* → `stop` → `close`,
    with `safe` at any time after `open`. `dispatch` and `receive` are called at every tick and
    never block: they are the contract that everything else rests on. Every awaited method has a
    deadline of its own and raises `PeerLost` when it passes; `safe`, `stop` and `close` never raise
    and may be called twice. An adapter has to write `open`, `initialize`, `dispatch` and `receive`.

    Parameters
    ----------
    name : str
        The subsystem's name in the session file.
    options : SubsystemOptions
        Its table, an instance of the class's `Options`.
    folder : Path
        Relative paths in `options` start here (the session file's folder).
    """

    # Facts of the adapter, known before any connection is made.

    Options: ClassVar[type[SubsystemOptions]]
    #: Struct of a ``[groups.NAME]`` table; None if the adapter carries no groups.
    GroupOptions: ClassVar[type[SubsystemOptions] | None] = None
    #: A physical bench, or one that runs by itself: it cannot wait and cannot be stepped.
    physical: ClassVar[bool] = False
    #: A peer that connects to the session's address, see `SessionContext.carrier`.
    remote: ClassVar[bool] = False
    #: Whether the table's ``spawn`` command is started.
    spawns: ClassVar[bool] = False
    #: Whether benches go through their stop sequence when it is lost: it only drives the test.
    stops_in_order: ClassVar[bool] = False
    #: Class that runs the same in the master's process, where this one does not, for simulations.
    called: ClassVar[type[Link] | None] = None

    # Facts about the subsystem, known after `open`.

    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    #: Numbers that `set_parameter` may change.
    parameters: Sequence[Parameter] = ()
    #: Delay from a set-point on the wire to its effect [s]; the master sends set-points that much
    #: earlier.
    actuation_delay: float = 0.0
    #: The longest time between two values of an output of a bench, as far as that is known
    #: beforehand, s; else 0.
    sending_interval: float = 0.0
    #: The same of the output that comes most often: a bench is late by this one.
    fastest_interval: float = 0.0
    #: Session time at which there is nothing more to come [s]; the session then ends in order, at
    #: the first communication point at or after it.
    ends: float = math.inf
    #: Defects found before the start: names of `FINDINGS`.
    findings: Sequence[str] = ()
    #: Whether samples may report discontinuities.
    tells_events: bool = False
    #: Files that the log keeps a copy of (a CAN database, a model description).
    files: Sequence[Path] = ()
    #: Buses whose frames the subsystem's process hands to the recorder.
    buses: Sequence[str] = ()
    #: Outputs that are multiplexers in a CAN database: which form of a message came, no quantity.
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

    #: Where samples go; set once `inputs` and `outputs` are known.
    inbox: SampleSink = _Nowhere()
    #: Newest outputs of a bench, also while no session runs; None if they are not known.
    latest: Floats | None = None
    #: Messages that never arrived, as far as the connection can tell.
    lost: int = 0
    #: Messages that arrived and could not be used: malformed, too large or of an unknown type; of a
    #: bench or a log also frames that do not count, such as damaged ones.
    dropped: int = 0
    #: What the subsystem reports as text, and is to be logged; with a `carrier`, which then lists
    #: it in `reporting`, or without.
    events: deque[Any] | None = None
    #: Numbers of the session that a test sequence changes, and their values, for the next cut.
    demands: deque[tuple[str, float]] | None = None
    #: Why the subsystem cannot be given steps, if it was lost and may return.
    absent: str = ""
    #: Sends a line to the process whose `Command` is `told`, without waiting.
    tell: Callable[[str], None] | None = None
    #: Takes a line that this process writes.
    hear: Callable[[str], None] | None = None
    #: Begins or ends a fault that an emulated bench makes, by its name, without waiting.
    switch_fault: Callable[[str, bool], None] | None = None
    #: Why a bench that was enabled is not known to be at rest after `safe` or `stop`; empty if it
    #: is, and for models.
    not_at_rest: str = ""

    def __init__(self, name: str, options: SubsystemOptions, folder: Path) -> None:
        self.name = name
        self.options = options
        self.folder = folder

    def __init_subclass__(cls) -> None:
        """Refuse an adapter for an earlier version, whose methods nothing would call."""
        old = [name for name in _REPLACED if name in vars(cls)]
        if old and not cls.remote and not issubclass(cls, Probes):
            raise ConfigError(
                f"{cls.__module__}:{cls.__qualname__} is an adapter for an earlier version: "
                f"{', '.join(f'{name} is now {_REPLACED[name]}' for name in old)}; "
                "docs/moving_adapters.md explains how to update it"
            )

    @classmethod
    def describe(
        cls, name: str, options: SubsystemOptions, folder: Path, run_code: bool = True
    ) -> Description:
        """Describe a subsystem by its table, without connecting.

        Problems of the table are in the result, not raised; a user's code may raise anything.

        Parameters
        ----------
        name, options, folder
            As for the class.
        run_code : bool
            Run code that is not hilrt's own, such as the constructor of a model; otherwise
            `Description.code` says what was left out.
        """
        return Description()

    def prepare(self, context: SessionContext) -> Sequence[Command]:
        """Read settings of the session, before `open`; return the processes to start, in order.

        They end in the opposite order.
        """
        return ()

    @abc.abstractmethod
    async def open(self) -> None:
        """Connect, and learn `inputs` and `outputs`."""

    @abc.abstractmethod
    async def initialize(self, t0: float, u0: Floats) -> Sample:
        """Set the inputs `u0`, shape (n_inputs,), at `t0` [s] and return the outputs there."""

    async def arm(self, u0: Floats) -> None:
        """Enable the bench and bring its inputs to `u0` within their limits; models: nothing."""

    def set_parameter(self, name: str, value: float) -> str:
        """Change a parameter from the next step on; why it is refused, or an empty text.

        Never blocks.
        """
        return "it has no parameters that can change while it runs"

    @abc.abstractmethod
    def dispatch(self, tick: int, t: float, h: float, coefficients: Floats) -> None:
        """Send the inputs for ``[t, t + h]`` [s]; never blocks.

        `coefficients`, shape (order + 1, n_inputs), are Taylor coefficients about `t`; they belong
        to the caller again when the method returns. With a `carrier` it may wait for its `flush`.
        """

    @abc.abstractmethod
    def receive(self) -> None:
        """Put samples that arrived since the last call into `inbox`; never blocks.

        A stepped subsystem puts one sample there for each dispatch. Samples may also be put there
        between two calls, as soon as they are known.

        Raises
        ------
        PeerLost
            If the subsystem is known to be gone, at every call from then on.
        """

    def fileno(self) -> int | None:
        """Descriptor that is readable when something has arrived; None: ask `receive` again."""
        return None

    async def safe(self, reason: str) -> None:
        """Run the bench's safe profile; models: nothing."""

    async def stop(self, reason: str) -> None:
        """End in order: the safe profile, enable withdrawn, the solver released."""

    async def close(self) -> None:
        """Free every resource."""
