import math

import numpy as np
import pytest

from hilrt.exchange.peer_times import AnswerTimes


def test_each_time_has_a_distribution_of_its_own_and_unknown_ones_count_nowhere():
    times = AnswerTimes(np.full(2, np.nan))
    for way in (100.0, 200.0, math.nan):
        times.keep(1, compute_us=50.0, round_trip_us=900.0, way_us=way, t_arrived=0.0)
    times.count()
    assert times.of(0).compute.n == 0
    assert times.of(1).compute.n == 3
    assert times.of(1).wire.n == 2
    summary = times.of(1).summary()
    assert summary["compute_us"]["p50"] == pytest.approx(50.0, rel=0.02)
    assert summary["wire_us"]["max"] == pytest.approx(200.0)
    assert summary["collect_wait_us"] is None


def test_clocks_that_differ_a_little_make_no_negative_time():
    times = AnswerTimes(np.full(1, np.nan))
    times.keep(0, compute_us=1.0, round_trip_us=900.0, way_us=-3.0, t_arrived=0.0)
    times.count()
    assert times.of(0).wire.max_ns == 0
    assert times.of(0).wire.n == 1


def test_in_real_time_the_way_there_is_what_is_known():
    times = AnswerTimes(np.full(2, np.nan))
    times.keep(1, compute_us=40.0, round_trip_us=900.0, way_us=60.0, t_arrived=0.002)
    times.count()
    times.count()  # once only
    assert np.isnan(times.wire_us[0])
    assert times.wire_us[1] == 60.0
    assert times.of(1).wire.n == 1
    assert times.of(1).wait.n == 0


@pytest.mark.parametrize(("arrived", "wait", "wire"), [(1.0003, 300.0, 260.0), (0.9, 0.0, None)])
def test_as_fast_as_possible_it_is_the_round_trip_of_what_was_waited_for(arrived, wait, wire):
    times = AnswerTimes(np.full(1, np.nan))
    times.waits_from = 1.0
    times.keep(0, compute_us=40.0, round_trip_us=300.0, way_us=60.0, t_arrived=arrived)
    times.count()
    assert times.of(0).wait.max_ns == pytest.approx(wait * 1e3)
    assert times.of(0).wire.n == (wire is not None)
    if wire is not None:
        assert times.wire_us[0] == wire
