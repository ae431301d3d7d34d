"""Kinds of the third trial: machines, circuits and plants. No rule was chosen on them."""

from __future__ import annotations

import math

from tools.calibration.kinds.build import (
    Values,
    above_zero,
    couple,
    draws,
    make,
    root,
    schmitt,
    smooth_step,
)
from tools.calibration.parts import Part
from tools.calibration.systems import CoupledSystem, Random


def junction(random: Random) -> CoupledSystem:
    """A Josephson junction whose bias rises beyond its critical current, and a resonator."""
    n = draws(random)
    bias, damp, own, grip = n(1.4), n(0.4), n(1.6), n(0.15)

    def phase(t: float, x: Values, u: Values) -> list[float]:
        current = bias * smooth_step(t, 25.0, 4.0) + 0.2
        return [x[1], current - damp * x[1] - math.sin(x[0]) - grip * u[0]]

    parts = [make("junction", ("i", "v"), [0.1, 0.0], 3.0, phase, lambda t, x, u: [x[1]]),
             make("resonator", ("v", "i"), [0.0, 0.0], 3.0, lambda t, x, u: [
                 own * own * (u[0] - x[1]) - 0.3 * x[0], x[0]])]  # fmt: skip
    return couple(parts, "junction.v>resonator.v resonator.i>junction.i", 3.0, 60.0)


def loudspeaker(random: Random) -> CoupledSystem:
    """A coil in a magnet, whose force decreases off centre, and a stiffening cone."""
    n = draws(random)
    pull, coil, stiff, hard = n(6.0), n(6e-4), n(1500.0), n(3e8)

    def factor(x: float) -> float:
        return pull / (1.0 + (x / 4e-3) ** 2)

    def electric(t: float, x: Values, u: Values) -> list[float]:
        drive = 12.0 * math.sin(2.0 * math.pi * 40.0 * t) * smooth_step(t, 0.05, 0.02)
        return [(drive - 6.0 * x[0] - factor(u[0]) * u[1]) / coil]

    parts = [make("coil", ("x v", "i"), [0.0], 1.2e4, electric),
             make("cone", ("i", "x v"), [0.0, 0.0], 1500.0, lambda t, x, u: [
                 x[1], (factor(x[0]) * u[0] - stiff * x[0] - hard * x[0] ** 3
                        - 1.5 * x[1]) / 0.015])]  # fmt: skip
    return couple(parts, "coil.i>cone.i cone.x>coil.x cone.v>coil.v", 800.0, 0.2)


def elevator(random: Random) -> CoupledSystem:
    """A drive that winds up a cabin's rope, which becomes shorter and stiffer."""
    n = draws(random)
    cabin, stiff, gain = n(500.0), n(4e5), n(4000.0)

    def wanted(t: float) -> float:
        return 1.5 * (smooth_step(t, 1.5, 0.3) - smooth_step(t, 9.0, 0.3))

    def force(x: Values, u: Values) -> float:
        length = max(25.0 - x[0], 2.0)
        return stiff / length * (x[0] - u[0]) + 400.0 * (x[1] - u[1])

    parts = [make("drive", ("x v", "force z"), [0.0, 0.0], 70.0, lambda t, x, u: [
                 x[1], (gain * (wanted(t) - x[1]) - force(x, u)) / 300.0],
                 lambda t, x, u: [force(x, u), x[0]], "force"),
             make("cabin", ("force", "x v"), [0.0, 0.0], 20.0, lambda t, x, u: [
                 x[1], (u[0] - 30.0 * x[1]) / cabin])]  # fmt: skip
    return couple(parts, "drive.force>cabin.force cabin.x>drive.x cabin.v>drive.v", 30.0, 12.0)


def water_hammer(random: Random) -> CoupledSystem:
    """A long pipe, a valve that closes suddenly, and an air vessel that absorbs the surge."""
    n = draws(random)
    inert, air, close = n(4.0), n(0.6), n(6.0)

    def valve(t: float) -> float:
        return 1.0 - 0.93 * smooth_step(t, close, 0.03)

    parts = [make("pipe", ("head", "flow"), [0.9], 2.0, lambda t, x, u: [
                 (10.0 - u[0] - 0.8 * x[0] * abs(x[0])) / inert]),
             make("vessel", ("flow", "head"), [1.0], 8.0, lambda t, x, u: [
                 -air * (u[0] - 0.32 * valve(t) * root(10.0 / x[0], 1e-2))],
                 lambda t, x, u: [10.0 / max(x[0], 0.05)])]  # fmt: skip
    return couple(parts, "pipe.flow>vessel.flow vessel.head>pipe.head", 2.0, 25.0)


def wind_turbine(random: Random) -> CoupledSystem:
    """A rotor in gusts, its shaft, and a generator with a torque that grows with speed squared."""
    n = draws(random)
    gust, shaft, torque = n(2.5), n(6.0), n(0.9)

    def power(ratio: float) -> float:
        return 0.45 * math.exp(-(((ratio - 7.0) / 4.0) ** 2))

    def rotor(t: float, x: Values, u: Values) -> list[float]:
        wind = 8.0 + gust * math.sin(0.35 * t) + 2.0 * smooth_step(t, 30.0, 0.5)
        push = 2.2 * power(7.0 * x[0] * 8.0 / wind) * (wind / 8.0) ** 3 / max(x[0], 0.1)
        return [(push - u[0]) / 6.0]

    parts = [make("rotor", ("torque", "speed"), [1.0], 1.0, rotor),
             make("train", ("speed", "torque"), [0.15, 1.0], 6.0, lambda t, x, u: [
                 u[0] - x[1], (shaft * x[0] + 0.3 * (u[0] - x[1]) - torque * x[1] ** 2) / 0.5],
                 lambda t, x, u: [shaft * x[0] + 0.3 * (u[0] - x[1])], "torque")]  # fmt: skip
    return couple(parts, "rotor.speed>train.speed train.torque>rotor.torque", 4.0, 60.0)


def solar_panel(random: Random) -> CoupledSystem:
    """A panel's diode on its cable, and a converter drawing constant power from a capacitor."""
    n = draws(random)
    light, load, farad = n(6.0), n(90.0), n(4e-3)

    def panel(t: float, x: Values, u: Values) -> list[float]:
        sun = light * (1.0 - 0.4 * (smooth_step(t, 0.4, 0.02) - smooth_step(t, 0.7, 0.02)))
        own = sun - 1e-6 * (math.exp(min(x[0] / 1.6, 40.0)) - 1.0)
        return [(own - x[1]) / 1e-3, (x[0] - u[0] - 0.1 * x[1]) / 1e-3]

    def bus(t: float, x: Values, u: Values) -> list[float]:
        taken = load * (0.4 + 0.3 * smooth_step(t, 0.2, 5e-3))
        return [(u[0] - taken * x[0] / (x[0] ** 2 + 20.0)) / farad]

    parts = [make("panel", ("v", "i"), [22.0, 2.0], 4000.0, panel, lambda t, x, u: [x[1]]),
             make("bus", ("i", "v"), [20.0], 300.0, bus)]  # fmt: skip
    return couple(parts, "panel.i>bus.i bus.v>panel.v", 1000.0, 1.0)


def shimmy(random: Random) -> CoupledSystem:
    """A trailed wheel above its flutter speed, on a frame with lateral compliance."""
    n = draws(random)
    grip, speed, own = n(30.0), n(6.0), n(14.0)

    def wheel(t: float, x: Values, u: Values) -> list[float]:
        drift = speed * math.sin(x[0]) - 0.12 * x[1] - u[0] - speed * x[2] / 0.1
        return [x[1], (-0.12 * grip * math.tanh(x[2] / 0.02) - 0.05 * x[1]) / 0.05, drift]

    parts = [make("wheel", ("v", "force"), [0.02, 0.0, 0.0], 90.0, wheel,
                  lambda t, x, u: [grip * math.tanh(x[2] / 0.02)]),
             make("frame", ("force", "v"), [0.0, 0.0], 20.0, lambda t, x, u: [
                 (u[0] - 6.0 * x[0]) / 4.0 - own**2 * x[1], x[0]])]  # fmt: skip
    return couple(parts, "wheel.force>frame.force frame.v>wheel.v", 25.0, 6.0)


def pantograph(random: Random) -> CoupledSystem:
    """A pantograph under a wire whose stiffness changes from mast to mast; it may lift off."""
    n = draws(random)
    wire, span, push = n(2500.0), n(6.0), n(90.0)

    def contact(gap: float, rate: float) -> float:
        return above_zero(gap, 1e-3) * (8000.0 + 60.0 * rate)

    def head(t: float, x: Values, u: Values) -> list[float]:
        force = contact(x[0] - u[0], x[1] - u[1])
        return [x[1], (push + 2000.0 * (0.03 - x[0]) - 60.0 * x[1] - force) / 9.0]

    def catenary(t: float, x: Values, u: Values) -> list[float]:
        stiff = wire * (1.0 + 0.5 * math.cos(span * t))
        return [x[1], (u[0] - stiff * x[0] - 40.0 * x[1]) / 12.0]

    parts = [make("head", ("x v", "force z"), [0.03, 0.0], 40.0, head, lambda t, x, u: [
                 contact(x[0] - u[0], x[1] - u[1]), x[0]], "force"),
             make("wire", ("force", "x v"), [0.02, 0.0], 25.0, catenary)]  # fmt: skip
    return couple(parts, "head.force>wire.force wire.x>head.x wire.v>head.v", 40.0, 6.0)


def mooring(random: Random) -> CoupledSystem:
    """A buoy in waves, and a float on a rope that becomes slack."""
    n = draws(random)
    rope, wave, own = n(60.0), n(1.1), n(1.8)

    def pull(stretch: float) -> float:
        return rope * above_zero(stretch, 0.02)

    def buoy(t: float, x: Values, u: Values) -> list[float]:
        sea = 1.2 * math.sin(wave * t) + 0.5 * math.sin(1.7 * wave * t)
        return [x[1], own**2 * (sea - x[0]) - 0.4 * x[1] - u[0]]

    parts = [make("buoy", ("force", "x"), [0.0, 0.0], 3.0, buoy),
             make("float", ("x", "force z"), [0.3, 0.0], 12.0, lambda t, x, u: [
                 x[1], (pull(u[0] - x[0] - 0.2) - 1.5 * x[0] - 0.8 * x[1] * abs(x[1])) / 0.8],
                 lambda t, x, u: [pull(u[0] - x[0] - 0.2), x[0]], "force")]  # fmt: skip
    return couple(parts, "buoy.x>float.x float.force>buoy.force", 9.0, 30.0)


def cold_store(random: Random) -> CoupledSystem:
    """A compressor switched with hysteresis, an evaporator, and goods with a surface layer."""
    n = draws(random)
    cool, width, warm = n(1.6), n(0.6), n(0.25)

    def plant(t: float, x: Values, u: Values) -> list[float]:
        return [schmitt(x[0], 0.385 * (u[0] - 4.0) / width, 0.4),
                (0.5 * (1.0 + x[0]) * cool - x[1]) / 2.0]  # fmt: skip

    def room(t: float, x: Values, u: Values) -> list[float]:
        door = 1.5 * (smooth_step(t, 50.0, 0.3) - smooth_step(t, 58.0, 0.3))
        return [warm * (12.0 + 6.0 * door - x[0]) / 2.0 + 0.3 * (x[1] - x[0]) - u[0],
                0.05 * (x[0] - x[1])]  # fmt: skip

    parts = [make("plant", ("air", "cold"), [-1.0, 0.0], 8.0, plant, lambda t, x, u: [x[1]]),
             make("room", ("cold", "air goods"), [6.0, 5.0], 1.0, room)]  # fmt: skip
    return couple(parts, "plant.cold>room.cold room.air>plant.air", 2.0, 100.0)


def drill_string(random: Random) -> CoupledSystem:
    """A top drive that turns a bit at the end of long pipes; the bit sticks and breaks loose."""
    n = draws(random)
    pipe, rock, speed = n(470.0), n(4500.0), n(9.0)

    def top(t: float, x: Values, u: Values) -> list[float]:
        wanted = speed * smooth_step(t, 4.0, 2.0)
        return [x[1], (9000.0 * (wanted - x[1]) - pipe * (x[0] - u[0]) - 50.0 * x[1]) / 2000.0]

    def bit(t: float, x: Values, u: Values) -> list[float]:
        holds = rock * math.tanh(x[1] / 0.3) * (0.55 + 0.45 * math.exp(-abs(x[1]) / 2.0))
        return [x[1], (pipe * (u[0] - x[0]) - 40.0 * x[1] - holds) / 370.0]

    parts = [make("top", ("angle", "angle"), [0.0, 0.0], 6.0, top),
             make("bit", ("angle", "angle"), [0.0, 0.0], 60.0, bit)]  # fmt: skip
    return couple(parts, "top.angle>bit.angle bit.angle>top.angle", 3.0, 40.0)


def micro_mirror(random: Random) -> CoupledSystem:
    """A plate above an electrode, driven through a resistor near the pull-in voltage."""
    n = draws(random)
    drive, own, lag = n(0.4), n(1.0), n(0.4)

    def plate(t: float, x: Values, u: Values) -> list[float]:
        gap = max(1.0 - x[0], 0.15)
        stop = 40.0 * above_zero(x[0] - 0.7, 0.01)
        return [x[1], own**2 * (-x[0] + 0.5 * u[0] ** 2 / gap**2 - stop) - 0.3 * x[1]]

    def source(t: float, x: Values, u: Values) -> list[float]:
        wanted = drive * smooth_step(t, 5.0, 1.0) + 0.15 * math.sin(0.6 * t)
        return [(wanted - x[0] * max(1.0 - u[0], 0.15) ** -1) / lag]

    parts = [make("source", ("x", "v"), [0.0], 12.0, source),
             make("plate", ("v", "x"), [0.0, 0.0], 8.0, plate)]  # fmt: skip
    return couple(parts, "source.v>plate.v plate.x>source.x", 2.5, 50.0)


def tether(random: Random) -> CoupledSystem:
    """Two satellites in one orbit on a tether that becomes slack."""
    n = draws(random)
    stiff, rate, away = n(3.0), n(0.25), n(2.2)

    def body(name: str, x: float, vy: float) -> Part:
        def rates(t: float, s: Values, u: Values) -> list[float]:
            dx, dy = u[0] - s[0], u[1] - s[1]
            length = math.hypot(math.hypot(dx, dy), 1e-3)
            pull = stiff * above_zero(length - 2.0, 0.02) / length
            return [s[2], s[3], 2.0 * rate * s[3] + 3.0 * rate**2 * s[0] + pull * dx - 0.05 * s[2],
                    -2.0 * rate * s[2] + pull * dy - 0.05 * s[3]]  # fmt: skip

        return make(name, ("x y", "x y"), [x, 0.0, 0.0, vy], 3.0, rates)

    parts = [body("upper", 0.5 * away, 0.1), body("lower", -0.5 * away, -0.15)]
    wires = "upper.x>lower.x upper.y>lower.y lower.x>upper.x lower.y>upper.y"
    return couple(parts, wires, 2.5, 40.0)
