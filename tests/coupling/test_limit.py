import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.coupling.limit import Bounds, limit
from hilrt.coupling.polynomial import evaluate

NO_BOUND = np.array([np.inf])
LOOSE = Bounds(-NO_BOUND, NO_BOUND, NO_BOUND, NO_BOUND)
moderate = st.floats(-5.0, 5.0)


def sampled(c, h):
    s = np.linspace(0.0, h, 401)
    return s, np.array([evaluate(c, x)[0] for x in s])


@st.composite
def situations(draw):
    """A polynomial, its interval, the time since the last one, where that was, and bounds."""
    order = draw(st.integers(0, 4))
    c = np.array([[draw(moderate)] for _ in range(order + 1)])
    h, elapsed = draw(st.floats(0.01, 2.0)), draw(st.floats(0.01, 2.0))
    low = draw(st.floats(-4.0, 0.0))
    bounds = Bounds(
        low=np.array([low]),
        high=np.array([draw(st.floats(low, 4.0))]),
        rate=np.array([draw(st.one_of(st.floats(0.01, 10.0), st.just(math.inf)))]),
        jerk=NO_BOUND,
    )
    # What was sent before was within the bounds, too.
    last = draw(st.floats(bounds.low[0], bounds.high[0]))
    swing = min(bounds.rate[0] * elapsed, 10.0)
    end = draw(st.floats(max(low, last - swing), min(bounds.high[0], last + swing)))
    return c, h, elapsed, last, end, bounds


@given(situations())
def test_never_outside_never_steeper_never_jumping_further(situation):
    c, h, elapsed, last, end, bounds = situation
    before = c.copy()
    limited = limit(
        c, np.array([h]), np.array([elapsed]), np.array([last]), np.array([end]), bounds
    )
    s, values = sampled(c, h)
    low, high, rate = bounds.low[0], bounds.high[0], bounds.rate[0]
    slack = 1e-9 * (1.0 + np.abs(values).max())
    assert values.min() >= low - slack
    assert values.max() <= high + slack
    assert np.abs(np.diff(values) / np.diff(s)).max() <= rate + 1e-9 * (1.0 + min(rate, 1e6))
    assert abs(values[0] - last) <= rate * elapsed + slack
    assert abs(values[0] - end) <= rate * elapsed + slack
    assert limited[0] == (c != before).any()


@given(situations(), st.floats(1e-6, 1.0))
def test_what_is_well_within_bounds_is_left_alone(situation, share):
    c, h, elapsed, last, _, _ = situation
    # Steepness and excursion by the sum of the terms, the criterion's own measure.
    terms = [abs(c[m, 0]) * h**m / math.factorial(m) for m in range(1, len(c))]
    slopes = [abs(c[m, 0]) * h ** (m - 1) / math.factorial(m - 1) for m in range(1, len(c))]
    room = Bounds(
        low=np.array([c[0, 0] - sum(terms) - share]),
        high=np.array([c[0, 0] + sum(terms) + share]),
        rate=np.array([sum(slopes) + abs(c[0, 0] - last) / elapsed + share]),
        jerk=NO_BOUND,
    )
    before, at = c.copy(), np.array([last])
    limited = limit(c, np.array([h]), np.array([elapsed]), at, at, room)
    np.testing.assert_array_equal(c, before)
    assert not limited[0]


def test_without_bounds_nothing_happens_even_at_the_first_tick():
    c = np.array([[3.0], [1e9], [-1e12]])
    zero = np.zeros(1)
    limited = limit(c, np.array([0.5]), zero, zero, zero, LOOSE)  # no time has passed: inf * 0
    assert not limited[0]
    np.testing.assert_array_equal(c[:, 0], [3.0, 1e9, -1e12])


def test_a_ramp_stops_at_the_bound():
    # from 0.9, 1 unit/s, over half a second, the bound at 1: the line ends there
    c = np.array([[0.9], [1.0]])
    bounds = Bounds(np.array([0.0]), np.array([1.0]), np.array([5.0]), NO_BOUND)
    now = np.array([0.9])
    assert limit(c, np.array([0.5]), np.array([0.5]), now, now, bounds)[0]
    np.testing.assert_allclose(c[:, 0], [0.9, 0.2])


def test_a_step_becomes_a_staircase_within_the_rate():
    bounds = Bounds(np.array([-10.0]), np.array([10.0]), np.array([2.0]), NO_BOUND)
    last, seen = np.zeros(1), []
    for _ in range(4):
        c = np.array([[5.0]])
        limit(c, np.array([0.1]), np.array([0.1]), last, last, bounds)
        last = c[0].copy()
        seen.append(last[0])
    np.testing.assert_allclose(seen, [0.2, 0.4, 0.6, 0.8])


def test_channels_are_limited_on_their_own():
    c = np.array([[0.0, 9.0, -9.0], [1.0, 1.0, 1.0]])
    bounds = Bounds(np.full(3, -1.0), np.full(3, 1.0), *np.full((2, 3), np.inf))
    limited = limit(c, np.full(3, 0.5), np.full(3, 0.1), np.zeros(3), np.zeros(3), bounds)
    np.testing.assert_array_equal(limited, [False, True, True])
    np.testing.assert_allclose(c, [[0.0, 1.0, -1.0], [1.0, 0.0, 1.0]])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_what_is_not_a_finite_number_never_leaves(bad, row):
    c = np.array([[1.0], [0.5], [0.25]])
    c[row] = bad
    limited = limit(c, np.array([0.1]), 0.1, np.array([0.75]), np.array([0.75]), LOOSE)
    np.testing.assert_array_equal(
        c, [[0.75 if row == 0 else 1.0], [0.5 if row == 0 else 0.0], [0.25 if row == 0 else 0.0]]
    )
    assert limited[0]
