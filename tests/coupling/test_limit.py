import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.coupling.extrapolate import value_at
from hilrt.coupling.limit import limit, limit_rate
from hilrt.coupling.ramp import Bounds
from hilrt.link import Ports
from hilrt.solver import Port
from hilrt.tables import plan, state
from hilrt.tables.record import table
from hilrt.tables.state import DEMAND_LIMITED
from tests.stepping import make_numerics

LOOSE = Bounds(-math.inf, math.inf, math.inf, math.inf)
moderate = st.floats(-5.0, 5.0)


class Limited(NamedTuple):
    """What came of a polynomial, and whether it was limited."""

    c: np.ndarray
    limited: bool


def bounded(c, h, elapsed, last, end, bounds) -> Limited:
    """`limit_rate` of one input, whose polynomial has the coefficients `c`."""
    u, at = table(state.InputState, 1)[0], table(plan.InputPlan, 1)[0]
    at.low, at.high, at.max_rate, at.max_jerk = bounds
    u.polynomial[: len(c)], u.last = c, last
    limited = limit_rate(u, at, len(c), h, elapsed, end)
    return Limited(u.polynomial[: len(c)].copy(), limited)


def sampled(c, h):
    s = np.linspace(0.0, h, 401)
    return s, np.array([value_at(c, len(c), x) for x in s])


@st.composite
def situations(draw):
    """A polynomial, its interval, the time since the last one, where that was, and bounds."""
    c = np.array([draw(moderate) for _ in range(draw(st.integers(1, 5)))])
    h, elapsed = draw(st.floats(0.01, 2.0)), draw(st.floats(0.01, 2.0))
    low = draw(st.floats(-4.0, 0.0))
    high = draw(st.floats(low, 4.0))
    rate = draw(st.one_of(st.floats(0.01, 10.0), st.just(math.inf)))
    # What was sent before was within the bounds, too.
    last = draw(st.floats(low, high))
    swing = min(rate * elapsed, 10.0)
    end = draw(st.floats(max(low, last - swing), min(high, last + swing)))
    return c, h, elapsed, last, end, Bounds(low, high, rate, math.inf)


@given(situations())
def test_never_outside_never_steeper_never_jumping_further(situation):
    before, h, elapsed, last, end, bounds = situation
    c, limited = bounded(*situation)
    s, values = sampled(c, h)
    low, high, rate, _ = bounds
    slack = 1e-9 * (1.0 + np.abs(values).max())
    assert values.min() >= low - slack
    assert values.max() <= high + slack
    assert np.abs(np.diff(values) / np.diff(s)).max() <= rate + 1e-9 * (1.0 + min(rate, 1e6))
    assert abs(values[0] - last) <= rate * elapsed + slack
    assert abs(values[0] - end) <= rate * elapsed + slack
    assert limited == (c != before).any()


@given(situations(), st.floats(1e-6, 1.0))
def test_what_is_well_within_bounds_is_left_alone(situation, share):
    c, h, elapsed, last, _, _ = situation
    # Steepness and excursion by the sum of the terms, the criterion's own measure.
    terms = [abs(c[m]) * h**m / math.factorial(m) for m in range(1, len(c))]
    slopes = [abs(c[m]) * h ** (m - 1) / math.factorial(m - 1) for m in range(1, len(c))]
    rate = sum(slopes) + abs(c[0] - last) / elapsed + share
    room = Bounds(c[0] - sum(terms) - share, c[0] + sum(terms) + share, rate, math.inf)
    kept, limited = bounded(c, h, elapsed, last, last, room)
    np.testing.assert_array_equal(kept, c)
    assert not limited


def test_without_bounds_nothing_happens_even_at_the_first_tick():
    c = np.array([3.0, 1e9, -1e12])
    kept, limited = bounded(c, 0.5, 0.0, 0.0, 0.0, LOOSE)  # no time has passed: inf * 0
    assert not limited
    np.testing.assert_array_equal(kept, c)


def test_a_ramp_stops_at_the_bound():
    # from 0.9, 1 unit/s, over half a second, the bound at 1: the line ends there
    bounds = Bounds(0.0, 1.0, 5.0, math.inf)
    c, limited = bounded(np.array([0.9, 1.0]), 0.5, 0.5, 0.9, 0.9, bounds)
    assert limited
    np.testing.assert_allclose(c, [0.9, 0.2])


def test_a_step_becomes_a_staircase_within_the_rate():
    bounds = Bounds(-10.0, 10.0, 2.0, math.inf)
    last, seen = 0.0, []
    for _ in range(4):
        last = bounded(np.array([5.0]), 0.1, 0.1, last, last, bounds).c[0]
        seen.append(last)
    np.testing.assert_allclose(seen, [0.2, 0.4, 0.6, 0.8])


def test_inputs_are_limited_on_their_own():
    inputs = tuple(Port(name, min=-1.0, max=1.0) for name in "abc")
    numerics = make_numerics({"s": Ports(inputs, ())}, master={"step": 0.5})
    state, given = numerics.state, numerics.given
    numerics.plan.session["coefficients"] = 2
    state.inputs["polynomial"][:, :2] = [[0.0, 1.0], [9.0, 1.0], [-9.0, 1.0]]
    given.session["t"], given.session["elapsed"] = 0.1, 0.1
    given.subsystems["reached"] = 0.1
    limit(numerics.plan, state, given)
    # Nothing is connected: what is cut off was demanded.
    np.testing.assert_array_equal(state.inputs["limited"], [0, DEMAND_LIMITED, DEMAND_LIMITED])
    expected = [[0.0, 1.0], [1.0, 0.0], [-1.0, 1.0]]
    np.testing.assert_allclose(state.inputs["polynomial"][:, :2], expected)
    np.testing.assert_allclose(state.subsystems["h"], 0.5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_what_is_not_a_finite_number_never_leaves(bad, row):
    c = np.array([1.0, 0.5, 0.25])
    c[row] = bad
    c, limited = bounded(c, 0.1, 0.1, 0.75, 0.75, LOOSE)
    expected = [0.75 if row == 0 else 1.0, 0.5 if row == 0 else 0.0, 0.25 if row == 0 else 0.0]
    np.testing.assert_array_equal(c, expected)
    assert limited
