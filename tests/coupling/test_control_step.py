import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.coupling.control_step import pi_start, pi_step

FREE = (1e-12, 1e3)


def test_the_formula_of_the_paper():
    # K_P = 0.13, K_I = 1/15: e = ln 2, I' = ln h + e/15, h' = exp(I' + 0.13 e)
    state = pi_step(pi_start(0.01), 0.5, 1.0, *FREE)
    e = math.log(2.0)
    assert state.h == pytest.approx(0.01 * math.exp((1 / 15 + 0.13) * e))
    assert state.integral == pytest.approx(math.log(0.01) + e / 15)


def test_growth_is_limited_and_the_integral_follows():
    state = pi_step(pi_start(1e-4), 0.0, 0.01, *FREE)  # no defect at all: floored
    e = math.log(0.01) - math.log(1e-16)
    assert state.h == pytest.approx(2e-4)
    assert state.integral == pytest.approx(math.log(2e-4) - 0.13 * e)
    # where the limit acts, I + K_P e is the logarithm of the step: no wind-up
    assert pi_step(state, 0.01, 0.01, *FREE).h == pytest.approx(math.exp(state.integral))


def test_an_immense_defect_shrinks_to_the_minimum_without_wind_up():
    state = pi_start(0.1)
    for _ in range(50):
        state = pi_step(state, 1e12, 1.0, 1e-3, 1.0)
    assert state.h == pytest.approx(1e-3)
    for _ in range(5):
        state = pi_step(state, 1e-3, 1.0, 1e-3, 1.0)
    assert state.h > 1.5e-3


@given(
    st.lists(st.floats(0.0, 1e300), min_size=1, max_size=30),
    st.floats(1e-6, 1e3),
    st.floats(1e-9, 1.0),
)
def test_steps_stay_within_bounds_and_growth(defects, tolerance, h0):
    low, high = min(1e-9, h0), max(0.5, h0)
    state = pi_start(h0)
    for defect in defects:
        before, state = state.h, pi_step(state, defect, tolerance, low, high)
        assert low <= state.h <= high
        assert state.h <= max(2.0 * before, low)
        assert math.isfinite(state.integral)


def test_settles_where_the_defect_is_the_tolerance():
    # a defect proportional to the step, as of a first-order error
    state = pi_start(1e-4)
    for _ in range(300):
        state = pi_step(state, 3.0 * state.h, 0.06, *FREE)
    assert state.h == pytest.approx(0.02, rel=1e-6)
