"""Ramps: bounds of value, rate and jerk hold, targets are reached without overshoot."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilrt.bench.guard_states import CYCLE_NS, NS, BenchView, GuardSettings, GuardState
from hilrt.bench.guardian import Guardian
from hilrt.bench.set_points import SetPointLimits
from hilrt.coupling.ramp import Bounds, approach

DT = 0.002


def move(value, rate, target, before, times, max_rate, max_jerk, low=-1e9, high=1e9):
    """Values and rates of a set-point that moves for each of `times`, towards each of `target`."""
    bounds = Bounds(low, high, max_rate, max_jerk)
    values, rates, took = [value], [rate], times[0]
    for at, elapsed in zip(target, times, strict=True):
        value, rate = approach(value, rate, at, before, elapsed, 0.5 * (elapsed + took), bounds)
        before, took = at, elapsed
        values.append(value)
        rates.append(rate)
    return values, rates


def changes(rates, times):
    """Change of the mean rate per time between the middles of two moves, unit/s²."""
    between = [0.5 * (a + b) for a, b in itertools.pairwise([times[0], *times])]
    return [abs(b - a) / dt for (a, b), dt in zip(itertools.pairwise(rates), between, strict=True)]


@settings(max_examples=60)
@given(
    start=st.floats(-100, 100),
    target=st.floats(-100, 100),
    max_rate=st.floats(20, 500),
    max_jerk=st.one_of(st.just(math.inf), st.floats(1e3, 1e5)),
)
def test_bounds_hold_and_the_target_is_reached_in_least_time(start, target, max_rate, max_jerk):
    """Least time: ``2 sqrt(d/j)``, or ``d/v + v/j`` where the rate is reached (motion profiles)."""
    way, build_up = abs(target - start), max_rate / max_jerk
    least = (
        2 * math.sqrt(way / max_jerk) if way < max_rate * build_up else way / max_rate + build_up
    )
    steps = math.ceil(least / DT) + 4
    values, rates = move(start, 0.0, [target] * steps, target, [DT] * steps, max_rate, max_jerk)
    assert all(abs(rate) <= max_rate * (1 + 1e-9) for rate in rates)
    assert math.isinf(max_jerk) or max(changes(rates, [DT] * steps)) <= max_jerk * (1 + 1e-6)
    low, high = min(start, target), max(start, target)
    slack = 1e-9 * (1 + abs(target))
    assert all(low - slack <= value <= high + slack for value in values)
    assert values[-1] == target


uneven = st.lists(st.sampled_from([0.3, 0.5, 1.0, 2.0, 9.0]), min_size=8, max_size=60)


@settings(max_examples=100)
@given(data=st.data(), times=uneven, max_rate=st.floats(1, 500), max_jerk=st.floats(100, 1e5))
def test_bounds_hold_whatever_is_asked_and_whenever(data, times, max_rate, max_jerk):
    times = [DT * time for time in times]
    asked = data.draw(st.lists(st.floats(-2, 2), min_size=len(times), max_size=len(times)))
    values, rates = move(0.0, 0.0, asked, 0.0, times, max_rate, max_jerk, -2.0, 2.0)
    assert max(map(abs, rates)) <= max_rate * (1 + 1e-9)
    assert max(map(abs, values)) <= 2.0
    means = [(b - a) / dt for (a, b), dt in zip(itertools.pairwise(values), times, strict=True)]
    assert max(changes([0.0, *means], times)) <= max_jerk * (1 + 1e-6) + 1e-6


@settings(max_examples=100)
@given(
    times=uneven,
    amplitude=st.floats(0.1, 50),
    frequency=st.floats(0.1, 20),
    phase=st.floats(0, 6),
)
def test_what_is_within_the_bounds_passes_bit_for_bit(times, amplitude, frequency, phase):
    """A sine sampled at any times; the bounds are just those of its derivatives."""
    omega = 2 * math.pi * frequency
    clock = list(itertools.accumulate((DT * time for time in times), initial=0.0))
    x = [amplitude * math.sin(omega * t + phase) for t in clock]
    elapsed = [b - a for a, b in itertools.pairwise(clock)]
    rate = (x[1] - x[0]) / elapsed[0]
    bounds = amplitude * omega * 1.001, amplitude * omega**2 * 1.001 + 1e-6
    values, _ = move(x[0], rate, x[1:], x[0], elapsed, *bounds, -amplitude, amplitude)
    assert values == x


def test_a_target_that_starts_to_move_is_caught_up_with():
    times = [DT] * 200
    target = [20.0 * DT * (k + 1) for k in range(200)]
    values, rates = move(0.0, 0.0, target, 0.0, times, 100.0, 1000.0)
    assert values[5] < target[4]  # it cannot start as abruptly
    assert values[1:][60:] == target[60:]
    assert rates[-1] == pytest.approx(20.0)


def test_no_time_no_move():
    assert approach(1.0, 2.0, 5.0, 5.0, 0.0, 0.1, Bounds(0.0, 9.0, 10.0, 10.0)) == (1.0, 2.0)


def test_the_guardian_ramps_with_bounded_jerk_and_still_arms():
    limits = SetPointLimits(("speed",), [0.0], [100.0], [50.0], [0.0], max_jerk=[100.0])
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


@pytest.mark.parametrize("max_jerk", [1e3, math.inf])
def test_while_demands_are_late_what_cannot_stop_at_once_brakes_and_waits(max_jerk):
    limits = SetPointLimits(("speed",), [0.0], [100.0], [50.0], [0.0], [max_jerk])
    guardian = Guardian(limits, GuardSettings(order=(0,)))
    now, view = 1000 * NS, BenchView(realised=[math.nan])
    guardian.arm(now, [0.0], view)
    while guardian.state is not GuardState.ARMED:
        now += CYCLE_NS
        guardian.step(now, view)
    asked = [5.0 * (k * DT) ** 2 for k in range(1, 1001)]  # to 20 per second
    for k, u in enumerate(asked):
        now += CYCLE_NS
        guardian.demand(now, k, [u])
        guardian.step(now, view)
    assert guardian.sent == asked[-1:]
    sent = [*asked[-2:]]
    for _ in range(24):  # less than the master may be silent
        now += CYCLE_NS
        guardian.step(now, view)
        sent.append(guardian.sent[0])
    assert all(b >= a for a, b in itertools.pairwise(sent))
    assert sent[-1] - asked[-1] == pytest.approx(20.0**2 / max_jerk, abs=20.0 * DT)
    if math.isfinite(max_jerk):
        rates = [(b - a) / DT for a, b in itertools.pairwise(sent)]
        assert max(abs(b - a) for a, b in itertools.pairwise(rates)) <= max_jerk * DT * 1.001
