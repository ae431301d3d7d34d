"""Step control by the local error and by the energy residual: the rules alone."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.coupling.choose_step import (
    ecco_step,
    energy_error,
    expected_difference,
    local_step,
    mean_power,
    scaling_factor,
    worst_energy_error,
)
from hilrt.coupling.estimate_signals import estimate_error
from hilrt.coupling.extrapolate import newton_form
from hilrt.link import Ports
from hilrt.solver import Port
from hilrt.tables import state
from hilrt.tables.record import table
from tests.stepping import make_numerics

FREE = (1e-12, 1e3)


def step_after(h, error, order, low, high, growth=2.0):
    """Step after one of `h` whose inputs, of degree `order`, had that error; safety 6."""
    return local_step(h, scaling_factor(error, order + 1, 6.0), growth, low, high)


def test_the_norm_is_the_root_mean_square_of_the_weighted_values():
    sink = Ports((Port("u"), Port("v"), Port("free")), ())
    tables = {
        "master": {"step": 0.1, "step_control": {"atol": {"b.u": 1.0, "b.v": 2.0, "b.free": 1.0}}},
        "connections": [{"from": "a.y", "to": f"b.{name}"} for name in ("u", "v")],
    }
    numerics = make_numerics({"a": Ports((), (Port("y"),)), "b": sink}, **tables)
    numerics.state.inputs["previous"][:, 0] = [3.0, -8.0, 100.0]  # nothing is connected to the last
    estimate_error(numerics.plan, numerics.state, numerics.given)
    found = numerics.state.session[0]
    assert found.error == pytest.approx(math.sqrt((9.0 + 16.0) / 2.0))
    assert found.failed
    np.testing.assert_allclose(numerics.state.inputs["error_ratio"], [3.0, 4.0, 100.0])


def test_the_norm_of_no_inputs_is_zero():
    numerics = make_numerics({"a": Ports((), (Port("y"),))})
    estimate_error(numerics.plan, numerics.state, numerics.given)
    assert numerics.state.session[0].error == 0.0


@pytest.mark.parametrize(
    ("error", "order", "factor"),
    [
        (0.0, 0, 2.0),  # no error at all
        (1.0 / 12.0, 0, 2.0),  # r = 2
        (1.0 / 11.0, 0, 1.0),  # 1 < r < 2: the step is kept
        (1.0 / 6.0, 3, 1.0),  # r = 1
        (1.0, 2, 6.0 ** (-1.0 / 3.0)),  # r = 0.55
        (0.17, 0, 0.9),  # r = 0.98: a cut is one of a tenth at least
        (100.0, 0, 0.5),  # and of a half at most
        (math.inf, 4, 0.5),
    ],
)
def test_the_rules_of_the_paper(error, order, factor):
    assert step_after(1e-3, error, order, *FREE) == pytest.approx(1e-3 * factor)


@pytest.mark.parametrize(("r", "factor"), [(1.4, 1.0), (1.5, 1.5), (2.0, 1.5)])
def test_growth_is_the_largest_factor_and_the_least_that_lengthens_a_step(r, factor):
    # r_max of section 6.5
    assert step_after(1e-3, 1.0 / (6.0 * r * 1.000001), 0, *FREE, growth=1.5) == 1e-3 * factor


def test_the_step_stays_within_its_bounds():
    assert step_after(1e-3, 0.0, 1, 1e-4, 1.5e-3) == 1.5e-3
    assert step_after(1.5e-4, 1e9, 1, 1e-4, 1.5e-3) == 1e-4


@pytest.mark.parametrize("order", range(6))
def test_settles_below_the_tolerance(order):
    # error = (h / 0.01)**(order + 1): kept where 1 <= r < 2, that is SF * error in (2**-(k+1), 1]
    h = 1e-5
    for _ in range(100):
        h = step_after(h, (h / 0.01) ** (order + 1), order, *FREE)
    assert 2.0 ** -(order + 1) <= 6.0 * (h / 0.01) ** (order + 1) <= 1.0


@given(
    order=st.integers(0, 4),
    gaps=st.lists(st.floats(0.2, 1.0), min_size=5, max_size=5),
    values=st.lists(st.floats(-1.0, 1.0), min_size=6, max_size=6),
    h=st.floats(0.1, 1.0),
)
def test_the_expected_error_is_the_difference_of_two_extrapolations(order, gaps, values, h):
    t = -np.concatenate(([0.0], np.cumsum(gaps)))
    y = np.array(values)
    out = table(state.OutputState, 1)[0]
    out.t_past[:6], out.y_past[:6] = t, y
    newton_form(out, 6, 0.0)
    found = expected_difference(out, order, h)

    def through(n: int) -> float:  # Lagrange's form, to have a second opinion
        return sum(
            y[i] * math.prod((h - t[j]) / (t[i] - t[j]) for j in range(n + 1) if j != i)
            for i in range(n + 1)
        )

    higher, lower = through(order + 1), through(order)
    scale = max(abs(higher), abs(lower), 1.0)
    assert found == pytest.approx(higher - lower, abs=1e-9 * scale)


def test_the_mean_power_is_the_mean_until_the_window_is_full():
    mean = t = 0.0
    for h, power in ((0.5, 2.0), (0.5, -4.0), (1.0, 6.0)):
        t += h
        mean = mean_power(mean, power, h, t, 10.0)
    assert mean == pytest.approx((0.5 * 2.0 + 0.5 * 4.0 + 1.0 * 6.0) / 2.0)
    # later on, a constant takes over within a few windows
    for _ in range(1000):
        t += 0.1
        mean = mean_power(mean, 1.0, 0.1, t, 10.0)
    assert mean == pytest.approx(1.0, rel=1e-3)


def ecco_state(h: float, error: float = 0.0):
    """The session's record at a step of `h` [s], whose worst bond had that relative error."""
    record = table(state.SessionStateRow, 1)[0]
    record.controlled_step, record.ecco_error = h, error
    return record


def ecco(
    record, residual: float, power: float, order: int = 0, atol: float = 0.0, safety: float = 1.0
):
    """A step after one with a single bond's residual and mean power, W."""
    error = energy_error(residual, power, record.controlled_step, atol, 0.01)
    ecco_step(record, error, order, safety, 2.0, 1e-9, 10.0)
    return record


def worst(residuals: list[float], powers: list[float], atol: float = 0.0) -> float:
    """Relative error of the worst of bonds with given residuals and mean powers, W."""
    names = [f"b{i}" for i in range(len(residuals))]
    efforts = tuple(Port(f"e{name}", "N") for name in names)
    flows = tuple(Port(f"f{name}", "m/s") for name in names)
    sides = {"s": Ports(flows, efforts), "m": Ports(efforts, flows)}
    ways = [(f"s.e{n}", f"m.e{n}") for n in names] + [(f"m.f{n}", f"s.f{n}") for n in names]
    numerics = make_numerics(
        sides,
        master={"step": 0.1, "step_control": {"method": "ecco", "atol": atol, "rtol": 0.01}},
        connections=[{"from": a, "to": b} for a, b in ways],
        bonds=[{"name": n, "effort": f"s.e{n}", "flow": f"m.f{n}"} for n in names],
    )
    plan, now, cut = numerics.plan, numerics.state, numerics.given
    cut.session["elapsed"], cut.session["t"] = 0.1, 1e9
    plan.session["scale_time"] = 1e9  # the mean stays where it is
    now.bonds["mean_power"] = powers
    # f = 1, e = 0: the residual is the effort that the flow side used
    now.outputs["y"] = [0.0] * len(names) + [1.0] * len(names)
    now.inputs["previous"][plan.elements["effort_input"], 0] = residuals
    return worst_energy_error(plan, now, cut)


def test_the_worst_bond_counts_with_its_sign():
    powers = [10.0, 10.0, 1000.0]
    assert worst([0.05, -0.2, 3.0], powers) == pytest.approx(-2.0)
    # normalised by the transmitted energy, not by the residual: 3 W of 1000 W are little
    assert worst([0.0, 0.0, 3.0], powers) == pytest.approx(0.3)
    # an absolute tolerance of the step's energy [J]
    assert worst([0.0, -0.2, 0.0], powers, atol=0.03) == pytest.approx(-0.02 / 0.04)


def test_a_bond_without_power_and_residual_says_nothing():
    assert worst([0.0, 0.0], [0.0, 0.0]) == 0.0
    record = ecco(ecco_state(0.1), 0.0, 0.0)
    assert record.ecco_error == 0.0
    assert record.controlled_step == pytest.approx(0.2)


def test_the_formula():
    # gains 0.3 and 0.4 for a residual of first order in the step
    after = ecco(ecco_state(0.1, -1.5), 0.2, 10.0, safety=0.9)
    assert after.ecco_error == pytest.approx(2.0)
    assert after.controlled_step == pytest.approx(0.1 * 0.9 * 2.0**-0.7 * 1.5**0.4)
    assert ecco(ecco_state(0.1, -1.5), 1e9, 10.0).controlled_step == pytest.approx(0.05)


@pytest.mark.parametrize("order", range(6))
def test_ecco_settles_at_every_order(order):
    record = ecco_state(1e-4)
    steps = []
    for _ in range(200):
        residual = 0.1 * (record.controlled_step / 0.01) ** (order + 1)  # error 1 at h = 0.01
        ecco(record, residual, 10.0, order)
        steps.append(record.controlled_step)
    np.testing.assert_allclose(steps[-20:], 0.01, rtol=1e-6)
