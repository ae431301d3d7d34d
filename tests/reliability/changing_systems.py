"""Systems whose answers are others along the way than at the start; each exact under held inputs.

The sums are by hand: for constant inputs each subsystem has a solution in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from hilrt.reliability.estimates import RENEWED, RENEWED_CHANGED, make_estimate
from hilrt.solver import InputPolynomial, Port, Sample, Solver

ENGAGED_S = 2.0


def covers(estimate: Mapping[str, Any], error: float) -> bool:
    """Whether the narrower interval, of sensitivities that do not change at once, has the error."""
    how = RENEWED if estimate["how"] == RENEWED_CHANGED else estimate["how"]
    band = make_estimate("", estimate["value"], 1.0, how)
    return bool(band.low <= error <= band.high)


class Numbers(Solver):
    """A solver whose state is a tuple of numbers and whose outputs are the first of these."""

    any_step = True
    shown = 1

    def __init__(self, *state: float) -> None:
        self.state = state

    def initialize(self, t0: float, u0: np.ndarray) -> Sample:
        return self.sample()

    def sample(self) -> Sample:
        return Sample(np.array(self.state[: self.shown]))

    def save_state(self) -> Any:
        return self.state

    def restore_state(self, state: Any) -> None:
        self.state = state


class Prey(Numbers):
    """``x' = x (a - b y)`` (Lotka 1925, Volterra 1926)."""

    inputs, outputs = (Port("y"),), (Port("x"),)

    def __init__(self) -> None:
        super().__init__(10.0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.state = (self.state[0] * math.exp((1.0 - 0.1 * u(t)[0]) * h),)
        return self.sample()


class InPlace(Prey):
    """Prey in an array that is changed in place, and saved and restored as it is."""

    def __init__(self) -> None:
        self.state: Any = np.array([10.0])

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.state *= math.exp((1.0 - 0.1 * u(t)[0]) * h)
        return self.sample()


class Predator(Numbers):
    """``y' = y (-c + d x)``."""

    inputs, outputs = (Port("x"),), (Port("y"),)

    def __init__(self) -> None:
        super().__init__(5.0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.state = (self.state[0] * math.exp((0.075 * u(t)[0] - 1.5) * h),)
        return self.sample()


class Engaged(Numbers):
    """A mass of 1 kg on a spring, with another one to a second mass that is `engaged` or not."""

    inputs, outputs = (Port("other", "m"), Port("command")), (Port("x", "m"),)

    def __init__(self, x: float, own: float, k: float = 30.0, by: str = "time") -> None:
        super().__init__(x, 0.0)
        self.own, self.k, self.by = own, k, by

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        other, command = u(t)
        share = float(t >= ENGAGED_S - 1e-9) if self.by == "time" else command
        stiffness = self.own + self.k * share
        w, rest = math.sqrt(stiffness), self.k * share * other / stiffness
        x, v = self.state
        c, s = math.cos(w * h), math.sin(w * h)
        self.state = (rest + (x - rest) * c + v / w * s, v * c - w * (x - rest) * s)
        return self.sample()


class Lever(Numbers):
    """0, and 1 from `ENGAGED_S` on."""

    inputs, outputs = (), (Port("command"),)

    def __init__(self) -> None:
        super().__init__(0.0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.state = (float(t + h >= ENGAGED_S - 1e-9),)
        return self.sample()


CLOSED_S = 2.6


def drag(t: float, slip: float) -> float:
    """Torque of a clutch, N m: viscous drag, and friction after it has closed at `CLOSED_S`."""
    return 5.0 * slip + (60.0 * math.tanh(slip / 0.5) if t >= CLOSED_S - 1e-9 else 0.0)


def drive_torque(t: float) -> float:
    """Torque of a motor that pulses twice a second, N m."""
    return 50.0 + 30.0 * math.sin(4.0 * math.pi * t) + 20.0 * (1.0 + math.tanh((t - 1.0) / 0.02))


class Shaft(Numbers):
    """A speed, integrated by Runge and Kutta's method with 20 steps."""

    def integrate(self, rate: Any, t: float, h: float) -> None:
        (w,), d = self.state, h / 20
        for s in (t + i * d for i in range(20)):
            a = rate(s, w)
            b = rate(s + d / 2, w + d / 2 * a)
            c = rate(s + d / 2, w + d / 2 * b)
            w += d / 6 * (a + 2 * b + 2 * c + rate(s + d, w + d * c))
        self.state = (w,)


class DragMotor(Shaft):
    """A motor of 0.2 kg m²."""

    inputs, outputs = (Port("torque", "N*m"),), (Port("speed", "rad/s"),)

    def __init__(self) -> None:
        super().__init__(0.0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.integrate(lambda s, w: (drive_torque(s) - u(s)[0] - 0.05 * w) / 0.2, t, h)
        return self.sample()


class DragLoad(Shaft):
    """A load of 1 kg m² behind the clutch."""

    inputs, outputs = (Port("speed", "rad/s"),), (Port("torque", "N*m", feedthrough=("speed",)),)

    def __init__(self) -> None:
        super().__init__(0.0)
        self.t, self.speed = 0.0, 0.0

    def sample(self) -> Sample:
        return Sample(np.array([drag(self.t, self.speed - self.state[0])]))

    def save_state(self) -> Any:
        return self.state, self.t, self.speed

    def restore_state(self, state: Any) -> None:
        self.state, self.t, self.speed = state

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.integrate(lambda s, w: drag(s, u(s)[0] - w) - 0.2 * w, t, h)
        self.t, self.speed = t + h, float(u(t + h)[0])
        return self.sample()


class Position(Numbers):
    """``x' = v``, of van der Pol's oscillator (1926)."""

    inputs, outputs = (Port("v"),), (Port("x"),)

    def __init__(self) -> None:
        super().__init__(0.01)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.state = (self.state[0] + h * u(t)[0],)
        return self.sample()


class Speed(Numbers):
    """``v' = (1 - x²) v - x``, of the same."""

    inputs, outputs = (Port("x"),), (Port("v"),)

    def __init__(self) -> None:
        super().__init__(0.0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        x = u(t)[0]
        rate = 1.0 - x * x
        more = math.expm1(rate * h) / rate if rate else h
        self.state = (self.state[0] * math.exp(rate * h) - x * more,)
        return self.sample()


class Counted(Predator):
    """A predator that is counted with noise, from a generator that is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.random = np.random.default_rng(1)

    def sample(self) -> Sample:
        return Sample(np.array(self.state) * (1.0 + 1e-6 * self.random.standard_normal(1)))
