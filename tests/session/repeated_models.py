"""Models whose sessions an estimate about the start misjudges; each exact under a held input."""

import math

import numpy as np

from hilrt import Port, Sample, Solver

A, B, C, D = 1.0, 0.1, 1.5, 0.075  # of Lotka and Volterra


class Animals(Solver):
    """``n' = n (birth + eaten u)``."""

    inputs, outputs = (Port("others"),), (Port("n"),)
    birth, eaten = A, -B

    def __init__(self, n=10.0):
        self.n = n

    def initialize(self, t0, u0):
        return Sample(np.array([self.n]))

    def advance(self, t, h, u):
        self.n *= math.exp((self.birth + self.eaten * u(t)[0]) * h)
        return Sample(np.array([self.n]))

    def save_state(self):
        return self.n

    def restore_state(self, state):
        self.n = state


class Prey(Animals):
    """Grows, and is eaten."""


class Predator(Animals):
    """Starves, and eats."""

    birth, eaten = -C, D


class Swing(Solver):
    """Half of an oscillator: ``x' = rate u``."""

    inputs, outputs = (Port("u"),), (Port("x"),)

    def __init__(self, x=0.0, rate=1.0, on=0.0):
        self.x, self.rate, self.on = x, rate, on

    def initialize(self, t0, u0):
        return Sample(np.array([self.x]))

    def advance(self, t, h, u):
        if t + h / 2 > self.on:
            self.x += self.rate * u(t)[0] * h
        return Sample(np.array([self.x]))

    def save_state(self):
        return self.x

    def restore_state(self, state):
        self.x = state
