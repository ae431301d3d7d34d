"""Friction, clutches, rotors, beams, tyres, rings and stars of masses."""

from __future__ import annotations

import math

from tools.calibration.kinds.build import Values, above_zero, couple, draws, make, smooth_step
from tools.calibration.parts import Part
from tools.calibration.systems import CoupledSystem, Random


def stick_slip(random: Random) -> CoupledSystem:
    """A mass on a belt with friction that decreases with speed, coupled to a second mass."""
    n = draws(random)
    m, k, belt, grip = n(1.0), n(40.0), n(0.3), n(6.0)

    def sliding(t: float, x: Values, u: Values) -> list[float]:
        slip = belt - x[1]
        friction = grip * math.tanh(slip / 0.02) * (0.6 + 0.4 * math.exp(-abs(slip) / 0.2))
        return [x[1], (friction - k * (x[0] - u[0]) - 1.0 * (x[1] - u[1])) / m]

    tied = make("tied", ("x v", "x v"), [0.0, 0.0], 10.0, lambda t, x, u: [
        x[1], (k * (u[0] - x[0]) + (u[1] - x[1]) - 60.0 * x[0] - 0.5 * x[1]) / 2.0])  # fmt: skip
    parts = [make("sliding", ("x v", "x v"), [0.0, 0.0], 320.0, sliding), tied]
    wires = "sliding.x>tied.x sliding.v>tied.v tied.x>sliding.x tied.v>sliding.v"
    return couple(parts, wires, math.sqrt(k / m) * 2.0, 8.0)


def clutch(random: Random) -> CoupledSystem:
    """An engine that accelerates alone until a clutch closes and drives a second inertia."""
    n = draws(random)
    engine, load, k, torque = n(0.2), n(1.0), n(120.0), n(8.0)
    at = n(2.0)

    def grip(t: float, slip: float) -> float:
        return 30.0 * smooth_step(t, at, 0.02) * math.tanh(slip / 2.0)

    first = make("engine", ("speed", "torque speed"), [20.0], 90.0, lambda t, x, u: [
        (torque - 0.05 * x[0] - grip(t, x[0] - u[0])) / engine],
        lambda t, x, u: [grip(t, x[0] - u[0]), x[0]], "torque")  # fmt: skip
    second = make("shaft", ("torque", "speed end"), [0.0, 0.0, 0.0], 40.0, lambda t, x, u: [
        (u[0] - k * x[2] - 0.5 * (x[0] - x[1])) / 0.1,
        (k * x[2] + 0.5 * (x[0] - x[1]) - 0.1 * x[1]) / load, x[0] - x[1]])  # fmt: skip
    return couple([first, second], "engine.torque>shaft.torque shaft.speed>engine.speed", 40.0, 5.0)


def late_spring(random: Random) -> CoupledSystem:
    """Two masses that oscillate separately until a spring between them is engaged."""
    n = draws(random)
    w1, w2, k, at = n(5.0), n(7.0), n(80.0), n(4.0)

    def mass(name: str, w: float, start: float) -> Part:
        fastest = 1.5 * math.sqrt(w * w + k)
        return make(name, ("x v", "x v"), [start, 0.0], fastest, lambda t, x, u: [
            x[1], -w * w * x[0] - 0.02 * w * x[1]
            + smooth_step(t, at, 0.01) * (k * (u[0] - x[0]) + 0.2 * (u[1] - x[1]))])  # fmt: skip

    parts = [mass("left", w1, 0.1), mass("right", w2, 0.0)]
    wires = "left.x>right.x left.v>right.v right.x>left.x right.v>left.v"
    return couple(parts, wires, math.sqrt(w1 * w1 + 2.0 * k), 10.0)


def duffing_pair(random: Random) -> CoupledSystem:
    """Two masses on hardening springs, one driven, with a soft spring between."""
    n = draws(random)
    hard, k, drive, w = n(1.5), n(0.4), n(0.5), n(1.4)

    def mass(name: str, push: float, start: float) -> Part:
        return make(name, ("other", "x"), [start, 0.0], 3.0, lambda t, x, u: [
            x[1], -x[0] - hard * x[0] ** 3 - 0.1 * x[1] + k * (u[0] - x[0])
            + push * math.cos(w * t)])  # fmt: skip

    parts = [mass("driven", drive, 0.0), mass("other", 0.0, 0.3)]
    return couple(parts, "driven.x>other.other other.x>driven.other", 2.5, 40.0)


def torsion_pendula(random: Random) -> CoupledSystem:
    """Two pendula joined by a torsion wire; one falls from near its upper position."""
    n = draws(random)
    k, ratio, start = n(3.0), n(0.7), 2.6 * n(1.0) ** 0.3

    def swing(name: str, g: float, angle: float) -> Part:
        return make(name, ("angle rate", "angle rate"), [angle, 0.0], 6.0, lambda t, x, u: [
            x[1], -g * math.sin(x[0]) - 0.15 * x[1]
            + k * (u[0] - x[0]) + 0.05 * (u[1] - x[1])])  # fmt: skip

    parts = [swing("long", 9.81, start), swing("short", 9.81 / ratio, 0.0)]
    wires = (
        "long.angle>short.angle long.rate>short.rate short.angle>long.angle short.rate>long.rate"
    )
    return couple(parts, wires, 5.0, 12.0)


def rotor(random: Random) -> CoupledSystem:
    """An unbalanced rotor that accelerates through its critical speed on soft bearings."""
    n = draws(random)
    k, c, foot, rise = n(4e4), n(15.0), n(2e5), n(40.0)
    m, housing = 1.0, 3.0

    def pull(x: float, v: float, x2: float, v2: float) -> float:
        return k * (x - x2) + c * (v - v2)

    def disk(t: float, x: Values, u: Values) -> list[float]:
        speed, angle = rise * t, 0.5 * rise * t * t
        push = 1e-3 * speed * speed
        return [x[2], x[3], (push * math.cos(angle) - pull(x[0], x[2], u[0], u[2])) / m,
                (push * math.sin(angle) - pull(x[1], x[3], u[1], u[3])) / m]  # fmt: skip

    def bearing(t: float, x: Values, u: Values) -> list[float]:
        return [x[2], x[3], (u[0] - foot * x[0] - 40.0 * x[2]) / housing,
                (u[1] - 1.4 * foot * x[1] - 40.0 * x[3]) / housing]  # fmt: skip

    parts = [make("disk", ("x y vx vy", "fx fy"), [0.0] * 4, 300.0, disk, lambda t, x, u: [
                 pull(x[0], x[2], u[0], u[2]), pull(x[1], x[3], u[1], u[3])], "fx fy"),
             make("bearing", ("fx fy", "x y vx vy"), [0.0] * 4, 320.0, bearing)]  # fmt: skip
    wires = "disk.fx>bearing.fx disk.fy>bearing.fy " + " ".join(
        f"bearing.{port}>disk.{port}" for port in ("x", "y", "vx", "vy")
    )
    return couple(parts, wires, 320.0, 6.0)


def beam_segments(random: Random) -> CoupledSystem:
    """A bar of ten masses, cut in the middle, struck at one end."""
    n = draws(random)
    k, c, hit = n(400.0), n(0.3), n(0.1)

    def segment(name: str, struck: bool) -> Part:
        def rates(t: float, x: Values, u: Values) -> list[float]:
            q, v = [*x[:5], u[0]], [*x[5:], u[1]]
            change = list(x[5:])
            for i in range(5):
                force = k * (q[i + 1] - q[i]) + c * (v[i + 1] - v[i])
                if i:
                    force += k * (q[i - 1] - q[i]) + c * (v[i - 1] - v[i])
                elif struck:
                    force += 10.0 * math.exp(-(((t - 3.0 * hit) / hit) ** 2))
                else:
                    force -= k * q[0]
                change.append(force)
            return change

        return make(name, ("q v", "q v"), [0.0] * 10, 45.0, rates, lambda t, x, u: [x[4], x[9]])

    parts = [segment("left", True), segment("right", False)]
    wires = "left.q>right.q left.v>right.v right.q>left.q right.v>left.v"
    return couple(parts, wires, 2.0 * math.sqrt(k), 3.0)


def tyre(random: Random) -> CoupledSystem:
    """A wheel braked until it nearly locks, and the vehicle."""
    n = draws(random)
    m, wheel, radius, brake = n(350.0), n(1.2), 0.3, n(1000.0)

    def force(speed: float, v: float) -> float:
        slip = (v - radius * speed) / (abs(v) + 0.5)
        return 9.81 * m * math.sin(1.6 * math.atan(9.0 * slip))

    def rates(t: float, x: Values, u: Values) -> list[float]:
        on = smooth_step(t, 0.5, 0.05) - smooth_step(t, 1.6, 0.05)
        return [(radius * force(x[0], u[0]) - brake * on * math.tanh(x[0])) / wheel]

    parts = [make("wheel", ("v", "force speed"), [30.0 / radius], 250.0, rates,
                  lambda t, x, u: [force(x[0], u[0]), x[0]], "force"),
             make("vehicle", ("force", "v"), [30.0], 1.0,
                  lambda t, x, u: [-(u[0] + 0.4 * x[0] * abs(x[0])) / m])]  # fmt: skip
    return couple(parts, "wheel.force>vehicle.force vehicle.v>wheel.v", 40.0, 3.0)


def ring(random: Random) -> CoupledSystem:
    """Four masses in a ring, each coupled to its two neighbours."""
    n = draws(random)
    k, own = n(30.0), [n(4.0) for _ in range(4)]

    def mass(i: int) -> Part:
        w, start = own[i], [0.2, 0.0, -0.1, 0.0][i]
        return make(f"m{i}", ("before after", "x"), [start, 0.0], 12.0, lambda t, x, u: [
            x[1], -w * w * x[0] - 0.4 * x[1] + k * (u[0] + u[1] - 2.0 * x[0])])  # fmt: skip

    wires = " ".join(f"m{i}.x>m{(i + 1) % 4}.before m{i}.x>m{(i - 1) % 4}.after" for i in range(4))
    return couple([mass(i) for i in range(4)], wires, math.sqrt(4.0 * k + 16.0), 8.0)


def star(random: Random) -> CoupledSystem:
    """A heavy hub with three satellites of different frequencies, one driven in resonance."""
    n = draws(random)
    k, drive = [n(10.0), n(40.0), n(160.0)], n(1.0)
    w = math.sqrt(k[1]) * n(1.0)

    def hub(t: float, x: Values, u: Values) -> list[float]:
        pull = sum(a * (b - x[0]) for a, b in zip(k, u, strict=True))
        return [x[1], (pull - 20.0 * x[0] - 0.5 * x[1]) / 5.0]

    def satellite(i: int) -> Part:
        push = drive if i == 1 else 0.0
        return make(f"s{i}", ("hub", "x"), [0.1 if i == 2 else 0.0, 0.0], math.sqrt(k[i]) + 1.0,
                    lambda t, x, u: [x[1], k[i] * (u[0] - x[0]) - 0.1 * x[1]
                                     + push * math.sin(w * t)])  # fmt: skip

    parts = [make("hub", ("x0 x1 x2", "x"), [0.0, 0.0], 8.0, hub), *map(satellite, range(3))]
    wires = " ".join(f"s{i}.x>hub.x{i} hub.x>s{i}.hub" for i in range(3))
    return couple(parts, wires, math.sqrt(max(k)) * 1.1, 15.0)


def cam_and_valve(random: Random) -> CoupledSystem:
    """A valve lifted by a rotating cam; at speed it loses contact and hits its seat."""
    n = draws(random)
    k, stiff, w = n(900.0), n(4e4), n(28.0)

    def contact(depth: float, rate: float) -> float:
        return stiff * above_zero(depth, 1e-4) * (1.0 + 0.3 * math.tanh(rate))

    def camshaft(t: float, x: Values, u: Values) -> list[float]:
        return [x[1], (4.0 * (w - x[1]) - 0.02 * u[0] * math.cos(x[0])) / 0.05]

    def valve(t: float, x: Values, u: Values) -> list[float]:
        seat = contact(-x[0], -x[1])
        return [
            x[1],
            (contact(u[0] - x[0], u[1] - x[1]) + seat - k * x[0] - 20.0 - 2.0 * x[1]) / 0.3,
        ]

    parts = [make("cam", ("force", "lift rate"), [0.0, w], 80.0, camshaft, lambda t, x, u: [
                 0.02 * math.sin(x[0]), 0.02 * x[1] * math.cos(x[0])]),
             make("valve", ("lift rate", "force x"), [0.0, 0.0], 500.0, valve, lambda t, x, u: [
                 contact(u[0] - x[0], u[1] - x[1]), x[0]], "force")]  # fmt: skip
    wires = "cam.lift>valve.lift cam.rate>valve.rate valve.force>cam.force"
    return couple(parts, wires, 150.0, 1.0)
