"""Jerk limits: what leaves the master changes its rate no faster than the session file allows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.coupling.limit import limit_jerk

H = 0.01
demands = st.lists(st.floats(-50.0, 50.0), min_size=2, max_size=40)


class Input:
    """One input with bounds, sent at every tick."""

    def __init__(self, rate: float, jerk: float, low: float = -np.inf, high: float = np.inf):
        self.bounds = low, high, rate, jerk
        self.last, self.rate = 0.0, np.zeros(1)
        self.starts, self.slopes, self.limited = [0.0], [0.0], []

    def send(self, *c: float, h: float = H) -> np.ndarray:
        asked = np.array(c)[:, None]
        self.limited.append(limit_jerk(asked, 0, h, H, self.last, self.rate, *self.bounds))
        self.last = asked[0, 0]
        self.starts.append(self.last)
        self.slopes.append(asked[1, 0] if len(c) > 1 else 0.0)
        return asked[:, 0]


@given(demands, st.floats(1.0, 1e3), st.floats(10.0, 1e5))
def test_rate_and_its_change_stay_within_bounds_whatever_is_asked(asked, rate, jerk):
    held = Input(rate, jerk)
    for value in asked:
        held.send(value)
    rates = np.diff(held.starts) / H
    slack = 1e-6 * (1.0 + rate)
    assert np.abs(rates).max() <= rate + slack
    assert np.abs(np.diff(rates, prepend=0.0)).max() <= jerk * H + slack


@given(demands, demands, st.floats(10.0, 1e5))
def test_the_slope_on_the_way_keeps_to_the_rate_it_came_with(values, slopes, jerk):
    steered = Input(1e9, jerk)
    for value, slope in zip(values, slopes, strict=False):
        steered.send(value, slope, 3.0 * slope)
        assert abs(steered.slopes[-1] - steered.rate[0]) <= jerk * H * (1 + 1e-9) + 1e-9


def test_a_step_takes_as_long_as_a_trapezoid_of_its_rate():
    """Distance d at rate v and jerk j: ``d/v + v/j`` (textbook motion profile), no overshoot."""
    step = Input(rate=200.0, jerk=2000.0)
    for _ in range(120):
        step.send(100.0)
    arrived = int(np.argmax(np.isclose(step.starts, 100.0, atol=1e-9)))
    assert arrived * H == pytest.approx(100.0 / 200.0 + 200.0 / 2000.0, abs=2 * H)
    assert max(step.starts) <= 100.0 + 1e-9
    assert not step.limited[-1]


def test_what_moves_steadily_is_followed_without_lag():
    ramp = Input(rate=200.0, jerk=2000.0)
    for k in range(1, 60):
        ramp.send(50.0 * k * H, 50.0)
    assert ramp.starts[-1] == 50.0 * 59 * H
    assert ramp.slopes[-1] == 50.0
    assert ramp.limited[0]
    assert not ramp.limited[-1]


def test_value_bounds_come_before_the_jerk():
    """Carried by its rate beyond the bound, it stops there."""
    fast = Input(rate=1e3, jerk=100.0, low=-1.0, high=1.0)
    fast.rate[0] = 90.0
    for _ in range(5):
        fast.send(0.5, 0.0)
    assert max(fast.starts) == 1.0


def test_a_bend_within_the_interval_becomes_a_line():
    bend = Input(rate=1e3, jerk=100.0)
    sent = bend.send(0.0, 0.0, 400.0)  # four times the bound
    np.testing.assert_array_equal(sent, [0.0, 0.0, 0.0])
    assert bend.limited == [True]
    sent = bend.send(0.0, 0.0, 40.0)
    np.testing.assert_array_equal(sent, [0.0, 0.0, 40.0])
    assert bend.limited == [True, False]


def test_no_time_has_passed():
    first = np.array([[3.0], [1.0]])
    assert not limit_jerk(first, 0, H, 0.0, 0.0, np.zeros(1), -9.0, 9.0, 1.0, 1.0)
    np.testing.assert_array_equal(first[:, 0], [3.0, 1.0])
