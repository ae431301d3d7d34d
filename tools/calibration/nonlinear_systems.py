"""Draws of nonlinear systems: masses with nonlinear springs and dampers; pendula."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hilrt.solver import Port
from tools.calibration.linear_systems import draw_damping
from tools.calibration.parts import Part, Values
from tools.calibration.systems import CoupledSystem, Random, draw_sines, log_uniform

Law = Callable[[float], float]
GRAVITY = 9.81  #: m/s²


def excitation(sines: list[tuple[float, float, float]]) -> Callable[[float], float]:
    """Sum of sines, given as (amplitude, ω, phase)."""
    if not sines:
        return lambda t: 0.0
    return lambda t: sum(a * math.sin(w * t + p) for a, w, p in sines)


def _draw_spring(random: Random, size: float) -> tuple[str, Law, float]:
    """Force over stiffness by deflection, and the greatest slope at deflections of `size`."""
    kind = str(random.choice(["cubic", "saturating", "clearance"]))
    if kind == "cubic":
        b = log_uniform(random, 0.1, 3.0) / size**2
        return kind, lambda x: x + b * x * x * x, 1.0 + 3.0 * b * (1.5 * size) ** 2
    if kind == "saturating":
        s = size * log_uniform(random, 0.3, 3.0)
        return kind, lambda x: s * math.tanh(x / s), 1.0
    gap, soft = size * log_uniform(random, 0.03, 0.5), 0.02 * size

    def clearance(x: float) -> float:
        right, left = x - gap, -x - gap
        return 0.5 * (right + math.hypot(right, soft) - left - math.hypot(left, soft))

    return kind, clearance, 1.0


def _draw_damper(random: Random, size: float) -> tuple[str, Law, float]:
    """Force relative to damping by rate, and the greatest slope at rates of `size`."""
    kind = str(random.choice(["linear", "quadratic", "dry"]))
    if kind == "linear":
        return kind, lambda v: v, 1.0
    if kind == "quadratic":
        return kind, lambda v: v * abs(v) / size, 4.0
    width = 0.1 * size
    return kind, lambda v: width * math.tanh(v / width), 1.0


def nonlinear(random: Random) -> CoupledSystem:
    """Two masses with nonlinear coupling and walls; coupled by force and motion, or motion only."""
    omega = 2.0 * np.pi * log_uniform(random, 0.3, 50.0)
    size = log_uniform(random, 1e-3, 10.0)
    m1 = log_uniform(random, 0.05, 200.0)
    m2 = m1 * log_uniform(random, 0.1, 10.0)
    reduced = m1 * m2 / (m1 + m2)
    k, zeta = reduced * omega**2, draw_damping(random)
    c = 2.0 * zeta * reduced * omega
    spring_name, spring, slope = _draw_spring(random, size)
    damper_name, damper, steep = _draw_damper(random, size * omega)
    motions = bool(random.random() < 0.3)

    def coupling(x1: float, v1: float, x2: float, v2: float) -> float:
        return k * spring(x1 - x2) + c * damper(v1 - v2)

    fastest = omega * math.sqrt(slope) * (1.0 + m2 / m1) + c * steep / min(m1, m2)
    motion = Motion(omega, size, fastest, spring)
    first = _mass(
        "one", m1, random, motion, coupling, ("force", "x", "v"), np.array([-k * slope, -c])
    )
    if motions:
        second = _mass("two", m2, random, motion, coupling, ("x", "v"), np.zeros(2))
        connections = [("one.x", "two.x2"), ("one.v", "two.v2")]
        bonds: list[tuple[str, str]] = []
    else:
        second = _mass("two", m2, random, motion, None, ("v", "x"), np.zeros(1))
        connections = [("one.force", "two.force")]
        bonds = [("one.force", "two.v")]
    connections += [("two.x", "one.x2"), ("two.v", "one.v2")]
    settings = {"spring": spring_name, "damper": damper_name, "omega": omega, "zeta": zeta}
    return CoupledSystem(
        [first, second], connections, bonds, omega * math.sqrt(slope), "two",
        {**settings, "motions": motions},
    )  # fmt: skip


class Motion(NamedTuple):
    """Common to both masses: frequency [rad/s], deflection [m], fastest motion [rad/s], spring."""

    omega: float
    size: float
    fastest: float
    spring: Law


def _mass(
    name: str,
    m: float,
    random: Random,
    motion: Motion,
    reaction: Callable[[float, float, float, float], float] | None,
    outputs: tuple[str, ...],
    through: np.ndarray,
) -> Part:
    """A mass on a wall spring of the same law, with the coupling force or under it."""
    omega, size, fastest, spring = motion
    wall = m * (omega * log_uniform(random, 0.05, 0.7)) ** 2
    drag = 2.0 * draw_damping(random) * math.sqrt(wall * m)
    push = excitation(draw_sines(random, 0.5 * wall * size, omega, fewest=0))

    def rates(t: float, x: Values, u: Values) -> list[float]:
        acting = u[0] if reaction is None else -reaction(x[0], x[1], u[0], u[1])
        return [x[1], (acting + push(t) - wall * spring(x[0]) - drag * x[1]) / m]

    def output(t: float, x: Values, u: Values) -> list[float]:
        y = {"x": x[0], "v": x[1]}
        if reaction is not None:
            y["force"] = reaction(x[0], x[1], u[0], u[1])
        return [y[port] for port in outputs]

    units = {"x": "m", "v": "m/s", "force": "N"}
    if reaction is None:
        inputs: tuple[Port, ...] = (Port("force", "N"),)
    else:
        inputs = (Port("x2", "m"), Port("v2", "m/s"))
    feedthrough = np.zeros((len(outputs), len(inputs)))
    ports = []
    for i, port in enumerate(outputs):
        direct = tuple(p.name for p in inputs) if port == "force" else ()
        if direct:
            feedthrough[i] = through
        ports.append(Port(port, units[port], feedthrough=direct))
    start = [size * float(random.normal()), size * omega * 0.5 * float(random.normal())]
    return Part(name, inputs, tuple(ports), start, fastest, feedthrough, rates, output)


@dataclass
class TwoPendula:
    """Two pendula in a plane, a spring and a damper between their tips.

    `natural` is the spring's unloaded length, m; `push` an angular acceleration of the first.
    """

    length: tuple[float, float]
    mass: tuple[float, float]
    pivot2: float
    k: float
    c: float
    natural: float
    drag: list[float] = field(default_factory=list)
    push: Law = lambda t: 0.0

    def force(self, x: Values, u: Values) -> tuple[float, float]:
        """Force on the other tip, at the position u[:2] with the velocity u[2:]."""
        length = self.length[0]
        s, co, v = math.sin(x[0]), math.cos(x[0]), length * x[1]
        dx, dy = u[0] - length * s, u[1] + length * co
        distance = math.hypot(dx, dy)
        dx, dy = dx / distance, dy / distance
        damping = self.c * ((u[2] - v * co) * dx + (u[3] - v * s) * dy)
        pull = self.k * (distance - self.natural) + damping
        return -pull * dx, -pull * dy

    def swing(self, i: int, x: Values, fx: float, fy: float, extra: float) -> list[float]:
        """Rates of pendulum `i` under a force on its tip."""
        s, co = math.sin(x[0]), math.cos(x[0])
        pushed = co * fx + s * (fy - self.mass[i] * GRAVITY)
        pushed = pushed / (self.mass[i] * self.length[i])
        return [x[1], pushed + extra - self.drag[i] * x[1]]

    def first_rates(self, t: float, x: Values, u: Values) -> list[float]:
        """Derivatives of the first pendulum, which computes the coupling force."""
        fx, fy = self.force(x, u)
        return self.swing(0, x, -fx, -fy, self.push(t))

    def second_rates(self, t: float, x: Values, u: Values) -> list[float]:
        """Derivatives of the second pendulum under the coupling force."""
        return self.swing(1, x, u[0], u[1], 0.0)

    def second_output(self, t: float, x: Values, u: Values) -> list[float]:
        """Velocity and position of its tip."""
        length = self.length[1]
        s, co, v = math.sin(x[0]), math.cos(x[0]), length * x[1]
        return [v * co, v * s, self.pivot2 + length * s, -length * co]


def pendula(random: Random) -> CoupledSystem:
    """Two pendula in a plane, coupled at their tips by a spring and a damper."""
    length = (log_uniform(random, 0.2, 3.0), log_uniform(random, 0.2, 3.0))
    mass = (log_uniform(random, 0.1, 20.0), log_uniform(random, 0.1, 20.0))
    pivot2 = (length[0] + length[1]) * float(random.uniform(1.2, 4.0))
    angles = [float(random.normal()) * log_uniform(random, 0.05, 1.0) for _ in range(2)]
    own = math.sqrt(GRAVITY / min(length))
    reduced = mass[0] * mass[1] / (mass[0] + mass[1])
    ratio = log_uniform(random, 0.3, 4.0)
    k = reduced * (ratio * own) ** 2
    c = 2.0 * draw_damping(random) * math.sqrt(k * reduced)
    natural = math.hypot(
        pivot2 + length[1] * math.sin(angles[1]) - length[0] * math.sin(angles[0]),
        length[0] * math.cos(angles[0]) - length[1] * math.cos(angles[1]),
    )
    natural *= float(random.uniform(0.9, 1.0))
    two = TwoPendula(length, mass, pivot2, k, c, natural)
    two.drag = [2.0 * draw_damping(random) * own * 0.2 for _ in range(2)]
    sines = draw_sines(random, 0.3 * own**2 * max(map(abs, angles)), own, fewest=0)
    two.push = excitation(sines)
    through = np.zeros((3, 4))
    through[:2] = [[-k, 0.0, -c, 0.0], [0.0, 0.0, 0.0, 0.0]]
    fastest = 2.0 * own * (1.0 + ratio * math.sqrt(2.0)) + 2.0 * c / min(mass)
    first = Part(
        "one", (Port("x2", "m", size=2), Port("v2", "m/s", size=2)),
        (Port("force", "N", size=2, feedthrough=("x2", "v2")), Port("angle", "rad")),
        [angles[0], 0.0], fastest, through, two.first_rates,
        lambda t, x, u: [*two.force(x, u), x[0]],
    )  # fmt: skip
    second = Part(
        "two", (Port("force", "N", size=2),), (Port("v", "m/s", size=2), Port("x", "m", size=2)),
        [angles[1], 0.0], fastest, np.zeros((4, 2)), two.second_rates, two.second_output,
    )  # fmt: skip
    return CoupledSystem(
        [first, second],
        [("one.force", "two.force"), ("two.x", "one.x2"), ("two.v", "one.v2")],
        [("one.force", "two.v")],
        own * max(1.0, math.sqrt(1.0 + ratio**2)),
        "two",
        {"lengths": length, "masses": mass, "angles": angles, "ratio": ratio},
    )
