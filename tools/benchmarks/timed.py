"""Solvers that record the times of their advances, for sessions in the process of a benchmark."""

from __future__ import annotations

import time

import numpy as np

from hilrt import InputPolynomial, Port, Sample, Solver
from hilrt.models.two_mass import Mass1
from hilrt.solver import Floats

#: Times of all advances, ns.
begun_ns: list[int] = []


def intervals_us(warm_up: int) -> list[float]:
    """Times from one advance to the next, us, without the first ones; clears the record."""
    found: list[float] = (np.diff(begun_ns[warm_up:]) * 1e-3).tolist()
    begun_ns.clear()
    return found


class TimedMass1(Mass1):
    """The first mass of the two-mass oscillator."""

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        begun_ns.append(time.perf_counter_ns())
        return super().advance(t, h, u)


class Witness(Solver):
    """Observer that only records its advances, for subsystems that do not."""

    outputs = (Port("nothing"),)

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return Sample(np.zeros(1))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        begun_ns.append(time.perf_counter_ns())
        return Sample(np.zeros(1))


class Cell(Solver):
    """A mass between two springs, one step of symplectic Euler per macro step.

    Parameters
    ----------
    x : float
        Displacement at the start.
    first : bool
        Only the first of a chain records its advances.
    """

    inputs = (Port("left"), Port("right"))
    outputs = (Port("x"),)

    def __init__(self, x: float = 0.0, first: bool = False) -> None:
        self.x, self.v, self.first = x, 0.0, first

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return Sample(np.array([self.x]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        if self.first:
            begun_ns.append(time.process_time_ns())
        left, right = u.coefficients[0]
        self.v += h * 100.0 * (left + right - 2.0 * self.x)
        self.x += h * self.v
        return Sample(np.array([self.x]))
