"""Emulated bench built from a session's table: constants, or a user's solver.

It sends every message that the session measures at the cycle time of the database, with counters
and checksums as in the table, and confirms the enable request. It follows set-points at their
maximum rate, and outputs that measure set-points report them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hilrt.bench.bench_on_bus import EmulatedBench
from hilrt.bench.bench_options import BenchOptions
from hilrt.bench.emulate import BENCHES, Emulation, main, refuse
from hilrt.bench.read_bench import Bench, emulated_cycle, read_bench
from hilrt.can.codec import bits, multiplexers, start_values
from hilrt.can.database import SignalRef, declared_range, representable
from hilrt.can.frame import CLASSIC_BYTES, FD_BYTES
from hilrt.can.protection import MessageOptions, counter_of, protection_of
from hilrt.config import units
from hilrt.config.from_toml import nearest
from hilrt.config.session_file import load_session
from hilrt.errors import ConfigError, SolverError
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.load_solver import load_solver
from hilrt.hosting.reference_model import same_channels
from hilrt.solver import Floats, Parameter, Port, Ports, Solver
from hilrt.tables.ports import Coupled, wrong_ports

if TYPE_CHECKING:
    from cantools.database.can import Message

#: Names of a message and of a signal in it.
Place = tuple[str, str]
#: `emulator` of a bench with constant values.
CONSTANTS = "database"
#: Time without demands after which the bench disables itself, s; or this many of their cycles.
DEMAND_TIMEOUT_S = 0.5
DEMAND_CYCLES = 10
#: Minimum time between two cycles, s: it multiplies rates, which are infinite for enumerations.
TINY_S = 1e-9


class DatabaseBench:
    """Emulated bench of a session's table.

    Parameters
    ----------
    bench : Bench
        The table with its database.
    values : mapping of str to float
        Constant values of outputs, in the units of their ports.
    solver : Solver, optional
        Computes outputs from set-points; ports are matched by name, with convertible units.

    Raises
    ------
    ConfigError
        If a value belongs to no output, the solver's ports do not fit, or a message cannot be sent.
    """

    def __init__(
        self, bench: Bench, values: Mapping[str, float], solver: Solver | None = None
    ) -> None:
        problems = _unfit_values(bench, values)
        for message in bench.received:
            if why := unsendable(message):
                text = f"message {message.name} cannot be emulated: it {why}; remove its outputs"
                problems.append(text)
        if problems:
            raise ConfigError(problems)
        self._hosted = None if solver is None else HostedSolver(solver)
        if solver is not None:
            self._map_ports(bench, solver)
        self._map_signals(bench)
        for name, value in values.items():
            self.put(self._outputs[list(bench.outputs).index(name)], value)
        self._followed = _followed(bench, set() if solver is None else _names(solver.outputs))
        self._safe = np.array(bench.limits.safe)
        self._rates = np.array(bench.limits.max_rate)
        self._wanted, self._inputs = self._safe.copy(), self._safe.copy()
        cycles = [message.cycle_time or 0 for message in bench.driven]
        self._patience = max(DEMAND_TIMEOUT_S, DEMAND_CYCLES * max(cycles, default=0) / 1e3)
        self._heard = -math.inf
        self._asked = self._tripped = False
        self.enabled = False
        self._now = self._stepped = 0.0
        self._period = min(self.sends.values()) / 1e3
        computed = set() if solver is None else _names(solver.outputs)
        realised = {one.realised for one in bench.options.inputs.values()}
        self._constant = {
            name: place
            for name, place in zip(bench.outputs, self._outputs, strict=True)
            if name not in computed | realised
            and place != self._state
            and place[1] in self._signals[place[0]]  # multiplexers cycle through their forms
        }
        self.parameters = [
            *(solver.parameters if solver is not None else ()),
            *(self._parameter(port) for port in bench.ports.outputs if port.name in self._constant),
        ]
        if self._hosted is not None:
            try:
                self._copy_outputs(self._hosted.initialize(0.0, self._model_inputs()).y)
            except SolverError as error:
                raise ConfigError(str(error)) from error

    def _map_signals(self, bench: Bench) -> None:
        """Find the places of ports, and the signals of received and sent messages."""
        self._demands = {_place(ref): i for i, ref in enumerate(bench.inputs.values())}
        self._outputs = [_place(ref) for ref in bench.outputs.values()]
        self._request = _place(bench.request) if bench.request else None
        self._state = _place(bench.state) if bench.state else None
        receives: dict[str, tuple[str, ...]] = {}
        for name, signal in [*self._demands, *([self._request] if self._request else [])]:
            receives[name] = (*receives.get(name, ()), signal)
        self.receives: Mapping[str, tuple[str, ...]] = receives
        table, received = bench.options, bench.received
        self.sends: Mapping[str, int] = {m.name: emulated_cycle(m, table) for m in received}
        self._signals = {message.name: _constants(message, table) for message in received}
        self._bounds = {
            (message.name, signal.name): (
                (-math.inf, math.inf)  # its frames may contain infinity, too
                if signal.is_float
                else representable(signal)
            )
            for message in received
            for signal in message.signals
        }

    def _parameter(self, port: Port) -> Parameter:
        """A constant output as a parameter, within the signal's range."""
        message, signal = self._constant[port.name]
        value = self._signals[message][signal]
        low, high = min(port.min, value), max(port.max, value)
        return Parameter(port.name, port.unit, value, low, high, port.description)

    def set_parameter(self, name: str, value: float) -> str:
        """Change a constant output, or a solver parameter; return why it is refused, or ""."""
        if name not in self._constant:
            assert self._hosted is not None
            return self._hosted.set_parameter(name, value)
        self.put(self._constant[name], value)
        return ""

    def _map_ports(self, bench: Bench, solver: Solver) -> None:
        """Map the solver's ports to the bench's; `ConfigError` if they do not fit."""
        own = Ports(tuple(solver.inputs), tuple(solver.outputs))
        problems = list(wrong_ports(own, bench.ports, Coupled(set(), set())))
        if not _names(solver.outputs) & set(bench.outputs):
            problems.append(
                f"has none of the bench's outputs, which are {', '.join(bench.outputs)}; name its "
                "outputs like these"
            )
        if problems:
            raise ConfigError([f"{type(solver).__name__} {problem}" for problem in problems])
        self._own_inputs = same_channels(solver.inputs, bench.ports.inputs)
        self._own_outputs = same_channels(solver.outputs, bench.ports.outputs)

    @property
    def requested(self) -> bool:
        """Whether enabling is requested; always true without a handshake."""
        return self._asked or self._request is None

    def receive(self, message: str, values: Mapping[str, float | None], now: float) -> None:
        """Process a message received by `now` [s], before the cycle that ends then."""
        self._heard = now
        for signal, value in values.items():
            if value is None:  # not in this form of the message
                continue
            if (message, signal) == self._request:
                self._asked = value != 0
            elif (index := self._demands.get((message, signal))) is not None:
                self._wanted[index] = value

    def advance(self, now: float) -> None:
        """Run one control cycle, ending at `now` [s]."""
        fresh = now - self._heard <= self._patience
        wanted = self._asked or self._request is None
        if not wanted:
            self._tripped = False
        elif self.enabled and not fresh and self._request is not None:
            self._tripped = True  # until the request is withdrawn
        self.enabled = wanted and fresh and not self._tripped
        most = self._rates * max(now - self._now, TINY_S)
        target = self._wanted if self.enabled else self._safe
        self._inputs += np.clip(target - self._inputs, -most, most)
        self._now = now
        if self._state is not None:
            self.put(self._state, float(self.enabled))
        for i, place, factor, offset in self._followed:
            self.put(place, factor * self._inputs[i] + offset)
        h = now - self._stepped
        if self._hosted is not None and h > self._period - 5e-4:
            u = self._model_inputs()[None]
            self._copy_outputs(self._hosted.advance(self._stepped, h, u).y)
            self._stepped = now

    def measure(self, message: str) -> dict[str, float]:
        """Signals of a message to send, without its counter and checksum."""
        return dict(self._signals[message])

    def _model_inputs(self) -> Floats:
        assert self._hosted is not None
        same, u = self._own_inputs, np.zeros(self._hosted.n_inputs)
        u[same.to] = same.factor * self._inputs[same.of] + same.offset
        return u

    def _copy_outputs(self, y: Floats) -> None:
        """Copy the solver's values to the outputs."""
        same = self._own_outputs
        values = (y[same.to] - same.offset) / same.factor
        for i, value in zip(same.of, values.tolist(), strict=True):
            self.put(self._outputs[i], value)

    def put(self, place: Place, value: float) -> None:
        """Set a signal, limited to its bits' range; an unknown value is ignored."""
        low, high = self._bounds[place]
        if value == value:
            self._signals[place[0]][place[1]] = min(max(float(value), low), high)


def _names(ports: Sequence[Any]) -> set[str]:
    return {port.name for port in ports}


def _unfit_values(bench: Bench, values: Mapping[str, Any]) -> list[str]:
    problems = []
    for name, value in values.items():
        if name not in bench.outputs:
            problems.append(f"{name!r} is not an output{nearest(name, bench.outputs)}")
        elif isinstance(value, bool) or not isinstance(value, int | float):
            problems.append(f"{name} = {value!r}: is not a number")
    return problems


def unsendable(message: Message) -> str:
    """Reason why frames of a message cannot be sent; empty if they can."""
    if message.is_container:
        return "contains others"
    limit = FD_BYTES if message.is_fd else CLASSIC_BYTES
    return f"has {message.length} bytes" if message.length > limit else ""


def _constants(message: Message, table: BenchOptions) -> dict[str, float]:
    """Start values of a message's signals, within their ranges, without counter and checksum."""
    options = table.messages.get(message.name) or MessageOptions()
    guard = protection_of(options, message)
    header = guard.header if guard else 0
    counter = None if guard and guard.counter else counter_of(options, message, table.alive)
    left_out = {counter, *(signal.name for signal in multiplexers(message))}
    start = start_values(message)
    values = {}
    for signal in message.signals:
        if signal.name not in left_out and signal.scale and not bits(message, signal) & header:
            low, high = declared_range(signal)
            values[signal.name] = min(max(float(start[signal.name]), low), high)
    return values


def _place(ref: SignalRef) -> Place:
    return ref.message.name, ref.signal.name


def _followed(bench: Bench, computed: set[str]) -> list[tuple[int, Place, float, float]]:
    """Inputs that an output measures: index, message and signal of the output, factor, offset."""
    found = []
    ports = {port.name: port.unit for port in bench.ports.outputs}
    for i, port in enumerate(bench.ports.inputs):
        name = bench.options.inputs[port.name].realised
        if name is not None and name not in computed:
            ref = bench.outputs[name]
            factor, offset = units.conversion(port.unit, ports[name])
            found.append((i, _place(ref), factor, offset))
    return found


# ---- by a session file ---------------------------------------------------------------------------


def bench_maker(
    name: str, table: BenchOptions, emulator: str, folder: Path
) -> Callable[[], EmulatedBench] | None:
    """Factory of the bench named by `emulator`; None for a built-in one.

    Parameters
    ----------
    name : str
        The subsystem.
    table : BenchOptions
    emulator : str
        One of `BENCHES`, `CONSTANTS`, or ``module:Class``.
    folder : Path
        Folder of the session file, searched first for a module.

    Raises
    ------
    ConfigError
        If there is no such bench. The factory raises it for an unsuitable table.
    """
    if emulator in BENCHES:
        if table.emulator_params:
            raise ConfigError(f"emulator_params: {emulator!r} has no parameters; remove them")
        return None
    if emulator != CONSTANTS and ":" not in emulator:
        raise ConfigError(
            f"there is no such emulated bench{nearest(emulator, [*BENCHES, CONSTANTS])}; give "
            "your own solver as module:Class"
        )

    def make() -> EmulatedBench:
        bench = read_bench(name, table, folder)
        if emulator == CONSTANTS:
            return DatabaseBench(bench, table.emulator_params)
        return DatabaseBench(bench, {}, load_solver(emulator, table.emulator_params, [folder]))

    return make


def emulate_session(
    path: str | Path, subsystem: str, given: Emulation, overrides: Sequence[str] = ()
) -> int:
    """Emulate the bench of a session file's ``[subsystems.NAME]`` table; return the exit status.

    Parameters
    ----------
    path : str or Path
        The session file.
    subsystem : str
    given : Emulation
        Options of the command line: `name`, `duration`, `seed`, `fault`, `scenario`. An empty name
        means that of the table.
    overrides : sequence of str
        Overrides of the session file.
    """
    label = f"[subsystems.{subsystem}]"
    try:
        session = load_session(path, overrides)
        options: Any = session.tables.subsystems.get(subsystem)
        if options is None:
            known = nearest(subsystem, session.tables.subsystems)
            raise ConfigError(f"{session.path.name}: there is no {label}{known}")
        if not hasattr(options, "bus") or not hasattr(options, "database"):
            raise ConfigError(
                f"{session.path.name}: {label} adapter = {options.adapter!r} has no bus; "
                'a bench needs adapter = "can"'
            )
        name = given.name or options.emulator
        if not name:
            raise ConfigError(
                f"{session.path.name}: {label} emulator: missing; "
                f"name one of {', '.join(sorted([*BENCHES, CONSTANTS]))}, or module:Class"
            )
        make = bench_maker(subsystem, options, name, session.folder)
    except ConfigError as error:
        return refuse(error)
    scenario = session.folder / options.scenario if options.scenario else None
    return main(
        Emulation(
            name,
            bus=options.bus,
            database=session.folder / options.database,
            duration=given.duration,
            seed=given.seed,
            fault=given.fault,
            scenario=given.scenario or scenario,
            messages=options.messages,
            alive=options.alive,
            label=f"{label} bus",
            make=make,
            faults=tuple(one for one in session.tables.faults if one.emulated == subsystem),
            adjusted=bool(session.tables.adjusted_parameters(subsystem)),
        )
    )
