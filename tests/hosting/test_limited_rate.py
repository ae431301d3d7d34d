"""Responses of a solver that follows a target at a limited rate, as a driver's foot does."""

from typing import Any

import numpy as np
from scipy.linalg import expm

from hilrt import Port, Sample, Solver
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linear_model import renew_linear_model
from hilrt.solver import Floats, InputPolynomial

GAIN, FREE, RATE, DAMPING = -0.4, 90.0, 300.0, 0.5  # %/(rad/s), %, %/s, 1/s
H = 1e-3


class Foot(Solver):
    """A speed that its input accelerates, and a pedal at its target, ``FREE + GAIN * speed``."""

    inputs, outputs = (Port("acceleration"),), (Port("pedal"),)

    def __init__(self) -> None:
        self.speed = self.pedal = 0.0

    def initialize(self, t0: float, u0: Floats) -> Sample:
        self.speed, self.pedal = 150.0, FREE + GAIN * 150.0
        return Sample(np.array([self.pedal]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.speed += h * (u(t)[0] - DAMPING * self.speed)
        move = FREE + GAIN * self.speed - self.pedal
        self.pedal += min(max(move, -RATE * h), RATE * h)
        return Sample(np.array([self.pedal]))

    def save_state(self) -> Any:
        return self.speed, self.pedal

    def restore_state(self, state: Any) -> None:
        self.speed, self.pedal = state


def test_a_pedal_within_its_rate_answers_with_its_target():
    """Of the exact step: the pedal forgets its own error, and takes GAIN times the speed's."""
    hosted = HostedSolver(Foot())
    u = np.array([DAMPING * 150.0])  # at rest: the target does not move
    hosted.initialize(0.0, u)
    found = renew_linear_model(hosted, 0.0, u, H)
    step = expm(found.A * H)
    np.testing.assert_allclose(step[0], [1.0 - H * DAMPING, 0.0], atol=1e-6)
    np.testing.assert_allclose(step[1], [GAIN, 0.0], rtol=2e-3, atol=1e-9)
