"""Two-mass rotational oscillator as two subsystems.

Glumac and Kovačić (2023), eqs. 40 to 42. Each side takes one forward Euler step per macro step, and
one half step for its mid-step output; or both steps exactly.
"""

from __future__ import annotations

import numpy as np

from hilrt.models.integrate import ExactSteps, Integrator
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver


class Side1(Solver):
    """Inertia 1 with the coupling shaft: speed of inertia 2 in, torque on inertia 2 out.

    Parameters
    ----------
    J, c, d : float
        Inertia [kg m²], wall stiffness [N m/rad] and damping [N m s/rad].
    ck, dk : float
        Stiffness and damping of the coupling.
    phi, omega, phi2 : float
        Initial angle [rad] and speed [rad/s], and angle of inertia 2, rad.
    integrator : {"paper", "exact"}
        Forward Euler, or no error at all.
    """

    inputs = (Port("omega2", "rad/s"),)
    outputs = (
        Port("torque", "N*m", feedthrough=("omega2",)),
        Port("phi", "rad"),
        Port("omega", "rad/s"),
        Port("phi2", "rad"),
    )

    def __init__(
        self,
        J: float = 10.0,
        c: float = 1.0,
        d: float = 1.0,
        ck: float = 1.0,
        dk: float = 2.0,
        phi: float = 0.1,
        omega: float = 0.1,
        phi2: float = 0.2,
        integrator: Integrator = "paper",
    ) -> None:
        self.J, self.c, self.d, self.ck, self.dk = J, c, d, ck, dk
        self.state = np.array([phi, omega, phi2])
        stiff, damped = -(c + ck) / J, -(d + dk) / J
        A = np.array([[0.0, 1.0, 0.0], [stiff, damped, ck / J], [0.0, 0.0, 0.0]])
        B = np.array([[0.0], [dk / J], [1.0]])
        self._steps = ExactSteps(A, B) if integrator == "exact" else None

    def _derivative(self, x: Floats, omega2: float) -> Floats:
        phi, omega, phi2 = x
        torque = (
            -(self.c + self.ck) * phi
            - (self.d + self.dk) * omega
            + self.ck * phi2
            + self.dk * omega2
        )
        return np.array([omega, torque / self.J, omega2])

    def _output(self, x: Floats, omega2: float) -> Floats:
        phi, omega, phi2 = x
        torque = self.ck * (phi - phi2) + self.dk * (omega - omega2)
        return np.array([torque, phi, omega, phi2])

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Torque and angles at `t0`."""
        return Sample(self._output(self.state, float(u0[0])))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """One step; the mid-step output from one half step."""
        if self._steps is not None:
            middle = self._steps.step(self.state, 0.5 * h, u)
            self.state = self._steps.step(self.state, h, u)
        else:
            slope = self._derivative(self.state, float(u(t)[0]))
            middle = self.state + 0.5 * h * slope
            self.state = self.state + h * slope
        return Sample(
            y=self._output(self.state, float(u(t + h)[0])),
            y_mid=self._output(middle, float(u(t + 0.5 * h)[0])),
        )

    def save_state(self) -> Floats:
        """Angles and speed."""
        return self.state

    def restore_state(self, state: Floats) -> None:
        """Set angles and speed."""
        self.state = state


class Side2(Solver):
    """Inertia 2: torque in, speed out.

    Parameters
    ----------
    J, c, d : float
        Inertia [kg m²], wall stiffness [N m/rad] and damping [N m s/rad].
    phi, omega : float
        Initial angle [rad] and speed [rad/s].
    integrator : {"paper", "exact"}
        As for `Side1`.
    """

    inputs = (Port("torque", "N*m"),)
    outputs = (Port("omega", "rad/s"), Port("phi", "rad"))

    def __init__(
        self,
        J: float = 10.0,
        c: float = 1.0,
        d: float = 2.0,
        phi: float = 0.2,
        omega: float = 0.1,
        integrator: Integrator = "paper",
    ) -> None:
        self.J, self.c, self.d = J, c, d
        self.state = np.array([phi, omega])
        A = np.array([[0.0, 1.0], [-c / J, -d / J]])
        self._steps = ExactSteps(A, np.array([[0.0], [1.0 / J]])) if integrator == "exact" else None

    def _derivative(self, torque: float) -> Floats:
        phi, omega = self.state
        return np.array([omega, (-self.c * phi - self.d * omega + torque) / self.J])

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Speed and angle at `t0`."""
        return Sample(self.state[::-1].copy())

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """One step; the mid-step output from one half step."""
        if self._steps is not None:
            middle = self._steps.step(self.state, 0.5 * h, u)
            self.state = self._steps.step(self.state, h, u)
        else:
            slope = self._derivative(float(u(t)[0]))
            middle = self.state + 0.5 * h * slope
            self.state = self.state + h * slope
        return Sample(y=self.state[::-1].copy(), y_mid=middle[::-1].copy())

    def save_state(self) -> Floats:
        """Angle and speed."""
        return self.state

    def restore_state(self, state: Floats) -> None:
        """Set angle and speed."""
        self.state = state
