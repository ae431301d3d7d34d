import math

import numpy as np
import pytest

from hilrt.exchange.peer_times import PeerTimes, count_answer, peer_times
from hilrt.timing.histogram import BINS


def counted(*answers: tuple[float, float, float, float]) -> tuple[PeerTimes, list[float]]:
    """Of answers (compute, round trip, way there, waited for), and each one's time on the wire."""
    counts, longest_ns = np.zeros((3, BINS), np.int64), np.zeros(3, np.int64)
    wire = [count_answer(*answer, counts, longest_ns) for answer in answers]
    return peer_times(counts, longest_ns), wire


def test_each_time_has_a_distribution_of_its_own_and_unknown_ones_count_nowhere():
    times, _ = counted(*((50.0, 900.0, way, math.nan) for way in (100.0, 200.0, math.nan)))
    assert times.compute.n == 3
    assert times.wire.n == 2
    summary = times.summary()
    assert summary["compute_us"]["p50"] == pytest.approx(50.0, rel=0.02)
    assert summary["wire_us"]["max"] == pytest.approx(200.0)
    assert summary["collect_wait_us"] is None


def test_clocks_that_differ_a_little_make_no_negative_time():
    times, _ = counted((1.0, 900.0, -3.0, math.nan))
    assert times.wire.max_ns == 0
    assert times.wire.n == 1


def test_in_real_time_the_way_there_is_what_is_known():
    times, wire = counted((40.0, 900.0, 60.0, math.nan))
    assert wire == [60.0]
    assert times.wire.n == 1
    assert times.wait.n == 0


@pytest.mark.parametrize(("waited", "wait", "wire"), [(3e-4, 300.0, 260.0), (-0.1, 0.0, None)])
def test_as_fast_as_possible_it_is_the_round_trip_of_what_was_waited_for(waited, wait, wire):
    times, found = counted((40.0, 300.0, 60.0, waited))
    assert times.wait.max_ns == pytest.approx(wait * 1e3)
    assert times.wire.n == (wire is not None)
    assert found == [wire] if wire is not None else np.isnan(found[0])
