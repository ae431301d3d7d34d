"""The emulated bench's engine as a solver, on a dynamometer that holds the demanded speed."""

from __future__ import annotations

import math

import numpy as np

from hilrt.models.engine_bench import (
    ENGINE_INERTIA,
    INTAKE_LAG_S,
    SHAFT_DAMPING,
    SHAFT_STIFFNESS,
    drag_torque,
    indicated_torque,
)
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver

#: Time constant of the dynamometer's speed control, s.
FOLLOWS_S = 0.004
#: Longest internal step, s.
MICRO_STEP_S = 0.001

#: Speeds of dynamometer and engine [rad/s], twist of the shaft [rad], indicated torque [N m].
State = tuple[float, float, float, float]


class EngineOnDyno(Solver):
    """Engine, shaft and dynamometer without noise and bus; same ports as the emulated bench."""

    inputs = (
        Port("speed_demand", "rad/s", min=0.0, max=650.0, max_rate=800.0),
        Port("pedal", "%", min=0.0, max=100.0, max_rate=500.0),
    )
    outputs = (Port("torque", "N*m"), Port("speed", "rad/s"))

    def __init__(self) -> None:
        self._state: State = (0.0, 0.0, 0.0, 0.0)

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Start at the demanded speed, with the torque for the pedal position."""
        speed, pedal = u0.tolist()
        indicated = indicated_torque(speed, pedal)
        twist = (indicated - drag_torque(speed)) / SHAFT_STIFFNESS
        self._state = speed, speed, twist, indicated
        return self._sample()

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Classical Runge-Kutta method in steps of a millisecond or less."""
        n = max(math.ceil(h / MICRO_STEP_S - 1e-9), 1)
        dt = h / n
        for i in range(n):
            start, middle, end = ((t + (i + share) * dt) for share in (0.0, 0.5, 1.0))
            self._state = _runge_kutta(
                self._state, dt, u(start).tolist(), u(middle).tolist(), u(end).tolist()
            )
        return self._sample()

    def save_state(self) -> State:
        """Speeds, twist and torque."""
        return self._state

    def restore_state(self, state: State) -> None:
        """Restore a state that `save_state` returned."""
        self._state = state

    def _sample(self) -> Sample:
        return Sample(np.array([_shaft_torque(self._state), self._state[0]]))


def _shaft_torque(x: State) -> float:
    return SHAFT_STIFFNESS * x[2] + SHAFT_DAMPING * (x[1] - x[0])


def _rates(x: State, u: list[float]) -> State:
    dyno, engine, _, indicated = x
    acting = indicated - drag_torque(engine) - _shaft_torque(x)
    return (
        (u[0] - dyno) / FOLLOWS_S,
        acting / ENGINE_INERTIA,
        engine - dyno,
        (indicated_torque(engine, u[1]) - indicated) / INTAKE_LAG_S,
    )


def _runge_kutta(x: State, h: float, u0: list[float], um: list[float], u1: list[float]) -> State:
    a = _rates(x, u0)
    b = _rates(_ahead(x, a, 0.5 * h), um)
    c = _rates(_ahead(x, b, 0.5 * h), um)
    d = _rates(_ahead(x, c, h), u1)
    mean = (a[i] + 2.0 * (b[i] + c[i]) + d[i] for i in range(4))
    return _ahead(x, tuple(mean), h / 6.0)  # type: ignore[arg-type]


def _ahead(x: State, rates: State, h: float) -> State:
    return (
        x[0] + h * rates[0], x[1] + h * rates[1], x[2] + h * rates[2], x[3] + h * rates[3],
    )  # fmt: skip
