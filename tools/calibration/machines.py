"""Draws of machines: hydraulic cylinders with loads; engines with drivelines."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hilrt.solver import Port
from tools.calibration.nonlinear_systems import Law, excitation
from tools.calibration.parts import Part, Values
from tools.calibration.systems import CoupledSystem, Random, draw_sines, log_uniform

DENSITY, DISCHARGE = 850.0, 0.67  #: Of the oil, kg/m³; coefficient of the valve.


def hydraulic(random: Random) -> CoupledSystem:
    """A cylinder with a proportional valve moves a load with a spring and friction."""
    area, stroke = log_uniform(random, 3e-4, 1e-2), float(random.uniform(0.2, 0.6))
    supply, bulk = float(random.uniform(6e6, 2.5e7)), float(random.uniform(8e8, 1.6e9))
    chamber = 0.5 * area * stroke
    stiffness = 2.0 * bulk * area / (0.5 * stroke)
    omega = 2.0 * math.pi * log_uniform(random, 2.0, 30.0)
    load = stiffness / omega**2
    damping = 2.0 * log_uniform(random, 0.02, 0.6) * math.sqrt(stiffness * load)
    share = float(
        random.uniform(0.0, 0.8)
    )  # of the damping that is in the cylinder, as feedthrough
    inside, drag = share * damping, (1.0 - share) * damping
    speed = log_uniform(random, 0.02, 0.3)
    flow = area * speed / math.sqrt(supply)  # per full opening and root of pressure
    leak = 0.02 * area * speed / supply
    spool = excitation(draw_sines(random, 1.0, omega * log_uniform(random, 0.1, 0.7)))
    wall = stiffness * log_uniform(random, 0.01, 0.5)
    weight = 0.2 * supply * area * float(random.uniform(-1.0, 1.0))

    def through_valve(opening: float, difference: float) -> float:
        soft = 0.01 * supply
        return float(flow * opening * difference / (difference * difference + soft * soft) ** 0.25)

    def rates(t: float, x: Values, u: Values) -> list[float]:
        opening = max(-1.0, min(1.0, spool(t)))
        p1, p2 = x
        if opening >= 0.0:
            q1, q2 = through_valve(opening, supply - p1), -through_valve(opening, p2)
        else:
            q1, q2 = through_valve(opening, p1), -through_valve(opening, supply - p2)
        slip, v = leak * (p1 - p2), u[0]
        return [bulk * (q1 - slip - area * v) / chamber, bulk * (q2 + slip + area * v) / chamber]

    def moved(t: float, x: Values, u: Values) -> list[float]:
        return [x[1], (u[0] - wall * x[0] - drag * x[1] - weight) / load]

    level, tilt = 0.5 * supply, 0.5 * weight / area
    cylinder = Part(
        "cylinder", (Port("rate", "m/s"),),
        (Port("force", "N", feedthrough=("rate",)), Port("p1", "Pa"), Port("p2", "Pa")),
        [level + tilt, level - tilt], bulk * flow / chamber * 10.0 / math.sqrt(supply) + omega,
        np.array([[-inside], [0.0], [0.0]]), rates,
        lambda t, x, u: [area * (x[0] - x[1]) - inside * u[0], x[0], x[1]],
    )  # fmt: skip
    mass = Part(
        "load", (Port("force", "N"),), (Port("rate", "m/s"), Port("position", "m")),
        [0.0, 0.3 * speed * float(random.normal())], omega + drag / load, np.zeros((2, 1)), moved,
        lambda t, x, u: [x[1], x[0]],
    )  # fmt: skip
    return CoupledSystem(
        [cylinder, mass], [("cylinder.force", "load.force"), ("load.rate", "cylinder.rate")],
        [("cylinder.force", "load.rate")], omega, "load",
        {"omega": omega, "damping": damping, "share": share, "wall": wall, "supply": supply},
    )  # fmt: skip


@dataclass
class Engine:
    """Torque with a lag, an inertia, and a shaft of stiffness `k` and damping `c`.

    `peak` is the largest torque [N m]; `firing` its share that pulsates at `pulse` [rad/s].
    """

    inertia: float
    k: float
    c: float
    peak: float
    lag: float
    pedal: Law
    firing: float
    pulse: float

    def rates(self, t: float, x: Values, u: Values) -> list[float]:
        """Derivatives of the torque, the speed and the shaft's twist."""
        torque, speed, twist = x
        demand = max(0.0, min(1.0, self.pedal(t))) * self.peak * (1.1 - (speed / 500.0) ** 2)
        shaft = self.k * twist + self.c * (speed - u[0])
        acting = torque * (1.0 + self.firing * math.sin(self.pulse * t))
        acting -= 0.05 * self.peak * speed / 200.0
        return [(demand - torque) / self.lag, (acting - shaft) / self.inertia, speed - u[0]]

    def shaft(self, t: float, x: Values, u: Values) -> list[float]:
        """Torque of the shaft, and the speed."""
        return [self.k * x[2] + self.c * (x[1] - u[0]), x[1]]


@dataclass
class Driveline:
    """A converter of `capacity` [N m s²/rad²] with the inertia `pump`, and a vehicle."""

    pump: float
    capacity: float
    vehicle: float
    road: float

    def rates(self, t: float, x: Values, u: Values) -> list[float]:
        """Derivatives of the pump's speed and the turbine's."""
        w, turbine = x
        slip = w - turbine
        taken = self.capacity * slip * (abs(w) + abs(turbine)) + 0.2 * slip
        driven = (taken - self.road * turbine * abs(turbine)) / self.vehicle
        return [(u[0] - taken) / self.pump, driven]


@dataclass
class SpeedControl:
    """A dynamometer of the inertia `pump` under speed control with the bandwidth `tuned` [1/s]."""

    pump: float
    tuned: float
    start: float
    reference: Law

    def rates(self, t: float, x: Values, u: Values) -> list[float]:
        """Derivatives of the speed, and of the control's integral."""
        w, integral = x
        off = self.start + self.reference(t) - w
        reset = 0.3 * self.tuned * self.tuned
        return [self.tuned * off + integral + u[0] / self.pump, reset * off]


def engine_and_driveline(random: Random) -> CoupledSystem:
    """An engine with its shaft, and a converter with a vehicle or a dynamometer."""
    inertia = log_uniform(random, 0.05, 1.0)
    pump = inertia * log_uniform(random, 0.3, 3.0)
    omega = 2.0 * math.pi * log_uniform(random, 3.0, 40.0)
    reduced = inertia * pump / (inertia + pump)
    k = reduced * omega**2
    c = 2.0 * log_uniform(random, 0.01, 0.4) * reduced * omega
    peak, lag = float(random.uniform(80.0, 400.0)), log_uniform(random, 0.02, 0.3)
    level = float(random.uniform(0.2, 0.8))
    slow = 2.0 * math.pi * log_uniform(random, 0.1, 3.0)
    pedal = excitation(draw_sines(random, 0.5, slow))
    firing = log_uniform(random, 0.02, 0.5) if random.random() < 0.4 else 0.0
    pulse = omega * log_uniform(random, 0.3, 1.2)
    engine = Engine(inertia, k, c, peak, lag, lambda t: level + pedal(t), firing, pulse)
    capacity, radius = peak / 160.0**2, 0.04
    vehicle = log_uniform(random, 600.0, 3000.0) * radius**2
    driveline = Driveline(pump, capacity, vehicle, road=0.3 * peak / 150.0**2)
    start = float(random.uniform(90.0, 250.0))
    tuned = omega * log_uniform(random, 0.5, 4.0)
    control = SpeedControl(pump, tuned, start, excitation(draw_sines(random, 40.0, slow)))
    bench = bool(random.random() < 0.4)
    initial = level * peak
    first = Part(
        "engine", (Port("speed", "rad/s", start=start),),
        (Port("torque", "N*m", feedthrough=("speed",)), Port("engine_speed", "rad/s")),
        [initial, start, 0.5 * initial / k], omega * (1.0 + pump / inertia) + c / inertia + 1 / lag,
        np.array([[-c], [0.0]]), engine.rates, engine.shaft,
    )  # fmt: skip
    second = Part(
        "bench" if bench else "driveline", (Port("torque", "N*m"),),
        (Port("speed", "rad/s", start=start),),
        [start, 0.0] if bench else [start, 0.9 * start],
        2.0 * tuned if bench else 2.0 * capacity * 600.0 / pump,
        np.zeros((1, 1)), control.rates if bench else driveline.rates, lambda t, x, u: [x[0]],
    )  # fmt: skip
    name = second.name
    return CoupledSystem(
        [first, second], [("engine.torque", f"{name}.torque"), (f"{name}.speed", "engine.speed")],
        [("engine.torque", f"{name}.speed")], omega, name,
        {"omega": omega, "inertia": inertia, "pump": pump, "dynamometer": bench, "firing": firing},
    )  # fmt: skip
