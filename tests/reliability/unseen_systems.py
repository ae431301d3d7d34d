"""Subsystems of `test_unseen_sessions`: drives, circuits, tanks, heat and vehicles as equations."""

from __future__ import annotations

import math

from hilrt.solver import Port
from tests.reliability.equations import Opaque, Restoring, turns

# A motor behind a filter: 48 V, 1 mH, 2 mF; 2 mH, 0.5 ohm.
FILTER = {
    "A": [[-200.0, -1000.0], [500.0, 0.0]],
    "B": [[0.0, 1000.0], [-500.0, 0.0]],
    "C": [[0.0, 1.0]],
    "inputs": ["current [A]", "source [V]"],
    "outputs": ["voltage [V]"],
}
MOTOR = {
    "A": [[-250.0, -50.0], [50.0, -0.5]],
    "B": [[500.0], [0.0]],
    "C": [[1.0, 0.0]],
    "inputs": ["voltage [V]"],
    "outputs": ["current [A]"],
}


class Cells(Opaque):
    """Three nodes of a battery, and the heat that goes into its coolant."""

    inputs = (Port("coolant", "degC"),)
    outputs = (Port("heat", "W", feedthrough=("coolant",)),)
    start = (25.0, 25.0, 25.0)

    def f(self, t, x, u):
        loss = (400.0 + 300.0 * turns(t, 1 / 120.0)) / 3.0
        a, b = 200.0 * (x[0] - x[1]), 200.0 * (x[1] - x[2])
        return [(loss - a) / 3e3, (loss + a - b) / 3e3, (loss + b - self.g(x, u)[0]) / 3e3]

    def g(self, x, u):
        return [150.0 * (x[2] - u[0])]


class Coolant(Restoring):
    inputs = (Port("heat", "W"),)
    outputs = (Port("temperature", "degC"),)
    start = (20.0,)

    def f(self, t, x, u):
        return [(u[0] - 80.0 * (x[0] - 20.0)) / 7e3]

    def g(self, x, u):
        return x


class GearMotor(Restoring):
    inputs = (Port("load", "N*m"),)
    outputs = (Port("speed", "rad/s"),)
    start = (0.0,)

    def f(self, t, x, u):
        return [(6.0 * (1.0 - x[0] / 300.0) - u[0]) / 0.02]

    def g(self, x, u):
        return x


class Fan(Restoring):
    """An elastic shaft, and a drag that grows with the square of the speed."""

    inputs = (Port("speed", "rad/s"),)
    outputs = (Port("torque", "N*m", feedthrough=("speed",)),)
    start = (0.0, 0.0)

    def f(self, t, x, u):
        return [u[0] - x[1], (self.g(x, u)[0] - 0.01 * x[1] * abs(x[1])) / 0.5]

    def g(self, x, u):
        return [200.0 * x[0] + 0.5 * (u[0] - x[1])]


class UpperTank(Restoring):
    inputs = (Port("outflow", "m**3/s"),)
    outputs = (Port("level", "m"),)
    start = (1.2,)

    def f(self, t, x, u):
        return [0.05 + 0.02 * turns(t, 1 / 60.0) - u[0]]

    def g(self, x, u):
        return x


class LowerTank(Restoring):
    """The pipe between the tanks belongs to this one."""

    inputs = (Port("level", "m"),)
    outputs = (Port("flow", "m**3/s"),)
    start = (0.0, 0.6)

    def f(self, t, x, u):
        flow, level = x
        accelerates = 0.0147 * (u[0] - level) - 2.94 * flow * abs(flow)
        return [accelerates, (flow - 0.065 * math.sqrt(max(level, 0.0))) / 0.6]

    def g(self, x, u):
        return [x[0]]


class Body(Restoring):
    inputs = (Port("force", "N"),)
    outputs = (Port("x", "m"), Port("v", "m/s"))
    start = (0.0, 0.0)

    def f(self, t, x, u):
        return [x[1], u[0] / 400.0]

    def g(self, x, u):
        return x


class Wheel(Restoring):
    """A wheel on its tyre, and the suspension of a quarter of a car."""

    inputs = (Port("x", "m"), Port("v", "m/s"), Port("road", "m"))
    outputs = (Port("force", "N", feedthrough=("x", "v")),)
    start = (0.0, 0.0)

    def f(self, t, x, u):
        return [x[1], (180e3 * (u[2] - x[0]) - self.g(x, u)[0]) / 40.0]

    def g(self, x, u):
        return [18e3 * (x[0] - u[0]) + 1500.0 * (x[1] - u[1])]


class Converter(Restoring):
    """The capacitor of a link, and a PI control of its voltage."""

    inputs = (Port("current", "A"),)
    outputs = (Port("voltage", "V"),)
    start = (390.0, 10.0)
    steps = 5

    def f(self, t, x, u):
        lacks = 400.0 - x[0]
        return [(0.5 * lacks + x[1] - u[0]) / 1e-3, 50.0 * lacks]

    def g(self, x, u):
        return [x[0]]


class PowerLoad(Restoring):
    """4 kW whatever the voltage is, behind a filter."""

    inputs = (Port("voltage", "V"),)
    outputs = (Port("current", "A"),)
    start = (10.0, 390.0)
    steps = 5

    def f(self, t, x, u):
        return [(u[0] - 0.1 * x[0] - x[1]) / 0.5e-3, (x[0] - 4e3 / max(x[1], 100.0)) / 0.2e-3]

    def g(self, x, u):
        return [x[0]]


class Drive(Restoring):
    """A rubber coupling belongs to it."""

    inputs = (Port("angle", "rad"), Port("speed", "rad/s"))
    outputs = (Port("torque", "N*m", feedthrough=("angle", "speed")),)
    start = (0.0, 0.0)
    steps = 2

    def f(self, t, x, u):
        return [x[1], (50.0 + 20.0 * turns(t, 3.0) - self.g(x, u)[0]) / 0.3]

    def g(self, x, u):
        return [2000.0 * (x[0] - u[0]) + 8.0 * (x[1] - u[1])]


class DrivenLoad(Restoring):
    inputs = (Port("torque", "N*m"),)
    outputs = (Port("angle", "rad"), Port("speed", "rad/s"))
    start = (0.0, 0.0)
    steps = 2

    def f(self, t, x, u):
        return [x[1], (u[0] - 0.5 * x[1]) / 1.2]

    def g(self, x, u):
        return x


class Generator(Opaque):
    """400 Hz behind an inductance, on a capacitor."""

    inputs = (Port("current", "A"),)
    outputs = (Port("voltage", "V"),)
    start = (0.0, 0.0)
    steps = 10

    def f(self, t, x, u):
        return [(162.0 * turns(t, 400.0) - 0.2 * x[0] - x[1]) / 0.2e-3, (x[0] - u[0]) / 1e-4]

    def g(self, x, u):
        return [x[1]]


class InductiveLoad(Restoring):
    inputs = (Port("voltage", "V"),)
    outputs = (Port("current", "A"),)
    start = (0.0,)
    steps = 10

    def f(self, t, x, u):
        return [(u[0] - 5.0 * x[0]) / 5e-3]

    def g(self, x, u):
        return x


class Vessel(Restoring):
    """A pressure behind a slow valve."""

    inputs = (Port("valve", "%"),)
    outputs = (Port("pressure", "bar"),)
    start = (0.3, 2.0)

    def f(self, t, x, u):
        return [(u[0] / 100.0 - x[0]) / 0.3, 6.0 * x[0] - x[1]]

    def g(self, x, u):
        return [x[1]]


class PressureControl(Restoring):
    """PI control of a valve between 0 and 100 %."""

    inputs = (Port("pressure", "bar"),)
    outputs = (Port("valve", "%", feedthrough=("pressure",)),)
    start = (33.3,)
    steps = 10

    def f(self, t, x, u):
        return [30.0 * (3.0 - u[0])]

    def g(self, x, u):
        return [min(100.0, max(0.0, 40.0 * (3.0 - u[0]) + x[0]))]


class Drum(Opaque):
    """The drum of a hoist, with the rope."""

    inputs = (Port("x", "m"), Port("v", "m/s"))
    outputs = (Port("force", "N", feedthrough=("x", "v")),)
    start = (0.0, 0.0)

    def f(self, t, x, u):
        return [x[1], (4905.0 + 1500.0 * turns(t, 4.0) - self.g(x, u)[0]) / 300.0]

    def g(self, x, u):
        return [200e3 * (x[0] - u[0]) + 1e3 * (x[1] - u[1])]


class HungLoad(Restoring):
    inputs = (Port("force", "N"),)
    outputs = (Port("x", "m"), Port("v", "m/s"))
    start = (-0.024525, 0.0)

    def f(self, t, x, u):
        return [x[1], u[0] / 500.0 - 9.81]

    def g(self, x, u):
        return x


class Planner(Opaque):
    """A speed that leads a position along a sine."""

    inputs = (Port("position", "m"),)
    outputs = (Port("speed", "m/s"),)
    start = (0.0,)

    def f(self, t, x, u):
        return [(4.0 * (0.1 * turns(t, 0.5) - u[0]) - x[0]) / 0.05]

    def g(self, x, u):
        return x


class Axis(Opaque):
    inputs = (Port("speed", "m/s"),)
    outputs = (Port("position", "m"),)
    start = (0.0,)

    def f(self, t, x, u):
        return u

    def g(self, x, u):
        return x


class Heater(Opaque):
    inputs = (Port("shell", "degC"),)
    outputs = (Port("temperature", "degC"),)
    start = (100.0,)
    steps = 10

    def f(self, t, x, u):
        return [(3e3 + 2e3 * turns(t, 1 / 200.0) - 40.0 * (x[0] - u[0])) / 800.0]

    def g(self, x, u):
        return x


class Shell(Opaque):
    inputs = (Port("heater", "degC"),)
    outputs = (Port("temperature", "degC"),)
    start = (60.0,)
    steps = 10

    def f(self, t, x, u):
        return [(40.0 * (u[0] - x[0]) - 50.0 * (x[0] - 20.0)) / 1600.0]

    def g(self, x, u):
        return x


class Hammer(Restoring):
    inputs = (Port("force", "N"),)
    outputs = (Port("x", "m"), Port("v", "m/s"))
    start = (0.0, 1.0)
    steps = 4

    def f(self, t, x, u):
        return [x[1], (u[0] + 60.0) / 2.0]

    def g(self, x, u):
        return x


class Anvil(Restoring):
    """It is hit after a gap: at the start nothing couples it."""

    inputs = (Port("x", "m"), Port("v", "m/s"))
    outputs = (Port("force", "N", feedthrough=("x", "v")),)
    start = (0.005, 0.0)
    steps = 4

    def f(self, t, x, u):
        return [x[1], (-self.g(x, u)[0] - 5e3 * (x[0] - 0.005) - 60.0 * x[1]) / 3.0]

    def g(self, x, u):
        depth = max(u[0] - x[0], 0.0)
        return [-1e5 * depth * max(0.0, 1.0 + 0.05 * (u[1] - x[1]))]
