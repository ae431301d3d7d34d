"""The engine of the emulated bench as a model: on a dynamometer that holds the demanded speed."""

from __future__ import annotations

import math

import numpy as np

from hilrt.models.engine_bench import INTAKE_LAG_S, drag_torque, indicated_torque
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver

#: How fast the shaft follows the demand, s.
FOLLOWS_S = 0.05


class EngineOnDyno(Solver):
    """Engine and dynamometer without noise, shaft and bus; ports as the emulated bench has them."""

    inputs = (
        Port("speed_demand", "rad/s", min=0.0, max=650.0, max_rate=800.0),
        Port("pedal", "%", min=0.0, max=100.0, max_rate=500.0),
    )
    outputs = (Port("torque", "N*m"), Port("speed", "rad/s"))

    def __init__(self) -> None:
        self._speed = self._indicated = 0.0

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """At the demanded speed, with the torque that belongs to the pedal."""
        self._speed = float(u0[0])
        self._indicated = indicated_torque(self._speed, float(u0[1]))
        return self._sample()

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Two lags of first order, with the inputs at the end of the step."""
        speed, pedal = u(t + h).tolist()
        self._speed += (speed - self._speed) * -math.expm1(-h / FOLLOWS_S)
        target = indicated_torque(self._speed, pedal)
        self._indicated += (target - self._indicated) * -math.expm1(-h / INTAKE_LAG_S)
        return self._sample()

    def _sample(self) -> Sample:
        return Sample(np.array([self._indicated - drag_torque(self._speed), self._speed]))
