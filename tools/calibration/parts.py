"""Parts of a coupled system: equations used by the truth and stepped by a session.

    x' = rates(t, x, u),        y = outputs(t, x, u)

Linear parts are matrices; their excitation is part of their state (each sine is an oscillator), so
that session and truth integrate exactly. The others are functions of plain lists.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hilrt.coupling.jacobian import LinearSubsystem
from hilrt.models.integrate import ExactSteps
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver

Values = Sequence[float]
Equation = Callable[[float, Values, Values], list[float]]

#: Maximum step of the classical Runge-Kutta method, relative to 1/ω of the fastest motion.
MICRO_SHARE = 0.08


@dataclass
class Part:
    """One part of a coupled system.

    Attributes
    ----------
    name : str
    inputs, outputs : tuple of Port
    x0 : list of float
    rates, outputs_of : callable
        See the module; not used for linear parts.
    fastest : float
        Fastest motion with the inputs held, rad/s.
    linear : LinearSubsystem, optional
    feedthrough : ndarray, shape (ny, nu)
        Direct feedthrough at the start.
    realises : dict of int to int
        Maps an input to the state in which a drive realises it.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    x0: list[float]
    fastest: float
    feedthrough: Floats
    rates: Equation = lambda t, x, u: []
    outputs_of: Equation = lambda t, x, u: []
    linear: LinearSubsystem | None = None
    realises: dict[int, int] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of scalar inputs and outputs."""
        return sum(p.size for p in self.inputs), sum(p.size for p in self.outputs)

    def rate(self, t: float, x: Values, u: Values) -> list[float]:
        """Time derivative of the state."""
        if self.linear is None:
            return self.rates(t, x, u)
        derivative: list[float] = (self.linear.A @ x + self.linear.B @ u).tolist()
        return derivative

    def output(self, t: float, x: Values, u: Values) -> list[float]:
        """Outputs."""
        if self.linear is None:
            return self.outputs_of(t, x, u)
        y: list[float] = (self.linear.C @ x + self.linear.D @ u).tolist()
        return y


def linear_part(
    name: str,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    matrices: LinearSubsystem,
    x0: Values,
) -> Part:
    """Create a part from its matrices; feedthrough is marked at its ports."""
    names = [c for port in inputs for c in [port.name] * port.size]
    marked, row = [], 0
    for port in outputs:
        direct = np.any(matrices.D[row : row + port.size] != 0.0, axis=0)
        through = tuple(dict.fromkeys(n for n, d in zip(names, direct, strict=True) if d))
        marked.append(Port(port.name, port.unit, size=port.size, feedthrough=through))
        row += port.size
    fastest = float(np.abs(np.linalg.eigvals(matrices.A)).max(initial=1e-6))
    return Part(
        name, tuple(inputs), tuple(marked), list(x0), fastest, matrices.D.copy(), linear=matrices
    )


def excite(
    matrices: LinearSubsystem, x0: Values, into: Floats, sines: Sequence[tuple[float, float, float]]
) -> tuple[LinearSubsystem, list[float]]:
    """Add sines (amplitude, ω, phase) to the state; ``into`` (nx,) times their sum acts on it."""
    nx, n = len(matrices.A), 2 * len(sines)
    A = np.zeros((nx + n, nx + n))
    A[:nx, :nx] = matrices.A
    start = list(x0)
    for i, (amplitude, omega, phase) in enumerate(sines):
        s = nx + 2 * i
        A[s, s + 1], A[s + 1, s] = omega, -omega
        A[:nx, s] = into
        start += [amplitude * math.sin(phase), amplitude * math.cos(phase)]
    B = np.vstack((matrices.B, np.zeros((n, matrices.B.shape[1]))))
    C = np.hstack((matrices.C, np.zeros((len(matrices.C), n))))
    return LinearSubsystem(A, B, C, matrices.D), start


class PartSolver(Solver):
    """A part as stepped by the master; records its outputs and the energy of its bonds.

    Parameters
    ----------
    part : Part
    integrator : {"exact", "euler", "heun", "runge-kutta"}
        "exact": without an integration error; the others make one explicit step per macro step.
    bonds : sequence of (outputs, inputs)
        Indices of scalar outputs and inputs whose products are a bond's power.
    middle : bool
        Whether samples contain the outputs at the middle of the step.

    Attributes
    ----------
    seen : list of (float, list of float)
        Times [s] and outputs.
    energy : ndarray
        Energy transferred by each bond, J.
    """

    def __init__(
        self,
        part: Part,
        integrator: str = "exact",
        bonds: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
        middle: bool = False,
    ) -> None:
        self.part, self.integrator, self.middle = part, integrator, middle
        self.inputs, self.outputs = part.inputs, part.outputs
        self.bonds, self.energy = bonds, [0.0] * len(bonds)
        self.x: list[float] = list(part.x0)
        self.seen: list[tuple[float, list[float]]] = []
        self._exact = None
        if part.linear is not None:
            self._exact = ExactSteps(part.linear.A, part.linear.B)

    def initialize(self, t0: float, u0: Floats) -> Sample:
        y = self.part.output(t0, self.x, u0.tolist())
        self.seen = [(t0, y)]
        return Sample(np.array(y))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        u0, um, u1 = u(t).tolist(), u(t + 0.5 * h).tolist(), u(t + h).tolist()
        y0 = self.part.output(t, self.x, u0) if self.bonds else []
        if self.integrator == "exact":
            middle = self._exactly(t, 0.5 * h, u)
        else:
            middle = one_step(self.part, self.integrator, t, 0.5 * h, self.x, u)
            self.x = one_step(self.part, self.integrator, t, h, self.x, u)
        ym = self.part.output(t + 0.5 * h, middle, um)
        y = self.part.output(t + h, self.x, u1)
        for b, (rows, columns) in enumerate(self.bonds):
            for i, j in zip(rows, columns, strict=True):
                power = y0[i] * u0[j] + 4.0 * ym[i] * um[j] + y[i] * u1[j]
                self.energy[b] += h / 6.0 * power
        self.seen.append((t + h, y))
        return Sample(
            np.array(y), y_mid=np.array(ym) if self.middle else None, realised=self._realised()
        )

    def _realised(self) -> Floats | None:
        if not self.part.realises:
            return None
        realised = np.full(self.part.sizes[0], np.nan)
        for u, x in self.part.realises.items():
            realised[u] = self.x[x]
        return realised

    def _exactly(self, t: float, half: float, u: InputPolynomial) -> list[float]:
        """Advance exactly by two times `half`; return the state in the middle."""
        if self._exact is not None:
            x = np.array(self.x)
            middle: list[float] = self._exact.step(x, half, u).tolist()
            self.x = self._exact.step(x, 2.0 * half, u).tolist()
            return middle
        middle = fine_steps(self.part, t, half, self.x, u)
        self.x = fine_steps(self.part, t + half, half, middle, u)
        return middle


class RestorableSolver(PartSolver):
    """A restorable `PartSolver`, whose responses can be probed."""

    def save_state(self) -> Any:
        return self.x, self.energy, len(self.seen)

    def restore_state(self, state: Any) -> None:
        self.x, self.energy, seen = state
        del self.seen[seen:]

    def jacobian(self, h: float, order: int) -> Floats | None:
        linear = self.part.linear
        return None if linear is None else linear.jacobian(h, order)


def fine_steps(part: Part, t: float, h: float, x: Values, u: InputPolynomial) -> list[float]:
    """State after `h` [s] by the classical Runge-Kutta method in micro steps."""
    n = max(1, math.ceil(h * part.fastest / MICRO_SHARE))
    now, dt = list(x), h / n
    ahead = u(t).tolist()
    for i in range(n):
        begin, ahead_m = ahead, u(t + (i + 0.5) * dt).tolist()
        ahead = u(t + (i + 1) * dt).tolist()
        now = runge_kutta(part, t + i * dt, dt, now, begin, ahead_m, ahead)
    return now


def runge_kutta(
    part: Part, t: float, h: float, x: Values, u0: Values, um: Values, u1: Values
) -> list[float]:
    """One step of the classical Runge-Kutta method."""
    half = 0.5 * h
    a = part.rate(t, x, u0)
    b = part.rate(t + half, [v + half * k for v, k in zip(x, a, strict=True)], um)
    c = part.rate(t + half, [v + half * k for v, k in zip(x, b, strict=True)], um)
    d = part.rate(t + h, [v + h * k for v, k in zip(x, c, strict=True)], u1)
    return [
        v + h / 6.0 * (p + 2.0 * (q + r) + s) for v, p, q, r, s in zip(x, a, b, c, d, strict=True)
    ]


def one_step(
    part: Part, method: str, t: float, h: float, x: Values, u: InputPolynomial
) -> list[float]:
    """State after one explicit step of the method."""
    u0, u1 = u(t).tolist(), u(t + h).tolist()
    if method == "runge-kutta":
        return runge_kutta(part, t, h, x, u0, u(t + 0.5 * h).tolist(), u1)
    a = part.rate(t, x, u0)
    ahead = [v + h * k for v, k in zip(x, a, strict=True)]
    if method == "euler":
        return ahead
    b = part.rate(t + h, ahead, u1)
    return [v + 0.5 * h * (p + q) for v, p, q in zip(x, a, b, strict=True)]
