"""Coupled systems drawn by the groups: parts, connections and bonds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hilrt.solver import Floats
from tools.calibration.parts import Part

Random = np.random.Generator


@dataclass
class CoupledSystem:
    """A coupled system.

    Attributes
    ----------
    parts : list of Part
    connections : list of (str, str)
        Output port to input port, ``part.port``.
    bonds : list of (str, str)
        Effort and flow, output ports.
    omega : float
        Fastest relevant motion of the coupled system, rad/s; the macro step is drawn relative to
        it.
    bench : str
        Part that can be a physical bench; empty if none can.
    settings : dict
        Drawn values, for people.
    """

    parts: list[Part]
    connections: list[tuple[str, str]]
    bonds: list[tuple[str, str]]
    omega: float
    bench: str = ""
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def linear(self) -> bool:
        """Whether all parts are linear."""
        return all(part.linear is not None for part in self.parts)


class Channels:
    """Indices of the scalar outputs and inputs of a system, in the order of its parts."""

    def __init__(self, system: CoupledSystem) -> None:
        self.outputs: dict[str, list[int]] = {}
        self.inputs: dict[str, list[int]] = {}
        self.rows: list[slice] = []
        self.columns: list[slice] = []
        ny = nu = 0
        for part in system.parts:
            first_y, first_u = ny, nu
            for port in part.outputs:
                self.outputs[f"{part.name}.{port.name}"] = list(range(ny, ny + port.size))
                ny += port.size
            for port in part.inputs:
                self.inputs[f"{part.name}.{port.name}"] = list(range(nu, nu + port.size))
                nu += port.size
            self.rows.append(slice(first_y, ny))
            self.columns.append(slice(first_u, nu))
        self.L: Floats = np.zeros((nu, ny))
        for source, target in system.connections:
            self.L[self.inputs[target], self.outputs[source]] = 1.0
        self.names = [
            f"{part.name}.{channel}"
            for part in system.parts
            for port in part.outputs
            for channel in port.channels()
        ]

    def coupled(self) -> list[int]:
        """Connected outputs."""
        return np.flatnonzero(np.any(self.L != 0.0, axis=0)).tolist()


class MistakenRandom:
    """Draws like a generator, but makes each number of a system wrong by its own factor.

    Parameters
    ----------
    state : dict
        State of the generator for the right numbers.
    mistakes : Generator
        Generator of the factors, lognormal.
    size : float
        Standard deviation of the factors' logarithm.
    """

    def __init__(self, state: dict[str, Any], mistakes: Random, size: float) -> None:
        self._right = np.random.default_rng()
        self._right.bit_generator.state = state
        self._mistakes, self._size = mistakes, size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._right, name)

    def factor(self) -> float:
        """Factor of the next number."""
        return math.exp(self._size * float(self._mistakes.normal()))

    def uniform(self, low: float, high: float) -> float:
        """A wrong number within the original range."""
        return min(max(float(self._right.uniform(low, high)) * self.factor(), low), high)

    def log_uniform(self, low: float, high: float) -> float:
        """A wrong number drawn like `log_uniform`."""
        return log_uniform(self._right, low, high) * self.factor()


def log_uniform(random: Random | MistakenRandom, low: float, high: float) -> float:
    """A number between `low` and `high` with uniformly distributed logarithm."""
    if isinstance(random, MistakenRandom):
        return random.log_uniform(low, high)
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


def draw_sines(
    random: Random, amplitude: float, omega: float, fewest: int = 1
) -> list[tuple[float, float, float]]:
    """One to four sines around `omega` [rad/s] and below, and process noise in 3 of 10.

    Their amplitudes add up to `amplitude` at most.
    """
    n = int(random.integers(fewest, 5))
    sines = [
        (
            amplitude / max(n, 1) * float(random.uniform(0.3, 1.0)),
            omega * log_uniform(random, 0.06, 1.3),
            float(random.uniform(0.0, 6.283)),
        )
        for _ in range(n)
    ]
    if random.random() < 0.3:
        level = amplitude * log_uniform(random, 0.003, 0.1)
        sines += [
            (level, omega * log_uniform(random, 0.5, 3.0), float(random.uniform(0.0, 6.283)))
            for _ in range(4)
        ]
    return sines


def coupled_eigenvalues(system: CoupledSystem) -> NDArray[np.complex128]:
    """Eigenvalues of a system of linear parts."""
    found: NDArray[np.complex128] = np.linalg.eigvals(coupled_matrices(system)[0]).astype(complex)
    return found


def coupled_matrices(system: CoupledSystem) -> tuple[Floats, Floats]:
    """``x' = M x`` and ``y = N x`` of a system of linear parts."""
    matrices = [part.linear for part in system.parts]
    A, B, C, D = (_diagonal([getattr(m, key) for m in matrices]) for key in "ABCD")
    L = Channels(system).L
    N: Floats = np.linalg.solve(np.eye(len(C)) - D @ L, C).astype(np.float64)
    return A + B @ L @ N, N


def _diagonal(blocks: list[Floats]) -> Floats:
    rows, columns = sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)
    whole, r, c = np.zeros((rows, columns)), 0, 0
    for block in blocks:
        whole[r : r + block.shape[0], c : c + block.shape[1]] = block
        r, c = r + block.shape[0], c + block.shape[1]
    return whole
