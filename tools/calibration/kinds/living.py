"""Populations, epidemics, and cells."""

from __future__ import annotations

from tools.calibration.kinds.build import Values, couple, draws, make
from tools.calibration.parts import Part
from tools.calibration.systems import CoupledSystem, Random


def prey_and_predator(random: Random) -> CoupledSystem:
    """Lotka and Volterra's populations."""
    n = draws(random)
    a, b, c, d = n(1.0), n(0.1), n(1.5), n(0.075)
    parts = [make("prey", ("predators", "number"), [10.0], 4.0,
                  lambda t, x, u: [x[0] * (a - b * u[0])]),
             make("predator", ("prey", "number"), [5.0], 4.0,
                  lambda t, x, u: [x[0] * (d * u[0] - c)])]  # fmt: skip
    return couple(parts, "prey.number>predator.prey predator.number>prey.predators", 2.5, 30.0)


def food_chain(random: Random) -> CoupledSystem:
    """Grass with limited growth, grazers, and hunters whose appetite saturates."""
    n = draws(random)
    bite, chase, loss = n(2.0), n(0.9), n(0.25)
    parts = [make("grass", ("grazers", "mass"), [0.8], 3.0, lambda t, x, u: [
                 x[0] * (1.0 - x[0]) - bite * x[0] * u[0] / (0.4 + x[0])]),
             make("grazers", ("grass hunters", "mass"), [0.2], 3.0, lambda t, x, u: [
                 0.6 * bite * x[0] * u[0] / (0.4 + u[0]) - 0.3 * x[0]
                 - chase * x[0] * u[1] / (0.3 + x[0])]),
             make("hunters", ("grazers", "mass"), [0.1], 1.0, lambda t, x, u: [
                 x[0] * (chase * u[0] / (0.3 + u[0]) - loss)])]  # fmt: skip
    wires = "grass.mass>grazers.grass grazers.mass>grass.grazers "
    wires += "hunters.mass>grazers.hunters grazers.mass>hunters.grazers"
    return couple(parts, wires, 2.0, 60.0)


def epidemic(random: Random) -> CoupledSystem:
    """Two towns; the second has no cases until travellers import one."""
    n = draws(random)
    spread, heal, travel = n(0.6), n(0.2), n(2e-3)

    def town(name: str, cases: float, factor: float) -> Part:
        def rates(t: float, x: Values, u: Values) -> list[float]:
            new = factor * spread * x[1] * (x[0] + travel * u[0])
            return [new - heal * x[0], -new]

        return make(name, ("cases", "cases"), [cases, 1.0 - cases], 1.0, rates)

    parts = [town("first", 1e-3, 1.0), town("second", 0.0, 1.4)]
    return couple(parts, "first.cases>second.cases second.cases>first.cases", 0.7, 80.0)


def repressors(random: Random) -> CoupledSystem:
    """Three genes in a ring, each suppressing the next: a ring oscillator."""
    n = draws(random)
    top, power = n(20.0), 4.0

    def gene(name: str, start: float) -> Part:
        return make(name, ("protein", "protein"), [start, 0.0], 3.0, lambda t, x, u: [
            x[1] - x[0], top / (1.0 + u[0] ** power) - 2.0 * x[1]])  # fmt: skip

    parts = [gene("a", 1.5), gene("b", 1.45), gene("c", 1.4)]
    wires = "a.protein>b.protein b.protein>c.protein c.protein>a.protein"
    return couple(parts, wires, 2.0, 40.0)
