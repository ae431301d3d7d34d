"""Tip-in and tip-out in second gear on an emulated bench that is far away, in simulated time.

The physics of the demonstration: engine, shaft and dynamometer on the bench, the car in the model,
coupled by `tests.stepping` at 1 kHz. What the bench measures reaches the master late, with jitter,
and some of it never; each sample bears the time at which it was measured.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass

import numpy as np

from hilrt.models.driveline import Driveline
from hilrt.models.dynamometer import DynoMode
from hilrt.models.engine_bench import EngineBench
from hilrt.models.vehicle_data import VehicleData
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver
from tests.stepping import MemoryLink, Stepping

DURATION_S = 2.6
SECOND_GEAR = 2.4
START_SPEED = 5.5  # m/s: 153 rad/s of the turbine
CYCLE_S = 0.001
SETTLE_CYCLES = 1500
#: What the demonstration session says of its bench, s.
ACTUATION_DELAY_S = 0.002


def pedal(t: float) -> float:
    """Accelerator [%] at a time [s]: 0 to 60 and back, as fast as a foot does."""
    return float(np.interp(t, [0.3, 0.5, 1.5, 1.7], [0.0, 60.0, 60.0, 0.0]))


class Car(Solver):
    """The demonstration vehicle with one gear and a foot instead of a driver."""

    inputs = (Port("engine_torque", "N*m"),)
    outputs = (Port("engine_speed", "rad/s"), Port("pedal", "%"))
    MICRO_STEPS = 2

    def __init__(self) -> None:
        self.driveline = Driveline(VehicleData(gear_ratios=(SECOND_GEAR,)))

    def initialize(self, t0: float, u0: Floats) -> Sample:
        self.driveline.start(START_SPEED)
        return self._sample(t0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        dt = h / self.MICRO_STEPS
        for i in range(self.MICRO_STEPS):
            begin, end = t + i * dt, t + (i + 1) * dt
            self.driveline.step(dt, (float(u(begin)[0]), float(u(end)[0])), pedal(begin), 0.0)
        return self._sample(t + h)

    def _sample(self, t: float) -> Sample:
        return Sample(np.array([self.driveline.state.engine_speed, pedal(t)]))


class Bench(Solver):
    """The emulated bench, one control cycle per macro step; keeps what happened at the shaft."""

    inputs = (Port("speed", "rad/s", min=0.0, max=650.0), Port("pedal", "%", min=0.0, max=100.0))
    outputs = (Port("torque", "N*m"), Port("speed", "rad/s"))

    def __init__(self, noise: bool) -> None:
        self.bench = EngineBench(seed=0)
        if not noise:
            self.bench._noise = lambda mean, deviation: mean
        self.cycle = 0
        self.trace: list[tuple[float, float]] = []

    def initialize(self, t0: float, u0: Floats) -> Sample:
        for _ in range(SETTLE_CYCLES):
            self._cycle(u0)
        return self._sample()

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self._cycle(u.coefficients[0])
        self.trace.append((self.bench.dyno.machine_speed, self.bench.dyno.shaft_torque))
        return self._sample()

    def _cycle(self, u: Floats) -> None:
        self.cycle += 1
        now, alive = self.cycle * CYCLE_S, float(self.cycle % 256)
        dyno = {"Speed": u[0], "Torque": 0.0, "Mode": float(DynoMode.SPEED), "Enable": 1.0}
        self.bench.receive("DynoDemand", {**dyno, "Alive": alive}, now)
        self.bench.receive("EngineDemand", {"Pedal": u[1], "Alive": alive}, now)
        self.bench.advance(now)

    def _sample(self) -> Sample:
        seen = self.bench.measure("EngineFast")
        return Sample(np.array([seen["ShaftTorque"], seen["ShaftSpeed"]]))


@dataclass(frozen=True)
class Distance:
    """How far away the bench is: latency and its jitter [s], share of the samples that get lost."""

    latency: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0


class FarLink(MemoryLink):
    """A bench whose samples arrive late, or never."""

    def __init__(self, bench: Bench, distance: Distance, seed: int) -> None:
        super().__init__("engine", bench, physical=True)
        # A string: the sensors' noise is seeded with a number, and must not be the same numbers.
        self.distance, self._random = distance, random.Random(f"way {seed}")
        self._under_way: list[tuple[float, int, Sample]] = []
        self._now = 0.0

    def dispatch(self, tick: int, t: float, h: float, coefficients: Floats) -> None:
        sample = self.solver.advance(t, h, InputPolynomial(t, coefficients.copy()))
        self._now = t + h
        sample.t_valid = np.full(len(sample.y), self._now)
        way, chance = self.distance, self._random
        wait = max(0.0, way.latency + way.jitter * chance.uniform(-1.0, 1.0))
        if chance.random() >= way.loss:
            heapq.heappush(self._under_way, (self._now + wait, tick, sample))

    def receive(self) -> None:
        while self._under_way and self._under_way[0][0] <= self._now + 1e-9:
            t, _, sample = heapq.heappop(self._under_way)
            self.inbox.put(sample, t)


def run(distance: Distance, *, compensated: bool, noise: bool = False, seed: int = 0) -> Floats:
    """Speed of the engine [rad/s] and torque in the shaft [N m] at every tick, shape (n, 2).

    Parameters
    ----------
    distance : Distance
    compensated : bool
        Samples carried to the communication point and set-points sent ahead by the actuation delay;
        else everything is held, and sent as it is.
    noise : bool
        That of the sensors.
    seed : int
        Of jitter and loss.
    """
    bench = Bench(noise)
    # From 3 ms on, a bench that is to be heard every millisecond always counts as late.
    late = {"policy": "extrapolate" if compensated else "hold", "max_misses": 10_000}
    session = Stepping(
        {"vehicle": Car(), "engine": FarLink(bench, distance, seed)},
        lead={"engine": ACTUATION_DELAY_S if compensated else 0.0},
        master={"step": 1e-3, "extrapolation": {"order": 1 if compensated else 0}},
        subsystems={"vehicle": {}, "engine": {"late": late}},
        connections=[
            {"from": "engine.torque", "to": "vehicle.engine_torque"},
            {"from": "vehicle.engine_speed", "to": "engine.speed"},
            {"from": "vehicle.pedal", "to": "engine.pedal", "order": 0},
        ],
    )
    session.run(DURATION_S)
    return np.array(bench.trace)


def errors(trace: Floats, reference: Floats) -> Floats:
    """RMS error of speed [rad/s] and torque [N m], shape (2,)."""
    rms: Floats = np.sqrt(np.mean((trace - reference) ** 2, axis=0))
    return rms
