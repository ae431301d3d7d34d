"""Demonstration vehicle with driver: input is the engine's torque, output the engine's speed.

It is coupled to an engine on a dynamometer. The shaft is the power bond: the torque (effort) is
measured on the bench, and the speed (flow) is its set-point; the driver's accelerator controls the
engine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hilrt.errors import ConfigError
from hilrt.models.driveline import Driveline
from hilrt.models.driver import Driver, read_cycle
from hilrt.models.vehicle_data import VehicleData
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver

MICRO_STEP = 0.0005  # s, the longest micro step


class Vehicle(Solver):
    """Passenger car with automatic gearbox, driven along a drive cycle.

    The engine speed is a state of the vehicle (flywheel and converter pump), so that no output
    depends directly on the torque.

    Parameters
    ----------
    cycle : str
        CSV file with the columns time_s and speed_km_h, relative to the current folder.
    cycle_start : float, optional
        Cycle time at which the session starts, s. Default: where the cycle starts to move.
    **data
        Any field of `hilrt.models.vehicle_data.VehicleData`.

    Raises
    ------
    ConfigError
        If the cycle file or a parameter is unusable.
    """

    inputs = (
        Port(
            "engine_torque",
            "N*m",
            min=-300.0,
            max=500.0,
            safe=0.0,
            description="Shaft torque of the engine, positive drives the vehicle",
        ),
    )

    def __init__(
        self,
        cycle: str = "wltc_class3b.csv",
        cycle_start: float | str | None = None,
        **data: Any,
    ) -> None:
        self.data = VehicleData.from_params(data)
        self.cycle = read_cycle(cycle)
        self.cycle_start = (
            self.cycle.start_of_motion() if cycle_start is None else _time(cycle_start)
        )
        self.outputs = _outputs(self.data)
        self.driveline = Driveline(self.data)
        self.driver = Driver(self.cycle, self.data)
        self._t0 = 0.0

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """Start at the cycle's speed, the engine at idle or at the speed of the gear."""
        self._t0 = t0
        self.driveline.start(self.cycle.speed(self.cycle_start))
        self.driver = Driver(self.cycle, self.data)
        if self.driveline.state.vehicle_speed == 0.0:
            self.driver.state.brake = self.driver.STANDSTILL_BRAKE
        return Sample(self._y(t0))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """Integrate in an even number of micro steps of half a millisecond or less."""
        n = 2 * max(math.ceil(h / (2.0 * MICRO_STEP) - 1e-9), 1)
        dt = h / n
        torque = [float(c) for c in u.coefficients[:, 0]]
        driveline, driver = self.driveline, self.driver
        foot = driver.state
        y_mid = None
        s = t - u.t0
        start = _taylor(torque, s)
        for i in range(1, n + 1):
            end = _taylor(torque, s + i * dt)
            driveline.step(dt, (start, end), foot.pedal, foot.brake)
            driver.step(dt, self._cycle_time(t + i * dt), driveline)
            start = end
            if 2 * i == n:
                y_mid = self._y(t + i * dt)
        return Sample(self._y(t + h), y_mid=y_mid)

    def save_state(self) -> tuple[Any, ...]:
        """Copy of the state, plain numbers."""
        return self._t0, self.driveline.save(), self.driver.save()

    def restore_state(self, state: tuple[Any, ...]) -> None:
        """Restore a state that `save_state` returned."""
        self._t0, driveline, driver = state
        self.driveline.restore(driveline)
        self.driver.restore(driver)

    def _cycle_time(self, t: float) -> float:
        return self.cycle_start + (t - self._t0)

    def _y(self, t: float) -> Floats:
        """Outputs, shape (n_outputs,), computed from the states alone."""
        s, foot = self.driveline.state, self.driver.state
        w, v = s.engine_speed, s.vehicle_speed
        turbine_speed = s.ratio * v
        load, turbine = self.driveline.coupling(w, turbine_speed, s.lockup)
        _, acceleration = self.driveline.derivatives(0.0, w, v, s.ratio, s.lockup, foot.brake)
        return np.array(
            (
                w,
                foot.pedal,
                v,
                self.cycle.speed(self._cycle_time(t)),
                s.gear,
                foot.brake,
                acceleration,
                load,
                turbine,
                turbine_speed,
                100.0 * s.lockup,
            )
        )


def _outputs(data: VehicleData) -> tuple[Port, ...]:
    # Bounds are for plausibility checks, and are wider than the driver's actions.
    return (
        Port(
            "engine_speed",
            "rad/s",
            start=data.idle_speed,
            min=0.0,
            max=data.engine_speed_max,
            description="Speed of flywheel and pump: the demand for the dynamometer",
        ),
        Port(
            "pedal",
            "%",
            min=0.0,
            max=100.0,
            max_rate=500.0,
            safe=0.0,
            description="Accelerator position",
        ),
        Port("vehicle_speed", "m/s", min=0.0, max=90.0, description="Driven speed"),
        Port("demanded_speed", "m/s", min=0.0, max=90.0, description="Speed of the drive cycle"),
        Port(
            "gear",
            start=1.0,
            min=1.0,
            max=float(len(data.gear_ratios)),
            description="Gear engaged, or being engaged during a shift",
        ),
        Port("brake", "%", min=0.0, max=100.0, description="Brake pedal position"),
        Port("acceleration", "m/s^2", min=-15.0, max=15.0, description="Of the vehicle"),
        Port("load_torque", "N*m", description="Torque of converter and lock-up on the engine"),
        Port("turbine_torque", "N*m", description="Torque of both on the gearbox"),
        Port("turbine_speed", "rad/s", min=0.0, description="Speed of the gearbox's input shaft"),
        Port("lockup", "%", min=0.0, max=100.0, description="Engagement of the lock-up clutch"),
    )


def _time(given: float | str) -> float:
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(
            f"vehicle parameter 'cycle_start': found {given!r}; give a time of the cycle in s"
        )
    return value


def _taylor(coefficients: list[float], s: float) -> float:
    """Value of Taylor coefficients `s` seconds from their centre."""
    value = 0.0
    for j in range(len(coefficients) - 1, 0, -1):
        value = (value + coefficients[j]) * s / j
    return coefficients[0] + value
