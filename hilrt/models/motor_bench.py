"""An electric motor with its inverter on a dynamometer: physics and sensors of the emulated bench.

No I/O and no clock: time and demands are arguments, measurements are results; `hilrt.bench.emulate`
connects it to a CAN bus. One call of `MotorBench.advance` is one control cycle of 1 ms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum

from hilrt.models.bench_sequence import Demand
from hilrt.models.dynamometer import CYCLE_S, DynoBench, DynoData, DynoDemand

# ---- motor and inverter ------------------------------------------------------------------------

PEAK_TORQUE = 120.0  # N m
PEAK_POWER = 48e3  # W: above 400 rad/s the torque falls with the speed
SPEED_MAX = 1200.0  # rad/s, above which the inverter gives no torque
CURRENT_LAG_S = 0.003
COPPER_LOSS = 0.15  # W/(N m)²
IRON_LOSS = 0.6  # W s/rad
DRAG = 0.001  # N m s/rad
DC_VOLTAGE = 400.0  # V, without load
DC_RESISTANCE = 0.08  # Ω
HEAT_CAPACITY = 4000.0  # J/K, of the winding
COOLING = 12.0  # W/K
COOLANT = 25.0  # °C
WINDING_MAX = 155.0  # °C

# ---- dynamometer -------------------------------------------------------------------------------

# Small inertias on a stiff shaft: torsional resonance at 60 Hz.
DYNO = DynoData(
    machine_inertia=0.02,
    inertia=0.05,
    stiffness=2000.0,
    damping=2.2,
    friction=0.002,
    torque_max=150.0,
    gain=8.0,
    reset=0.06,
    feed_forward=0.06,
    slew=4000.0,
    brake_slew=600.0,
    torque_slew=20000.0,
    standstill=0.02,
)
OVERSPEED = 1250.0  # rad/s

# ---- sensors -----------------------------------------------------------------------------------

SPEED_NOISE = 0.01  # rad/s, standard deviation
TORQUE_NOISE = 0.1  # N m
TEMPERATURE_NOISE = 0.05  # K


class MotorFaultCause(IntEnum):
    """Values of ``MotorSlow.FaultCause``."""

    NONE = 0
    DEMAND_LOST = 1
    OVERSPEED = 2
    OVERHEATED = 3


def torque_limit(speed: float) -> float:
    """Largest torque of the motor [N m] at a speed [rad/s], in either direction."""
    speed = abs(speed)
    if speed >= SPEED_MAX:
        return 0.0
    return min(PEAK_TORQUE, PEAK_POWER / speed) if speed > 0.0 else PEAK_TORQUE


class MotorBench(DynoBench):
    """Motor with inverter, dynamometer and the bench's own sequence control.

    Parameters
    ----------
    seed : int
        Seed of the sensor noise.
    """

    #: Received messages, with the signals used.
    receives: Mapping[str, tuple[str, ...]] = {
        "DynoDemand": DynoDemand.SIGNALS,
        "MotorDemand": ("Torque", "Alive"),
    }
    #: Sent messages, with the number of cycles between two of them.
    sends: Mapping[str, int] = {"MotorFast": 1, "MotorSlow": 10}

    def __init__(self, seed: int = 0) -> None:
        super().__init__(DYNO, seed)
        # set-points
        self._motor_demand = Demand()
        self._motor_torque_demand = 0.0
        # state
        self.motor_torque = 0.0
        self.winding = COOLANT
        self.dc_current = 0.0
        self._lag = 1.0 - math.exp(-CYCLE_S / CURRENT_LAG_S)

    def receive(self, message: str, values: Mapping[str, float], now: float) -> None:
        """Process signals of a message received by `now` [s], before `advance(now)`."""
        super().receive(message, values, now)
        if message == "MotorDemand":
            self._motor_demand.update(values["Alive"], now)
            self._motor_torque_demand = values["Torque"]

    def measure(self, message: str) -> dict[str, float]:
        """Signals of a message as measured by the sensors, without the alive counter."""
        noise, dyno = self._noise, self.dyno
        if message == "MotorFast":
            return {
                "ShaftSpeed": dyno.speed + noise(0.0, SPEED_NOISE),
                "ShaftTorque": dyno.shaft_torque + noise(0.0, TORQUE_NOISE),
                "DynoTorque": dyno.torque,
            }
        return {
            **self.sequence.measure(),
            "Mode": float(dyno.mode),
            "DcVoltage": DC_VOLTAGE - DC_RESISTANCE * self.dc_current,
            "DcCurrent": self.dc_current,
            "WindingTemp": self.winding + noise(0.0, TEMPERATURE_NOISE),
        }

    def _demands_moved_at(self) -> float:
        return min(self._dyno_demand.moved_at, self._motor_demand.moved_at)

    def _trip(self) -> MotorFaultCause:
        if abs(self.dyno.speed) > OVERSPEED:
            return MotorFaultCause.OVERSPEED
        return MotorFaultCause.OVERHEATED if self.winding > WINDING_MAX else MotorFaultCause.NONE

    def _advance_machine(self) -> float:
        """Update torque, losses and temperature over one cycle; return the net torque, N m."""
        speed = self.dyno.machine_speed
        target = 0.0
        if self.sequence.enabled:
            most = torque_limit(speed)
            target = max(-most, min(most, self._motor_torque_demand))
        self.motor_torque += self._lag * (target - self.motor_torque)
        loss = COPPER_LOSS * self.motor_torque**2
        power = self.motor_torque * speed + loss + IRON_LOSS * abs(speed)
        self.dc_current = power / (DC_VOLTAGE - DC_RESISTANCE * self.dc_current)
        self.winding += CYCLE_S * (loss - COOLING * (self.winding - COOLANT)) / HEAT_CAPACITY
        return self.motor_torque - DRAG * speed
