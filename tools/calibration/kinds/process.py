"""Heat, fluids, and reactions in vessels."""

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


def thermostat(random: Random) -> CoupledSystem:
    """A room with a wall, and a heater switched by a thermostat with hysteresis."""
    n = draws(random)
    air, wall, power, width = n(60.0), n(900.0), n(0.25), n(0.8)

    def room(t: float, x: Values, u: Values) -> list[float]:
        outside = 5.0 + 3.0 * math.sin(t / 300.0)
        return [power * u[0] - (x[0] - x[1]) / air, (x[0] - x[1]) / wall + (outside - x[1]) / wall]

    def heater(t: float, x: Values, u: Values) -> list[float]:
        return [schmitt(x[0], 0.385 * (20.0 - u[0]) / width, 1.0), (0.5 + 0.5 * x[0] - x[1]) / 8.0]

    parts = [make("room", ("heat", "temperature"), [18.0, 14.0], 1.0 / air, room),
             make("heater", ("temperature", "heat"), [1.0, 0.0], 3.0, heater,
                  lambda t, x, u: [x[1]])]  # fmt: skip
    return couple(parts, "room.temperature>heater.temperature heater.heat>room.heat", 0.2, 900.0)


def heat_exchanger(random: Random) -> CoupledSystem:
    """Counter-flow with four cells per side; the hot inlet varies."""
    n = draws(random)
    flow, other, over, swing = n(1.2), n(0.8), n(0.7), n(0.9)

    def side(name: str, rate: float, inlet: float, varied: float) -> Part:
        def rates(t: float, x: Values, u: Values) -> list[float]:
            before = [inlet + varied * math.sin(swing * t), *x[:3]]
            return [rate * (b - a) + over * (w - a) for a, b, w in zip(x, before, u, strict=True)]

        return make(name, ("w0 w1 w2 w3", "t0 t1 t2 t3"), [20.0] * 4, rate + over, rates)

    parts = [side("hot", flow, 80.0, 12.0), side("cold", other, 15.0, 0.0)]
    wires = " ".join(f"hot.t{i}>cold.w{3 - i} cold.t{i}>hot.w{3 - i}" for i in range(4))
    return couple(parts, wires, 2.0, 25.0)


def wall_heat(random: Random) -> CoupledSystem:
    """Two halves of a wall exchanging temperature and heat flow; a lamp heats one of them."""
    n = draws(random)
    cell, loss, lamp = n(0.6), n(0.05), n(0.05)

    def lit(t: float, x: Values, u: Values) -> list[float]:
        shine = lamp * (350.0 * smooth_step(math.sin(t / 3.0), 0.0, 0.3))
        radiated = loss * ((x[0] / 300.0) ** 4 - 1.0) * 300.0
        return [(shine - radiated + (x[1] - x[0]) / cell), (x[0] - x[1]) / cell - u[0]]

    def dark(t: float, x: Values, u: Values) -> list[float]:
        flow = 2.0 * (u[0] - x[0]) / cell
        return [flow - (x[0] - x[1]) / cell, (x[0] - x[1]) / cell - 0.2 * (x[1] - 290.0)]

    parts = [make("lit", ("flow", "front edge"), [300.0, 300.0], 4.0, lit,
                  lambda t, x, u: [x[0], x[1]]),
             make("dark", ("edge", "flow"), [300.0, 295.0], 6.0, dark,
                  lambda t, x, u: [2.0 * (u[0] - x[0]) / cell], "flow")]  # fmt: skip
    return couple(parts, "lit.edge>dark.edge dark.flow>lit.flow", 5.0, 40.0)


def tanks(random: Random) -> CoupledSystem:
    """A pump fills a tank, which drains into a second one through a valve that opens and closes."""
    n = draws(random)
    pump, out, wide, upper = n(0.02), n(0.012), n(0.04), n(1.0)

    def first(t: float, x: Values, u: Values) -> list[float]:
        return [pump * (1.0 + 0.4 * math.sin(t / 20.0)) - u[0]]

    def second(t: float, x: Values, u: Values) -> list[float]:
        opening = 0.5 + 0.5 * x[1]
        flow = wide * opening * root(u[0], 0.05)
        return [flow - out * root(x[0], 0.02), schmitt(x[1], 1.2 * (u[0] - upper), 0.8)]

    parts = [make("upper", ("flow", "level"), [0.5], 0.1, first),
             make("lower", ("level", "flow own"), [0.2, -1.0], 4.0, second, lambda t, x, u: [
                 wide * (0.5 + 0.5 * x[1]) * root(u[0], 0.05), x[0]], "flow")]  # fmt: skip
    return couple(parts, "upper.level>lower.level lower.flow>upper.flow", 0.5, 300.0)


def pneumatic_actuator(random: Random) -> CoupledSystem:
    """Two chambers filled and vented by a valve, and a piston with dry friction and a spring."""
    n = draws(random)
    area, m, k, grip, valve = 2e-3, n(3.0), n(12000.0), n(30.0), n(0.3)

    def chambers(t: float, x: Values, u: Values) -> list[float]:
        opening = math.sin(6.0 * t) + 0.5 * smooth_step(t, 1.0, 0.01)
        change = []
        for p, sign in ((x[0], 1.0), (x[1], -1.0)):
            source = 6.0 if sign * opening > 0.0 else 1.0
            flow = valve * abs(math.tanh(4.0 * opening)) * root(source - p, 0.05)
            volume = area * (0.1 + sign * u[0])
            change.append((flow * area * 3.0 - sign * p * area * u[1]) / volume)
        return change

    def piston(t: float, x: Values, u: Values) -> list[float]:
        force = 1e5 * area * (u[0] - u[1])
        return [x[1], (force - k * x[0] - grip * math.tanh(x[1] / 0.02) - 40.0 * x[1]) / m]

    parts = [make("chambers", ("x v", "pa pb"), [3.0, 3.0], 30.0, chambers),
             make("piston", ("pa pb", "x v"), [0.0, 0.0], 520.0, piston)]  # fmt: skip
    wires = "chambers.pa>piston.pa chambers.pb>piston.pb piston.x>chambers.x piston.v>chambers.v"
    return couple(parts, wires, 90.0, 2.0)


def hydraulic_press(random: Random) -> CoupledSystem:
    """A pump with a relief valve presses a ram through a hose onto a yielding workpiece."""
    n = draws(random)
    m, stiff, soft, relief = n(60.0), n(3e6), n(2e9), n(120.0)
    area = 5e-3

    def supply(t: float, x: Values, u: Values) -> list[float]:
        flow = 4e-4 * (smooth_step(t, 0.02, 2e-3) - 0.7 * smooth_step(t, 0.7, 2e-3))
        over = 2e-5 * max(x[0] - relief, 0.0)
        return [soft / 1e5 * (flow - area * u[0] - over - 2e-7 * x[0]) / 2e-3]

    def ram(t: float, x: Values, u: Values) -> list[float]:
        reaction = 6e4 * math.tanh(stiff * above_zero(x[0] - 0.02, 1e-4) / 6e4)
        return [x[1], (1e5 * area * u[0] - reaction - 3000.0 * x[1] - 2000.0 * x[0]) / m]

    parts = [make("supply", ("v", "p"), [0.0], 60.0, supply),
             make("ram", ("p", "v x"), [0.0, 0.0], 260.0, ram,
                  lambda t, x, u: [x[1], x[0]])]  # fmt: skip
    return couple(parts, "supply.p>ram.p ram.v>supply.v", 250.0, 1.2)


def stirred_reactor(random: Random) -> CoupledSystem:
    """An exothermic reaction with Arrhenius's law in a cooled vessel: it can ignite."""
    n = draws(random)
    heat, cool, rate = n(8.0), n(1.5), n(0.11)

    def speed(hot: float) -> float:
        return rate * math.exp(hot / (1.0 + hot / 20.0))

    def reaction(t: float, x: Values, u: Values) -> list[float]:
        return [1.0 - x[0] - speed(u[0]) * x[0]]

    def vessel(t: float, x: Values, u: Values) -> list[float]:
        coolant = -0.4 * smooth_step(math.sin(0.5 * t), 0.3, 0.1)
        return [-x[0] + heat * u[0] * speed(x[0]) - cool * (x[0] - coolant)]

    parts = [make("reaction", ("heat", "amount"), [0.9], 15.0, reaction),
             make("vessel", ("amount", "heat"), [0.3], 20.0, vessel)]  # fmt: skip
    return couple(parts, "reaction.amount>vessel.amount vessel.heat>reaction.heat", 6.0, 20.0)


def brusselator(random: Random) -> CoupledSystem:
    """Two substances that produce each other, starting near an unstable equilibrium."""
    n = draws(random)
    a, b = n(1.0), 2.6 * n(1.0) ** 0.3

    parts = [
        make("x", ("other", "amount"), [a * 1.02], 8.0,
             lambda t, x, u: [a + x[0] * x[0] * u[0] - (b + 1.0) * x[0]]),
        make("y", ("other", "amount"), [b / a], 15.0,
             lambda t, x, u: [b * u[0] - u[0] * u[0] * x[0]]),
    ]  # fmt: skip
    return couple(parts, "x.amount>y.other y.amount>x.other", 5.0, 40.0)


def autocatalysis(random: Random) -> CoupledSystem:
    """Three substances in sequence; the last catalyses the first reaction; a pulse is fed."""
    n = draws(random)
    slow, fast, decay = n(0.02), n(3.0), n(0.5)

    first = make("source", ("catalyst", "a b"), [1.0, 0.0], 4.0, lambda t, x, u: [
        0.15 * (1.0 - x[0]) - (slow + fast * u[0] ** 2) * x[0],
        (slow + fast * u[0] ** 2) * x[0] - 2.0 * x[1]])  # fmt: skip
    second = make("catalyst", ("b", "c"), [0.0], 2.0, lambda t, x, u: [
        2.0 * u[0] - decay * x[0] + 0.3 * math.exp(-((t - 8.0) ** 2))])  # fmt: skip
    return couple([first, second], "source.b>catalyst.b catalyst.c>source.catalyst", 3.0, 40.0)
