"""Drives exchange and macro step with solvers in memory: no session, no process, no wall clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hilrt.config.from_toml import build
from hilrt.config.structs import Session, SubsystemOptions
from hilrt.coupling.build_model import build_model
from hilrt.exchange.exchange import Exchange
from hilrt.link import Link, Ports
from hilrt.reliability.flags import FlagChange, flag_changes
from hilrt.session.assembly import Assembled, as_fast_as_possible, real_time
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver
from hilrt.step.build_plan import Platform
from hilrt.step.numerics import Numerics, build_numerics
from hilrt.tables.model import Model
from hilrt.tables.network import Network, build_network
from hilrt.timing.clock import Clock
from hilrt.timing.pace import Pace
from hilrt_adapters.inprocess import InProcessLink


def make_session(tables: Mapping[str, Any]) -> Session:
    """Typed tables from what a session file would hold; `session` and `adapter` are filled in."""
    problems: list[str] = []
    raw = {"session": {"name": "test", "duration": 1.0, "pace": "asap"}, **tables}
    session = build(Session, {**raw, "subsystems": {}}, "", problems)
    subsystems = {
        name: build(SubsystemOptions, {"adapter": "memory", **table}, name, problems)
        for name, table in raw["subsystems"].items()
    }
    assert session is not None, problems
    assert not problems, problems
    session.subsystems = subsystems
    return session


def make_network(ports: Mapping[str, Ports], **tables: Any) -> tuple[Network, Session]:
    """Network of subsystems given by their ports alone, and the session it was built from."""
    tables.setdefault("master", {"step": 1e-3})
    tables.setdefault("subsystems", {name: {} for name in ports})
    session = make_session(tables)
    return build_network(ports, session), session


def make_numerics(
    ports: Mapping[str, Ports], *, physical: Sequence[str] = (), shadow: bool = False, **tables: Any
) -> Numerics:
    """Numerics of subsystems given by their ports alone, which start at their start values."""
    network, session = make_network(ports, **tables)
    platform = Platform(np.array([name in physical for name in ports]), np.zeros(len(ports)))
    y0 = np.zeros(len(network.outputs))
    for part, port in network.outputs.ports.values():
        y0[part] = port.start
    return build_numerics(network, session, platform, y0, network.u_start, shadow=shadow)


class Asked(NamedTuple):
    """One dispatch to a `MemoryLink`."""

    tick: int
    t: float
    h: float
    coefficients: Floats


class MemoryLink(Link):
    """A solver called directly; its answer can be held back for a number of cuts.

    Parameters
    ----------
    hold_back : callable
        From a tick to the number of looks that the answer to its dispatch stays away.
    """

    def __init__(
        self,
        name: str,
        solver: Solver,
        *,
        physical: bool = False,
        hold_back: Callable[[int], int] = lambda tick: 0,
    ) -> None:
        self.name, self.solver, self.physical = name, solver, physical
        self.inputs, self.outputs = tuple(solver.inputs), tuple(solver.outputs)
        self.parameters = tuple(solver.parameters)
        self.hold_back = hold_back
        self.asked: list[Asked] = []
        self._answer: tuple[Sample, float] | None = None
        self._wait = 0

    async def open(self) -> None:
        raise NotImplementedError

    async def initialize(self, t0: float, u0: Floats) -> Sample:
        raise NotImplementedError

    def dispatch(self, tick: int, t: float, h: float, coefficients: Floats) -> None:
        assert self._answer is None or self.physical, "a second advance while one is outstanding"
        self.asked.append(Asked(tick, t, h, coefficients.copy()))
        sample = self.solver.advance(t, h, InputPolynomial(t, self.asked[-1].coefficients))
        self._answer, self._wait = (sample, t + h), self.hold_back(tick)

    def receive(self) -> None:
        if self._answer is None:
            return
        if self._wait > 0:
            self._wait -= 1
            return
        answer, self._answer = self._answer, None
        self.inbox.put(*answer)


def hosted(name: str, solver: Solver) -> InProcessLink:
    """An in-process link, opened, to a solver made already."""
    link = InProcessLink(name, SubsystemOptions(adapter="inprocess"), Path())
    link.host(solver)
    return link


class Stepping:
    """A session's numerics at their communication points, as fast as they go.

    Parameters
    ----------
    solvers : mapping of str to Solver or MemoryLink
    shadow : bool
        Compute corrections, apply none.
    lead : dict
        Actuation delay by subsystem, s.
    tables
        The session file's tables other than ``[session]``; or `made`, its network and the session.

    Attributes
    ----------
    changes : list of FlagChange
        Flags that have moved so far.
    """

    def __init__(
        self,
        solvers: Mapping[str, Solver | MemoryLink | InProcessLink],
        *,
        shadow: bool = False,
        lead: Mapping[str, float] | None = None,
        **tables: Any,
    ) -> None:
        self.links = {
            name: MemoryLink(name, s) if isinstance(s, Solver) else s for name, s in solvers.items()
        }
        ports = {name: Ports(link.inputs, link.outputs) for name, link in self.links.items()}
        net, self.tables = tables.pop("made", None) or make_network(ports, **tables)
        physical = np.array([link.physical for link in self.links.values()])
        leads = np.array([(lead or {}).get(name, 0.0) for name in self.links])
        self.network, self.shadow = net, shadow
        parameters = [link.parameters for link in self.links.values()]
        self.platform = Platform(physical, leads, parameters=parameters)
        self.samples, self.u0 = self._initialize(net)
        self.y0 = np.concatenate([s.y for s in self.samples])
        self.tick = self.t_ns = self.elapsed_ns = 0
        self.h_ns = 0
        self.changes: list[FlagChange] = []
        self._build(None)

    def correct(self, **corrections: Any) -> None:
        """Correct outputs, from before the first step: keywords of `build_model`."""
        self._build(build_model(self.network, self.y0, **corrections))

    def _build(self, model: Model | None) -> None:
        start = (self.network, self.tables, self.platform, self.y0, self.u0)
        self.numerics = build_numerics(*start, shadow=self.shadow, model=model)
        self.plan, self.state = self.numerics.plan, self.numerics.state
        self.given = self.numerics.given
        misses = [table.late.max_misses for table in self.tables.subsystems.values()]
        self.exchange = Exchange(
            self.numerics, list(self.links.values()), self.tables.master.step, misses
        )
        self.exchange.start(self.samples)

    @property
    def assembled(self) -> Assembled:
        """What a master steps."""
        return Assembled(self.numerics, self.exchange)

    def real_time(self, clock: Clock, on_shift: Callable[[int], None] = lambda ns: None) -> Pace:
        """The pace of a master in real time."""
        return real_time(self.assembled, self.tables, clock, 1.0, on_shift)

    def as_fast_as_possible(self) -> Pace:
        """The pace of a master that waits for its solvers."""
        return as_fast_as_possible(self.assembled, self.tables, list(self.links.values()))

    def _initialize(self, net: Network) -> tuple[list[Sample], Floats]:
        samples = [Sample(np.zeros(0)) for _ in self.links]
        y0, u0 = np.zeros(len(net.outputs)), net.u_start.copy()
        solvers = [link.solver for link in self.links.values()]
        for s in net.initialization_order():
            np.copyto(u0, net.L @ y0 + net.offset, where=net.connected)
            samples[s] = solvers[s].initialize(0.0, u0[net.inputs.slices[s]])
            y0[net.outputs.slices[s]] = samples[s].y
        np.copyto(u0, net.L @ y0 + net.offset, where=net.connected)
        return samples, u0

    @property
    def t(self) -> float:
        """Session time of the communication point, s."""
        return self.t_ns / 1e9

    def look(self) -> None:
        """Cut, macro step and assessment at the present communication point."""
        self.exchange.cut(self.tick, self.t_ns, self.elapsed_ns)
        self.numerics.macro_step()
        self.numerics.assess()
        if self.state.session["moved"][0]:
            self.changes += flag_changes(self.numerics.checks, self.state, self.t)

    def go(self) -> None:
        """Dispatch, and go on to the next communication point."""
        self.h_ns = round(self.numerics.h_next * 1e9)
        self.exchange.dispatch(self.t_ns, self.h_ns)
        self.t_ns += self.h_ns
        self.elapsed_ns = self.h_ns
        self.tick += 1

    def run(self, duration: float, probe: Callable[[Stepping], Any] = lambda s: None) -> list[Any]:
        """Run to the first communication point at or after `duration` [s].

        Returns what `probe` returned at every communication point.
        """
        end_ns = round(duration * 1e9)
        seen = []
        while True:
            self.look()
            seen.append(probe(self))
            if self.t_ns >= end_ns:
                return seen
            self.go()

    def output(self, name: str) -> int:
        """Index of an output channel."""
        return self.network.outputs.names.index(name)

    def input(self, name: str) -> int:
        """Index of an input channel."""
        return self.network.inputs.names.index(name)


class Recorded(Solver):
    """Outputs that follow given functions of time; keeps the inputs it was given.

    Parameters
    ----------
    outputs : mapping of str to callable
        Name of each output and its value at a time [s].
    inputs : sequence of Port
    middle : bool
        Report the outputs in the middle of each step, too.
    """

    def __init__(
        self,
        outputs: Mapping[str, Callable[[float], float]],
        inputs: Sequence[Port] = (),
        *,
        middle: bool = False,
    ) -> None:
        self.functions = list(outputs.values())
        self.outputs = tuple(Port(name) for name in outputs)
        self.inputs = tuple(inputs)
        self.middle = middle
        self.polynomials: list[InputPolynomial] = []

    def at(self, t: float) -> Floats:
        return np.array([f(t) for f in self.functions])

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return Sample(self.at(t0))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.polynomials.append(u)
        return Sample(self.at(t + h), y_mid=self.at(t + 0.5 * h) if self.middle else None)
