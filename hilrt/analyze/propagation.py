"""The propagation matrix of a session.

With linear subsystems and a constant macro step, one cycle of the session (one macro step; with
multi-rate subsystems the macro steps until all communicate together again) is a linear map
``z_{n+1} = Φ z_n`` of the states of subsystems and master, except for constants. Here the stages of
`hilrt.step.macro_step` are applied one by one; each quantity is a matrix with one column per
element of z. Nonlinear parts are left out, and listed in `SessionScheme.left_out`.
"""

from __future__ import annotations

import math
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import numpy as np

from hilrt.analyze.stability import (
    CorrectorMatrices,
    corrector_matrices,
    coupling_by_order,
)
from hilrt.analyze.subsystem_models import SubsystemModel
from hilrt.config.structs import JacobianOptions, Session
from hilrt.coupling.build_model import build_model
from hilrt.coupling.correct_outputs import Feedthrough
from hilrt.coupling.true_inputs import lagrange_basis
from hilrt.errors import ConfigError
from hilrt.exchange.jacobians import find_feedthrough, find_jacobians
from hilrt.solver import Floats, Ports
from hilrt.tables.network import Network, build_network
from hilrt.tables.ports import Ints

T = TypeVar("T")


@dataclass
class Weights:
    """Extrapolation as matrices, one entry per tick of the cycle.

    Attributes
    ----------
    inputs : list of ndarray, shape (rows nu, depth ny)
        From the samples, newest first, to the input polynomials in powers of (t − now)/step.
    now : list of ndarray, shape (depth, ny, 1)
        From the samples to the outputs at the communication point.
    taylor : ndarray, shape (rows, nu, ny)
        Gains of the connections that use output derivatives, by coefficient.
    """

    inputs: list[Floats]
    now: list[Floats]
    taylor: Floats


class SessionScheme:
    """A session's coupling scheme about its initial state, for any macro step.

    Parameters
    ----------
    tables : Session
    subsystems : list of SubsystemModel
        Its subsystems, from `find_subsystem_models`; initialized and linearised here.

    Attributes
    ----------
    cycle : int
        Macro steps after which all subsystems communicate together again.
    left_out : list of str
        Parts that the matrix does not contain, one phrase each.

    Raises
    ------
    ConfigError
        Names every subsystem that cannot be linearised, and other problems.
    """

    def __init__(self, tables: Session, subsystems: list[SubsystemModel]) -> None:
        self.tables, self.subsystems = tables, subsystems
        ports = {m.name: Ports(tuple(m.inputs), tuple(m.outputs)) for m in subsystems}
        self.network = net = build_network(ports, tables)
        self.every = [int(every) for every in net.every]
        self.cycle = math.lcm(*self.every)
        self.u0, self.y0 = initialize(net, subsystems)
        self._linearise()
        self.order = orders(net, tables)
        self.rows = self.depth = int(self.order.max(initial=0)) + 1
        self.weights = extrapolation_weights(net, self.order, self.rows, self.cycle)
        self.derivatives = self.rows - 1 if net.connections.taylor.any() else 0
        self.left_out = left_out(net, tables, subsystems)
        self._tables = with_exact_jacobians(tables)
        self._feedthrough: Feedthrough | None = immediate_result(
            find_feedthrough(net, self._tables, subsystems, self.u0)
        )

    def _linearise(self) -> None:
        inputs = self.network.inputs
        senders = {self.tables.split(c.source)[0] for c in self.tables.connections}
        receivers = {self.tables.split(c.target)[0] for c in self.tables.connections}
        problems = []
        for s, subsystem in enumerate(self.subsystems):
            problem = subsystem.linearise(
                self.u0[inputs.slices[s]],
                self.every[s] * self.tables.master.step,
                in_loop=subsystem.name in senders and subsystem.name in receivers,
            )
            if problem is not None:
                problems.append(problem)
        if problems:
            raise ConfigError(problems)

    def close(self) -> None:
        """Close the solvers."""
        for subsystem in self.subsystems:
            if subsystem.hosted is not None:
                subsystem.hosted.stop("the analysis has ended")

    def corrector(self, h: float) -> CorrectorMatrices | None:
        """The correction by Jacobians with a macro step `h` [s]; None if no bond requests it."""
        master, net = msgspec.structs.replace(self._tables.master, step=h), self.network
        tables = msgspec.structs.replace(self._tables, master=master)
        try:
            found = immediate_result(find_jacobians(net, tables, self.subsystems, self.u0))
            if found is None:
                return None
            gamma = build_model(net, self.y0, found).state.gamma
        except ValueError as error:
            raise ConfigError(f"[[bonds]] method = 'model': {error}") from None
        return corrector_matrices(
            coupling_by_order(net), gamma, found.alpha, net.feedthrough.dense() != 0.0
        )

    def describe_order(self) -> str:
        """Degree of the extrapolation, as text."""
        used = sorted(set(self.order.tolist()))
        return " and ".join(str(order) for order in used) if used else "none"

    def matrix(self, h: float) -> Floats:
        """Φ of one cycle with the macro step `h` [s], shape (nz, nz).

        z contains the states of all subsystems, the corrected samples of every output (newest
        first), output derivatives if the session uses them, and δu_c if a model-based corrector
        acts, all at a common communication point, after the outputs have been corrected.
        """
        return _Cycle(self, h).run()


class _Cycle:
    """The stages of the macro step on matrices, tick by tick through one cycle."""

    def __init__(self, scheme: SessionScheme, h: float) -> None:
        self.scheme, self.net = scheme, scheme.network
        nu, ny = len(self.net.inputs), len(self.net.outputs)
        rows, depth, nd = scheme.rows, scheme.depth, scheme.derivatives
        self.corrector = scheme.corrector(h)
        self.maps = [
            subsystem.dynamics.step_map(every * h, rows, nd)
            for subsystem, every in zip(scheme.subsystems, scheme.every, strict=True)
        ]
        states = [subsystem.dynamics.states for subsystem in scheme.subsystems]
        sizes = [*states, depth * ny, nd * ny, nu if self.corrector is not None else 0]
        self.nz = nz = sum(sizes)
        *self.x, history, dy, du = np.split(np.eye(nz), np.cumsum(sizes)[:-1])
        self.history = history.reshape(depth, ny, nz).copy()
        self.dy = dy.reshape(nd, ny, nz).copy()
        self.du = du if self.corrector is not None else np.zeros((nu, nz))
        self.y = self.history[0].copy()
        self.previous = np.zeros((rows, nu, nz))
        self.previous_from = np.zeros(nu)
        self.arriving: list[Floats] = [np.zeros(0)] * len(states)
        self.past = self.history.copy()
        #: From derivatives to coefficients of powers of (t − now)/step.
        self.units = np.array([h**m / math.factorial(m) for m in range(rows)])

    def run(self) -> Floats:
        """The state z at the end of the cycle, as a matrix applied to z at its start."""
        for tick in range(self.scheme.cycle):
            self.dispatch(tick)
            self.past = self.history.copy() if self.scheme.cycle == 1 else self.past
            self.arrive(tick + 1)
            self.correct(tick + 1)
        parts = [*self.x, self.history.reshape(-1, self.nz), self.dy.reshape(-1, self.nz)]
        return np.vstack([*parts, self.du] if self.corrector is not None else parts)

    def dispatch(self, tick: int) -> None:
        """Compute input polynomials of the subsystems that are due, and their steps."""
        scheme, rows = self.scheme, self.scheme.rows
        nu = len(self.net.inputs)
        sent = scheme.weights.inputs[tick] @ self.history.reshape(-1, self.nz)
        sent = sent.reshape(rows, nu, self.nz)
        if scheme.derivatives:
            sent[0] += scheme.weights.taylor[0] @ self.y
            for m in range(1, rows):
                sent[m] += scheme.weights.taylor[m] @ self.dy[m - 1] * self.units[m]
        sent[0] += self.du
        for s, every in enumerate(scheme.every):
            if tick % every:
                continue
            inputs = self.net.inputs.slices[s]
            self.previous[:, inputs], self.previous_from[inputs] = sent[:, inputs], tick
            own = sent[:, inputs] * float(every) ** np.arange(rows)[:, None, None]
            end = self.maps[s] @ np.vstack([self.x[s], own.reshape(-1, self.nz)])
            states = len(self.x[s])
            self.x[s], self.arriving[s] = end[:states], end[states:]

    def arrive(self, tick: int) -> None:
        """Store samples of subsystems whose step ends; compute outputs at the point."""
        for s, every in enumerate(self.scheme.every):
            if tick % every:
                continue
            outputs = self.net.outputs.slices[s]
            samples = self.arriving[s].reshape(1 + self.scheme.derivatives, -1, self.nz)
            self.history[1:, outputs] = self.history[:-1, outputs].copy()
            self.history[0, outputs] = samples[0]
            self.dy[:, outputs] = samples[1:]
        now = self.scheme.weights.now[tick % self.scheme.cycle]
        self.y = (now * self.history).sum(axis=0)

    def correct(self, tick: int) -> None:
        """Correct the outputs by feedthrough and by Jacobians."""
        y = self.y
        feedthrough = self.scheme._feedthrough
        if feedthrough is not None:
            sent = shifted(self.previous, tick - self.previous_from)[0]
            y = feedthrough.K @ y - feedthrough.KD @ sent
        if self.corrector is not None:
            y = self.correct_by_model(self.corrector, tick, y)
        self.history[0] += y - self.y
        self.y = y

    def correct_by_model(self, corrector: CorrectorMatrices, tick: int, y: Floats) -> Floats:
        """Correct by Jacobians, at points at which all subsystems communicate."""
        if tick < self.scheme.cycle:
            self.past, self.du = y[None], np.zeros_like(self.du)
            return y
        sent = shifted(self.previous, tick - 1 - self.previous_from)
        corrected, self.du = corrector.correct(y, self.past, sent, self.du)
        return corrected


def shifted(c: Floats, by: Floats) -> Floats:
    """Shift polynomials to ``s = by``, (nu,); `c` has shape (rows, nu, nz), in powers of s."""
    moved = np.zeros_like(c)
    for m in range(len(c)):
        for k in range(m, len(c)):
            moved[m] += math.comb(k, m) * by[:, None] ** (k - m) * c[k]
    return moved


def immediate_result(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a subsystem of an analysis is waiting")


def initialize(net: Network, subsystems: list[SubsystemModel]) -> tuple[Floats, Floats]:
    """Inputs (nu,) and outputs (ny,) at the start of the session."""
    u0, y0 = net.u_start.copy(), np.zeros(len(net.outputs))
    for part, port in net.outputs.ports.values():
        y0[part] = port.start
    for s in net.initialization_order():
        np.copyto(u0, net.L @ y0 + net.offset, where=net.connected)
        sample = immediate_result(subsystems[s].initialize(0.0, u0[net.inputs.slices[s]]))
        y0[net.outputs.slices[s]] = sample.y
    np.copyto(u0, net.L @ y0 + net.offset, where=net.connected)
    return u0, y0


def orders(net: Network, tables: Session) -> Ints:
    """Degree of every connection, (nc,); the initial one if it is controlled."""
    control = tables.master.order_control
    if control.method == "fixed":
        return net.connections.order
    start = min(max(control.initial, control.minimum), control.maximum)
    return np.where(net.connections.free, start, net.connections.order)


def extrapolation_weights(net: Network, order: Ints, rows: int, cycle: int) -> Weights:
    """Extrapolation weights for every tick of the cycle, with a full history of samples."""
    connections, owner = net.connections, net.outputs.owner
    nu, ny = len(net.inputs), len(net.outputs)
    count = np.diff(np.append(connections.first, len(connections.source)))
    target = np.repeat(connections.target, count)
    highest = np.zeros(ny, dtype=np.intp)
    np.maximum.at(highest, connections.source, order)
    taylor = np.zeros((rows, nu, ny))
    found = Weights([], [], taylor)
    for tick in range(cycle):
        inputs, now = np.zeros((rows, nu, rows, ny)), np.zeros((rows, ny, 1))
        since = -(tick % net.every[owner]).astype(np.float64)
        nodes = since - np.arange(rows)[:, None] * net.every[owner]
        for c, (y, u) in enumerate(zip(connections.source, target, strict=True)):
            p, gain = order[c], connections.gain[c]
            if connections.taylor[c]:
                if tick == 0:
                    taylor[: p + 1, u, y] += gain
            else:
                inputs[: p + 1, u, : p + 1, y] += gain * lagrange_basis(nodes[: p + 1, y]).T
        for y, p in enumerate(highest):
            now[: p + 1, y, 0] = lagrange_basis(nodes[: p + 1, y])[:, 0]
        found.inputs.append(inputs.reshape(rows * nu, rows * ny))
        found.now.append(now)
    return found


def with_exact_jacobians(tables: Session) -> Session:
    """Replace identified Jacobians of the session by exact ones."""
    subsystems = {}
    for name, options in tables.subsystems.items():
        if options.jacobian is not None and options.jacobian.source == "identify":
            options = msgspec.structs.replace(options, jacobian=JacobianOptions(source="probe"))
        subsystems[name] = options
    return msgspec.structs.replace(tables, subsystems=subsystems)


def left_out(net: Network, tables: Session, subsystems: list[SubsystemModel]) -> list[str]:
    """Effects that a linear analysis with a constant step leaves out, one phrase each."""
    found = []
    bonds = [b.name for b in tables.bonds if b.correction.method == "energy"]
    if bonds:
        found.append(f"the energy correction of {', '.join(bonds)}: it is not linear")
    bounded = [
        name
        for name, *bounds in zip(
            net.inputs.names, net.u_min, net.u_max, net.max_rate, net.max_jerk, strict=True
        )
        if np.isfinite(bounds).any()
    ]
    if bounded:
        found.append(f"the limits of {', '.join(bounded)}")
    if tables.master.step_control.method != "fixed":
        found.append("the step control: the macro step is assumed constant")
    if tables.master.order_control.method != "fixed":
        found.append("the order control: the order is the initial one")
    identified = [
        name
        for name, options in tables.subsystems.items()
        if options.jacobian is not None and options.jacobian.source == "identify"
    ]
    if identified:
        found.append(f"the identification of {', '.join(identified)}: Jacobians are exact")
    benches = [m.name for m in subsystems if m.bench]
    if benches:
        found.append(f"dead times and sampling of {', '.join(benches)}")
    return found
