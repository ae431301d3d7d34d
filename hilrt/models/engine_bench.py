"""An engine on a dynamometer: the engine's physics and the sensors of the emulated bench.

No I/O and no clock: time and demands are arguments, measurements are results; `hilrt.bench.emulate`
connects it to a CAN bus. One call of `EngineBench.advance` is one control cycle of 1 ms.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from enum import IntEnum

from hilrt.models.bench_sequence import Demand
from hilrt.models.dynamometer import CYCLE_S, DynoBench, DynoData, DynoDemand

# ---- engine ------------------------------------------------------------------------------------

ENGINE_INERTIA = 0.12  # kg m²
INTAKE_LAG_S = 0.08
#: Full load at the crankshaft: 200 N m, 110 kW at 580 rad/s, then the limiter.
# fmt: off
FULL_LOAD_SPEED = (0.0, 80.0, 120.0, 180.0, 240.0, 480.0, 550.0, 580.0, 620.0, 650.0, 690.0)
FULL_LOAD_TORQUE = (60.0, 110.0, 150.0, 190.0, 200.0, 200.0, 197.0, 190.0, 170.0, 140.0, 0.0)
# fmt: on
#: Below this speed the engine does not fire.
FIRING_SPEED = 40.0  # rad/s
IDLE_SPEED = 80.0  # rad/s
IDLE_GAIN = 2.0  # N m s/rad
IDLE_TORQUE_MAX = 80.0  # N m
FUEL_HEAT = 42.6e3  # J/g
INDICATED_EFFICIENCY = 0.36

# ---- shaft and dynamometer ---------------------------------------------------------------------

# A rubber coupling: 16.8 Hz between the two inertias, a fifth of critical damping. The damping
# keeps the loop through a virtual inertia of 0.15 kg m² stable with 5 ms of latency in the
# exchange; with a steel shaft of 25 Hz it would oscillate from 2 ms on.
SHAFT_STIFFNESS = 900.0  # N m/rad
SHAFT_DAMPING = 3.5  # N m s/rad
DYNO_INERTIA = 0.25  # kg m²
DYNO_TORQUE_MAX = 350.0  # N m
DYNO = DynoData(
    machine_inertia=ENGINE_INERTIA,
    inertia=DYNO_INERTIA,
    stiffness=SHAFT_STIFFNESS,
    damping=SHAFT_DAMPING,
    friction=0.01,
    torque_max=DYNO_TORQUE_MAX,
    gain=50.0,
    reset=0.06,
    # Between the rotor's inertia and that of rotor and engine: a higher value follows ramps more
    # closely but rings at 40 Hz.
    feed_forward=0.3,
    slew=2500.0,
    brake_slew=400.0,
    torque_slew=5000.0,
    standstill=1.0,
)
OVERSPEED = 720.0  # rad/s

# ---- sensors -----------------------------------------------------------------------------------

SPEED_NOISE = 0.01  # rad/s, standard deviation
TORQUE_NOISE = 0.25  # N m
TEMPERATURE_NOISE = 0.05  # K
AMBIENT = 22.0  # °C


class EngineFaultCause(IntEnum):
    """Values of ``EngineSlow.FaultCause``."""

    NONE = 0
    DEMAND_LOST = 1
    OVERSPEED = 2


def full_load_torque(speed: float) -> float:
    """Largest torque at the crankshaft [N m] at a speed [rad/s]."""
    if speed <= 0.0:
        return FULL_LOAD_TORQUE[0]
    if speed >= FULL_LOAD_SPEED[-1]:
        return FULL_LOAD_TORQUE[-1]
    i = bisect_right(FULL_LOAD_SPEED, speed)
    s0, s1 = FULL_LOAD_SPEED[i - 1], FULL_LOAD_SPEED[i]
    t0, t1 = FULL_LOAD_TORQUE[i - 1], FULL_LOAD_TORQUE[i]
    return t0 + (t1 - t0) * (speed - s0) / (s1 - s0)


def drag_torque(speed: float) -> float:
    """Torque [N m] that turns the unfired engine at a speed [rad/s]; zero at standstill."""
    magnitude = 14.0 + 0.02 * abs(speed) + 4e-5 * speed * speed
    return magnitude * max(-1.0, min(1.0, speed / 5.0))


def indicated_torque(speed: float, pedal: float) -> float:
    """Torque of the combustion [N m] in steady state; brake torque plus drag.

    Parameters
    ----------
    speed : float
        Engine speed, rad/s.
    pedal : float
        Accelerator pedal, %.
    """
    # At low speed a small opening fills the cylinders; towards rated speed it is linear.
    share = 0.01 * max(0.0, min(100.0, pedal))
    gain = max(0.0, 2.0 * (1.0 - speed / 650.0))
    share = share * (1.0 + gain) / (1.0 + gain * share)
    full = full_load_torque(speed)
    drag = drag_torque(speed)
    driver = share * (full + drag) if full > 0.0 else 0.0  # beyond the limiter: fuel is cut
    idle = drag + IDLE_GAIN * (IDLE_SPEED - speed)
    return max(driver, min(IDLE_TORQUE_MAX, max(0.0, idle)))


class Thermal:
    """Slow temperatures, °C; a bench is conditioned, so coolant and oil start warm."""

    def __init__(self) -> None:
        self.coolant = 70.0
        self.oil = 72.0
        self.exhaust = 120.0

    def advance(self, h: float, fuel: float) -> None:
        """Integrate over `h` [s] with the fuel rate [g/s]."""
        heat = 0.28 * FUEL_HEAT * fuel  # W into the coolant
        thermostat = max(0.0, min(1.0, (self.coolant - 84.0) / 10.0))
        cooling = (20.0 + 3500.0 * thermostat) * (self.coolant - AMBIENT)
        self.coolant += h * (heat - cooling) / 60e3
        self.oil += h * (self.coolant + 3.5 * fuel - self.oil) / 90.0
        target = 180.0 + 230.0 * math.sqrt(fuel) if fuel > 0.0 else AMBIENT + 40.0
        self.exhaust += h * (min(target, 950.0) - self.exhaust) / 6.0


class EngineBench(DynoBench):
    """Engine, dynamometer and the bench's own sequence control.

    Parameters
    ----------
    seed : int
        Of the sensor noise.
    """

    #: Received messages, with the signals used.
    receives: Mapping[str, tuple[str, ...]] = {
        "DynoDemand": DynoDemand.SIGNALS,
        "EngineDemand": ("Pedal", "Alive"),
    }
    #: Sent messages, with the number of cycles between two of them.
    sends: Mapping[str, int] = {"EngineFast": 1, "EngineSlow": 10}

    def __init__(self, seed: int = 0) -> None:
        super().__init__(DYNO, seed)
        # set-points
        self._engine_demand = Demand()
        self._pedal = 0.0
        # state
        self._cycle = 0
        self.indicated = 0.0
        self.fuel = 0.0
        self.thermal = Thermal()
        self._intake = 1.0 - math.exp(-CYCLE_S / INTAKE_LAG_S)

    def receive(self, message: str, values: Mapping[str, float], now: float) -> None:
        """Process signals of a message received by `now` [s], before the cycle that ends then."""
        super().receive(message, values, now)
        if message == "EngineDemand":
            self._engine_demand.update(values["Alive"], now)
            self._pedal = values["Pedal"]

    def measure(self, message: str) -> dict[str, float]:
        """Signals of a message as measured by the sensors, without the counter."""
        noise = self._noise
        if message == "EngineFast":
            return {
                "ShaftSpeed": self.dyno.speed + noise(0.0, SPEED_NOISE),
                "ShaftTorque": max(
                    -600.0, min(600.0, self.dyno.shaft_torque + noise(0.0, TORQUE_NOISE))
                ),
                "DynoTorque": self.dyno.torque,
            }
        thermal = self.thermal
        return {
            **self.sequence.measure(),
            "Mode": float(self.dyno.mode),
            "FuelRate": self.fuel,
            "CoolantTemp": thermal.coolant + noise(0.0, TEMPERATURE_NOISE),
            "OilTemp": thermal.oil + noise(0.0, TEMPERATURE_NOISE),
            "ExhaustTemp": thermal.exhaust + noise(0.0, TEMPERATURE_NOISE),
        }

    def _demands_moved_at(self) -> float:
        # EngineDemand is watched from its first frame on: a motored test needs none.
        if self._engine_demand.alive is None:
            return self._dyno_demand.moved_at
        return min(self._dyno_demand.moved_at, self._engine_demand.moved_at)

    def _trip(self) -> EngineFaultCause:
        return (
            EngineFaultCause.OVERSPEED
            if abs(self.dyno.speed) > OVERSPEED
            else EngineFaultCause.NONE
        )

    def _advance_machine(self) -> float:
        """Combustion and drag; because of the intake lag, one update per cycle suffices."""
        speed = self.dyno.machine_speed
        if self.sequence.enabled and speed > FIRING_SPEED:
            target = indicated_torque(speed, self._pedal)
            self.indicated += self._intake * (target - self.indicated)
            self.fuel = self.indicated * speed / (INDICATED_EFFICIENCY * FUEL_HEAT)
        else:
            self.indicated = 0.0
            self.fuel = 0.0
        self._cycle += 1
        if self._cycle % 10 == 0:
            self.thermal.advance(10 * CYCLE_S, self.fuel)
        return self.indicated - drag_torque(speed)
