"""A speed-controlled dynamometer, simple but sufficient for a rehearsal."""

from math import expm1

import numpy as np

from hilrt import Port, Sample, Solver


class Dyno(Solver):
    """Follows its set-point with a lag; friction and drag make the torque."""

    inputs = (Port("speed", "rad/s"),)
    outputs = (Port("speed", "rad/s"), Port("torque", "N*m"))

    def __init__(self, lag=0.04):
        self.lag = lag  # s
        self.speed = 0.0

    def initialize(self, t0, u0):
        return self._sample()

    def advance(self, t, h, u):
        self.speed -= expm1(-h / self.lag) * (u(t + h)[0] - self.speed)
        return self._sample()

    def _sample(self):
        return Sample(np.array([self.speed, 2.0 + 0.05 * self.speed]))
