"""A passenger car's driveline: converter with lock-up clutch, automatic gearbox, brakes, road load.

Two continuous states, the engine speed ω and the vehicle speed v::

    J dω/dt = T_engine − T_load(ω, ω_t)          ω_t = n v,  n = gear ratio · final drive / radius
    m dv/dt = n η T_turbine(ω, ω_t) − F_brake − (f0 + f1 v + f2 v²)

The engine's torque acts on ω alone, so that no other quantity depends on it directly. A gear shift
blends n smoothly, which keeps all torques and speeds continuous.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
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
        All wheels and what turns with them, kg*m².
    gear_ratios : sequence of float
        First to last gear, falling. A string of numbers separated by commas will do.
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
        Engine: idle, the speed below which it does not fall (the starter catches it), top, rad/s.
    engine_torque_max, engine_drag : float
        What the driver expects of the engine: torque at full pedal and drag at top speed, N*m.
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
    stall_speed: float = 40.0
    engine_speed_max: float = 650.0
    engine_torque_max: float = 200.0
    engine_drag: float = 35.0

    @property
    def translating_mass(self) -> float:
        """Mass with the wheels' inertia, kg."""
        return self.mass + self.wheel_inertia / self.wheel_radius**2

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> VehicleData:
        """Check and convert parameters as a session file or the command line gives them.

        Raises
        ------
        ConfigError
            One line for each parameter that is unknown or has an impossible value.
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
                values[name] = _ratios(given) if name == "gear_ratios" else positive(name, given)
            except ConfigError as error:
                problems.extend(error.problems)
        if problems:
            raise ConfigError(problems)
        data = cls(**values)
        problems = [
            f"vehicle parameters {', '.join(map(repr, names))}: {remedy}"
            for wrong, names, remedy in data._contradictions()
            if wrong
        ]
        if problems:
            raise ConfigError(problems)
        return data

    def _contradictions(self) -> list[tuple[bool, tuple[str, ...], str]]:
        speeds = ("stall_speed", "idle_speed", "engine_speed_max")
        ratio = ("stall_torque_ratio", "coupling_ratio")
        multiplies = 1.0 <= self.stall_torque_ratio <= 4.0 and self.coupling_ratio < 1.0
        # Explicit micro steps of half a millisecond follow the clutch well below this rate.
        rate = self.lockup_damping / self.input_inertia
        return [
            (
                not self.stall_speed <= self.idle_speed < self.engine_speed_max,
                speeds,
                f"are {self.stall_speed:g}, {self.idle_speed:g} and {self.engine_speed_max:g} "
                "rad/s; they must rise in this order",
            ),
            (
                not multiplies,
                ratio,
                f"are {self.stall_torque_ratio:g} and {self.coupling_ratio:g}; choose 1…4 and "
                "below 1",
            ),
            (
                self.gear_efficiency > 1.0,
                ("gear_efficiency",),
                f"is {self.gear_efficiency:g}; it must not be above 1",
            ),
            (
                rate > 1000.0,
                ("lockup_damping", "input_inertia"),
                f"their quotient is {rate:.0f} 1/s, too fast for the micro steps; keep it "
                "below 1000",
            ),
        ]


MAY_BE_ZERO = {"f0", "f1", "f2", "wheel_inertia", "converter_capacity", "lockup_capacity"}


def positive(name: str, given: object) -> float:
    """Convert a parameter to a positive number (zero where that makes sense)."""
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
    falling = all(a > b for a, b in zip(ratios, ratios[1:], strict=False))
    if not ratios or not all(0.0 < r < math.inf for r in ratios) or not falling:
        raise ConfigError(
            f"vehicle parameter 'gear_ratios': found {given!r}; give falling positive numbers, "
            "first to last gear"
        )
    return ratios


@dataclass(slots=True)
class DrivelineState:
    """Everything that changes: speeds, gear, shift, clutch, and the gearbox control's memory."""

    engine_speed: float = 80.0  # rad/s
    vehicle_speed: float = 0.0  # m/s
    ratio: float = 0.0  # rad/m, turbine angle per distance, blended during a shift
    gear: int = 1  # the gear engaged or being engaged
    ratio_from: float = 0.0  # rad/m, where the shift started
    shift: float = 1.0  # progress of the shift, 1 when it is done
    since_shift: float = 0.0  # s
    lockup: float = 0.0  # engagement of the clutch, 0…1
    lockup_wanted: bool = False
    pedal: float = 0.0  # %, as the shift map sees it: rises at once, falls slowly


class Driveline:
    """Driveline with its state; see the module for the equations."""

    LOCKUP_TIME = 0.4  # s to close or open the clutch
    LOCKUP_ON, LOCKUP_OFF = 125.0, 105.0  # rad/s of the turbine
    UP, UP_PER_PEDAL = 160.0, 2.6  # rad/s of the turbine, and per % of pedal
    DOWN, DOWN_PER_PEDAL = 72.0, 1.5
    UP_ALWAYS = 0.85  # of the top speed: shift up whatever the pedal says
    UP_PAUSE, DOWN_PAUSE = 1.5, 0.5  # s since the last shift
    PEDAL_FALL_TIME = 0.7  # s, so that lifting the foot does not shift up at once

    def __init__(self, data: VehicleData) -> None:
        self.data = data
        self.ratios = [r * data.final_drive / data.wheel_radius for r in data.gear_ratios]
        self.translating_mass = data.translating_mass
        self.state = DrivelineState()
        self.start(0.0)

    def start(self, vehicle_speed: float) -> None:
        """Begin at a vehicle speed [m/s] in a gear that suits it, the engine at idle or above."""
        turbine = [n * vehicle_speed for n in self.ratios]
        gear = next((i for i, w in enumerate(turbine, start=1) if w <= self.UP), len(turbine))
        n = self.ratios[gear - 1]
        locked = gear >= self.data.lockup_gear and turbine[gear - 1] > self.LOCKUP_ON
        self.state = DrivelineState(
            engine_speed=max(self.data.idle_speed, turbine[gear - 1]),
            vehicle_speed=vehicle_speed,
            ratio=n,
            ratio_from=n,
            gear=gear,
            lockup=float(locked),
            lockup_wanted=locked,
        )

    def save(self) -> tuple[Any, ...]:
        """Copy of the state."""
        return astuple(self.state)

    def restore(self, state: tuple[Any, ...]) -> None:
        """Go back to a state that `save` returned."""
        self.state = DrivelineState(*state)

    def step(self, dt: float, torque: tuple[float, float], pedal: float, brake: float) -> None:
        """One micro step of Heun's method.

        Parameters
        ----------
        dt : float
            s.
        torque : tuple of float
            Engine torque at the start and the end of the step, N*m.
        pedal, brake : float
            Over the step, %.
        """
        s = self.state
        w, v, n, lock = s.engine_speed, s.vehicle_speed, s.ratio, s.lockup
        self._control(dt, pedal, brake)
        dw, dv = self.derivatives(torque[0], w, v, n, lock, brake)
        dw1, dv1 = self.derivatives(
            torque[1], w + dt * dw, max(v + dt * dv, 0.0), s.ratio, s.lockup, brake
        )
        s.engine_speed = max(w + 0.5 * dt * (dw + dw1), self.data.stall_speed)
        s.vehicle_speed = max(v + 0.5 * dt * (dv + dv1), 0.0)

    def derivatives(
        self, torque: float, w: float, v: float, n: float, lock: float, brake: float
    ) -> tuple[float, float]:
        """Time derivatives of engine speed [rad/s²] and vehicle speed [m/s²]."""
        d = self.data
        load, turbine = self.coupling(w, n * v, lock)
        drive = self.wheel_force(turbine, n)
        resistance = d.f0 + v * (d.f1 + v * d.f2) + 0.01 * brake * d.brake_force_max
        dv = (drive - resistance) / self.translating_mass
        if v <= 0.0 and dv < 0.0:
            dv = (
                0.0  # friction holds what it cannot push backwards: standstill needs no special law
            )
        return (torque - load) / d.input_inertia, dv

    def coupling(self, w: float, turbine_speed: float, lock: float) -> tuple[float, float]:
        """Torque that converter and clutch take from the engine and give to the gearbox, N*m.

        Driving, the pump's torque is k ω² (1 − ν⁴), ν being the speed ratio. In overrun the
        wheels' side pumps: the same law with both speeds exchanged, without multiplication. Value
        and slope of both branches agree at ν = 1.
        """
        d = self.data
        k = d.converter_capacity
        if turbine_speed <= w:
            nu = turbine_speed / w
            pump = k * (w * w - turbine_speed * turbine_speed * nu * nu)
            turbine = pump
            if nu < d.coupling_ratio:
                turbine *= d.stall_torque_ratio - (d.stall_torque_ratio - 1.0) * (
                    nu / d.coupling_ratio
                )
        else:
            nu = w / turbine_speed
            pump = turbine = -k * (turbine_speed * turbine_speed - w * w * nu * nu)
        capacity = lock * d.lockup_capacity
        if capacity > 0.0:
            clutch = capacity * math.tanh(
                d.lockup_damping * (w - turbine_speed) / d.lockup_capacity
            )
            return pump + clutch, turbine + clutch
        return pump, turbine

    def wheel_force(self, turbine: float, n: float) -> float:
        """Force at the wheels from the turbine's torque [N*m]; losses brake in either direction."""
        eta = self.data.gear_efficiency
        return turbine * n * eta if turbine >= 0.0 else turbine * n / eta

    def traction(self) -> float:
        """Force at the wheels per engine torque at the present state, N/(N*m)."""
        d, s = self.data, self.state
        nu = s.ratio * s.vehicle_speed / s.engine_speed
        gain = 1.0
        if nu < d.coupling_ratio and s.lockup < 1.0:
            gain += (1.0 - s.lockup) * (d.stall_torque_ratio - 1.0) * (1.0 - nu / d.coupling_ratio)
        return gain * s.ratio * d.gear_efficiency

    def speed_for(self, torque: float) -> float:
        """Engine speed at which the open converter takes a torque [N*m], rad/s.

        Solves the pump's law ``k (ω² − ω_t⁴ / ω²) = torque`` for ω; without a clutch's grip only.
        """
        turbine_speed = self.state.ratio * self.state.vehicle_speed
        k = self.data.converter_capacity
        if torque <= 0.0 or k <= 0.0:
            return turbine_speed
        q = 0.5 * torque / k
        return math.sqrt(q + math.sqrt(q * q + turbine_speed**4))

    def power_flows(self, torque: float, brake: float) -> dict[str, float]:
        """Where the engine's power goes at the present state, W; ``engine`` = sum of the others."""
        s, d = self.state, self.data
        w, v = s.engine_speed, s.vehicle_speed
        dw, dv = self.derivatives(torque, w, v, s.ratio, s.lockup, brake)
        load, turbine = self.coupling(w, s.ratio * v, s.lockup)
        return {
            "engine": torque * w,
            "input_inertia": d.input_inertia * w * dw,
            "converter": load * w - turbine * s.ratio * v,
            "gearbox": (turbine * s.ratio - self.wheel_force(turbine, s.ratio)) * v,
            "brake": 0.01 * brake * d.brake_force_max * v,
            "road": (d.f0 + v * (d.f1 + v * d.f2)) * v,
            "vehicle": self.translating_mass * v * dv,
        }

    def _control(self, dt: float, pedal: float, brake: float) -> None:
        """Gear, ratio and lock-up clutch over the micro step."""
        s = self.state
        turbine_speed = s.ratio * s.vehicle_speed
        if pedal >= s.pedal:
            s.pedal = pedal
        else:
            s.pedal += (pedal - s.pedal) * min(dt / self.PEDAL_FALL_TIME, 1.0)
        s.since_shift += dt
        if s.shift >= 1.0:
            gear = self._choose(turbine_speed, brake)
            if gear != s.gear:
                s.gear, s.ratio_from, s.shift, s.since_shift = gear, s.ratio, 0.0, 0.0
        if s.shift < 1.0:
            x = s.shift = min(s.shift + dt / self.data.shift_time, 1.0)
            target = self.ratios[s.gear - 1]
            s.ratio = s.ratio_from + (target - s.ratio_from) * (x * x * (3.0 - 2.0 * x))
        threshold = self.LOCKUP_OFF if s.lockup_wanted else self.LOCKUP_ON
        s.lockup_wanted = (
            s.gear >= self.data.lockup_gear and s.shift >= 1.0 and turbine_speed > threshold
        )
        ramp = dt / self.LOCKUP_TIME
        s.lockup = min(s.lockup + ramp, 1.0) if s.lockup_wanted else max(s.lockup - ramp, 0.0)

    def _choose(self, turbine_speed: float, brake: float) -> int:
        """Gear that the shift map wants; speeds up and down are apart by more than a ratio step."""
        s = self.state
        if s.gear < len(self.ratios):
            calm = s.since_shift > self.UP_PAUSE and brake <= 0.0
            if calm and turbine_speed > self.UP + self.UP_PER_PEDAL * s.pedal:
                return s.gear + 1
            if turbine_speed > self.UP_ALWAYS * self.data.engine_speed_max:
                return s.gear + 1
        if s.gear > 1 and s.since_shift > self.DOWN_PAUSE:
            after = turbine_speed * self.ratios[s.gear - 2] / self.ratios[s.gear - 1]
            allowed = after < 0.7 * self.data.engine_speed_max
            if allowed and turbine_speed < self.DOWN + self.DOWN_PER_PEDAL * s.pedal:
                return s.gear - 1
        return s.gear
