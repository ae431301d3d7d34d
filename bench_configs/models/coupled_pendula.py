"""Two pendula coupled at their tips by a spring and a damper, in a plane.

Rodríguez et al. (2022), section 4.3. Pendulum 1 owns the coupling and outputs the force on the tip
of pendulum 2, as a vector; pendulum 2 outputs its tip's motion. Symplectic Euler in the angle, or
without an error of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hilrt.models.integrate import Integrator, tight_step
from hilrt.models.two_mass import micro_steps
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver

GRAVITY = 9.81  #: m/s²


class Pendulum(Solver):
    """A point mass on a massless rod.

    Parameters
    ----------
    m, length : float
        Mass [kg] and rod [m].
    pivot : float
        Horizontal position of the joint, m.
    angle : float
        Initial angle to the vertical, rad; at rest.
    micro_step : float
        Longest step of the integrator, s.
    integrator : {"paper", "exact"}
        Symplectic Euler, or an adaptive method with a tight tolerance.
    """

    def __init__(
        self,
        m: float,
        length: float,
        pivot: float,
        angle: float,
        micro_step: float,
        integrator: Integrator,
    ) -> None:
        self.m, self.length, self.pivot = m, length, pivot
        self.angle, self.rate = angle, 0.0
        self.micro_step = micro_step
        self.exact = integrator == "exact"

    def tip(self) -> Floats:
        """Position of the mass, m, shape (2,)."""
        s, c = math.sin(self.angle), math.cos(self.angle)
        return np.array([self.pivot + self.length * s, -self.length * c])

    def tip_rate(self) -> Floats:
        """Velocity of the mass, m/s, shape (2,)."""
        s, c = math.sin(self.angle), math.cos(self.angle)
        return self.length * self.rate * np.array([c, s])

    def energy(self) -> float:
        """Kinetic and potential energy, J."""
        kinetic = 0.5 * self.m * (self.length * self.rate) ** 2
        return kinetic - self.m * GRAVITY * self.length * math.cos(self.angle)

    def _acceleration(self, u: Floats) -> float:
        """Angular acceleration under the inputs, rad/s²."""
        fx, fy = self._acting(u)
        s, c = math.sin(self.angle), math.cos(self.angle)
        return (c * fx + s * (fy - self.m * GRAVITY)) / (self.m * self.length)

    def _acting(self, u: Floats) -> tuple[float, float]:
        """Force on the tip, N."""
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
            state = np.array([self.angle, self.rate])
            self.angle, self.rate = tight_step(self._rates, state, t, h, u).tolist()
            return self._sample(u(t + h))
        n = micro_steps(h, self.micro_step)
        dt = h / n
        for i in range(n):
            self.rate += dt * self._acceleration(u(t + i * dt))
            self.angle += dt * self.rate
        return self._sample(u(t + h))

    def _rates(self, t: float, state: Floats, u: Floats) -> Floats:
        self.angle, self.rate = state.tolist()
        return np.array([self.rate, self._acceleration(u)])

    def save_state(self) -> tuple[float, float]:
        """Angle and angular speed."""
        return self.angle, self.rate

    def restore_state(self, state: tuple[float, float]) -> None:
        """Set angle and angular speed."""
        self.angle, self.rate = state


class Pendulum1(Pendulum):
    """The pendulum that owns the coupling.

    Parameters
    ----------
    kc, cc : float
        Stiffness [N/m] and damping [N s/m] of the coupling.
    tip2 : two floats
        Initial position of the other tip [m], where the spring is unloaded.
    **pendulum
        As for `Pendulum`.
    """

    inputs = (Port("x2", "m", size=2), Port("v2", "m/s", size=2))
    outputs = (
        Port("force", "N", size=2, feedthrough=("x2", "v2"), description="on the tip of 2"),
        Port("angle", "rad"),
    )

    def __init__(
        self,
        tip2: Sequence[float],
        m: float = 1.0,
        length: float = 1.0,
        pivot: float = 0.0,
        angle: float = math.pi / 4.0,
        kc: float = 10.0,
        cc: float = 0.0,
        micro_step: float = 1e-3,
        integrator: Integrator = "paper",
    ) -> None:
        super().__init__(m, length, pivot, angle, micro_step, integrator)
        self.kc, self.cc = kc, cc
        self.natural = float(np.linalg.norm(np.array(tip2) - self.tip()))

    def force(self, u: Floats) -> tuple[float, float]:
        """Force on the other tip, N, as it moves by `u`: position [m] and velocity [m/s]."""
        x2, y2, vx2, vy2 = u.tolist()
        s, c = math.sin(self.angle), math.cos(self.angle)
        speed = self.length * self.rate
        dx, dy = x2 - self.pivot - self.length * s, y2 + self.length * c
        distance = math.hypot(dx, dy)
        dx, dy = dx / distance, dy / distance
        stretching = (vx2 - speed * c) * dx + (vy2 - speed * s) * dy
        pull = self.kc * (distance - self.natural) + self.cc * stretching
        return -pull * dx, -pull * dy

    def coupling_energy(self, tip2: Floats) -> float:
        """Energy of the coupling spring, J."""
        stretch = float(np.linalg.norm(tip2 - self.tip())) - self.natural
        return 0.5 * self.kc * stretch**2

    def _sample(self, u: Floats) -> Sample:
        return Sample(np.array([*self.force(u), self.angle]))

    def _acting(self, u: Floats) -> tuple[float, float]:
        fx, fy = self.force(u)
        return -fx, -fy


class Pendulum2(Pendulum):
    """The pendulum that is driven by a force at its tip; parameters as for `Pendulum`."""

    inputs = (Port("force", "N", size=2),)
    outputs = (Port("v", "m/s", size=2), Port("x", "m", size=2))

    def __init__(
        self,
        m: float = 1.0,
        length: float = 1.0,
        pivot: float = 10.0,
        angle: float = math.pi / 18.0,
        micro_step: float = 1e-3,
        integrator: Integrator = "paper",
    ) -> None:
        super().__init__(m, length, pivot, angle, micro_step, integrator)

    def _sample(self, u: Floats) -> Sample:
        return Sample(np.concatenate((self.tip_rate(), self.tip())))

    def _acting(self, u: Floats) -> tuple[float, float]:
        fx, fy = u.tolist()
        return fx, fy
