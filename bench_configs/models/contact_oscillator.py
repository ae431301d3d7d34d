"""One of two masses that a nonlinear force couples, with a wall.

Multibody Syst. Dyn. 09817 (2022), section 6.1, eq. 35. The coupling force is no subsystem's: the
session calculates it from the motion of both (`bench_configs/contact_oscillator.toml`). Integration
inside a macro step has no error of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hilrt.models.integrate import tight_step
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver

#: Exponent at which a contact force stops growing: a trial step may go far beyond the wall.
LARGEST = 100.0


class ContactMass(Solver):
    """``m x'' = -c x - d x' - A e^(B x) + f``.

    Parameters
    ----------
    x, v : float
        Initial displacement [m] and velocity [m/s].
    m, c, d : float
        Mass [kg], stiffness [N/m] and damping [N s/m] of its own spring.
    A, B : float
        Contact force at x = 0 [N]; none by default. How fast it grows beyond, 1/m.
    """

    inputs = (Port("f", "N"),)
    outputs = (Port("x", "m"), Port("v", "m/s"))

    def __init__(
        self,
        x: float,
        v: float,
        m: float,
        c: float,
        d: float = 0.0,
        A: float = 0.0,
        B: float = 1e4,
    ) -> None:
        self.state = np.array([x, v])
        self.m, self.c, self.d, self.A, self.B = m, c, d, A, B

    def _rates(self, t: float, state: Floats, u: Floats) -> Floats:
        x, v = state.tolist()
        force = u.item(0) - self.c * x - self.d * v
        if self.A:
            force -= self.A * math.exp(min(self.B * x, LARGEST))
        return np.array([v, force / self.m])

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Its motion."""
        return Sample(self.state.copy())

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Integrate with a tight tolerance."""
        self.state = tight_step(self._rates, self.state, t, h, u)
        return Sample(self.state.copy())

    def save_state(self) -> Any:
        """Displacement and velocity."""
        return self.state

    def restore_state(self, state: Any) -> None:
        """Set displacement and velocity."""
        self.state = state
