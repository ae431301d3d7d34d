"""Nonlinear oscillator: what Rodríguez et al. (2022) say of it (Figs 27 to 31)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench_configs.models.nonlinear_oscillator import NonlinearMass1, NonlinearMass2
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.solver import InputPolynomial
from tests.stepping import Stepping

HALF = {"method": "energy", "residual": "held", "mu": 0.5, "cap": 1.0}
SPRINGS = {
    "plain": {"method": "none"},
    "0.5": HALF,
    "1.0": {**HALF, "mu": 1.0},
    "0.5, integral": {**HALF, "nu": 0.25},
}
DAMPERS = {"plain": ({"method": "none"}, 0), "0.5": (HALF, 0), "right": ({"method": "none"}, 1)}


def run(cases, laws, dampings, duration):
    """Times, energy, power residual and x2 (n, cases) of oscillators side by side."""
    c1, cc, c2 = dampings
    solvers, connections, bonds = {}, [], []
    for i, (correction, order) in enumerate(cases):
        one, two = f"one{i}", f"two{i}"
        solvers[one] = NonlinearMass1(*laws, c=c1, cc=cc)
        solvers[two] = NonlinearMass2(*laws, c=c2)
        ways = ((one, "force", two, "force"), (two, "x", one, "x2"), (two, "v", one, "v2"))
        connections += [
            {"from": f"{a}.{p}", "to": f"{b}.{q}", "order": order} for a, p, b, q in ways
        ]
        bond = {"name": f"b{i}", "effort": f"{one}.force", "flow": f"{two}.v"}
        bonds.append({**bond, "correction": correction})
    s = Stepping(solvers, master={"step": 1e-3}, connections=connections, bonds=bonds)
    pairs: list[Any] = [(solvers[f"one{i}"], solvers[f"two{i}"]) for i in range(len(bonds))]

    def look(s):
        energy = [a.energy(b.x) + b.energy() for a, b in pairs]
        return s.t, energy, s.state.bonds["residual_power"].copy(), [b.x for _, b in pairs]

    seen = s.run(duration, look)
    return tuple(np.array([row[i] for row in seen]) for i in range(4))


@pytest.mark.parametrize("damper", ["linear", "quadratic"])
def test_laws(damper):
    mass = NonlinearMass1("root", damper, kc=3.0, cc=2.0, x=4.0, v=5.0)
    expected = 3.0 * 2.0 + 2.0 * (9.0 if damper == "quadratic" else 3.0)
    assert mass.initialize(0.0, np.array([0.0, 2.0])).y[0] == pytest.approx(expected)
    expected = -3.0 * 3.0 - 2.0 * (4.0 if damper == "quadratic" else 2.0)
    assert mass.initialize(0.0, np.array([13.0, 7.0])).y[0] == pytest.approx(expected)


def test_linear_laws_are_the_linear_oscillator():
    pairs = (
        (NonlinearMass1("linear", c=0.3, cc=0.2), Mass1(c=0.3, cc=0.2), [[1.0, 2.0]]),
        (NonlinearMass2("linear", c=0.3), Mass2(c=0.3), [[7.0]]),
    )
    for nonlinear, linear, u in pairs:
        inputs = InputPolynomial(0.0, np.array(u))
        np.testing.assert_allclose(
            nonlinear.advance(0.0, 0.01, inputs).y, linear.advance(0.0, 0.01, inputs).y, rtol=1e-12
        )


@pytest.mark.parametrize("spring", ["root", "linear"])
def test_an_uncoupled_mass_keeps_its_energy(spring):
    one, two = NonlinearMass1(spring, kc=0.0), NonlinearMass2(spring)
    start = one.energy(0.0), two.energy()
    one.advance(0.0, 2.0, InputPolynomial(0.0, np.zeros((1, 2))))
    two.advance(0.0, 2.0, InputPolynomial(0.0, np.zeros((1, 1))))
    assert (one.energy(0.0), two.energy()) == pytest.approx(start, rel=0.02)  # integrator ripple


@pytest.fixture(scope="module")
def springs():
    cases = [*((correction, 0) for correction in SPRINGS.values()), ({"method": "none"}, 1)]
    t, energy, power, x2 = run(cases, ("root", "linear"), (0, 0, 0), 10.0)
    errors = energy[t >= 9.0].mean(axis=0) / energy[0] - 1.0
    early = energy[(t >= 0.0) & (t < 1.0)].mean(axis=0) / energy[0] - 1.0
    mean_power = power.mean(axis=0)
    found = {name: (early[i], errors[i], mean_power[i]) for i, name in enumerate(SPRINGS)}
    motion = dict(zip([*SPRINGS, "right"], x2[t >= 8.0].T, strict=True))
    return found, energy[:, 0], motion


def test_uncorrected_energy_grows_and_the_residual_says_so(springs):
    """Figs 27 and 31: the residual varies, but its mean is above zero."""
    cases, energy, _ = springs
    _, error, power = cases["plain"]
    assert error > 0.08
    assert power > 0.0
    thirds = [part.mean() for part in np.array_split(energy, 5)]
    assert np.all(np.diff(thirds) > 0.0)


def test_half_is_right_at_first_and_more_than_half_takes_too_much(springs):
    """Fig. 27: with nonlinear springs μ = 0.5 does not hold out; above it energy is lost."""
    cases, _, _ = springs
    early, error, _ = cases["0.5"]
    assert abs(early) < 0.002
    assert 0.02 < error < 0.5 * cases["plain"][1]
    assert cases["1.0"][1] < -0.02


def test_the_integral_term_takes_out_what_half_leaves(springs):
    """Fig. 28 - most of it: the paper shows all."""
    cases, _, _ = springs
    assert 0.0 < cases["0.5, integral"][1] < 0.6 * cases["0.5"][1]


def test_the_corrected_motion_follows_the_right_one(springs):
    """Fig. 29, against first order on both sides: uncorrected the phase is lost."""
    _, _, motion = springs
    right = motion["right"]
    off = {name: np.sqrt(np.mean((x2 - right) ** 2)) / right.std() for name, x2 in motion.items()}
    assert off["plain"] > 1.0
    assert off["0.5, integral"] < off["0.5"] < 0.25
    assert np.abs(motion["0.5, integral"]).max() == pytest.approx(np.abs(right).max(), rel=0.03)


def test_quadratic_damping_needs_no_integral():
    """Fig. 30: with dissipation half is enough."""
    dampings = (0.001, 0.001, 0.001)
    t, energy, _, _ = run(DAMPERS.values(), ("linear", "quadratic"), dampings, 6.0)
    plain, corrected, right = energy[t >= 5.0].mean(axis=0)
    assert right < 0.8 * energy[0, 0]
    assert plain / right - 1.0 > 0.2
    assert abs(corrected / right - 1.0) < 0.01
