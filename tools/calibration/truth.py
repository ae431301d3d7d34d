"""The truth: the same parts coupled continuously, integrated tightly.

Linear systems by the matrix exponential, from one wanted time to the next; others, and linear ones
with limits that act, by DOP853 with tolerances of 1e-9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

from calibration.systems import Channels, CoupledSystem, coupled_matrices
from hilrt.coupling.jacobian import expm
from hilrt.solver import Floats

TOLERANCE = 1e-9
#: Perturbation of the truth, and where it has grown too large, relative to the signals' scales.
PERTURBED, GROWN = 1e-4, 1e-2
#: Times at which the growth is looked at, and scales are taken.
LOOKS = 1500
#: No truth may take more evaluations.
MOST_EVALUATIONS = 400_000


class NoTruth(Exception):
    """The system cannot be integrated in a reasonable time, or diverges by itself."""


@dataclass
class Limits:
    """Bounds of all scalar inputs, shapes (nu,)."""

    low: Floats
    high: Floats

    @property
    def act(self) -> bool:
        """Whether there are any."""
        return bool(np.isfinite(self.low).any() or np.isfinite(self.high).any())


class Truth:
    """The coupled system from its start to `duration` [s].

    Raises
    ------
    NoTruth
    """

    def __init__(self, system: CoupledSystem, duration: float, limits: Limits) -> None:
        self.system, self.duration, self.limits = system, duration, limits
        self.channels = Channels(system)
        self.x0 = np.concatenate([part.x0 for part in system.parts])
        self._matrices = coupled_matrices(system) if system.linear and not limits.act else None
        self._evaluations = 0
        self._solution = None if self._matrices is not None else self._solve(self.x0)

    def outputs(self, times: Sequence[float]) -> Floats:
        """All outputs at rising times [s], shape (n, ny)."""
        if self._matrices is not None:
            return self._linear(np.asarray(times), self.x0) @ self._matrices[1].T
        return self._outputs_of(self._solution, times)

    def growth(self, random: np.random.Generator, scales: Floats) -> float:
        """Session time [s] at which a perturbation has grown too large; the duration if never."""
        if self._matrices is not None:  # stable and linear
            return self.duration
        times = np.linspace(0.0, self.duration, LOOKS)
        calm = self._outputs_of(self._solution, times)
        x = self._solution(times).T
        size = np.maximum(x.std(axis=0), 0.05 * np.sqrt((x**2).mean(axis=0)))
        moved = self.x0 + PERTURBED * size * random.choice([-1.0, 1.0], len(size))
        apart = np.abs(self._outputs_of(self._solve(moved), times) - calm) / scales
        grown = np.flatnonzero(apart[:, self.channels.coupled()].max(axis=1) > GROWN)
        return float(times[grown[0]]) if len(grown) else self.duration

    def scales(self, resolution: Floats) -> tuple[Floats, Floats]:
        """Scale of every output, and its standard deviation, over the whole truth."""
        return scales(self.outputs(np.linspace(0.0, self.duration, LOOKS)), resolution)

    def inputs(self, times: Sequence[float]) -> Floats:
        """All inputs at rising times [s], shape (n, nu), without limits."""
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

    def _solve(self, x0: Floats):
        """Dense solution."""
        parts, sizes = self.system.parts, np.cumsum([0, *(len(p.x0) for p in self.system.parts)])
        atol = TOLERANCE * self._sizes(sizes)
        low, high = self.limits.low.tolist(), self.limits.high.tolist()
        wires = self._wires()
        columns = [(c.start, c.stop) for c in self.channels.columns]
        order = self._order()

        def rate(t: float, x: Floats) -> list[float]:
            self._evaluations += 1
            if self._evaluations > MOST_EVALUATIONS:
                raise NoTruth
            u = self._couple(t, x.tolist(), sizes, wires, order, low, high)[0]
            change: list[float] = []
            for i, part in enumerate(parts):
                first, last = columns[i]
                change += part.rate(t, x[sizes[i] : sizes[i + 1]].tolist(), u[first:last])
            return change

        try:
            found = solve_ivp(
                rate, (0.0, self.duration), x0, "DOP853",
                rtol=TOLERANCE, atol=atol, dense_output=True,
            )  # fmt: skip
        except (OverflowError, ValueError, ZeroDivisionError) as error:
            raise NoTruth from error
        if not found.success or not np.isfinite(found.y).all():
            raise NoTruth
        return found.sol

    def _sizes(self, first: Floats) -> Floats:
        """Rough sizes of the states, for tolerances: those of a part are alike."""
        found = np.ones(first[-1])
        for i, part in enumerate(self.system.parts):
            found[first[i] : first[i + 1]] = 1e-2 * max(max(map(abs, part.x0)), 1e-6)
        return found

    def _wires(self) -> list[list[tuple[int, float]]]:
        """Outputs and gains that add up to each input."""
        return [
            [(int(j), float(row[j])) for j in np.flatnonzero(row)] for row in self.channels.L
        ]

    def _order(self) -> list[int]:
        """Parts without feedthrough first."""
        return sorted(
            range(len(self.system.parts)), key=lambda i: bool(self.system.parts[i].feedthrough.any())
        )

    def _couple(self, t, x, sizes, wires, order, low, high) -> tuple[list[float], list[float]]:
        """Inputs and outputs of all parts at a state; limits cut inputs."""
        y = [0.0] * len(self.channels.names)
        u = [0.0] * len(wires)
        for _ in range(1 if not self._loop() else 60):
            for i in order:
                part = self.system.parts[i]
                columns, rows = self.channels.columns[i], self.channels.rows[i]
                for j in range(columns.start, columns.stop):
                    value = sum(gain * y[k] for k, gain in wires[j])
                    u[j] = min(max(value, low[j]), high[j])
                y[rows] = part.output(t, x[sizes[i] : sizes[i + 1]], u[columns])
        for j, wire in enumerate(wires):
            u[j] = min(max(sum(gain * y[k] for k, gain in wire), low[j]), high[j])
        return u, y

    def _loop(self) -> bool:
        return sum(bool(part.feedthrough.any()) for part in self.system.parts) > 1

    def _outputs_of(self, solution, times: Sequence[float]) -> Floats:
        parts = self.system.parts
        sizes = np.cumsum([0, *(len(p.x0) for p in parts)])
        low, high = self.limits.low.tolist(), self.limits.high.tolist()
        wires, order = self._wires(), self._order()
        states = solution(np.asarray(times)).T.tolist()
        return np.array(
            [
                self._couple(t, x, sizes, wires, order, low, high)[1]
                for t, x in zip(list(times), states, strict=True)
            ]
        )


def scales(y: Floats, resolution: Floats) -> tuple[Floats, Floats]:
    """Scale of every output over rows of values, and its standard deviation."""
    std = y.std(axis=0)
    found = np.maximum(std, 0.05 * np.sqrt((y**2).mean(axis=0)))
    return np.maximum(np.maximum(found, resolution), 1e-300), std


def periods(duration: float, omega: float) -> float:
    """Periods of the fastest motion in the session."""
    return duration * omega / (2.0 * math.pi)
