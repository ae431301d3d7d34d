"""A mass, exact under its force, and a massless spring-damper that answers with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from hilrt.models.integrate import ExactSteps
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver


class PointMass(Solver):
    """``m x'' = f``, integrated exactly."""

    inputs = (Port("f", "N"),)
    outputs = (Port("x", "m"), Port("v", "m/s"))

    def __init__(self, m: float = 2.0, x: float = 1.0) -> None:
        self.m, self.state = m, np.array([x, 0.0])

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return Sample(self.state.copy())

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        x, v = self.state
        speed = position = 0.0
        power = 1.0
        for m, c in enumerate(u.coefficients[:, 0]):
            power *= h / (m + 1)
            speed += c * power
            position += c * power * h / (m + 2)
        self.state = np.array([x + v * h + position / self.m, v + speed / self.m])
        return Sample(self.state.copy())

    def save_state(self) -> Any:
        return self.state

    def restore_state(self, state: Any) -> None:
        self.state = state


class SpringDamper(Solver):
    """``f = - k x - d v``, at once."""

    inputs = (Port("x", "m"), Port("v", "m/s"))
    outputs = (Port("f", "N", feedthrough=("x", "v")),)

    def __init__(self, k: float = 200.0, d: float = 1.0) -> None:
        self.gain = np.array([-k, -d])

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return Sample(np.array([self.gain @ u0]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        return Sample(np.array([self.gain @ u(t + h)]))

    def save_state(self) -> Any:
        return None

    def restore_state(self, state: Any) -> None:
        pass


class Final(SpringDamper):
    """Cannot go back."""

    save_state = Solver.save_state
    restore_state = Solver.restore_state


class Neighbour(Solver):
    """``m x'' = -c x - d x' + k (z - x)`` with the neighbour's displacement z, exact."""

    inputs = (Port("z", "m"),)
    outputs = (Port("x", "m"), Port("v", "m/s"))

    def __init__(
        self, m: float = 1.0, c: float = 50.0, k: float = 30.0, d: float = 0.0, x: float = 1.0
    ) -> None:
        A = np.array([[0.0, 1.0], [-(c + k) / m, -d / m]])
        self.steps = ExactSteps(A, np.array([[0.0], [k / m]]))
        self.state = np.array([x, 0.0])

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return Sample(self.state.copy())

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.state = self.steps.step(self.state, h, u)
        return Sample(self.state.copy())

    def save_state(self) -> Any:
        return self.state

    def restore_state(self, state: Any) -> None:
        self.state = state


class Swinging(Solver):
    """``z = sin(t + 1)``, whatever happens."""

    outputs = (Port("z", "m"),)

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return Sample(np.sin([t0 + 1.0]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        return Sample(np.sin([t + h + 1.0]))

    def save_state(self) -> Any:
        return None

    def restore_state(self, state: Any) -> None:
        """Nothing is remembered."""
