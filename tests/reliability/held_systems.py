"""Subsystems of `test_held_inputs`: each reads its inputs once in a step, and integrates finely.

Circuits, populations, chemistry, nerves, lasers, heat and drives.
"""

from __future__ import annotations

import math

from hilrt.solver import InputPolynomial, Port, Sample
from tests.reliability.equations import Restoring


class Held(Restoring):
    """Its inputs are those of the step's beginning."""

    steps = 4

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        first = u(t)
        return super().advance(t, h, lambda _: first)

    def g(self, x, u):
        return x[:1]


class Coil(Held):
    inputs, outputs = (Port("voltage", "V"),), (Port("current", "A"),)
    start = (0.0,)

    def f(self, t, x, u):
        return [(u[0] - 0.05 * x[0]) / 1e-3]


class Capacitor(Held):
    inputs, outputs = (Port("current", "A"),), (Port("voltage", "V"),)
    start = (10.0,)

    def f(self, t, x, u):
        return [-u[0] / 1e-3]


class Susceptible(Held):
    """A share of a population that is infected at 0.5 per day."""

    inputs, outputs = (Port("infected"),), (Port("share"),)
    start = (0.99,)

    def f(self, t, x, u):
        return [-0.5 * x[0] * u[0]]


class Infected(Held):
    inputs, outputs = (Port("susceptible"),), (Port("share"),)
    start = (0.01,)

    def f(self, t, x, u):
        return [x[0] * (0.5 * u[0] - 0.1)]


class Algae(Held):
    """They grow with what feeds them, and stand in each other's light."""

    inputs, outputs = (Port("nutrient"),), (Port("mass"),)
    start = (0.05,)

    def f(self, t, x, u):
        return [x[0] * (u[0] - x[0])]


class Nutrient(Held):
    inputs, outputs = (Port("algae"),), (Port("level"),)
    start = (2.0,)

    def f(self, t, x, u):
        return [(2.0 - x[0] - u[0]) / 0.5]


class Pendulum(Held):
    """On a motor's shaft."""

    inputs, outputs = (Port("torque", "N*m"),), (Port("speed", "rad/s"),)
    start = (0.0, 0.5)

    def f(self, t, x, u):
        return [(u[0] - 0.05 * x[0] - 0.98 * math.sin(x[1])) / 0.1, x[0]]


class Armature(Held):
    inputs, outputs = (Port("speed", "rad/s"),), (Port("torque", "N*m"),)
    start = (0.0,)

    def f(self, t, x, u):
        return [0.5 * (2.0 * math.sin(3.0 * t) - 2.0 * x[0] - 0.5 * u[0]) / 2e-3]


class Place(Held):
    """Of van der Pol's oscillator."""

    inputs, outputs = (Port("speed"),), (Port("x"),)
    start = (2.0,)

    def f(self, t, x, u):
        return [u[0]]


class Speed(Held):
    inputs, outputs = (Port("x"),), (Port("speed"),)
    start = (0.0,)

    def f(self, t, x, u):
        return [(1.0 - u[0] ** 2) * x[0] - u[0]]


class Membrane(Held):
    """FitzHugh and Nagumo's nerve."""

    inputs, outputs = (Port("recovery"),), (Port("voltage"),)
    start = (-1.0,)

    def f(self, t, x, u):
        return [x[0] - x[0] ** 3 / 3.0 - u[0] + 0.5]


class Recovery(Held):
    inputs, outputs = (Port("voltage"),), (Port("w"),)
    start = (-0.5,)

    def f(self, t, x, u):
        return [0.08 * (u[0] + 0.7 - 0.8 * x[0])]


class Photons(Held):
    """A laser's, over those at threshold."""

    inputs, outputs = (Port("carriers"),), (Port("n"),)
    start = (0.2,)

    def f(self, t, x, u):
        return [100.0 * x[0] * (u[0] - 1.0)]


class Carriers(Held):
    inputs, outputs = (Port("photons"),), (Port("n"),)
    start = (1.2,)

    def f(self, t, x, u):
        return [2.0 - x[0] - x[0] * u[0]]


class Room(Held):
    """Heated from outside; 1 MJ/K, 200 W/K to its neighbour."""

    inputs, outputs = (Port("next", "degC"),), (Port("temperature", "degC"),)
    start = (18.0,)

    def f(self, t, x, u):
        heat = 2000.0 + 1500.0 * math.sin(2e-4 * t)
        return [(heat + 200.0 * (u[0] - x[0]) - 100.0 * (x[0] - 5.0)) / 1e6]


class Neighbour(Held):
    inputs, outputs = (Port("next", "degC"),), (Port("temperature", "degC"),)
    start = (12.0,)

    def f(self, t, x, u):
        return [(200.0 * (u[0] - x[0]) - 150.0 * (x[0] - 5.0)) / 2e6]


class Radiator(Held):
    """It gives its heat off by the fourth power, at 1 K and more per second."""

    inputs, outputs = (Port("heat", "W"),), (Port("temperature", "K"),)
    start = (900.0,)

    def f(self, t, x, u):
        return [(u[0] - 5.67e-9 * (x[0] ** 4 - 300.0**4)) / 20.0]


class Furnace(Held):
    """A controlled element whose heat follows slowly."""

    inputs, outputs = (Port("temperature", "K"),), (Port("heat", "W"),)
    start = (2000.0,)

    def f(self, t, x, u):
        return [(4000.0 + 20.0 * (800.0 - u[0]) - x[0]) / 2.0]


class Late(Held):
    """Half of an oscillator that is closed by a switch at 5 s."""

    inputs, outputs = (Port("u"),), (Port("x"),)
    start = (1.0,)

    def f(self, t, x, u):
        return [u[0] if t >= 5.0 else 0.0]


class Always(Held):
    inputs, outputs = (Port("u"),), (Port("x"),)
    start = (0.0,)

    def f(self, t, x, u):
        return [-u[0]]


class Activator(Held):
    """Of the Brusselator."""

    inputs, outputs = (Port("inhibitor"),), (Port("x"),)
    start = (1.2,)

    def f(self, t, x, u):
        return [1.0 + x[0] ** 2 * u[0] - 3.0 * x[0]]


class Inhibitor(Held):
    inputs, outputs = (Port("activator"),), (Port("y"),)
    start = (1.5,)

    def f(self, t, x, u):
        return [2.0 * u[0] - u[0] ** 2 * x[0]]
