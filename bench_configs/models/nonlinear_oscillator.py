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
from hilrt.models.two_mass import Mass, Mass1, Mass2
from hilrt.solver import Floats, InputPolynomial

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


class NonlinearMass(Mass):
    """The laws of a mass's springs and dampers.

    Parameters
    ----------
    spring, damper : {"linear", "root", "quadratic"}
        Law of the springs (not "quadratic"), and of the dampers.
    **mass
        As for the linear mass; stiffnesses in N/√m for root springs, dampings in N s²/m² for
        quadratic dampers.
    """

    def __init__(self, spring: Law = "root", damper: Law = "linear", **mass: Any) -> None:
        super().__init__(**mass)
        self.spring, self.damper = _LAWS[spring], _LAWS[damper]
        self.potential = _POTENTIALS[spring]

    def _wall(self) -> float:
        return self.k * self.spring(self.x) + self.c * self.damper(self.v)

    def _exact_step(self, t: float, h: float, u: InputPolynomial) -> Floats:
        return tight_step(self._rates, np.array([self.x, self.v]), t, h, u)

    def _rates(self, t: float, state: Floats, u: Floats) -> Floats:
        self.x, self.v = state.tolist()
        return np.array([self.v, self._net_force(u) / self.m])


class NonlinearMass1(NonlinearMass, Mass1):
    """Mass 1 with its coupling; parameters as for `NonlinearMass` and `Mass1`."""

    def _force(self, u: Floats) -> float:
        x2, v2 = u.tolist()
        return self.kc * self.spring(self.x - x2) + self.cc * self.damper(self.v - v2)

    def _net_force(self, u: Floats) -> float:
        return -(self._wall() + self._force(u))

    def energy(self, x2: float) -> float:
        """Energy of the mass, its wall spring and the coupling spring [J]."""
        springs = self.k * self.potential(self.x) + self.kc * self.potential(self.x - x2)
        return 0.5 * self.m * self.v**2 + springs


class NonlinearMass2(NonlinearMass, Mass2):
    """Mass 2; parameters as for `NonlinearMass` and `Mass2`."""

    def _net_force(self, u: Floats) -> float:
        return float(u[0]) - self._wall()

    def energy(self) -> float:
        """Energy of the mass and its wall spring [J]."""
        return 0.5 * self.m * self.v**2 + self.k * self.potential(self.x)
