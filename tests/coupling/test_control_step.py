import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.coupling.choose_step import pi_step
from hilrt.tables.record import table
from hilrt.tables.state import SessionStateRow

FREE = (1e-12, 1e3)


def pi_start(h0: float):
    """The session's record before the first step of size `h0` [s]."""
    record = table(SessionStateRow, 1)[0]
    record.step_integral, record.controlled_step = math.log(h0), h0
    return record


def test_the_formula_of_the_paper():
    # K_P = 0.13, K_I = 1/15: e = ln 2, I' = ln h + e/15, h' = exp(I' + 0.13 e)
    state = pi_start(0.01)
    pi_step(state, 0.5, 1.0, 2.0, *FREE)
    e = math.log(2.0)
    assert state.controlled_step == pytest.approx(0.01 * math.exp((1 / 15 + 0.13) * e))
    assert state.step_integral == pytest.approx(math.log(0.01) + e / 15)


def test_growth_is_limited_and_the_integral_follows():
    state = pi_start(1e-4)
    pi_step(state, 0.0, 0.01, 2.0, *FREE)  # no defect at all: floored
    e = math.log(0.01) - math.log(1e-16)
    integral = state.step_integral
    assert state.controlled_step == pytest.approx(2e-4)
    assert integral == pytest.approx(math.log(2e-4) - 0.13 * e)
    # where the limit acts, I + K_P e is the logarithm of the step: no wind-up
    pi_step(state, 0.01, 0.01, 2.0, *FREE)
    assert state.controlled_step == pytest.approx(math.exp(integral))


def test_an_immense_defect_shrinks_to_the_minimum_without_wind_up():
    state = pi_start(0.1)
    for _ in range(50):
        pi_step(state, 1e12, 1.0, 2.0, 1e-3, 1.0)
    assert state.controlled_step == pytest.approx(1e-3)
    for _ in range(5):
        pi_step(state, 1e-3, 1.0, 2.0, 1e-3, 1.0)
    assert state.controlled_step > 1.5e-3


@pytest.mark.parametrize("defect", [math.inf, math.nan])
def test_a_defect_that_is_no_number_is_an_immense_one(defect):
    state = pi_start(0.1)
    for _ in range(3):
        pi_step(state, defect, 1.0, 2.0, 1e-3, 1.0)
    assert state.controlled_step == pytest.approx(1e-3)
    assert math.isfinite(state.step_integral)


@given(
    st.lists(st.floats(0.0, 1e300), min_size=1, max_size=30),
    st.floats(1e-6, 1e3),
    st.floats(1e-9, 1.0),
)
def test_steps_stay_within_bounds_and_growth(defects, tolerance, h0):
    low, high = min(1e-9, h0), max(0.5, h0)
    state = pi_start(h0)
    for defect in defects:
        before = state.controlled_step
        pi_step(state, defect, tolerance, 2.0, low, high)
        assert low <= state.controlled_step <= high
        assert state.controlled_step <= max(2.0 * before, low)
        assert math.isfinite(state.step_integral)


def test_settles_where_the_defect_is_the_tolerance():
    # a defect proportional to the step, as of a first-order error
    state = pi_start(1e-4)
    for _ in range(300):
        pi_step(state, 3.0 * state.controlled_step, 0.06, 2.0, *FREE)
    assert state.controlled_step == pytest.approx(0.02, rel=1e-6)
