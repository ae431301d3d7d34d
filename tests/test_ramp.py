"""Ramps: bounds of rate and jerk hold, targets are reached without overshoot."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilrt.guardian import CYCLE_NS, NS, BenchView, Guardian, GuardSettings, Limits
from hilrt.ramp import approach

DT = 0.002


def run(value, target, max_rate, max_jerk, steps, rate=0.0, target_rate=0.0):
    """Values and rates of a ramp; the target moves with its rate."""
    values, rates = [value], [rate]
    for _ in range(steps):
        target += target_rate * DT
        value, rate = approach(value, rate, target, target_rate, DT, max_rate, max_jerk)
        values.append(value)
        rates.append(rate)
    return values, rates


@settings(max_examples=60)
@given(
    start=st.floats(-100, 100),
    target=st.floats(-100, 100),
    max_rate=st.floats(20, 500),
    max_jerk=st.one_of(st.just(math.inf), st.floats(1e3, 1e5)),
)
def test_bounds_hold_and_the_target_is_reached_without_overshoot(start, target, max_rate, max_jerk):
    needed = abs(target - start) / max_rate + 2 * max_rate / max_jerk
    needed += 2 * math.sqrt(abs(target - start) / max_jerk) + 5 * DT
    values, rates = run(start, target, max_rate, max_jerk, math.ceil(needed / DT) + 2)
    assert all(abs(rate) <= max_rate * (1 + 1e-9) for rate in rates)
    changes = [abs(b - a) for a, b in itertools.pairwise(rates)]
    assert max(changes) <= max_jerk * DT * (1 + 1e-6) + 1e-9
    low, high = min(start, target), max(start, target)
    slack = 1e-9 * (1 + abs(target))
    assert all(low - slack <= value <= high + slack for value in values)
    assert values[-1] == target
    assert rates[-1] == pytest.approx(0.0, abs=1e-12)


def test_a_steadily_moving_target_is_followed_without_lag():
    values, rates = run(0.0, 0.0, 100.0, 1000.0, 1000, target_rate=20.0)
    assert rates[-1] == pytest.approx(20.0, rel=1e-6)
    assert values[-1] == pytest.approx(20.0 * 1000 * DT, abs=1e-6)


def test_no_time_no_move():
    assert approach(1.0, 2.0, 5.0, 0.0, 0.0, 10.0, 10.0) == (1.0, 2.0)


def test_the_guardian_ramps_with_bounded_jerk_and_still_arms():
    limits = Limits(("speed",), [0.0], [100.0], [50.0], [0.0], max_jerk=[100.0])
    guardian = Guardian(limits, GuardSettings(order=(0,), step_timeout=5.0))
    now, view = 1000 * NS, BenchView(realised=[math.nan])
    guardian.arm(now, [60.0], view)
    sent = []
    for _ in range(1500):
        now += CYCLE_NS
        guardian.master_seen(now)
        if (u := guardian.step(now, view)) is not None:
            sent.append(u[0])
    assert [notice.kind for notice in guardian.notices] == ["armed"]
    assert sent[-1] == 60.0
    dt = CYCLE_NS / NS
    rates = [(b - a) / dt for a, b in itertools.pairwise(sent)]
    assert max(rates) == pytest.approx(50.0)
    assert max(abs(b - a) / dt for a, b in itertools.pairwise(rates)) < 100.0 * 1.001
