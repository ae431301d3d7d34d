"""Subsystems of tests as equations, integrated finely enough that all error is the coupling's."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hilrt.solver import Floats, InputPolynomial, Sample, Solver


def turns(t: float, frequency: float) -> float:
    """A swing of amplitude 1 at a frequency in Hz."""
    return math.sin(2.0 * math.pi * frequency * t)


class Opaque(Solver):
    """``x' = f(t, x, u)``, ``y = g(x, u)`` by the classical Runge-Kutta method in `steps` steps.

    Nothing can be done with it but to step it, as with a bench.
    """

    start: Sequence[float] = ()
    steps = 1

    def __init__(self) -> None:
        self.x = np.array(self.start, dtype=float)

    def f(self, t: float, x: Floats, u: Floats) -> Sequence[float]:
        raise NotImplementedError

    def g(self, x: Floats, u: Floats) -> Sequence[float]:
        raise NotImplementedError

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return Sample(np.array(self.g(self.x, u0), dtype=float))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        x, d = self.x, h / self.steps
        for i in range(self.steps):
            s = t + i * d
            first, middle, last = u(s), u(s + d / 2), u(s + d)
            k1 = np.array(self.f(s, x, first))
            k2 = np.array(self.f(s + d / 2, x + d / 2 * k1, middle))
            k3 = np.array(self.f(s + d / 2, x + d / 2 * k2, middle))
            k4 = np.array(self.f(s + d, x + d * k3, last))
            x = x + d / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        self.x = x
        return Sample(np.array(self.g(x, u(t + h)), dtype=float))


class Restoring(Opaque):
    """It saves and restores its state, so that it can be probed."""

    def save_state(self) -> Floats:
        return self.x

    def restore_state(self, state: Floats) -> None:
        self.x = state
