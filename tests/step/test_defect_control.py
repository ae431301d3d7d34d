"""PI control by both defects, against an independent computation of Glumac and Kovačić (2023)."""

from __future__ import annotations

import numpy as np
import pytest

from bench_configs.models.two_mass_rotational import Side1, Side2
from hilrt.solver import Floats, InputPolynomial, Sample
from tests.stepping import Stepping

#: φ1' and ω1', φ2 and φ2', ω2' over (φ1, ω1, φ2, ω2, τ): one Euler step each in both sides.
SIDE1 = np.array([[0.0, 1.0, 0.0, 0.0], [-0.2, -0.3, 0.1, 0.2], [0.0, 0.0, 0.0, 1.0]])
SIDE2 = np.array([[0.0, 1.0, 0.0], [-0.1, -0.2, 0.1]])
TORQUE = np.array([1.0, 2.0, -1.0, -2.0])  # of φ1, ω1, φ2, ω2


class Told1(Side1):
    """Tells the derivative of its torque, too."""

    def told(self, sample: Sample, omega2: Floats) -> Sample:
        rates = SIDE1 @ [*self.state, omega2[0]]
        torque = TORQUE @ [*rates, omega2[1]]
        return Sample(sample.y, dy=np.array([[torque, *rates]]), y_mid=sample.y_mid)

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return self.told(super().initialize(t0, u0), np.array([u0[0], 0.0]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        sample = super().advance(t, h, u)
        return self.told(sample, np.array([u(t + h)[0], u.derivative(t + h)[0]]))


class Told2(Side2):
    """Tells the derivative of its speed, too."""

    def told(self, sample: Sample, torque: float) -> Sample:
        rates = SIDE2 @ [*self.state, torque]
        return Sample(sample.y, dy=rates[None, ::-1].copy(), y_mid=sample.y_mid)

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return self.told(super().initialize(t0, u0), float(u0[0]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        return self.told(super().advance(t, h, u), float(u(t + h)[0]))


def rms(a: float, b: float, h: float) -> float:
    """Of a + b s over 0 to h."""
    return float(np.sqrt(a * a + a * b * h + b * b * h * h / 3.0))


def own_steps(tolerance: float, order: int, duration: float) -> list[float]:
    """Communication points; inputs and outputs are Taylor polynomials of one degree, `order`."""
    x1, x2 = np.array([0.1, 0.1, 0.2]), np.array([0.2, 0.1])
    torque = TORQUE @ [*x1, x2[1]]
    tau = np.array([torque, TORQUE @ [*(SIDE1 @ [*x1, x2[1]]), 0.0]])
    omega = np.array([x2[1], SIDE2[1] @ [*x2, 0.0]])  # side 2 begins without a torque
    t, h, integral = 0.0, 1e-4, np.log(1e-4)
    points = [0.0]
    while t < duration:
        tau_in, omega_in = tau * [1.0, order], omega * [1.0, order]
        slope1, slope2 = SIDE1 @ [*x1, omega_in[0]], SIDE2 @ [*x2, tau_in[0]]
        middle1, middle2 = x1 + 0.5 * h * slope1, x2 + 0.5 * h * slope2
        x1, x2, t = x1 + h * slope1, x2 + h * slope2, t + h
        at_middle, at_end = omega_in @ [1.0, 0.5 * h], omega_in @ [1.0, h]
        tau_end = tau_in @ [1.0, h]
        tau = np.array([TORQUE @ [*x1, at_end], TORQUE @ [*(SIDE1 @ [*x1, at_end]), omega_in[1]]])
        omega = np.array([x2[1], SIDE2[1] @ [*x2, tau_end]])
        y = (  # of what is connected: value and derivative at the end, and value in the middle
            (tau, TORQUE @ [*middle1, at_middle]),
            (omega, middle2[1]),
        )
        defects = [
            abs(mid - (end[0] - order * 0.5 * h * end[1]))
            * 2.0 ** (order + 1)
            / np.sqrt(2.0 * order + 3.0)
            for end, mid in y
        ]
        for sent, end in ((tau_in, tau), (omega_in, omega)):  # as polynomials about the begin
            slope = order * end[1]
            defects.append(rms(sent[0] - (end[0] - slope * h), sent[1] - slope, h))
        e = np.log(tolerance) - np.log(max(*defects, 1e-16))
        integral += e / 15.0
        wanted = np.exp(integral + 0.13 * e)
        h_next = min(wanted, 2.0 * h)
        integral, h = integral + np.log(h_next) - np.log(wanted), h_next
        points.append(t)
    return points


@pytest.mark.parametrize(
    ("order", "tolerance", "duration", "steps"),
    [(0, 1e-2, 1.0, 40), (1, 1e-2, 10.0, 35), (1, 1e-3, 10.0, 58), (1, 1e-4, 10.0, 127)],
)
def test_steps_are_those_of_an_independent_computation(order, tolerance, duration, steps):
    s = Stepping(
        {"s1": Told1(), "s2": Told2()},
        master={
            "step": 1e-4,
            "extrapolation": {"order": order, "source": "taylor"},
            "step_control": {"method": "pi", "tolerance": tolerance, "initial": 1e-4},
        },
        connections=[
            {"from": "s1.torque", "to": "s2.torque"},
            {"from": "s2.omega", "to": "s1.omega2"},
        ],
    )
    points = s.run(duration, lambda s: s.t)
    expected = own_steps(tolerance, order, duration)
    assert len(points) - 1 == len(expected) - 1 == steps
    np.testing.assert_allclose(points, expected, atol=2e-6)
