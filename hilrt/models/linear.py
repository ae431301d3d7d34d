"""A linear time-invariant subsystem as a solver, integrated exactly.

It serves sessions with subsystems given as matrices, and as a reference for validating methods:
over a macro step the state follows the input polynomial without integration error.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilrt.coupling.jacobian import LinearSubsystem
from hilrt.models.integrate import ExactSteps
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver

Matrix = Sequence[Sequence[float]]


class Linear(Solver):
    """``x' = A x + B u``, ``y = C x + D u``.

    Parameters
    ----------
    A, B, C : nested sequences of float
        Matrices, shapes (nx, nx), (nx, nu), (ny, nx).
    D : nested sequence of float, optional
        Feedthrough, shape (ny, nu); default none.
    x0 : sequence of float, optional
        Initial state, shape (nx,); default zero.
    inputs, outputs : sequence of str, optional
        Port names, ``"name"`` or ``"name [unit]"``; default ``u0``, ``u1`` … and ``y0``, ``y1`` …
    """

    def __init__(
        self,
        A: Matrix,
        B: Matrix,
        C: Matrix,
        D: Matrix | None = None,
        x0: Sequence[float] | None = None,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> None:
        b, c = np.array(B, dtype=np.float64), np.array(C, dtype=np.float64)
        d = np.zeros((c.shape[0], b.shape[1])) if D is None else np.array(D, dtype=np.float64)
        self.system = LinearSubsystem(A=np.array(A, dtype=np.float64), B=b, C=c, D=d)
        self.x = np.zeros(len(b)) if x0 is None else np.array(x0, dtype=np.float64)
        if self.x.shape != (len(b),):
            raise ValueError(f"x0 has the shape {self.x.shape}; A, B need ({len(b)},)")
        self.inputs = _ports(inputs, "u", b.shape[1])
        names = [port.name for port in self.inputs]
        self.outputs = tuple(
            Port(
                port.name,
                port.unit,
                feedthrough=tuple(n for n, v in zip(names, row, strict=True) if v != 0.0),
            )
            for port, row in zip(_ports(outputs, "y", c.shape[0]), d, strict=True)
        )
        self.steps = ExactSteps(self.system.A, self.system.B)

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Outputs at `t0`."""
        return Sample(self.system.C @ self.x + self.system.D @ u0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Integrate the input polynomial exactly."""
        self.x = self.steps.step(self.x, h, u)
        return Sample(self.system.C @ self.x + self.system.D @ u(t + h))

    def save_state(self) -> Floats:
        """The state vector."""
        return self.x

    def restore_state(self, state: Floats) -> None:
        """Set the state vector."""
        self.x = state

    def jacobian(self, h: float, order: int) -> Floats:
        """Interface Jacobians from the matrices."""
        return self.system.jacobian(h, order)


def _ports(names: Sequence[str] | None, default: str, n: int) -> tuple[Port, ...]:
    if names is None:
        names = [f"{default}{i}" for i in range(n)]
    if len(names) != n:
        raise ValueError(f"{len(names)} port names for {n} channels")
    ports = []
    for text in names:
        name, _, unit = text.partition("[")
        ports.append(Port(name.strip(), unit.rstrip("] ").strip()))
    return tuple(ports)
