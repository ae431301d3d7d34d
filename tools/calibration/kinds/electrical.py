"""Circuits, converters, motors, and controlled plants."""

from __future__ import annotations

import math

from tools.calibration.kinds.build import Values, couple, draws, make, smooth_step
from tools.calibration.parts import Part
from tools.calibration.systems import CoupledSystem, Random


def resonant_circuit(random: Random) -> CoupledSystem:
    """A source with a coil, near resonance with a capacitor and its load."""
    n = draws(random)
    coil, ohm, farad, load = n(0.01), n(0.4), n(1e-4), n(60.0)
    own = 1.0 / math.sqrt(coil * farad)
    w = own * n(0.9)
    line = make(
        "line",
        ("v", "i"),
        [0.0],
        ohm / coil + w,
        lambda t, x, u: [(10.0 * math.sin(w * t) - ohm * x[0] - u[0]) / coil],
    )
    node = make(
        "node",
        ("i", "v"),
        [0.0],
        1.0 / (load * farad),
        lambda t, x, u: [(u[0] - x[0] / load) / farad],
    )
    return couple([line, node], "line.i>node.i node.v>line.v", own, 60.0 / own)  # fmt: skip


def constant_power(random: Random) -> CoupledSystem:
    """An averaged converter with control, and a load of constant power, which later increases."""
    n = draws(random)
    coil, farad, gain, reset = n(1e-3), n(1e-3), n(0.5), n(40.0)
    first, more = n(60.0), n(90.0)

    def converter(t: float, x: Values, u: Values) -> list[float]:
        duty = 48.0 + gain * (48.0 - u[0]) + x[1]
        return [(100.0 * math.tanh(duty / 100.0) - u[0] - 0.05 * x[0]) / coil,
                reset * (48.0 - u[0])]  # fmt: skip

    def load(t: float, x: Values, u: Values) -> list[float]:
        power = first + more * smooth_step(t, 0.03, 2e-4)
        return [(u[0] - power * x[0] / (x[0] * x[0] + 4.0) - x[0] / 20.0) / farad]

    parts = [make("converter", ("v", "i"), [2.0, 0.0], 150.0, converter),
             make("load", ("i", "v"), [47.0], 200.0, load)]  # fmt: skip
    return couple(parts, "converter.i>load.i load.v>converter.v", 1.0 / math.sqrt(1e-6), 0.08)


def chopper(random: Random) -> CoupledSystem:
    """A switch of fixed frequency that feeds a coil, and a filter whose voltage is fed back."""
    n = draws(random)
    coil, farad, load = n(2e-3), n(2e-4), n(5.0)
    w, duty = 2.0 * math.pi * n(1000.0), 0.3 * n(1.0)

    def switch(t: float, x: Values, u: Values) -> list[float]:
        on = 0.5 * (1.0 + math.tanh(6.0 * (math.sin(w * t) + duty)))
        return [(24.0 * on - u[0] - 0.1 * x[0]) / coil]

    parts = [make("switch", ("v", "i"), [0.0], 4.0 * w, switch),
             make("filter", ("i", "v"), [0.0], 1.0 / (load * farad),
                  lambda t, x, u: [(u[0] - x[0] / load) / farad])]  # fmt: skip
    return couple(parts, "switch.i>filter.i filter.v>switch.v", w / 3.0, 0.03)


def rectifier(random: Random) -> CoupledSystem:
    """A generator behind a coil charges a capacitor through a diode."""
    n = draws(random)
    coil, farad, load, w = n(5e-3), n(4e-4), n(80.0), 2.0 * math.pi * n(50.0)

    def diode(v: float) -> float:
        v = v / 0.5
        return 0.5 * (v if v > 30.0 else math.log1p(math.exp(v)))

    def generator(t: float, x: Values, u: Values) -> list[float]:
        return [(30.0 * math.sin(w * t) - 1.0 * x[0] - x[1]) / coil,
                (x[0] - diode(x[1] - u[0]) / 2.0) / 2e-5]  # fmt: skip

    parts = [make("generator", ("v", "i"), [0.0, 0.0], 2.5e4, generator,
                  lambda t, x, u: [diode(x[1] - u[0]) / 2.0], "i"),
             make("smoothing", ("i", "v"), [0.0], 1.0 / (load * farad),
                  lambda t, x, u: [(u[0] - x[0] / load) / farad])]  # fmt: skip
    return couple(parts, "generator.i>smoothing.i smoothing.v>generator.v", 4.0 * w, 0.1)


def motor_and_gear(random: Random) -> CoupledSystem:
    """A speed-controlled motor's current; a gear with play turns a load."""
    n = draws(random)
    coil, ohm, k, gain = n(2e-3), n(0.5), n(0.1), n(0.4)
    rotor, load, stiff, play = n(1e-3), n(4e-3), n(30.0), n(0.02)

    def motor(t: float, x: Values, u: Values) -> list[float]:
        wanted = 60.0 * smooth_step(t, 0.05, 5e-3) - 90.0 * smooth_step(t, 0.4, 5e-3)
        v = 24.0 * math.tanh((gain * (wanted - u[0]) + x[1]) / 24.0)
        return [(v - ohm * x[0] - k * u[0]) / coil, 5.0 * (wanted - u[0])]

    def gear(t: float, x: Values, u: Values) -> list[float]:
        d, rate = x[2], x[0] - x[1]
        open_by = play * math.tanh(d / play)
        twist = stiff * (d - open_by) + 0.03 * rate
        return [(u[0] - twist - 1e-3 * x[0]) / rotor,
                (twist - 2e-3 * x[1] - 0.05 * math.tanh(x[1])) / load, rate]  # fmt: skip

    parts = [make("motor", ("speed", "torque"), [0.0, 0.0], 300.0, motor,
                  lambda t, x, u: [k * x[0]]),
             make("gear", ("torque", "speed load"), [0.0, 0.0, 0.0], 350.0, gear)]  # fmt: skip
    return couple(parts, "motor.torque>gear.torque gear.speed>motor.speed", 150.0, 0.8)


def controlled_plant(random: Random) -> CoupledSystem:
    """A saturating controller with an integral, and a plant with four lags (a dead time)."""
    n = draws(random)
    gain, reset, lag, slow = n(2.2), n(0.8), n(0.12), n(1.5)

    def controller(t: float, x: Values, u: Values) -> list[float]:
        wanted = smooth_step(t, 1.0, 0.02) + 2.0 * smooth_step(t, 12.0, 0.02)
        asked = gain * (wanted - u[0]) + x[1]
        given = 2.5 * math.tanh(asked / 2.5)
        return [(given - x[0]) / 0.05, reset * (wanted - u[0]) + (given - asked) / 0.8]

    def plant(t: float, x: Values, u: Values) -> list[float]:
        before = [u[0], *x[1:4]]
        chain = [(a - b) / lag for a, b in zip(before, x[1:5], strict=True)]
        return [(1.2 * x[4] - x[0]) / slow, *chain]

    parts = [make("controller", ("y", "u"), [0.0, 0.0], 20.0, controller),
             make("plant", ("u", "y"), [0.0] * 5, 1.0 / lag, plant)]  # fmt: skip
    return couple(parts, "controller.u>plant.u plant.y>controller.y", 4.0, 25.0)


def levitation(random: Random) -> CoupledSystem:
    """A ball below a magnet, unstable without its current controller."""
    n = draws(random)
    m, c, gap = n(0.05), n(1e-4), 0.01
    still = gap * math.sqrt(m * 9.81 / c)
    p, d = n(900.0) * still / 1.5, n(18.0) * still / 1.5

    def magnet(t: float, x: Values, u: Values) -> list[float]:
        wanted = gap + 1.5e-3 * smooth_step(t, 0.3, 2e-3)
        i = still + p * (u[0] - wanted) * 0.5 + d * u[1] * 0.5
        return [(max(i, 0.0) - x[0]) / 4e-3]

    def ball(t: float, x: Values, u: Values) -> list[float]:
        distance = max(x[0], 1e-3)
        return [x[1], 9.81 - c / m * (u[0] / distance) ** 2]

    parts = [make("magnet", ("gap rate", "i"), [still], 250.0, magnet),
             make("ball", ("i", "gap rate"), [gap * 1.05, 0.0], 60.0, ball)]  # fmt: skip
    return couple(parts, "magnet.i>ball.i ball.gap>magnet.gap ball.rate>magnet.rate", 60.0, 1.0)


def van_der_pol_pair(random: Random) -> CoupledSystem:
    """Two coupled oscillators that start close to their unstable equilibrium."""
    n = draws(random)
    mu, k, ratio = n(1.0), n(0.3), n(1.15)

    def oscillator(name: str, w: float, start: float) -> Part:
        return make(name, ("other", "x"), [start, 0.0], 4.0, lambda t, x, u: [
            x[1], mu * (1.0 - x[0] * x[0]) * x[1] - w * w * x[0] + k * (u[0] - x[0])])  # fmt: skip

    parts = [oscillator("left", 1.0, 0.05), oscillator("right", ratio, -0.02)]
    return couple(parts, "left.x>right.other right.x>left.other", 2.0, 40.0)


def battery(random: Random) -> CoupledSystem:
    """A cell whose voltage decreases with its charge, and a pulsed load of constant power."""
    n = draws(random)
    ohm, polar, tau, amount = n(0.02), n(0.03), n(8.0), n(900.0)
    power, every = n(60.0), n(25.0)

    def voltage(x: Values, u: Values) -> float:
        rest = 3.4 + 0.6 * x[1] + 0.15 * math.log(max(x[1], 1e-4))
        return 4.0 * (rest - x[0] - ohm * u[0])

    def load(t: float, x: Values, u: Values) -> list[float]:
        asked = power * (0.3 + 0.7 / (1.0 + math.exp(-40.0 * math.sin(6.283 * t / every))))
        return [(asked / max(u[0], 2.0) - x[0]) / 0.4]

    parts = [make("cell", ("i", "v"), [0.0, 0.4], 0.3, lambda t, x, u: [
                 (polar * u[0] - x[0]) / tau, -u[0] / amount],
                 lambda t, x, u: [voltage(x, u)], "v"),
             make("load", ("v", "i"), [0.0], 10.0, load)]  # fmt: skip
    return couple(parts, "cell.v>load.v load.i>cell.i", 2.5, 60.0)
