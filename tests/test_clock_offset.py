import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.clock_offset import ClockOffset

SECOND = 1_000_000_000
delays = st.tuples(st.integers(0, 10**7), st.integers(0, 10**7))


@given(st.integers(-(10**12), 10**12), st.lists(delays, min_size=1, max_size=30))
def test_error_is_at_most_half_the_least_round_trip(offset, exchanges):
    clock = ClockOffset()
    now = 7 * SECOND
    for there, back in exchanges:
        assert clock.add(now, now + there + offset, now + there + back)
        now += SECOND
    least = min(there + back for there, back in exchanges)
    assert clock.round_trip_ns == least
    assert abs(clock.offset_ns - offset) <= least / 2 + 1


def test_five_seconds_with_jittered_asymmetric_delays():
    rng = np.random.default_rng(1)
    clock = ClockOffset()
    for now in range(SECOND, 60 * SECOND, SECOND // 5):
        there = 80_000 + int(rng.exponential(300_000))
        back = 90_000 + int(rng.exponential(2_000_000))  # waits for the next tick
        clock.add(now, now + there + 5 * SECOND, now + there + back)
    assert clock.offset_ns == pytest.approx(5 * SECOND, abs=100_000)
    assert clock.to_master_ns(12 * SECOND) == pytest.approx(7 * SECOND, abs=100_000)


def test_drift_is_followed_to_within_a_round_trip():
    clock = ClockOffset()
    clock.add(0, 50_000, 100_000)  # the best sample, at the start
    for now in range(SECOND, 1000 * SECOND, SECOND):
        drifted = now * 20 // 1_000_000  # 20 ppm
        clock.add(now, now + 200_000 + drifted, now + 1_000_000)
        assert abs(clock.offset_ns - drifted) <= 1_000_000


def test_an_answer_before_its_question_changes_nothing():
    clock = ClockOffset()
    assert not clock.add(100, 50, 99)
    assert clock.round_trip_ns is None
    assert clock.to_master_ns(42) == 42
