"""A passenger car's driveline: converter with lock-up clutch, automatic gearbox, brakes, road load.

Two continuous states, the engine speed ω and the vehicle speed v::

    J dω/dt = T_engine − T_load(ω, ω_t)          ω_t = n v,  n = gear ratio · final drive / radius
    m dv/dt = n η T_turbine(ω, ω_t) − F_brake − (f0 + f1 v + f2 v²)

The engine's torque acts on ω alone, so that no other quantity depends on it directly. A gear shift
blends n smoothly, which keeps all torques and speeds continuous.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import Any

from hilrt.models.vehicle_data import VehicleData


@dataclass(slots=True)
class DrivelineState:
    """Complete state: speeds, gear, shift, clutch, and the memory of the gearbox control."""

    engine_speed: float = 80.0  # rad/s
    vehicle_speed: float = 0.0  # m/s
    ratio: float = 0.0  # rad/m, turbine angle per distance, blended during a shift
    gear: int = 1  # the gear engaged or being engaged
    ratio_from: float = 0.0  # rad/m, where the shift started
    shift: float = 1.0  # progress of the shift, 1 when it is done
    since_shift: float = 0.0  # s
    lockup: float = 0.0  # engagement of the clutch, 0…1
    lockup_wanted: bool = False
    pedal: float = 0.0  # %, input of the shift map: rises at once, falls slowly


class Driveline:
    """Driveline with its state; see the module for the equations."""

    LOCKUP_TIME = 0.4  # s to close or open the clutch
    LOCKUP_ON, LOCKUP_OFF = 125.0, 105.0  # rad/s of the turbine
    UP, UP_PER_PEDAL = 160.0, 2.6  # rad/s of the turbine, and per % of pedal
    DOWN, DOWN_PER_PEDAL = 72.0, 1.5
    UP_ALWAYS = 0.85  # of the top speed: shift up at any pedal
    UP_PAUSE, DOWN_PAUSE = 1.5, 0.5  # s since the last shift
    PEDAL_FALL_TIME = 0.7  # s, so that lifting the foot does not shift up at once

    def __init__(self, data: VehicleData) -> None:
        self.data = data
        self.ratios = [r * data.final_drive / data.wheel_radius for r in data.gear_ratios]
        self.translating_mass = data.translating_mass
        self.state = DrivelineState()
        self.start(0.0)

    def start(self, vehicle_speed: float) -> None:
        """Start at a vehicle speed [m/s] in a suitable gear, the engine at idle or above."""
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
        """Restore a state that `save` returned."""
        self.state = DrivelineState(*state)

    def step(self, dt: float, torque: tuple[float, float], pedal: float, brake: float) -> None:
        """Perform one micro step of Heun's method.

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
        self.control(dt, pedal, brake)
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
            dv = 0.0  # friction cannot reverse the motion, so standstill needs no special treatment
        return (torque - load) / d.input_inertia, dv

    def coupling(self, w: float, turbine_speed: float, lock: float) -> tuple[float, float]:
        """Torques of converter and clutch on the engine and on the gearbox, N*m.

        In traction, the pump's torque is k ω² (1 − ν⁴), where ν is the speed ratio. In overrun, the
        turbine drives: the same law with both speeds exchanged, without multiplication. Value and
        slope of both branches agree at ν = 1.
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
        """Force at the wheels from the turbine's torque [N*m]; losses oppose any motion."""
        eta = self.data.gear_efficiency
        return turbine * n * eta if turbine >= 0.0 else turbine * n / eta

    def traction(self) -> float:
        """Wheel force per engine torque at the present state, N/(N*m)."""
        d, s = self.data, self.state
        nu = s.ratio * s.vehicle_speed / s.engine_speed
        gain = 1.0
        if nu < d.coupling_ratio and s.lockup < 1.0:
            gain += (1.0 - s.lockup) * (d.stall_torque_ratio - 1.0) * (1.0 - nu / d.coupling_ratio)
        return gain * s.ratio * d.gear_efficiency

    def speed_for(self, torque: float) -> float:
        """Engine speed at which the open converter absorbs a torque [N*m], rad/s.

        Solves the pump's law ``k (ω² − ω_t⁴ / ω²) = torque`` for ω; only with an open clutch.
        """
        turbine_speed = self.state.ratio * self.state.vehicle_speed
        k = self.data.converter_capacity
        if torque <= 0.0 or k <= 0.0:
            return turbine_speed
        q = 0.5 * torque / k
        return math.sqrt(q + math.sqrt(q * q + turbine_speed**4))

    def control(self, dt: float, pedal: float, brake: float) -> None:
        """Update gear, ratio and lock-up clutch over the micro step."""
        s = self.state
        turbine_speed = s.ratio * s.vehicle_speed
        if pedal >= s.pedal:
            s.pedal = pedal
        else:
            s.pedal += (pedal - s.pedal) * min(dt / self.PEDAL_FALL_TIME, 1.0)
        s.since_shift += dt
        if s.shift >= 1.0:
            gear = self.choose_gear(turbine_speed, brake)
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

    def choose_gear(self, turbine_speed: float, brake: float) -> int:
        """Gear by the shift map; its up- and downshift speeds differ by more than a ratio step."""
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
