"""Kinds of the third trial from physiology, biology, climate and chemistry; see `apparatus`."""

from __future__ import annotations

import math

from tools.calibration.kinds.build import Values, above_zero, couple, draws, make, smooth_step
from tools.calibration.systems import CoupledSystem, Random


def chemostat(random: Random) -> CoupledSystem:
    """Bacteria on a nutrient whose inflow is reduced; their waste inhibits their growth."""
    n = draws(random)
    grow, flow, hold = n(1.0), n(0.3), n(0.6)

    def vessel(t: float, x: Values, u: Values) -> list[float]:
        into = flow * (1.0 - 0.8 * smooth_step(t, 25.0, 0.3))
        eaten = grow * x[0] / (0.2 + x[0]) * u[0] / (1.0 + hold * x[1])
        return [into * (1.0 - x[0]) - eaten, 0.8 * eaten - 0.3 * x[1]]

    parts = [make("broth", ("mass", "food waste"), [1.0, 0.0], 3.0, vessel),
             make("cells", ("food waste", "mass"), [0.02], 2.0, lambda t, x, u: [
                 x[0] * (grow * u[0] / (0.2 + u[0]) / (1.0 + hold * u[1]) - flow)])]  # fmt: skip
    return couple(parts, "broth.food>cells.food broth.waste>cells.waste cells.mass>broth.mass",
                  1.5, 60.0)  # fmt: skip


def insulin(random: Random) -> CoupledSystem:
    """Glucose after two meals, and insulin that is released above a threshold."""
    n = draws(random)
    meal, act, clear = n(4.0), n(0.8), n(0.6)

    def glucose(t: float, x: Values, u: Values) -> list[float]:
        fed = sum(math.exp(-(((t - at) / 1.5) ** 2)) for at in (5.0, 18.0))
        return [meal * fed - 0.15 * (x[0] - 1.0) - act * u[0] * x[0]]

    def body(t: float, x: Values, u: Values) -> list[float]:
        told = 1.0 / (1.0 + math.exp(-(u[0] - 2.5) / 0.3))
        return [2.0 * told - clear * x[0], 0.5 * (x[0] - x[1])]

    parts = [make("blood", ("insulin", "sugar"), [1.0], 3.0, glucose),
             make("pancreas", ("sugar", "insulin"), [0.0, 0.0], 2.0, body,
                  lambda t, x, u: [x[1]])]  # fmt: skip
    return couple(parts, "blood.sugar>pancreas.sugar pancreas.insulin>blood.insulin", 1.5, 40.0)


def virus(random: Random) -> CoupledSystem:
    """Cells infected by a virus, and defenders that multiply on contact."""
    n = draws(random)
    infect, burst, defend = n(0.9), n(4.0), n(1.2)

    parts = [make("tissue", ("virus", "sick"), [1.0, 0.0], 5.0, lambda t, x, u: [
                 0.1 * (1.0 - x[0]) - infect * x[0] * u[0],
                 infect * x[0] * u[0] - 0.7 * x[1]], lambda t, x, u: [x[1]]),
             make("blood", ("sick", "virus"), [0.01, 0.02], 6.0, lambda t, x, u: [
                 burst * u[0] - 1.5 * x[0] - 3.0 * x[1] * x[0],
                 defend * x[1] * x[0] / (0.1 + x[0]) * (1.0 - x[1]) - 0.2 * x[1]],
                 lambda t, x, u: [x[0]])]  # fmt: skip
    return couple(parts, "tissue.sick>blood.sick blood.virus>tissue.virus", 2.5, 40.0)


def heart(random: Random) -> CoupledSystem:
    """A ventricle that stiffens with each beat, and vessels behind a valve; later a bleeding."""
    n = draws(random)
    strong, stiff, drain = n(2.2), n(0.7), n(1.0)

    def pressure(t: float, x: Values) -> float:
        beat = max(math.sin(2.0 * math.pi * t), 0.0) ** 2
        return (0.06 + strong * beat) * (x[0] - 0.2)

    def outflow(t: float, x: Values, u: Values) -> list[float]:
        return [6.0 * above_zero(pressure(t, x) - u[0], 0.02)]

    def ventricle(t: float, x: Values, u: Values) -> list[float]:
        return [9.0 * above_zero(0.1 - pressure(t, x), 0.01) - outflow(t, x, u)[0]]

    parts = [make("ventricle", ("pressure", "flow"), [1.2], 20.0, ventricle, outflow, "flow"),
             make("vessels", ("flow", "pressure"), [0.8], 3.0, lambda t, x, u: [
                 (u[0] - x[0] * (1.0 + 0.8 * smooth_step(t, 6.0, 0.2)) * drain) * stiff
             ])]  # fmt: skip
    return couple(parts, "ventricle.flow>vessels.flow vessels.pressure>ventricle.pressure",
                  9.0, 12.0)  # fmt: skip


def budworm(random: Random) -> CoupledSystem:
    """Worms that birds eat while they are few, and leaves that grow until an outbreak."""
    n = draws(random)
    breed, eat, grow = n(1.5), n(1.0), n(0.12)

    parts = [make("worms", ("leaves", "number"), [0.3], 3.0, lambda t, x, u: [
                 breed * x[0] * (1.0 - x[0] / (0.5 + 9.0 * max(u[0], 0.0)))
                 - eat * x[0] ** 2 / (0.25 + x[0] ** 2)]),
             make("forest", ("worms", "leaves"), [0.25], 1.0, lambda t, x, u: [
                 grow * x[0] * (1.0 - x[0]) - 0.02 * u[0] * x[0] / (0.2 + x[0])])]  # fmt: skip
    return couple(parts, "worms.number>forest.worms forest.leaves>worms.leaves", 1.5, 120.0)


def growth_cycle(random: Random) -> CoupledSystem:
    """Wages and employment in Goodwin's cycle; a shock halves the demand."""
    n = draws(random)
    invest, claim = n(1.0), n(1.2)

    def jobs(t: float, x: Values, u: Values) -> list[float]:
        shock = 0.6 * math.exp(-(((t - 20.0) / 0.6) ** 2))
        return [x[0] * (invest * (1.0 - u[0]) - 0.25 - shock)]

    parts = [make("jobs", ("wages", "share"), [0.85], 1.0, jobs),
             make("wages", ("jobs", "share"), [0.7], 1.5, lambda t, x, u: [
                 x[0] * (claim * (u[0] - 0.8) / (1.15 - min(u[0], 1.1)))])]  # fmt: skip
    return couple(parts, "jobs.share>wages.jobs wages.share>jobs.wages", 1.0, 50.0)


def two_oceans(random: Random) -> CoupledSystem:
    """Heat and salt exchanged by two basins, whose circulation reverses by meltwater."""
    n = draws(random)
    melt, mix, slow = n(0.9), n(1.4), n(0.3)

    def flow(heat: float, salt: float) -> float:
        return math.hypot(2.0 * heat - 1.6 * salt, 0.05)

    def heat(t: float, x: Values, u: Values) -> list[float]:
        return [1.0 - x[0] - mix * flow(x[0], u[0]) * x[0]]

    def salt(t: float, x: Values, u: Values) -> list[float]:
        fresh = 0.4 + melt * (smooth_step(t, 12.0, 1.0) - smooth_step(t, 30.0, 1.0))
        return [slow * (fresh - x[0]) - mix * flow(u[0], x[0]) * x[0] * 0.5]

    parts = [make("heat", ("salt", "k"), [0.4], 5.0, heat),
             make("salt", ("heat", "g"), [0.2], 4.0, salt)]  # fmt: skip
    return couple(parts, "heat.k>salt.heat salt.g>heat.salt", 2.0, 50.0)


def pacific(random: Random) -> CoupledSystem:
    """Oscillation of surface temperature and depth of warm water, driven by the seasons."""
    n = draws(random)
    feed, lose, own = n(0.6), n(0.25), n(1.0)

    parts = [make("surface", ("depth", "warmth"), [0.3], 2.0, lambda t, x, u: [
                 (feed * (1.0 + 0.3 * math.sin(6.28 * t / 6.0)) - lose) * x[0] + own * u[0]
                 - 0.4 * x[0] ** 3 - 0.15 * x[0] ** 2]),
             make("depth", ("warmth", "depth"), [0.0], 1.0, lambda t, x, u: [
                 -0.15 * x[0] - 0.8 * u[0]])]  # fmt: skip
    return couple(parts, "surface.warmth>depth.warmth depth.depth>surface.depth", 1.2, 50.0)


def reactor(random: Random) -> CoupledSystem:
    """Neutrons with one delayed group, withdrawn control rods, and fuel that heats up."""
    n = draws(random)
    rods, back, cool = n(0.5), n(0.35), n(0.4)

    def core(t: float, x: Values, u: Values) -> list[float]:
        worth = rods * (smooth_step(t, 5.0, 0.4) - 0.5 * smooth_step(t, 30.0, 0.4))
        return [((worth - back * u[0] - 1.0) * x[0] + x[1]) / 0.15, 0.4 * (x[0] - x[1])]

    parts = [make("core", ("heat", "power"), [1.0, 1.0], 10.0, core),
             make("fuel", ("power", "heat"), [0.0, 0.0], 2.0, lambda t, x, u: [
                 1.2 * (u[0] - 1.0) - cool * (x[0] - x[1]), 0.2 * (x[0] - 2.0 * x[1])],
                 lambda t, x, u: [x[0]])]  # fmt: skip
    return couple(parts, "core.power>fuel.power fuel.heat>core.heat", 4.0, 50.0)


def neutraliser(random: Random) -> CoupledSystem:
    """An acid stream with a jump, and a controller that doses base: steep at the neutral point."""
    n = draws(random)
    steep, gain, acid = n(0.05), n(0.25), n(1.0)

    def tank(t: float, x: Values, u: Values) -> list[float]:
        strong = acid * (1.0 + 0.35 * smooth_step(t, 15.0, 0.2))
        return [0.5 * (u[0] - strong - x[0]), 3.0 * (math.tanh(x[0] / steep) - x[1])]

    def dosing(t: float, x: Values, u: Values) -> list[float]:
        return [-0.12 * u[0], 2.0 * (1.0 + x[0] - gain * u[0] - x[1])]

    parts = [make("tank", ("base", "ph"), [-0.3, -1.0], 6.0, tank, lambda t, x, u: [x[1]]),
             make("dosing", ("ph", "base"), [0.0, 0.9], 3.0, dosing,
                  lambda t, x, u: [x[1]])]  # fmt: skip
    return couple(parts, "tank.ph>dosing.ph dosing.base>tank.base", 4.0, 40.0)


def calcium(random: Random) -> CoupledSystem:
    """Calcium that triggers its own release from a store, and a pump that refills the store."""
    n = draws(random)
    leak, rate, pump = n(0.25), n(6.0), n(2.4)

    def burst(c: float, s: float) -> float:
        return rate * s * c * c / (0.25 + c * c)

    parts = [make("cell", ("store", "level"), [0.15], 12.0, lambda t, x, u: [
                 leak * (1.0 + 0.5 * smooth_step(t, 15.0, 0.5)) + burst(x[0], u[0])
                 - pump * x[0]]),
             make("store", ("level", "full"), [1.0], 6.0, lambda t, x, u: [
                 0.5 * pump * u[0] * 0.6 - 0.5 * burst(u[0], x[0])])]  # fmt: skip
    return couple(parts, "cell.level>store.level store.full>cell.store", 4.0, 40.0)


def frost(random: Random) -> CoupledSystem:
    """Freezing water, held at constant temperature by its latent heat, beside a wall."""
    n = draws(random)
    latent, lose, soft = n(12.0), n(0.3), n(0.3)

    def water(t: float, x: Values, u: Values) -> list[float]:
        held = 1.0 + latent * math.exp(-((x[0] / soft) ** 2))
        return [lose * (u[0] - x[0]) / held]

    def wall(t: float, x: Values, u: Values) -> list[float]:
        outside = -8.0 + 14.0 * smooth_step(t, 60.0, 2.0)
        return [0.4 * (x[1] - x[0]) + 0.3 * (u[0] - x[0]), 0.4 * (x[0] - x[1])
                + 0.5 * (outside - x[1])]  # fmt: skip

    parts = [make("water", ("wall", "t"), [4.0], 0.4, water),
             make("wall", ("water", "t"), [3.0, 2.0], 1.5, wall)]  # fmt: skip
    return couple(parts, "water.t>wall.water wall.t>water.wall", 1.0, 120.0)
