"""A servo-hydraulic axis that loads a specimen: physics, control and sensors of the emulated bench.

A valve meters oil into the two chambers of a cylinder whose piston moves a mass against a specimen,
a spring with a damper. The axis is controlled in position or in force; mode changes are bumpless.
When disabled, a bypass connects the chambers, and the specimen pushes the piston back to its
middle.

No I/O and no clock: time and demands are arguments, measurements are results; `hilrt.bench.emulate`
connects it to a CAN bus. One call of `HydraulicAxisBench.advance` is one control cycle of 1 ms.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from enum import IntEnum

from hilrt.models.bench_sequence import BenchSequence, Demand

CYCLE_S = 0.001
MICRO_STEPS = 4
MICRO_S = CYCLE_S / MICRO_STEPS

# ---- cylinder, valve, specimen -----------------------------------------------------------------

AREA = 2.0e-3  # m², of the piston on either side
STROKE = 0.1  # m, to either side of the middle
VOLUME = 2.5e-4  # m³, of a chamber and its line with the piston in the middle
BULK_MODULUS = 1.2e9  # Pa
SUPPLY, TANK = 21e6, 0.5e6  # Pa
#: Flow through the fully open valve at a pressure drop of 1 Pa, m³/s: 60 l/min at 7 MPa.
VALVE_GAIN = 3.8e-7
VALVE_LAG_S = 0.003
LEAKAGE = 6e-12  # m³/s/Pa, between the chambers
BYPASS = 5e-11  # m³/s/Pa, when disabled
MASS = 200.0  # kg
FRICTION = 3000.0  # N s/m
SPECIMEN_STIFFNESS = 2e5  # N/m
SPECIMEN_DAMPING = 1500.0  # N s/m

# ---- control -----------------------------------------------------------------------------------

POSITION_GAIN = 40.0  # 1/s
POSITION_RESET_S = 0.3
POSITION_SLEW = 0.5  # m/s
FORCE_GAIN = 1.5e-4  # m/s/N
FORCE_RESET_S = 0.15
FORCE_SLEW = 1e5  # N/s
#: Time for which a request for the other mode must persist.
MODE_SWITCH_CYCLES = 20
FORCE_MAX = 30e3  # N, above which the bench trips
POSITION_MAX = 0.095  # m

# ---- sensors -----------------------------------------------------------------------------------

POSITION_NOISE = 2e-6  # m, standard deviation
FORCE_NOISE = 5.0  # N
PRESSURE_NOISE = 5e3  # Pa


class AxisMode(IntEnum):
    """Quantity controlled by the axis."""

    POSITION = 0
    FORCE = 1


class AxisFaultCause(IntEnum):
    """Values of ``AxisSlow.FaultCause``."""

    NONE = 0
    DEMAND_LOST = 1
    OVERLOAD = 2
    OVERTRAVEL = 3


class HydraulicAxis:
    """Piston, chambers, valve spool and specimen.

    Attributes
    ----------
    position, velocity : float
        Of the piston, positive against the specimen, m and m/s.
    force : float
        Force on the specimen, measured by the load cell, N.
    pressure_a, pressure_b : float
        Pressures of the pushing and of the opposite chamber, Pa.
    spool : float
        Opening of the valve, −1 to 1.
    """

    def __init__(self) -> None:
        self.position = self.velocity = self.force = self.spool = 0.0
        self.pressure_a = self.pressure_b = TANK
        self._lag = 1.0 - math.exp(-MICRO_S / VALVE_LAG_S)

    def opening(self, velocity: float) -> float:
        """Valve opening for a velocity [m/s] at the present pressures, −1 to 1."""
        forward = velocity >= 0.0
        into, out = (
            (self.pressure_a, self.pressure_b) if forward else (self.pressure_b, self.pressure_a)
        )
        drop = max(1e5, min(SUPPLY - into, out - TANK))
        return max(-1.0, min(1.0, AREA * velocity / (VALVE_GAIN * math.sqrt(drop))))

    def advance(self, command: float, powered: bool) -> None:
        """Run one control cycle in micro steps: symplectic Euler, pressures last.

        Parameters
        ----------
        command : float
            Demanded opening of the valve, −1 to 1.
        powered : bool
            Whether the supply is on; otherwise the valve is closed and the bypass open.
        """
        x, v, a, b = self.position, self.velocity, self.pressure_a, self.pressure_b
        spool, leakage = self.spool, LEAKAGE if powered else BYPASS
        target = command if powered else 0.0
        for _ in range(MICRO_STEPS):
            spool += self._lag * (target - spool)
            load = SPECIMEN_STIFFNESS * x + SPECIMEN_DAMPING * v
            v += MICRO_S / MASS * (AREA * (a - b) - FRICTION * v - load)
            x += MICRO_S * v
            if abs(x) >= STROKE:  # the end of the stroke
                x, v = math.copysign(STROKE, x), 0.0
            across = leakage * (a - b)
            if spool >= 0.0:
                into_a, out_b = spool * _root(SUPPLY - a), spool * _root(b - TANK)
            else:
                into_a, out_b = spool * _root(a - TANK), spool * _root(SUPPLY - b)
            a += MICRO_S * BULK_MODULUS * (into_a - across - AREA * v) / (VOLUME + AREA * x)
            b += MICRO_S * BULK_MODULUS * (across + AREA * v - out_b) / (VOLUME - AREA * x)
            a, b = max(a, 0.0), max(b, 0.0)  # no tension in the oil
        self.position, self.velocity, self.pressure_a, self.pressure_b = x, v, a, b
        self.spool = spool
        self.force = SPECIMEN_STIFFNESS * x + SPECIMEN_DAMPING * v


def _root(drop: float) -> float:
    """Flow through the open valve [m³/s] at a pressure drop [Pa]; smooth around zero."""
    return VALVE_GAIN * drop / math.sqrt(abs(drop) + 1e4)


class AxisControl:
    """Position or force control with a mode switch; returns the valve's opening.

    Attributes
    ----------
    mode : AxisMode
        Controlled quantity of the axis.
    """

    def __init__(self, axis: HydraulicAxis) -> None:
        self.axis = axis
        self.mode = AxisMode.POSITION
        self._reference = 0.0  # m or N
        self._integral = 0.0  # m/s
        self._requests = 0

    def start(self) -> None:
        """Start position control at the present position."""
        self._enter(AxisMode.POSITION)
        self._integral = 0.0

    def command(self, position: float, force: float, mode: AxisMode) -> float:
        """Opening of the valve, −1 to 1.

        Parameters
        ----------
        position, force : float
            Demands, m and N.
        mode : AxisMode
            The requested mode.
        """
        self._requests = self._requests + 1 if mode is not self.mode else 0
        if self._requests >= MODE_SWITCH_CYCLES:
            self._enter(mode)
        axis = self.axis
        if self.mode is AxisMode.POSITION:
            limited = max(-POSITION_MAX, min(POSITION_MAX, position))
            step = self._approach(limited, POSITION_SLEW * CYCLE_S)
            wanted = POSITION_GAIN * (self._reference - axis.position)
            return self._open(wanted, step / CYCLE_S, POSITION_RESET_S)
        step = self._approach(max(-FORCE_MAX, min(FORCE_MAX, force)), FORCE_SLEW * CYCLE_S)
        wanted = FORCE_GAIN * (self._reference - axis.force)
        return self._open(wanted, 0.0, FORCE_RESET_S)

    def _enter(self, mode: AxisMode) -> None:
        self.mode = mode
        self._requests = 0
        self._reference = self.axis.position if mode is AxisMode.POSITION else self.axis.force

    def _approach(self, target: float, most: float) -> float:
        """Move the reference towards its target by at most `most`; return the movement."""
        step = max(-most, min(most, target - self._reference))
        self._reference += step
        return step

    def _open(self, wanted: float, ahead: float, reset: float) -> float:
        """PI control in terms of velocities [m/s], with feed-forward."""
        opening = self.axis.opening(wanted + self._integral + ahead)
        if abs(opening) < 1.0:  # anti-windup
            self._integral += CYCLE_S / reset * wanted
        return opening


class HydraulicAxisBench:
    """The axis, its control and the bench's own sequence control.

    Parameters
    ----------
    seed : int
        Of the sensor noise.
    """

    #: Received messages, with the signals used.
    receives: Mapping[str, tuple[str, ...]] = {
        "AxisDemand": ("Position", "Force", "Mode", "Enable", "Alive"),
    }
    #: Sent messages, with the number of cycles between two of them.
    sends: Mapping[str, int] = {"AxisFast": 1, "AxisSlow": 10}

    def __init__(self, seed: int = 0) -> None:
        self._noise: Callable[[float, float], float] = random.Random(seed).gauss
        self._demand = Demand()
        self._position_demand = self._force_demand = 0.0
        self._mode = AxisMode.POSITION
        self._enable = False
        self.sequence = BenchSequence()
        self.axis = HydraulicAxis()
        self.control = AxisControl(self.axis)

    @property
    def requested(self) -> bool:
        """Whether enable is requested."""
        return self._enable

    def receive(self, message: str, values: Mapping[str, float], now: float) -> None:
        """Process signals of a message received by `now` [s], before the cycle that ends then."""
        if message == "AxisDemand":
            self._demand.update(values["Alive"], now)
            self._position_demand = 1e-3 * values["Position"]  # mm
            self._force_demand = 1e3 * values["Force"]  # kN
            self._mode = AxisMode(int(values["Mode"]))
            self._enable = values["Enable"] != 0

    def advance(self, now: float) -> None:
        """Run one control cycle, ending at `now` [s]; clock jumps do not affect the physics."""
        sequence, age = self.sequence, now - self._demand.moved_at
        if sequence.advance(now, requested=self._enable, demand_age=age, trip=self._trip()):
            self.control.start()
        command = 0.0
        if sequence.enabled:
            command = self.control.command(self._position_demand, self._force_demand, self._mode)
        self.axis.advance(command, sequence.enabled)

    def measure(self, message: str) -> dict[str, float]:
        """Signals as measured by the sensors: mm, kN, mm/s, bar; without the counter."""
        noise, axis = self._noise, self.axis
        if message == "AxisFast":
            return {
                "Position": 1e3 * (axis.position + noise(0.0, POSITION_NOISE)),
                "Force": 1e-3 * (axis.force + noise(0.0, FORCE_NOISE)),
                "Velocity": 1e3 * axis.velocity,
            }
        return {
            **self.sequence.measure(),
            "Mode": float(self.control.mode),
            "PressureA": 1e-5 * (axis.pressure_a + noise(0.0, PRESSURE_NOISE)),
            "PressureB": 1e-5 * (axis.pressure_b + noise(0.0, PRESSURE_NOISE)),
            "Valve": 100.0 * axis.spool,
        }

    def _trip(self) -> AxisFaultCause:
        if abs(self.axis.force) > FORCE_MAX:
            return AxisFaultCause.OVERLOAD
        return (
            AxisFaultCause.OVERTRAVEL
            if abs(self.axis.position) > POSITION_MAX
            else AxisFaultCause.NONE
        )
