"""Kinds of the second trial: they affected the rules of the verdict only after that trial."""

from __future__ import annotations

import math

from tools.calibration.kinds.build import (
    Values,
    above_zero,
    couple,
    draws,
    make,
    schmitt,
    smooth_step,
)
from tools.calibration.parts import Part
from tools.calibration.systems import CoupledSystem, Random


def neurons(random: Random) -> CoupledSystem:
    """Two spiking cells (FitzHugh and Nagumo's); the second fires when excited by the first."""
    n = draws(random)
    drive, grip, slow = n(0.6), n(0.4), n(0.08)

    def cell(name: str, current: float, grip: float) -> Part:
        return make(name, ("other", "v"), [-1.0, -0.4], 4.0, lambda t, x, u: [
            x[0] - x[0] ** 3 / 3.0 - x[1] + current + grip * (u[0] - x[0]),
            slow * (x[0] + 0.7 - 0.8 * x[1])])  # fmt: skip

    parts = [cell("first", drive, 0.05), cell("second", 0.0, grip)]
    return couple(parts, "first.v>second.other second.v>first.other", 3.0, 120.0)


def generators(random: Random) -> CoupledSystem:
    """Two machines on a line that temporarily loses most of its capacity by a fault."""
    n = draws(random)
    line, inertia, damp = n(3.0), n(0.06), n(0.02)
    begin, length = n(3.0), n(0.2)

    def machine(name: str, power: float, start: float) -> Part:
        def rates(t: float, x: Values, u: Values) -> list[float]:
            fault = smooth_step(t, begin, 5e-3) - smooth_step(t, begin + length, 5e-3)
            sent = line * (1.0 - 0.9 * fault) * math.sin(x[0] - u[0])
            own = 0.5 * line * math.sin(x[0])
            return [x[1], (power - sent - own - damp * 5.0 * x[1]) / inertia]

        return make(name, ("angle", "angle"), [start, 0.0], 12.0, rates)

    parts = [machine("east", 1.2, 0.4), machine("west", -0.6, -0.1)]
    return couple(parts, "east.angle>west.angle west.angle>east.angle", 9.0, 10.0)


def crane(random: Random) -> CoupledSystem:
    """A trolley driven back and forth, and a load on a rope that is hoisted at the same time."""
    n = draws(random)
    load, gain, long = n(0.4), n(3.0), n(6.0)

    def trolley(t: float, x: Values, u: Values) -> list[float]:
        wanted = 3.0 * math.tanh(3.0 * math.sin(0.4 * t))
        return [(gain * (wanted - x[0]) + load * u[0]) / 1.0]

    def rope(t: float) -> tuple[float, float]:
        return long - 3.0 * smooth_step(t, 12.0, 3.0), -1.0 / math.cosh((t - 12.0) / 3.0) ** 2 / 2.0

    def swing(t: float, x: Values, u: Values) -> list[float]:
        length, change = rope(t)
        rate = (x[1] - u[0] * math.cos(x[0])) / length
        return [rate, -9.81 * math.sin(x[0]) - 0.1 * x[1] - change * rate
                - u[0] * rate * math.sin(x[0])]  # fmt: skip

    parts = [make("trolley", ("force", "v"), [0.0], 3.0, trolley),
             make("load", ("v", "force angle"), [0.05, 0.0], 2.5, swing, lambda t, x, u: [
                 9.81 * math.sin(x[0]) * math.cos(x[0]), x[0]])]  # fmt: skip
    return couple(parts, "trolley.v>load.v load.force>trolley.force", 4.0, 30.0)


def ship_and_tank(random: Random) -> CoupledSystem:
    """A ship rolling in waves near its own period, with a tuned water tank as damper."""
    n = draws(random)
    own, wave, tank = n(0.6), n(0.6), n(0.58)

    def ship(t: float, x: Values, u: Values) -> list[float]:
        push = 0.006 * math.sin(wave * t)
        return [x[1], -own**2 * (x[0] - 0.3 * x[0] ** 3) - 0.02 * x[1] - 0.3 * abs(x[1]) * x[1]
                + push + 0.05 * u[0]]  # fmt: skip

    water = make("tank", ("roll", "level"), [0.0, 0.0], 1.0, lambda t, x, u: [
        x[1], -tank**2 * (x[0] - u[0]) - 0.1 * x[1]])  # fmt: skip
    parts = [make("ship", ("level", "roll"), [0.05, 0.0], 1.0, ship), water]
    return couple(parts, "ship.roll>tank.roll tank.level>ship.level", 0.9, 150.0)


def surge(random: Random) -> CoupledSystem:
    """A compressor and its plenum; the throttle closes until the flow surges (Greitzer's model)."""
    n = draws(random)
    b, at = n(1.2), n(30.0)

    def compressor(t: float, x: Values, u: Values) -> list[float]:
        z = x[0] / 0.25 - 1.0
        return [b * (0.35 + 0.18 * (1.0 + 1.5 * z - 0.5 * z**3) - u[0])]

    def plenum(t: float, x: Values, u: Values) -> list[float]:
        throttle = 0.7 - 0.3 * smooth_step(t, at, 3.0)
        return [(u[0] - throttle * math.sqrt(max(x[0], 1e-3))) / b]

    parts = [make("compressor", ("pressure", "flow"), [0.5], 8.0, compressor),
             make("plenum", ("flow", "pressure"), [0.65], 2.0, plenum)]  # fmt: skip
    return couple(
        parts, "compressor.flow>plenum.flow plenum.pressure>compressor.pressure", 3.0, 90.0
    )


def laser(random: Random) -> CoupledSystem:
    """Photons and inversion of a laser after switching on: spikes, then relaxation."""
    n = draws(random)
    pump, life = n(2.5), n(25.0)

    def pumped(t: float) -> float:
        return pump * (1.0 + 0.2 * smooth_step(t, 90.0, 1.0))

    parts = [make("light", ("gain", "photons"), [1e-3], 6.0,
                  lambda t, x, u: [x[0] * (u[0] - 1.0) + 1e-4]),
             make("medium", ("photons", "gain"), [0.3], 1.0, lambda t, x, u: [
                 (pumped(t) - x[0] * (1.0 + u[0])) / life])]  # fmt: skip
    return couple(parts, "light.photons>medium.photons medium.gain>light.gain", 1.5, 130.0)


def toggle(random: Random) -> CoupledSystem:
    """Two genes that suppress each other; a pulse switches them after a delay."""
    n = draws(random)
    top, pulse = n(6.0), n(8.0)

    def gene(name: str, start: float, at: float) -> Part:
        return make(name, ("other", "amount"), [start], 2.0, lambda t, x, u: [
            top / (1.0 + u[0] ** 3) - x[0]
            + pulse * math.exp(-(((t - at) / 2.0) ** 2))])  # fmt: skip

    parts = [gene("left", 5.0, 55.0), gene("right", 0.1, 25.0)]
    return couple(parts, "left.amount>right.other right.amount>left.other", 2.0, 80.0)


def phase_lock(random: Random) -> CoupledSystem:
    """A phase-locked loop that captures an oscillator after a jump of the reference frequency."""
    n = draws(random)
    gain, slow, jump = n(9.0), n(0.6), n(11.0)

    def detector(t: float, x: Values, u: Values) -> list[float]:
        off = jump * smooth_step(t, 4.0, 0.02)
        return [off - u[0], math.sin(x[0])]

    parts = [make("detector", ("speed", "error sum"), [0.3, 0.0], 10.0, detector,
                  lambda t, x, u: [math.sin(x[0]), x[1]]),
             make("oscillator", ("error sum", "speed"), [0.0], 12.0, lambda t, x, u: [
                 (gain * (u[0] + slow * u[1]) - x[0]) / 0.1])]  # fmt: skip
    wires = "detector.error>oscillator.error detector.sum>oscillator.sum "
    return couple(parts, wires + "oscillator.speed>detector.speed", 10.0, 15.0)


def ladder(random: Random) -> CoupledSystem:
    """A line of coils and capacitors, cut in the middle, with a temporary short at its end."""
    n = draws(random)
    coil, farad, end = n(1.0), n(1.0), n(3.0)

    def near(t: float, x: Values, u: Values) -> list[float]:
        source = math.tanh(t) * math.sin(0.7 * t)
        v, i = [*x[4:8]], [*x[:4]]
        before = [source - 0.8 * i[0], *v[:3]]
        flows = [(b - a) / coil for a, b in zip(v, before, strict=True)]
        return flows + [(i[k] - (i[k + 1] if k < 3 else u[0])) / farad for k in range(4)]

    def far(t: float, x: Values, u: Values) -> list[float]:
        load = 1.0 / end + 4.0 * (smooth_step(t, 30.0, 0.1) - smooth_step(t, 45.0, 0.1))
        before = [u[0], x[3], x[4]]
        flows = [(b - v) / coil for b, v in zip(before, x[3:6], strict=True)]
        drains = [x[1], x[2], load * x[5]]
        return flows + [(i - d) / farad for i, d in zip(x[:3], drains, strict=True)]

    parts = [make("near", ("i", "v"), [0.0] * 8, 2.5, near, lambda t, x, u: [x[7]]),
             make("far", ("v", "i"), [0.0] * 6, 5.0, far)]  # fmt: skip
    return couple(parts, "near.v>far.v far.i>near.i", 2.0, 60.0)


def hopping_ball(random: Random) -> CoupledSystem:
    """A ball bouncing on a vibrating table with soft contact."""
    n = draws(random)
    stiff, loss, shake = n(3e3), n(8.0), n(0.01)

    def contact(depth: float, rate: float) -> float:
        return above_zero(depth, 2e-4) * (stiff + loss * 40.0 * rate)

    def table(t: float, x: Values, u: Values) -> list[float]:
        return [x[1], (3e4 * (shake * math.sin(18.0 * t) - x[0]) - 150.0 * x[1] - u[0]) / 5.0]

    ball = make("ball", ("x v", "force height"), [0.02, 0.0], 130.0, lambda t, x, u: [
        x[1], -9.81 + contact(u[0] - x[0], u[1] - x[1]) / 0.2],
        lambda t, x, u: [contact(u[0] - x[0], u[1] - x[1]), x[0]], "force")  # fmt: skip
    parts = [make("table", ("force", "x v"), [0.0, 0.0], 90.0, table), ball]
    return couple(parts, "table.x>ball.x table.v>ball.v ball.force>table.force", 120.0, 1.5)


def truck_and_trailer(random: Random) -> CoupledSystem:
    """A truck with alternating steering, and a trailer that sways near its own frequency."""
    n = draws(random)
    steer, own, damp, back = n(0.05), n(4.0), n(0.15), n(3.0)

    def truck(t: float, x: Values, u: Values) -> list[float]:
        angle = steer * (math.sin(own * 0.95 * t) if t < 8.0 else math.sin(own * 0.95 * 8.0))
        return [-4.0 * x[0] - 20.0 * x[1] + 60.0 * angle + 0.2 * back * u[0],
                1.5 * x[0] - 5.0 * x[1] + 20.0 * angle - 0.5 * back * u[0]]  # fmt: skip

    trailer = make("trailer", ("rate slip", "angle"), [0.0, 0.0], 7.0, lambda t, x, u: [
        x[1], -own**2 * math.sin(x[0]) - 2.0 * damp * own * x[1]
        - 3.0 * u[0] - 0.4 * u[1]])  # fmt: skip
    parts = [make("truck", ("angle", "slip rate"), [0.0, 0.0], 10.0, truck), trailer]
    wires = "truck.rate>trailer.rate truck.slip>trailer.slip trailer.angle>truck.angle"
    return couple(parts, wires, 7.0, 12.0)


def relay_servo(random: Random) -> CoupledSystem:
    """A drive reversed by a relay with hysteresis: it oscillates about a moving set-point."""
    n = draws(random)
    push, lag, width = n(4.0), n(0.15), n(0.1)

    def relay(t: float, x: Values, u: Values) -> list[float]:
        wanted = math.sin(0.7 * t) + smooth_step(t, 8.0, 0.05)
        return [schmitt(x[0], 0.385 * (wanted - u[0] - 0.3 * u[1]) / width, 0.02)]

    drive = make("drive", ("switch", "x v"), [0.0, 0.0, 0.0], 8.0, lambda t, x, u: [
        x[1], x[2] - 0.6 * x[1], (push * u[0] - x[2]) / lag])  # fmt: skip
    parts = [make("relay", ("x v", "switch"), [1.0], 150.0, relay), drive]
    return couple(parts, "relay.switch>drive.switch drive.x>relay.x drive.v>relay.v", 12.0, 15.0)
