"""A quarter of a car: the wheel with tyre and suspension, and the body on top of it."""

import numpy as np

from hilrt import Port, Sample, Solver

STEPS = 10  # own steps per macro step


class Body(Solver):
    """Sprung mass: force in, motion out."""

    inputs = (Port("force", "N"),)
    outputs = (Port("x", "m"), Port("v", "m/s"))

    def __init__(self, mass=400.0):
        self.mass, self.x, self.v = mass, 0.0, 0.0

    def initialize(self, t0, u0):
        return Sample(np.array([self.x, self.v]))

    def advance(self, t, h, u):
        dt = h / STEPS
        for i in range(STEPS):
            (force,) = u(t + i * dt)  # the input at the model's own time
            self.v += dt * force / self.mass
            self.x += dt * self.v
        return Sample(np.array([self.x, self.v]))

    def save_state(self):
        return self.x, self.v

    def restore_state(self, state):
        self.x, self.v = state


class Wheel(Solver):
    """Unsprung mass on a tyre; owns the suspension, whose force is its output."""

    inputs = (Port("road", "m"), Port("body_x", "m"), Port("body_v", "m/s"))
    outputs = (
        Port("force", "N", feedthrough=("body_x", "body_v")),  # depends directly on these inputs
        Port("x", "m"),
    )

    def __init__(self, mass=40.0, tyre=180e3, spring=20e3, damper=1.5e3):
        self.mass, self.tyre, self.spring, self.damper = mass, tyre, spring, damper
        self.x, self.v = 0.0, 0.0

    def force(self, u):
        return self.spring * (self.x - u[1]) + self.damper * (self.v - u[2])

    def sample(self, u):
        return Sample(np.array([self.force(u), self.x]))

    def initialize(self, t0, u0):
        return self.sample(u0)

    def advance(self, t, h, u):
        dt = h / STEPS
        for i in range(STEPS):
            now = u(t + i * dt)
            self.v += dt * (self.tyre * (now[0] - self.x) - self.force(now)) / self.mass
            self.x += dt * self.v
        return self.sample(u(t + h))  # feedthrough: with the inputs at the end

    def save_state(self):
        return self.x, self.v

    def restore_state(self, state):
        self.x, self.v = state
