import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.peers.clock_offset import OPEN_REQUESTS, ClockExchanges, ClockOffset
from hilrt.peers.wire import Heartbeat

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


def test_a_clock_five_seconds_off_and_drifting_200_ppm():
    rng = np.random.default_rng(2)
    clock = ClockOffset()
    errors = []
    for now in range(SECOND, 120 * SECOND, SECOND // 5):
        there = 80_000 + int(rng.exponential(300_000))
        back = 90_000 + int(rng.exponential(500_000))
        at = now + there
        clock.add(now, at + 5 * SECOND + at // 5000, at + back)
        later = at + back + SECOND // 10  # between two exchanges
        errors.append(clock.offset_at(later) - (5 * SECOND + later // 5000))
    assert clock.drift == pytest.approx(200e-6, rel=0.05)
    settled = np.array(errors[30 * 5 :])
    assert np.abs(settled).max() < 150_000
    # Without the drift, the offset would be behind by what it moves until the next exchange.
    assert np.abs(settled).mean() < 50_000


@given(st.lists(delays, min_size=1, max_size=80))
def test_delays_alone_are_never_taken_for_drift(exchanges):
    clock = ClockOffset()
    now = 7 * SECOND
    for there, back in exchanges:
        clock.add(now, now + there, now + there + back)
        assert clock.drift == 0.0
        now += SECOND


def test_an_answer_before_its_question_changes_nothing():
    clock = ClockOffset()
    assert not clock.add(100, 50, 99)
    assert clock.round_trip_ns is None
    assert clock.to_master_ns(42) == 42


def test_half_of_the_quickest_round_trip_bounds_the_error():
    clock = ClockOffset()
    assert math.isnan(clock.uncertainty)
    clock.add(0, 5_000, 400_000)
    clock.add(1_000_000, 1_005_000, 1_100_000)
    clock.add(2_000_000, 2_005_000, 2_900_000)
    assert clock.uncertainty == pytest.approx(50e-6)


def test_a_peer_that_was_busy_for_long_answers_more_requests_than_are_kept():
    exchanges, asked = ClockExchanges(), range(100, 100 + OPEN_REQUESTS + 5)
    for ns in asked:
        exchanges.request(ns)
    answers = [Heartbeat(sent_ns=9, echo_ns=ns) for ns in asked]
    assert not any(exchanges.is_answer(answer) for answer in answers[:5])
    late = [exchanges.is_late_answer(answer) for answer in answers[:5]]
    used = [exchanges.is_answer(answer) for answer in answers[5:]]
    assert (used, late) == ([True] * OPEN_REQUESTS, [True] * 5)
    assert not exchanges.is_late_answer(answers[0])
