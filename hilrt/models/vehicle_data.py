"""The demonstration vehicle's parameters, with defaults and checks."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from hilrt.errors import ConfigError


@dataclass(frozen=True)
class VehicleData:
    """The vehicle, by default a mid-size passenger car with a 2 l petrol engine (SI units).

    Parameters
    ----------
    mass : float
        kg.
    f0, f1, f2 : float
        Road load, N, N/(m/s), N/(m/s)².
    wheel_radius : float
        m.
    wheel_inertia : float
        All wheels and rotating parts, kg*m².
    gear_ratios : sequence of float
        From first to last gear, descending; or a string of comma-separated numbers.
    final_drive : float
    gear_efficiency : float
        0…1.
    input_inertia : float
        Flywheel and pump, kg*m²; the engine's own inertia is on the bench.
    converter_capacity : float
        Torque of the pump per speed² at stall, N*m/(rad/s)²; 0 disconnects the converter.
    stall_torque_ratio : float
        Turbine torque over pump torque at stall.
    coupling_ratio : float
        Speed ratio above which the converter no longer multiplies torque.
    lockup_damping : float
        Torque of the closed lock-up clutch per slip, N*m/(rad/s).
    lockup_capacity : float
        Largest torque of the lock-up clutch, N*m; 0 disconnects it.
    lockup_gear : float
        Lowest gear in which it closes.
    shift_time : float
        s.
    brake_force_max : float
        At 100 % brake, N.
    idle_speed, stall_speed, engine_speed_max : float
        Engine: idle, minimum (where the starter catches it) and top speed, rad/s.
    engine_torque_max, engine_drag : float
        Values expected by the driver: torque at full pedal and drag at top speed, N*m.
    pedal_steepness : float
        Accelerator response expected by the driver at low engine speed: 0 for torque in proportion
        to the pedal, 1 for twice that at the beginning of its travel.
    """

    mass: float = 1500.0
    f0: float = 130.0
    f1: float = 0.6
    f2: float = 0.42
    wheel_radius: float = 0.31
    wheel_inertia: float = 3.2
    gear_ratios: Sequence[float] = (4.2, 2.4, 1.55, 1.15, 0.86, 0.69)
    final_drive: float = 3.6
    gear_efficiency: float = 0.95
    input_inertia: float = 0.18
    converter_capacity: float = 2.8e-3
    stall_torque_ratio: float = 1.9
    coupling_ratio: float = 0.87
    lockup_damping: float = 30.0
    lockup_capacity: float = 350.0
    lockup_gear: float = 3
    shift_time: float = 0.3
    brake_force_max: float = 14000.0
    idle_speed: float = 80.0
    stall_speed: float = 50.0
    engine_speed_max: float = 650.0
    engine_torque_max: float = 200.0
    engine_drag: float = 35.0
    pedal_steepness: float = 1.3

    @property
    def translating_mass(self) -> float:
        """Mass with the wheels' inertia, kg."""
        return self.mass + self.wheel_inertia / self.wheel_radius**2

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> VehicleData:
        """Check and convert parameters from a session file or the command line.

        Raises
        ------
        ConfigError
            One line for each unknown parameter or impossible value.
        """
        names = [f.name for f in fields(cls)]
        problems: list[str] = []
        values: dict[str, Any] = {}
        for name, given in params.items():
            if name not in names:
                near = difflib.get_close_matches(name, [*names, "cycle", "cycle_start"], n=1)
                remedy = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(names)}"
                problems.append(f"vehicle parameter {name!r}: there is no such parameter; {remedy}")
                continue
            try:
                values[name] = _ratios(given) if name == "gear_ratios" else _positive(name, given)
            except ConfigError as error:
                problems.extend(error.problems)
        if problems:
            raise ConfigError(problems)
        data = cls(**values)
        problems = data._contradictions()
        if problems:
            raise ConfigError(problems)
        return data

    def _contradictions(self) -> list[str]:
        """Values that are possible individually, but not together."""
        problems = []
        if not self.stall_speed <= self.idle_speed < self.engine_speed_max:
            problems.append(
                "vehicle parameters 'stall_speed', 'idle_speed', 'engine_speed_max': are "
                f"{self.stall_speed:g}, {self.idle_speed:g} and {self.engine_speed_max:g} rad/s; "
                "they must rise in this order"
            )
        if not (1.0 <= self.stall_torque_ratio <= 4.0 and self.coupling_ratio < 1.0):
            problems.append(
                "vehicle parameters 'stall_torque_ratio', 'coupling_ratio': are "
                f"{self.stall_torque_ratio:g} and {self.coupling_ratio:g}; choose 1…4 and below 1"
            )
        if self.gear_efficiency > 1.0:
            problems.append(
                f"vehicle parameter 'gear_efficiency': is {self.gear_efficiency:g}; it must not "
                "be above 1"
            )
        # Explicit micro steps of half a millisecond follow the clutch well below this rate.
        rate = self.lockup_damping / self.input_inertia
        if rate > 1000.0:
            problems.append(
                f"vehicle parameters 'lockup_damping', 'input_inertia': their quotient is "
                f"{rate:.0f} 1/s, too fast for the micro steps; keep it below 1000"
            )
        return problems


MAY_BE_ZERO = {
    "f0",
    "f1",
    "f2",
    "wheel_inertia",
    "converter_capacity",
    "lockup_capacity",
    "pedal_steepness",
}


def _positive(name: str, given: object) -> float:
    """Convert a parameter to a positive number (or zero, where meaningful)."""
    remedy = "give a number, zero or more" if name in MAY_BE_ZERO else "give a number above zero"
    try:
        value = float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and (value > 0.0 or (value == 0.0 and name in MAY_BE_ZERO))):
        raise ConfigError(f"vehicle parameter {name!r}: found {given!r}; {remedy}")
    return value


def _ratios(given: object) -> tuple[float, ...]:
    try:
        items = given.strip("[]() ").split(",") if isinstance(given, str) else list(given)  # type: ignore[call-overload]
        ratios = tuple(float(item) for item in items)
    except (TypeError, ValueError):
        ratios = ()
    falling = all(a > b for a, b in itertools.pairwise(ratios))
    if not ratios or not all(0.0 < r < math.inf for r in ratios) or not falling:
        raise ConfigError(
            f"vehicle parameter 'gear_ratios': found {given!r}; give falling positive numbers, "
            "first to last gear"
        )
    return ratios
