"""Jerk limits: what leaves the master changes its rate no faster than the session file allows."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilrt.bench.guard_states import NS, BenchView, GuardSettings, GuardState
from hilrt.bench.guardian import Guardian
from hilrt.bench.read_bench import MASTER_SHARE
from hilrt.bench.set_points import SetPointLimits
from hilrt.coupling.limit import limit_jerk
from hilrt.tables import plan, state
from hilrt.tables.record import table

H = 0.01


class Input:
    """One input with bounds, sent at every tick; it keeps what has left."""

    def __init__(self, rate: float, jerk: float, low: float = -1e9, high: float = 1e9):
        self.record, self.at = table(state.InputState, 1)[0], table(plan.InputPlan, 1)[0]
        self.at.low, self.at.high, self.at.max_rate, self.at.max_jerk = low, high, rate, jerk
        self.t = 0.0
        self.times, self.sent, self.limited = [0.0], [], []

    def send(self, *c: float, h: float = H, elapsed: float = H) -> np.ndarray:
        """What leaves, `elapsed` after what left before, for an interval of length `h`."""
        u, rows = self.record, len(c)
        self.t += elapsed
        u.polynomial[:rows] = c
        limited = limit_jerk(u, self.at, rows, h, self.t)
        left = u.polynomial[:rows].copy()
        u.last, u.last_t = left[0], self.t
        self.comes_to(value(left, h))
        self.times.append(elapsed)
        self.sent.append(left)
        self.limited.append(limited)
        return self.sent[-1]

    def comes_to(self, end: float) -> None:
        """The previous polynomial has that value when the next one leaves."""
        self.record.previous[:] = 0.0
        self.record.previous[0] = end

    def mean_rates(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean rates from one point to the next, and the times between the middles of the steps."""
        times = np.array(self.times[1:])
        rates = np.diff([0.0, *(c[0] for c in self.sent)]) / times
        return rates, 0.5 * (times + np.array([0.0, *times[:-1]]))


def value(c: np.ndarray, s: float) -> float:
    return float(sum(x * s**m / math.factorial(m) for m, x in enumerate(c)))


polynomials = st.lists(
    st.tuples(st.floats(-50, 50), st.floats(-200, 200), st.floats(-1e4, 1e4), st.floats(-1e5, 1e5)),
    min_size=2,
    max_size=40,
)
skips = st.lists(st.sampled_from([1, 1, 1, 2, 3, 9]), min_size=40, max_size=40)


@settings(max_examples=200)
@given(polynomials, skips, st.floats(1.0, 1e3), st.floats(10.0, 1e5), st.integers(1, 4))
def test_bounds_hold_on_the_interval_and_from_tick_to_tick(asked, skips, rate, jerk, rows):
    held = Input(rate, jerk, -20.0, 20.0)
    for c, skip in zip(asked, skips, strict=False):
        held.send(*c[:rows], elapsed=skip * H)
    rates, between = held.mean_rates()
    assert np.abs(rates).max() <= rate * (1 + 1e-9)
    change = np.abs(np.diff(rates, prepend=0.0))
    assert (change <= jerk * between * (1 + 1e-6) + 1e-6).all()
    for c, came, elapsed in zip(held.sent, rates, held.times[1:], strict=True):
        slopes = [value(c[1:], s) for s in np.linspace(0.0, H, 9)]
        values = [value(c, s) for s in np.linspace(0.0, H, 9)]
        assert np.abs(values).max() <= 20.0 * (1 + 1e-9)
        assert np.abs(slopes).max() <= rate * (1 + 1e-9)
        assert np.abs(np.diff(slopes)).max() <= jerk * H / 8 * (1 + 1e-6) + 1e-9
        if rows > 1:
            assert abs(slopes[0] - came) <= 0.5 * jerk * (elapsed + H) * (1 + 1e-6) + 1e-6


@settings(max_examples=100)
@given(skips, st.floats(0.1, 20.0), st.floats(0.1, 10.0), st.integers(1, 3))
def test_what_is_within_the_bounds_passes_bit_for_bit(skips, amplitude, frequency, rows):
    """Taylor polynomials of a cosine that is within the bounds; some ticks are skipped."""
    omega = 2.0 * np.pi * frequency
    held = Input(amplitude * omega**2 * H + 1e3, amplitude * (omega**2 + omega**3 * H) * 1.01)
    held.record.last = held.record.approach_asked = amplitude
    t = 0.0
    for skip in skips:
        t += skip * H
        c = [amplitude * omega**m * np.cos(omega * t + 0.5 * np.pi * m) for m in range(rows)]
        held.comes_to(c[0])  # where the previous one has come to is not in question here
        np.testing.assert_array_equal(held.send(*c, elapsed=skip * H), c)
    assert not any(held.limited)


@pytest.mark.parametrize(("rate", "rows"), [(200.0, 1), (200.0, 2), (1e9, 2)])
def test_a_step_takes_as_long_as_time_optimal_motion(rate, rows):
    """Way d, rate v, jerk j: ``d/v + v/j``, or ``2 sqrt(d/j)`` if v is not reached."""
    step, way, jerk = Input(rate, 2000.0), 100.0, 2000.0
    for _ in range(120):
        step.send(*(way, 0.0)[:rows])
    starts = [c[0] for c in step.sent]
    least = way / rate + rate / jerk if way > rate**2 / jerk else 2.0 * np.sqrt(way / jerk)
    assert (starts.index(way) + 1) * H == pytest.approx(least, abs=3 * H)
    assert max(starts) == way
    assert step.limited[0]
    assert not step.limited[-1]


@pytest.mark.parametrize("slope", [50.0, 0.0])
def test_what_moves_steadily_is_followed_without_lag(slope):
    ramp = Input(rate=200.0, jerk=2000.0)
    for k in range(1, 60):
        ramp.send(50.0 * k * H, slope)
    assert ramp.record.last == 50.0 * 59 * H
    assert ramp.limited[0]
    assert not ramp.limited[-1]


def test_it_stops_at_a_bound_of_the_value_without_breaking_the_jerks():
    ramp = Input(rate=1e3, jerk=100.0, high=1.0)
    for k in range(200):
        ramp.send(0.02 * k, 2.0)
    assert ramp.record.last == pytest.approx(1.0)
    rates, between = ramp.mean_rates()
    assert (np.abs(np.diff(rates)) <= 100.0 * between[1:] * (1 + 1e-9)).all()


def test_a_bend_within_the_interval_becomes_a_line():
    bend = Input(rate=1e3, jerk=100.0)
    np.testing.assert_array_equal(bend.send(0.0, 0.0, 400.0), [0.0, 0.0, 0.0])
    np.testing.assert_array_equal(bend.send(0.0, 0.0, 40.0), [0.0, 0.0, 40.0])
    assert bend.limited == [True, False]


def test_a_number_that_is_none_never_leaves():
    broken = Input(rate=10.0, jerk=100.0)
    for c in ((np.nan, 1.0), (1.0, np.inf), (np.inf, np.nan)):
        assert np.isfinite(broken.send(*c)).all()
    assert all(broken.limited)


def test_no_time_has_passed():
    first = Input(rate=1.0, jerk=1.0)
    np.testing.assert_array_equal(first.send(0.0, 0.0, elapsed=0.0), [0.0, 0.0])
    assert first.limited == [False]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0.0, 100.0), min_size=10, max_size=10), st.integers(0, 99))
def test_the_gateway_lets_pass_what_the_master_has_limited(steps, seed):
    """Steps, limited in the master, seen at jittered times: off by what the jitter explains."""
    tick, rate, jerk, jitter = 0.001, 800.0, 20000.0, 1e-4
    guardian = Guardian(
        SetPointLimits(("speed",), [0.0], [100.0], [rate], [0.0], [jerk]), GuardSettings(order=(0,))
    )
    now, view = 1000 * NS, BenchView(realised=[math.nan])
    guardian.arm(now, [0.0], view)
    while guardian.state is not GuardState.ARMED:
        now += 2_000_000
        guardian.step(now, view)
    chance = random.Random(seed)
    held, off = Input(rate, MASTER_SHARE * jerk, 0.0, 100.0), []
    for k in range(1000):
        c = held.send(steps[k // 100], 0.0, h=tick, elapsed=tick)
        at = now + round((k + 1) * 1e6 + chance.uniform(0.0, jitter) * 1e9)
        guardian.demand(at, k, [c[0]])
        guardian.step(at, view)
        off.append(abs(guardian.sent[0] - c[0]))
    assert max(off) <= 3.0 * rate * jitter
