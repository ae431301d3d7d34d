"""Models whose parameters may change while a session runs."""

import numpy as np

from hilrt.models import two_mass
from hilrt.solver import Parameter, Port, Sample, Solver


class Mass1(two_mass.Mass1):
    """The one that owns the coupling."""

    parameters = (Parameter("kc", "N/m", default=100.0, min=1.0, max=1e4),)


class Mass2(two_mass.Mass2):
    """The other one."""

    parameters = (
        Parameter("k", "N/m", default=1000.0, min=0.0, max=1e5),
        Parameter("m", "kg", default=1.0),
    )

    def set_parameter(self, name, value):
        if name == "m" and value <= 0.0:
            raise ValueError("a mass is positive")
        super().set_parameter(name, value)


class Oscillator(Solver):
    """x'' = f - stiffness x, stepped exactly while f is held."""

    inputs = (Port("f"),)
    outputs = (Port("x"), Port("v"))
    parameters = (Parameter("stiffness", default=40.0, min=1.0, max=900.0),)

    def __init__(self):
        self.stiffness, self.z = 40.0, np.array([1.0, 0.0])

    def initialize(self, t0, u0):
        return Sample(self.z.copy())

    def advance(self, t, h, u):
        w, still = np.sqrt(self.stiffness), u(t)[0] / self.stiffness
        c, s = np.cos(w * h), np.sin(w * h)
        self.z = np.array([[c, s / w], [-w * s, c]]) @ (self.z - [still, 0.0]) + [still, 0.0]
        return Sample(self.z.copy())

    def save_state(self):
        return self.z

    def restore_state(self, state):
        self.z = state


class Spring(Solver):
    """A further force on it, ``f = -0 x``: it only listens."""

    inputs = (Port("x"),)
    outputs = (Port("f"),)

    def initialize(self, t0, u0):
        return Sample(np.zeros(1))

    def advance(self, t, h, u):
        return Sample(np.zeros(1))

    def save_state(self):
        return None

    def restore_state(self, state):
        pass
