"""Step control by the local error and by the energy residual: the rules alone."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.coupling.control_step import (
    EccoState,
    ecco_start,
    ecco_step,
    expected_error,
    local_step,
    mean_power,
    weighted_rms,
)
from hilrt.coupling.extrapolate import History, divided_differences

FREE = (1e-12, 1e3)


def test_the_norm_is_the_root_mean_square_of_the_weighted_values():
    assert weighted_rms(np.array([3.0, -8.0]), np.array([1.0, 2.0])) == pytest.approx(
        math.sqrt((9.0 + 16.0) / 2.0)
    )
    assert weighted_rms(np.zeros(0), np.zeros(0)) == 0.0


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
    assert local_step(1e-3, error, order, 6.0, *FREE) == pytest.approx(1e-3 * factor)


def test_the_step_stays_within_its_bounds():
    assert local_step(1e-3, 0.0, 1, 6.0, 1e-4, 1.5e-3) == 1.5e-3
    assert local_step(1.5e-4, 1e9, 1, 6.0, 1e-4, 1.5e-3) == 1e-4


@pytest.mark.parametrize("order", range(6))
def test_settles_below_the_tolerance(order):
    # error = (h / 0.01)**(order + 1): kept where 1 <= r < 2, that is SF * error in (2**-(k+1), 1]
    h = 1e-5
    for _ in range(100):
        h = local_step(h, (h / 0.01) ** (order + 1), order, 6.0, *FREE)
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
    history = History(t[:, None], y[:, None], np.array([6]))
    differences, nodes = divided_differences(history, 0.0)
    found = expected_error(differences, nodes, order, h)[0]

    def through(n: int) -> float:  # Lagrange's form, to have a second opinion
        return sum(
            y[i] * math.prod((h - t[j]) / (t[i] - t[j]) for j in range(n + 1) if j != i)
            for i in range(n + 1)
        )

    higher, lower = through(order + 1), through(order)
    scale = max(abs(higher), abs(lower), 1.0)
    assert found == pytest.approx(higher - lower, abs=1e-9 * scale)


def test_the_mean_power_is_the_mean_until_the_window_is_full():
    state = ecco_start(0.1, 1)
    t = 0.0
    for h, power in ((0.5, 2.0), (0.5, -4.0), (1.0, 6.0)):
        t += h
        state = EccoState(h, 0.0, mean_power(state, np.array([power]), h, t, 10.0))
    assert state.power[0] == pytest.approx((0.5 * 2.0 + 0.5 * 4.0 + 1.0 * 6.0) / 2.0)
    # later on, a constant takes over within a few windows
    for _ in range(1000):
        t += 0.1
        state = EccoState(0.1, 0.0, mean_power(state, np.array([1.0]), 0.1, t, 10.0))
    assert state.power[0] == pytest.approx(1.0, rel=1e-3)


def ecco(state: EccoState, residual: list[float], order: int = 0, **kw: float) -> EccoState:
    options = {"atol": 0.0, "rtol": 0.01, "safety": 1.0, "low": 1e-9, "high": 10.0, **kw}
    return ecco_step(state, np.array(residual), state.power, order, **options)


def test_the_worst_bond_counts_with_its_sign():
    state = EccoState(0.1, 0.0, np.array([10.0, 10.0, 1000.0]))
    assert ecco(state, [0.05, -0.2, 3.0]).error == pytest.approx(-2.0)
    # normalised by the transmitted energy, not by the residual: 3 W of 1000 W are little
    assert ecco(state, [0.0, 0.0, 3.0]).error == pytest.approx(0.3)
    # an absolute tolerance of the step's energy [J]
    assert ecco(state, [0.0, -0.2, 0.0], atol=0.03).error == pytest.approx(-0.02 / 0.04)


def test_a_bond_without_power_and_residual_says_nothing():
    state = ecco(ecco_start(0.1, 2), [0.0, 0.0])
    assert state.error == 0.0
    assert state.h == pytest.approx(0.2)


def test_the_formula():
    # gains 0.3 and 0.4 for a residual of first order in the step
    before = EccoState(0.1, -1.5, np.array([10.0]))
    after = ecco(before, [0.2], safety=0.9)
    assert after.error == pytest.approx(2.0)
    assert after.h == pytest.approx(0.1 * 0.9 * 2.0**-0.7 * 1.5**0.4)
    assert ecco(before, [1e9]).h == pytest.approx(0.05)


@pytest.mark.parametrize("order", range(6))
def test_ecco_settles_at_every_order(order):
    state = EccoState(1e-4, 0.0, np.array([10.0]))
    steps = []
    for _ in range(200):
        residual = 0.1 * (state.h / 0.01) ** (order + 1)  # error 1 at h = 0.01
        state = ecco(state, [residual], order)
        steps.append(state.h)
    np.testing.assert_allclose(steps[-20:], 0.01, rtol=1e-6)
