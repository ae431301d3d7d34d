"""n masses on one, a correction on a summing junction (Rodríguez et al. 2022, Figs 25, 26)."""

from __future__ import annotations

import numpy as np
import pytest

from bench_configs.models.mass_chain import energy, masses, topology
from hilrt.solver import Port
from tests.stepping import Recorded, Stepping
from tests.two_mass_reference import simulate

ENERGY = {"method": "energy", "residual": "sent", "mu": 0.5, "cap": 0.25}
NONE = {"method": "none"}
UNEQUAL = {
    3: {"mass_shares": [0.5, 0.5], "stiffness_shares": [0.7, 0.3]},
    5: {"stiffness_shares": [0.1, 0.2, 0.3, 0.4]},
}


def chain(n, correction, *, summed=True, order=0, **shares) -> Stepping:
    return Stepping(
        masses(n, **shares),
        master={"step": 1e-3, "extrapolation": {"order": order}},
        **topology(n, correction, summed=summed),
    )


def motion(s: Stepping) -> tuple[float, float]:
    last = s.links["last"].solver
    return last.x, last.v


def energy_error(s: Stepping, duration: float) -> float:
    """Mean over the last second, relative to the start."""
    solvers = {name: link.solver for name, link in s.links.items()}
    t, e = np.array(s.run(duration, lambda s: (s.t, energy(solvers)))).T
    return float(e[t >= duration - 1.0].mean() / e[0] - 1.0)


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("correction", [NONE, {**ENERGY, "cap": 1.0}])
def test_equal_shares_move_like_the_mass_they_were_divided_from(n, correction):
    seen = np.array(chain(n, correction).run(0.3, motion))
    expected = np.array(simulate(duration=0.3, mu=correction.get("mu", 0.0)).state)[:, 2:]
    np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n", [3, 5])
def test_one_correction_on_the_sum_keeps_the_energy(n):
    assert energy_error(chain(n, NONE, **UNEQUAL[n]), 4.0) > 0.2
    s = chain(n, ENERGY, **UNEQUAL[n])
    assert abs(energy_error(s, 4.0)) < 0.03
    assert s.state.elements["effort"].shape == (1,)
    # held inputs: the residual as sent is the held one
    held = chain(n, {**ENERGY, "residual": "held"}, **UNEQUAL[n])
    short = chain(n, ENERGY, **UNEQUAL[n])
    np.testing.assert_allclose(short.run(0.2, motion), held.run(0.2, motion), rtol=0, atol=1e-9)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("n", [3, 5])
def test_the_sums_residual_is_the_sum_of_the_residuals(n, order):
    # The junction sends the sum alone, and yet each bond knows its own share of it.
    runs = [
        chain(n, NONE, summed=summed, order=order, **UNEQUAL[n]).run(
            0.1, lambda s: (s.state.bonds["residual_power"].sum(), s.state.bonds["power"].sum())
        )
        for summed in (True, False)
    ]
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-9, atol=1e-6)
    assert np.abs(np.array(runs[0])[:, 0]).max() > 1.0


@pytest.mark.parametrize("n", [3, 5])
def test_separate_corrections_differ_by_their_caps_alone(n):
    uncapped = {**ENERGY, "cap": 1e9}
    runs = [
        chain(n, uncapped, summed=summed, **UNEQUAL[n]).run(0.01, motion)
        for summed in (True, False)
    ]
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-9)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("every", [1, 4])
def test_a_load_at_the_junction_is_not_the_bonds(order, every):
    def run(loaded):
        push = Recorded({"e": lambda t: 50.0 * np.sin(40.0 * t)}, [Port("f", "m/s")])
        push.outputs = (Port("e", "N"),)
        load = Recorded({"e": lambda t: 1e3 * t})
        load.outputs = (Port("e", "N"),)
        cart = Recorded({"f": lambda t: 2.0 + np.sin(30.0 * t)}, [Port("e", "N")])
        cart.outputs = (Port("f", "m/s"),)
        weight = {"from": "load.e", "to": "cart.e", "gain": -3.0, "offset": 7.0}
        s = Stepping(
            {"push": push, "load": load, "cart": cart},
            master={"step": 1e-3, "extrapolation": {"order": order}},
            subsystems={"push": {}, "load": {}, "cart": {"every": every}},
            connections=[
                {"from": "push.e", "to": "cart.e"},
                {"from": "cart.f", "to": "push.f"},
                *([weight] if loaded else []),
            ],
            bonds=[{"name": "b", "effort": "push.e", "flow": "cart.f", "correction": ENERGY}],
        )
        look = s.run(
            0.3, lambda s: (s.state.bonds["residual_power"][0], s.state.elements["effort"][0])
        )
        return np.array(look), s.links["cart"].asked[-1].coefficients[0, 0]

    (plain, sent), (loaded, sent_loaded) = run(False), run(True)
    np.testing.assert_allclose(loaded, plain, rtol=1e-9, atol=1e-9)
    assert sent_loaded < sent - 500.0  # the load does arrive


def test_numbers_of_masses_that_do_not_fit():
    with pytest.raises(ValueError, match="at least 2"):
        masses(1)
    for shares in ("mass_shares", "stiffness_shares"):
        with pytest.raises(ValueError, match="2 shares for 3 masses"):
            masses(4, **{shares: [0.5, 0.5]})
