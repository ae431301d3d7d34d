"""An emulated dynamometer: a rotor on an elastic shaft, and its drive with two control modes.

Under speed control it imposes the shaft's speed and leaves the torque to the machine under test;
under torque control vice versa. Mode changes are bumpless. One call of `Dynamometer.advance` is one
control cycle of 1 ms, integrated in four micro steps; all computations are scalar, as numpy would
be slower for three states.
"""

from __future__ import annotations

import abc
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from hilrt.models.bench_sequence import BenchSequence, Demand

CYCLE_S = 0.001
MICRO_STEPS = 4
MICRO_S = CYCLE_S / MICRO_STEPS

DRIVE_LAG_S = 0.002
#: Time for which a request for the other mode must persist.
MODE_SWITCH_CYCLES = 20


class DynoMode(IntEnum):
    """Quantity controlled by the drive."""

    SPEED = 0
    TORQUE = 1


class DynoDemand(Demand):
    """Demands of message ``DynoDemand``: speed [rad/s], torque [N m], mode and enable."""

    SIGNALS = ("Speed", "Torque", "Mode", "Enable", "Alive")

    def __init__(self) -> None:
        super().__init__()
        self.speed = self.torque = 0.0
        self.mode = DynoMode.SPEED
        self.enable = False

    def receive(self, values: Mapping[str, float], now: float) -> None:
        """Process the signals of a message received by `now` [s]."""
        self.update(values["Alive"], now)
        self.speed, self.torque = values["Speed"], values["Torque"]
        self.mode = DynoMode(int(values["Mode"]))
        self.enable = values["Enable"] != 0


@dataclass(frozen=True)
class DynoData:
    """Parameters of a dynamometer, its shaft and the machine at the other end.

    Attributes
    ----------
    machine_inertia, inertia : float
        Of the machine under test and of the rotor, kg m².
    stiffness, damping : float
        Of the shaft, N m/rad and N m s/rad.
    friction : float
        Of the rotor, N m s/rad.
    torque_max : float
        N m.
    gain, reset : float
        Of the speed control, N m s/rad and s.
    feed_forward : float
        Torque fed forward per acceleration of the reference, kg m².
    slew, brake_slew : float
        Maximum rate of the drive's reference, enabled and while braking, rad/s².
    torque_slew : float
        The same in the torque mode, N m/s.
    standstill : float
        Speed below which a braking drive is switched off, rad/s.
    """

    machine_inertia: float
    inertia: float
    stiffness: float
    damping: float
    friction: float
    torque_max: float
    gain: float
    reset: float
    feed_forward: float
    slew: float
    brake_slew: float
    torque_slew: float
    standstill: float


class Dynamometer:
    """Shaft, rotor and drive.

    The shaft torque is positive while the machine drives the dynamometer. It is the torque in the
    shaft and includes the reaction of the machine's own inertia.

    Attributes
    ----------
    machine_speed, speed : float
        Of the machine's and the dynamometer's end, rad/s.
    shaft_torque : float
        N m.
    torque : float
        Air-gap torque, positive when it accelerates the shaft, N m.
    mode : DynoMode
        Quantity controlled by the drive.
    """

    def __init__(self, data: DynoData) -> None:
        self.data = data
        self.machine_speed = self.speed = self.shaft_torque = self.torque = 0.0
        self.mode = DynoMode.SPEED
        self._twist = 0.0
        self._lag = 1.0 - math.exp(-MICRO_S / DRIVE_LAG_S)
        self._driving = False
        self._reference = 0.0  # rad/s or N m
        self._integral = 0.0
        # The control's dead time: a command acts one cycle after it is computed.
        self._command = 0.0
        self._requests = 0  # cycles for which the other mode has been requested

    def start(self) -> None:
        """Start control, initially of the speed, without a bump."""
        if not self._driving:
            self._driving = True
            self._enter(DynoMode.SPEED)

    def advance(
        self, machine_torque: float, *, enabled: bool, speed: float, torque: float, mode: DynoMode
    ) -> None:
        """Run one control cycle.

        Parameters
        ----------
        machine_torque : float
            Torque accelerating the machine's inertia, N m.
        enabled : bool
            If false, the drive brakes to standstill.
        speed, torque : float
            Demands, rad/s and N m.
        mode : DynoMode
            The requested mode.
        """
        self._mechanics(machine_torque)
        self._command = self._drive(enabled, speed, torque, mode)

    def _mechanics(self, machine_torque: float) -> None:
        """Integrate both inertias over one cycle: symplectic Euler, twist last."""
        data, command, lag = self.data, self._command, self._lag
        machine, rotor, twist, torque = self.machine_speed, self.speed, self._twist, self.torque
        stiffness, damping, friction = data.stiffness, data.damping, data.friction
        machine_step, rotor_step = MICRO_S / data.machine_inertia, MICRO_S / data.inertia
        for _ in range(MICRO_STEPS):
            torque += lag * (command - torque)
            shaft = stiffness * twist + damping * (machine - rotor)
            machine += machine_step * (machine_torque - shaft)
            rotor += rotor_step * (shaft + torque - friction * rotor)
            twist += MICRO_S * (machine - rotor)
        self.machine_speed, self.speed, self._twist, self.torque = machine, rotor, twist, torque
        self.shaft_torque = stiffness * twist + damping * (machine - rotor)

    def _drive(self, enabled: bool, speed: float, torque: float, mode: DynoMode) -> float:
        """Compute the torque command, N m."""
        if not self._driving:
            return 0.0
        if not enabled:
            if self.mode is not DynoMode.SPEED:
                self._enter(DynoMode.SPEED)
            if abs(self.speed) < self.data.standstill and self._reference == 0.0:
                self._driving = False
                return 0.0
            return self._control_speed(0.0, self.data.brake_slew)
        self._requests = self._requests + 1 if mode is not self.mode else 0
        if self._requests >= MODE_SWITCH_CYCLES:
            self._enter(mode)
        if self.mode is DynoMode.TORQUE:
            return self._control_torque(torque)
        return self._control_speed(speed, self.data.slew)

    def _enter(self, mode: DynoMode) -> None:
        """Start control from the present speed and torque."""
        self.mode = mode
        self._requests = 0
        self._integral = self._command
        self._reference = self.speed if mode is DynoMode.SPEED else self._command

    def _control_speed(self, target: float, slew: float) -> float:
        """PI control with feed-forward of the reference's slope."""
        data = self.data
        # The slope is not filtered: even if demands arrive unevenly, such as two in one cycle and
        # none in the next, its sum is the demanded change of speed.
        step = max(-slew * CYCLE_S, min(slew * CYCLE_S, target - self._reference))
        self._reference += step
        error = self._reference - self.speed
        wanted = data.gain * error + self._integral + data.feed_forward * step / CYCLE_S
        command = max(-data.torque_max, min(data.torque_max, wanted))
        if command == wanted:  # anti-windup: the integral is frozen while the torque is limited
            self._integral += data.gain / data.reset * CYCLE_S * error
        return command

    def _control_torque(self, target: float) -> float:
        data = self.data
        target = max(-data.torque_max, min(data.torque_max, target))
        most = data.torque_slew * CYCLE_S
        self._reference += max(-most, min(most, target - self._reference))
        return self._reference


# Common part of emulated benches with a dynamometer: drive, demands, sequence control.
# A subclass provides the machine at the other end of the shaft, with its messages.


class DynoBench(abc.ABC):
    """A machine on a dynamometer.

    Parameters
    ----------
    data : DynoData
        Of the dynamometer, its shaft and the machine.
    seed : int
        Of the sensor noise.

    Attributes
    ----------
    sequence : BenchSequence
    dyno : Dynamometer
    """

    def __init__(self, data: DynoData, seed: int) -> None:
        self._noise: Callable[[float, float], float] = random.Random(seed).gauss
        self._dyno_demand = DynoDemand()
        self.sequence = BenchSequence()
        self.dyno = Dynamometer(data)

    @property
    def requested(self) -> bool:
        """Whether enable is requested."""
        return self._dyno_demand.enable

    def receive(self, message: str, values: Mapping[str, float], now: float) -> None:
        """Process signals of a message received by `now` [s], before the cycle that ends then."""
        if message == "DynoDemand":
            self._dyno_demand.receive(values, now)

    def advance(self, now: float) -> None:
        """Run one control cycle, ending at `now` [s]; clock jumps do not affect the physics."""
        demand, age = self._dyno_demand, now - self._demands_moved_at()
        if self.sequence.advance(now, requested=demand.enable, demand_age=age, trip=self._trip()):
            self.dyno.start()
        self.dyno.advance(
            self._advance_machine(),
            enabled=self.sequence.enabled,
            speed=demand.speed,
            torque=demand.torque,
            mode=demand.mode,
        )

    @abc.abstractmethod
    def _demands_moved_at(self) -> float:
        """Time of the last change of the oldest demand's counter, s."""

    @abc.abstractmethod
    def _trip(self) -> int:
        """The bench's own fault cause, or 0."""

    @abc.abstractmethod
    def _advance_machine(self) -> float:
        """Integrate the machine over one cycle; return the torque accelerating its inertia, N m."""
