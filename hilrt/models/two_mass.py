"""Linear two-mass oscillator as two subsystems with a power bond.

Rodríguez et al. (2022), section 3.3. Mass 1 contains the coupling spring and damper and outputs the
force on mass 2; mass 2 outputs its motion. Both integrate by symplectic Euler, which conserves the
energy of the undamped oscillator except for a small ripple, so that any energy error is due to the
coupling; or they integrate exactly.
"""

from __future__ import annotations

import math

import numpy as np

from hilrt.models.integrate import ExactSteps, Integrator
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver


def micro_steps(h: float, longest: float) -> int:
    """Number of equal micro steps, none longer than `longest` [s], in a macro step `h` [s]."""
    return max(1, math.ceil(h / longest - 1e-9))


class Mass(Solver):
    """A mass on a wall spring; subclasses add further forces.

    Parameters
    ----------
    m, k, c : float
        Mass [kg], wall stiffness [N/m] and damping [N s/m].
    x, v : float
        Initial displacement [m] and velocity [m/s].
    micro_step : float
        Longest step of the integrator, s.
    integrator : {"paper", "exact"}
        Symplectic Euler, or exact integration.
    """

    def __init__(
        self,
        m: float,
        k: float,
        c: float,
        x: float,
        v: float,
        micro_step: float,
        integrator: Integrator,
    ) -> None:
        self.m, self.k, self.c = m, k, c
        self.x, self.v = x, v
        self.micro_step = micro_step
        self.exact = integrator == "exact"
        self._steps: ExactSteps | None = None

    def _net_force(self, u: Floats) -> float:
        """Sum of the forces on the mass under the inputs, N."""
        raise NotImplementedError

    def _linear(self) -> ExactSteps:
        """Exact steps of the displacement and velocity."""
        raise NotImplementedError

    def _sample(self, u: Floats) -> Sample:
        """Outputs under the inputs."""
        raise NotImplementedError

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Outputs at `t0`."""
        return self._sample(u0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Integrate; by symplectic Euler, with the inputs read at the start of each micro step."""
        if self.exact:
            self.x, self.v = self._exact_step(t, h, u).tolist()
            return self._sample(u(t + h))
        n = micro_steps(h, self.micro_step)
        dt = h / n
        for i in range(n):
            self.v += dt * self._net_force(u(t + i * dt)) / self.m
            self.x += dt * self.v
        return self._sample(u(t + h))

    def _exact_step(self, t: float, h: float, u: InputPolynomial) -> Floats:
        if self._steps is None:
            self._steps = self._linear()
        return self._steps.step(np.array([self.x, self.v]), h, u)

    def save_state(self) -> tuple[float, float]:
        """Displacement and velocity."""
        return self.x, self.v

    def restore_state(self, state: tuple[float, float]) -> None:
        """Set displacement and velocity."""
        self.x, self.v = state


class Mass1(Mass):
    """Mass on a wall spring, with the coupling to mass 2.

    Parameters
    ----------
    kc, cc : float
        Stiffness [N/m] and damping [N s/m] of the coupling.
    m, k, c, x, v, micro_step, integrator
        As for `Mass`.
    """

    inputs = (Port("x2", "m"), Port("v2", "m/s"))
    outputs = (
        Port("force", "N", feedthrough=("x2", "v2"), description="coupling force on mass 2"),
        Port("x", "m"),
        Port("v", "m/s"),
    )

    def __init__(
        self,
        m: float = 1.0,
        k: float = 10.0,
        kc: float = 100.0,
        c: float = 0.0,
        cc: float = 0.0,
        x: float = 0.0,
        v: float = 100.0,
        micro_step: float = 1e-3,
        integrator: Integrator = "paper",
    ) -> None:
        super().__init__(m, k, c, x, v, micro_step, integrator)
        self.kc, self.cc = kc, cc

    def _force(self, u: Floats) -> float:
        return float(self.kc * (self.x - u[0]) + self.cc * (self.v - u[1]))

    def _sample(self, u: Floats) -> Sample:
        return Sample(np.array([self._force(u), self.x, self.v]))

    def _net_force(self, u: Floats) -> float:
        return -self.k * self.x - self.c * self.v - self._force(u)

    def _linear(self) -> ExactSteps:
        k, c = self.k + self.kc, self.c + self.cc
        A = np.array([[0.0, 1.0], [-k / self.m, -c / self.m]])
        B = np.array([[0.0, 0.0], [self.kc / self.m, self.cc / self.m]])
        return ExactSteps(A, B)


class Mass2(Mass):
    """Mass on a wall spring, driven by a force; parameters as for `Mass`."""

    inputs = (Port("force", "N"),)
    outputs = (Port("v", "m/s"), Port("x", "m"))

    def __init__(
        self,
        m: float = 1.0,
        k: float = 1000.0,
        c: float = 0.0,
        x: float = 0.0,
        v: float = -100.0,
        micro_step: float = 1e-3,
        integrator: Integrator = "paper",
    ) -> None:
        super().__init__(m, k, c, x, v, micro_step, integrator)

    def _sample(self, u: Floats) -> Sample:
        return Sample(np.array([self.v, self.x]))

    def _net_force(self, u: Floats) -> float:
        return -self.k * self.x - self.c * self.v + float(u[0])

    def _linear(self) -> ExactSteps:
        A = np.array([[0.0, 1.0], [-self.k / self.m, -self.c / self.m]])
        return ExactSteps(A, np.array([[0.0], [1.0 / self.m]]))
