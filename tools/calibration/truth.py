"""The truth: the same parts coupled continuously and integrated with tight tolerances.

Linear systems use the matrix exponential from one requested time to the next; others, and linear
systems with active limits, use DOP853 with tolerances of 1e-8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import OdeSolution, solve_ivp

from hilrt.coupling.jacobian import expm
from hilrt.solver import Floats
from tools.calibration.systems import Channels, CoupledSystem, coupled_matrices

Times = Sequence[float] | Floats
#: Function from a time and the state to all inputs and outputs.
Coupling = Callable[[float, list[float]], tuple[list[float], list[float]]]

TOLERANCE = 1e-8
#: Size of the perturbation of the truth, and its maximum growth, relative to the signals' scales.
PERTURBED, GROWN = 1e-4, 1e-2
#: Number of times at which growth and scales are evaluated.
POINTS = 600
#: Iterations of the outputs if two parts have feedthrough; the gain of their loop is 0.8.
LOOP_TURNS = 60
#: Maximum number of evaluations of a truth.
MOST_EVALUATIONS = 400_000


class NoTruth(Exception):
    """The system cannot be integrated in reasonable time, or diverges by itself."""


@dataclass
class Limits:
    """Bounds of all scalar inputs, shapes (nu,)."""

    low: Floats
    high: Floats

    @property
    def act(self) -> bool:
        """Whether any input is bounded."""
        return bool(np.isfinite(self.low).any() or np.isfinite(self.high).any())


class Truth:
    """Solution of the coupled system from its start to `duration` [s], to a relative tolerance.

    Raises
    ------
    NoTruth
    """

    def __init__(
        self,
        system: CoupledSystem,
        duration: float,
        limits: Limits,
        tolerance: float = TOLERANCE,
    ) -> None:
        self.system, self.duration, self.limits = system, duration, limits
        self.channels = Channels(system)
        self.x0 = np.concatenate([part.x0 for part in system.parts])
        self._firsts = np.cumsum([0, *(len(part.x0) for part in system.parts)])
        self._coupling = coupling(system, self.channels, limits)
        self._matrices = coupled_matrices(system) if system.linear and not limits.act else None
        self._evaluations = 0
        self._solution: Any = (
            None if self._matrices is not None else self._solve(self.x0, tolerance)
        )

    def outputs(self, times: Times) -> Floats:
        """All outputs at ascending times [s], shape (n, ny)."""
        if self._matrices is not None:
            return self._linear(np.asarray(times), self.x0) @ self._matrices[1].T
        return self._outputs_of(self._solution, times)

    def growth(self, random: np.random.Generator, scales: Floats) -> float:
        """Session time [s] at which a perturbation has grown too large, or the duration."""
        if self._matrices is not None:  # stable and linear
            return self.duration
        times = np.linspace(0.0, self.duration, POINTS)
        calm = self._outputs_of(self._solution, times)
        x = self._solution(times).T
        size = np.maximum(x.std(axis=0), 0.05 * np.sqrt((x**2).mean(axis=0)))
        moved = self.x0 + PERTURBED * size * random.choice([-1.0, 1.0], len(size))
        apart = (
            np.abs(self._outputs_of(self._solve(moved, 1e-2 * PERTURBED), times) - calm) / scales
        )
        grown = np.flatnonzero(apart[:, self.channels.coupled()].max(axis=1) > GROWN)
        return float(times[grown[0]]) if len(grown) else self.duration

    def scales(self, resolution: Floats) -> tuple[Floats, Floats]:
        """Scale of every output, and its standard deviation, over the whole truth."""
        return scales(self.outputs(np.linspace(0.0, self.duration, POINTS)), resolution)

    def inputs(self, times: Times) -> Floats:
        """All inputs at ascending times [s], shape (n, nu), without limits."""
        coupled: Floats = self.outputs(times) @ self.channels.L.T
        return coupled

    def _linear(self, times: Floats, x0: Floats) -> Floats:
        assert self._matrices is not None
        M, known = self._matrices[0], {}
        x, now_ns, states = x0, 0, []
        for t_ns in np.round(times * 1e9).astype(np.int64).tolist():
            if t_ns != now_ns:
                step = t_ns - now_ns
                if step not in known:
                    known[step] = expm(M * (step * 1e-9))
                x, now_ns = known[step] @ x, t_ns
            states.append(x)
        return np.array(states)

    def _solve(self, x0: Floats, tolerance: float) -> OdeSolution:
        """Dense solution from the state `x0`."""
        parts, couple = self.system.parts, self._coupling
        spans = [(c.start, c.stop) for c in self.channels.columns]
        firsts = self._firsts.tolist()

        def rate(t: float, state: Floats) -> list[float]:
            self._evaluations += 1
            if self._evaluations > MOST_EVALUATIONS:
                raise NoTruth
            x = state.tolist()
            u = couple(t, x)[0]
            change: list[float] = []
            for i, part in enumerate(parts):
                first, last = spans[i]
                change += part.rate(t, x[firsts[i] : firsts[i + 1]], u[first:last])
            return change

        atol, span = tolerance * self._sizes(), (0.0, self.duration)
        try:
            found = solve_ivp(
                rate, span, x0, "DOP853", rtol=tolerance, atol=atol, dense_output=True
            )
        except (OverflowError, ValueError, ZeroDivisionError) as error:
            raise NoTruth from error
        if not found.success or not np.isfinite(found.y).all():
            raise NoTruth
        return found.sol

    def _sizes(self) -> Floats:
        """Approximate sizes of the states, for tolerances; equal within a part."""
        sizes = [max(*map(abs, part.x0), 1e-6) for part in self.system.parts]
        return 1e-2 * np.repeat(sizes, np.diff(self._firsts))

    def _outputs_of(self, solution: OdeSolution, times: Times) -> Floats:
        states = solution(np.asarray(times)).T.tolist()
        return np.array([self._coupling(t, x)[1] for t, x in zip(list(times), states, strict=True)])


def coupling(system: CoupledSystem, channels: Channels, limits: Limits) -> Coupling:
    """Function from a time and the state to the inputs and outputs of all parts.

    Parts with feedthrough come last; with several, their algebraic loop is iterated.
    """
    wires = [np.flatnonzero(row).tolist() for row in channels.L]  # all gains are 1
    low, high = limits.low.tolist(), limits.high.tolist()
    firsts = np.cumsum([0, *(len(part.x0) for part in system.parts)]).tolist()
    order = sorted(range(len(system.parts)), key=lambda i: system.parts[i].feedthrough.any())
    loop = sum(bool(part.feedthrough.any()) for part in system.parts) > 1
    sides = []
    for i in order * (LOOP_TURNS if loop else 1):
        rows, columns = channels.rows[i], channels.columns[i]
        direct = bool(system.parts[i].feedthrough.any())
        inputs = [(j, wires[j], low[j], high[j]) for j in range(columns.start, columns.stop)]
        state = firsts[i], firsts[i + 1]
        sides.append((system.parts[i].output, state, rows, columns, inputs if direct else []))
    every = [(j, wires[j], low[j], high[j]) for j in range(len(wires))]
    ny, nu = len(channels.names), len(wires)

    if not limits.act and all(len(wire) == 1 for wire in wires):
        return _plain_coupling([(*side[:4], bool(side[4])) for side in sides], wires, ny)

    def couple(t: float, x: list[float]) -> tuple[list[float], list[float]]:
        y, u = [0.0] * ny, [0.0] * nu
        for output, (first, last), rows, columns, inputs in sides:
            for j, wire, least, most in inputs:
                u[j] = min(max(sum([y[k] for k in wire]), least), most)
            y[rows] = output(t, x[first:last], u[columns])
        for j, wire, least, most in every:
            u[j] = min(max(sum([y[k] for k in wire]), least), most)
        return u, y

    return couple


def _plain_coupling(sides: list[Any], wires: list[list[int]], ny: int) -> Coupling:
    """Coupling for inputs that each equal one output, without limits: three times as fast."""
    sources = [wire[0] for wire in wires]
    plain = [
        (output, first, last, rows, sources[columns] if direct else None)
        for output, (first, last), rows, columns, direct in sides
    ]

    def couple(t: float, x: list[float]) -> tuple[list[float], list[float]]:
        y = [0.0] * ny
        for output, first, last, rows, wired in plain:
            u = [0.0] * ny if wired is None else [y[k] for k in wired]
            y[rows] = output(t, x[first:last], u)
        return [y[k] for k in sources], y

    return couple


def scales(y: Floats, resolution: Floats) -> tuple[Floats, Floats]:
    """Scale of every output over rows of values, and its standard deviation."""
    std = y.std(axis=0)
    found = np.maximum(std, 0.05 * np.sqrt((y**2).mean(axis=0)))
    return np.maximum(np.maximum(found, resolution), 1e-300), std
