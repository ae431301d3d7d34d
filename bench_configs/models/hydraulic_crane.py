"""Hydraulic crane: mechanics and hydraulics as two subsystems with a power bond.

Rodríguez et al. (2022), section 4.4.

A uniform link on a fixed joint at A, with a point mass at its end and a second point mass hanging
there on a massless link, is lifted by a cylinder from B to the middle of the first link. The
mechanics turn the actuator force into motion; the hydraulics turn the actuator's motion into
chamber pressures and a force, with direct feedthrough of its rate. The two have different time
scales: the hydraulics take steps of a quarter of a millisecond, the mechanics of several
milliseconds. Both take explicit steps no longer than `micro_step`, like the original: symplectic
Euler for the mechanics, Euler for the pressures.
"""

from __future__ import annotations

import math

import numpy as np

from hilrt.models.integrate import Integrator, tight_step
from hilrt.models.two_mass import micro_steps
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver

GRAVITY = 9.81  #: m/s²
L1, L2 = 1.0, 0.5  #: Lengths of the links, m.
M1, M2, M3 = 200.0, 250.0, 100.0  #: Link 1, its end, end of link 2, kg.
BASE = math.sqrt(3.0) / 2.0  #: From joint A to the cylinder's foot B, m.
THETA1, THETA2 = math.pi / 6.0, 1.5 * math.pi  #: Initial angles above the horizontal, rad.
LENGTH0 = 0.5  #: Actuator length then, m.

PISTON = 65e-4  #: Area, m².
CYLINDER = 0.442  #: Length, m.
DAMPING = 1e5  #: Of the actuator, N s/m.
DISCHARGE = 0.67  #: Coefficient of the valves.
VALVE = 5e-4  #: Area of a valve that is fully open, m².
DENSITY = 850.0  #: Of the fluid, kg/m³.
PUMP, TANK = 7.6e6, 0.1e6  #: Supply and return pressure, Pa.
BULK_A, BULK_B = 6.53e-10, -1.19e-18  #: Compressibility of the fluid, 1/Pa and 1/Pa².


def lever(theta1: float) -> tuple[float, float]:
    """Actuator length [m] and its derivative with respect to θ1 [m/rad]."""
    s = math.sqrt(1.0 - BASE * math.cos(theta1))
    return s, 0.5 * BASE * math.sin(theta1) / s


#: Actuator force that holds the crane at rest, N.
FORCE0 = GRAVITY * L1 * (0.5 * M1 + M2 + M3) * math.cos(THETA1) / lever(THETA1)[1]


def angular_acceleration(
    theta1: float, theta2: float, omega1: float, omega2: float, force: float
) -> tuple[float, float]:
    """Accelerations of both links [rad/s²] under an actuator force [N]."""
    m12 = M3 * L1 * L2
    c, s = m12 * math.cos(theta1 - theta2), m12 * math.sin(theta1 - theta2)
    m11, m22 = L1 * L1 * (M1 / 3.0 + M2 + M3), M3 * L2 * L2
    weight = GRAVITY * L1 * (0.5 * M1 + M2 + M3) * math.cos(theta1)
    torque1 = force * lever(theta1)[1] - weight - s * omega2 * omega2
    torque2 = -GRAVITY * L2 * M3 * math.cos(theta2) + s * omega1 * omega1
    determinant = m11 * m22 - c * c
    return (
        (m22 * torque1 - c * torque2) / determinant,
        (m11 * torque2 - c * torque1) / determinant,
    )


def pressures_at_rest() -> tuple[float, float, float]:
    """Pressures p1, p2 [Pa] and spool position γ0 that hold the crane at rest.

    Both chambers are balanced, ``γ √(pP − p1) = (1 − γ) √(p1 − pT)`` and the same for p2 with γ and
    1 − γ exchanged, exactly where ``p1 + p2 = pP + pT``.
    """
    p1 = 0.5 * (PUMP + TANK - FORCE0 / PISTON)
    inflow, outflow = math.sqrt(PUMP - p1), math.sqrt(p1 - TANK)
    return p1, p1 + FORCE0 / PISTON, outflow / (inflow + outflow)


def amplitude(t: float) -> float:
    """Relative amplitude of the manoeuvre at `t` [s]; Rodríguez et al. (2022), eq. 33."""
    return 0.1 * min(max(min(t, 9.0 - t), 0.0), 1.0)


def pressure_rates(
    p1: float, p2: float, s: float, rate: float, spool: float
) -> tuple[float, float]:
    """Rates of both pressures [Pa/s] for the actuator's length [m] and rate [m/s]; eq. 26."""
    open_in, open_out = VALVE * spool, VALVE * (1.0 - spool)
    flow1 = PISTON * rate + open_in * _speed(PUMP - p1) - open_out * _speed(p1 - TANK)
    flow2 = -PISTON * rate + open_out * _speed(PUMP - p2) - open_in * _speed(p2 - TANK)
    chamber1 = PISTON * (0.5 * CYLINDER + LENGTH0 - s)
    chamber2 = PISTON * (0.5 * CYLINDER + s - LENGTH0)
    return _bulk_modulus(p1) * flow1 / chamber1, _bulk_modulus(p2) * flow2 / chamber2


def _speed(difference: float) -> float:
    """Discharge times the fluid's speed through a valve [m/s]; none against the pressure."""
    return DISCHARGE * math.sqrt(2.0 * max(difference, 0.0) / DENSITY)


def _bulk_modulus(p: float) -> float:
    """Bulk modulus of the fluid at a pressure, both in Pa; eq. 28."""
    return (1.0 + BULK_A * p + BULK_B * p * p) / (BULK_A + 2.0 * BULK_B * p)


def actuator_force(p1: float, p2: float, rate: float) -> float:
    """Force of the actuator on the crane [N]; eq. 25."""
    return PISTON * (p2 - p1) - DAMPING * rate


class Mechanics(Solver):
    """The crane's two links, driven by the actuator force.

    Parameters
    ----------
    micro_step : float
        Longest step of the integrator, s.
    integrator : {"paper", "exact"}
        Symplectic Euler, or an adaptive method with a tight tolerance.
    """

    inputs = (Port("force", "N", start=FORCE0),)
    outputs = (
        Port("rate", "m/s", description="rate of the actuator's length"),
        Port("length", "m", start=LENGTH0),
        Port("theta1", "rad"),
        Port("theta2", "rad"),
    )

    def __init__(self, micro_step: float = 0.01, integrator: Integrator = "paper") -> None:
        self.micro_step = micro_step
        self.exact = integrator == "exact"
        self.state = (THETA1, THETA2, 0.0, 0.0)  # θ1, θ2, ω1, ω2

    def _sample(self) -> Sample:
        theta1, theta2, omega1, _ = self.state
        s, ds = lever(theta1)
        return Sample(np.array([ds * omega1, s, theta1, theta2]))

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Motion at `t0`."""
        return self._sample()

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Integrate; by symplectic Euler, with the force read at the start of each micro step."""
        if self.exact:
            state = tight_step(self._rates, np.array(self.state), t, h, u).tolist()
            self.state = (state[0], state[1], state[2], state[3])
            return self._sample()
        n = micro_steps(h, self.micro_step)
        dt = h / n
        theta1, theta2, omega1, omega2 = self.state
        for i in range(n):
            force = float(u(t + i * dt)[0])
            a1, a2 = angular_acceleration(theta1, theta2, omega1, omega2, force)
            omega1 += dt * a1
            omega2 += dt * a2
            theta1 += dt * omega1
            theta2 += dt * omega2
        self.state = (theta1, theta2, omega1, omega2)
        return self._sample()

    def _rates(self, t: float, state: Floats, u: Floats) -> Floats:
        theta1, theta2, omega1, omega2 = state.tolist()
        a1, a2 = angular_acceleration(theta1, theta2, omega1, omega2, float(u[0]))
        return np.array([omega1, omega2, a1, a2])

    def save_state(self) -> tuple[float, float, float, float]:
        """Angles and angular speeds."""
        return self.state

    def restore_state(self, state: tuple[float, float, float, float]) -> None:
        """Set angles and angular speeds."""
        self.state = state


class Hydraulics(Solver):
    """Cylinder and valves, moved by the crane; carries out the manoeuvre (`amplitude`).

    Parameters
    ----------
    frequency : float
        Of the spool's oscillation, Hz.
    micro_step : float
        Longest step of the integrator, s.
    integrator : {"paper", "exact"}
        Euler, or an adaptive method with a tight tolerance.
    """

    inputs = (Port("rate", "m/s"), Port("length", "m", start=LENGTH0))
    outputs = (
        Port("force", "N", start=FORCE0, feedthrough=("rate",)),
        Port("p1", "Pa"),
        Port("p2", "Pa"),
        Port("spool", "", description="0 closed, 1 open"),
    )

    def __init__(
        self,
        frequency: float = 2.0,
        micro_step: float = 2.5e-4,
        integrator: Integrator = "paper",
    ) -> None:
        self.omega = 2.0 * math.pi * frequency
        self.micro_step = micro_step
        self.exact = integrator == "exact"
        self.p1, self.p2, self.spool0 = pressures_at_rest()

    def spool(self, t: float) -> float:
        """Position of the spool, 0 to 1."""
        return self.spool0 * (1.0 - amplitude(t) * math.sin(self.omega * t))

    def _sample(self, t: float, u: Floats) -> Sample:
        force = actuator_force(self.p1, self.p2, float(u[0]))
        return Sample(np.array([force, self.p1, self.p2, self.spool(t)]))

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Force, pressures and spool position at `t0`."""
        return self._sample(t0, u0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Integrate; by Euler, with the motion read at the start of each micro step."""
        if self.exact:
            state = np.array([self.p1, self.p2])
            self.p1, self.p2 = tight_step(self._rates, state, t, h, u).tolist()
            return self._sample(t + h, u(t + h))
        n = micro_steps(h, self.micro_step)
        dt = h / n
        for i in range(n):
            rate, s = u(t + i * dt).tolist()
            d1, d2 = pressure_rates(self.p1, self.p2, s, rate, self.spool(t + i * dt))
            self.p1 += dt * d1
            self.p2 += dt * d2
        return self._sample(t + h, u(t + h))

    def _rates(self, t: float, state: Floats, u: Floats) -> Floats:
        (p1, p2), (rate, s) = state.tolist(), u.tolist()
        return np.array(pressure_rates(p1, p2, s, rate, self.spool(t)))

    def save_state(self) -> tuple[float, float]:
        """Both pressures."""
        return self.p1, self.p2

    def restore_state(self, state: tuple[float, float]) -> None:
        """Set both pressures."""
        self.p1, self.p2 = state
