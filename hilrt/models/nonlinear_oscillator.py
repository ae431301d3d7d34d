"""Two-mass oscillator with nonlinear springs or dampers (Rodríguez et al. 2022, 4.2).

Split like the linear one: mass 1 owns the coupling, mass 2 is driven by its force. A "root" spring
pulls with ``k sgn(x) √|x|``, a "quadratic" damper with ``c sgn(v) v²``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from hilrt.models.integrate import tight_step
from hilrt.models.two_mass import Mass1, Mass2, micro_steps
from hilrt.solver import Floats, InputPolynomial, Sample

Law = Literal["linear", "root", "quadratic"]
_LAWS: dict[str, Callable[[float], float]] = {
    "linear": lambda x: x,
    "root": lambda x: math.copysign(math.sqrt(abs(x)), x),
    "quadratic": lambda x: x * abs(x),
}
#: Integral of each spring's law, for the potential energy.
_POTENTIALS: dict[str, Callable[[float], float]] = {
    "linear": lambda x: 0.5 * x * x,
    "root": lambda x: abs(x) ** 1.5 / 1.5,
}


class NonlinearMass1(Mass1):
    """Mass 1 with its coupling.

    Parameters
    ----------
    spring, damper : {"linear", "root", "quadratic"}
        Law of both springs (not "quadratic"), and of both dampers.
    **mass
        As for `Mass1`; stiffnesses in N/√m for root springs, dampings in N s²/m² for quadratic
        dampers.
    """

    def __init__(self, spring: Law = "root", damper: Law = "linear", **mass: Any) -> None:
        super().__init__(**mass)
        self.spring, self.damper = _LAWS[spring], _LAWS[damper]
        self.potential = _POTENTIALS[spring]

    def _force(self, u: Floats) -> float:
        x2, v2 = u.tolist()
        return self.kc * self.spring(self.x - x2) + self.cc * self.damper(self.v - v2)

    def _exact_step(self, t: float, h: float, u: InputPolynomial) -> Floats:
        def rate(t: float, state: Floats, u: Floats) -> Floats:
            (x, v), (x2, v2) = state.tolist(), u.tolist()
            coupling = self.kc * self.spring(x - x2) + self.cc * self.damper(v - v2)
            wall = self.k * self.spring(x) + self.c * self.damper(v)
            return np.array([v, -(wall + coupling) / self.m])

        return tight_step(rate, np.array([self.x, self.v]), t, h, u)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Integrate; by symplectic Euler, with the inputs read at the start of each micro step."""
        if self.exact:
            return super().advance(t, h, u)
        n = micro_steps(h, self.micro_step)
        dt = h / n
        for i in range(n):
            force = self._force(u(t + i * dt))
            wall = self.k * self.spring(self.x) + self.c * self.damper(self.v)
            self.v -= dt * (wall + force) / self.m
            self.x += dt * self.v
        return self._sample(u(t + h))

    def energy(self, x2: float) -> float:
        """Energy of the mass, its wall spring and the coupling spring [J]."""
        springs = self.k * self.potential(self.x) + self.kc * self.potential(self.x - x2)
        return 0.5 * self.m * self.v**2 + springs


class NonlinearMass2(Mass2):
    """Mass 2; parameters as for `NonlinearMass1` and `Mass2`."""

    def __init__(self, spring: Law = "root", damper: Law = "linear", **mass: Any) -> None:
        super().__init__(**mass)
        self.spring, self.damper = _LAWS[spring], _LAWS[damper]
        self.potential = _POTENTIALS[spring]

    def _exact_step(self, t: float, h: float, u: InputPolynomial) -> Floats:
        def rate(t: float, state: Floats, u: Floats) -> Floats:
            x, v = state.tolist()
            wall = self.k * self.spring(x) + self.c * self.damper(v)
            return np.array([v, (float(u[0]) - wall) / self.m])

        return tight_step(rate, np.array([self.x, self.v]), t, h, u)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Integrate; by symplectic Euler, with the force read at the start of each micro step."""
        if self.exact:
            return super().advance(t, h, u)
        n = micro_steps(h, self.micro_step)
        dt = h / n
        for i in range(n):
            wall = self.k * self.spring(self.x) + self.c * self.damper(self.v)
            self.v += dt * (float(u(t + i * dt)[0]) - wall) / self.m
            self.x += dt * self.v
        return self._sample()

    def energy(self) -> float:
        """Energy of the mass and its wall spring [J]."""
        return 0.5 * self.m * self.v**2 + self.k * self.potential(self.x)
