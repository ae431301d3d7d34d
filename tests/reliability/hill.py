"""An unstable point between two stable ones: the answers about it grow for ever, the state not."""

import numpy as np

from hilrt import Port, Sample, Solver

GROWTH = 40.0


class Hill(Solver):
    """``x' = GROWTH (x - x^3) + 0.1 y``, in steps of 1 ms."""

    inputs = (Port("y"),)
    outputs = (Port("x"),)

    def __init__(self):
        self.x = 1e-3

    def initialize(self, t0, u0):
        return Sample(np.array([self.x]))

    def advance(self, t, h, u):
        n = max(1, round(h / 1e-3))
        for k in range(n):
            rate = GROWTH * (self.x - self.x**3) + 0.1 * float(u(t + k * h / n)[0])
            self.x += h / n * rate
        return Sample(np.array([self.x]))

    def save_state(self):
        return self.x

    def restore_state(self, state):
        self.x = state
