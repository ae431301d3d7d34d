import math

import pytest

from hilrt.peer_times import AnswerTimes, PeerTimes


def test_each_time_has_a_distribution_of_its_own_and_unknown_ones_count_nowhere():
    times = PeerTimes()
    for wire in (100.0, 200.0, math.nan):
        times.add(AnswerTimes(compute=50.0, wire=wire, wait=math.nan))
    summary = times.summary()
    assert times.compute.n == 3
    assert times.wire.n == 2
    assert summary["compute_us"]["p50"] == pytest.approx(50.0, rel=0.02)
    assert summary["wire_us"]["max"] == pytest.approx(200.0)
    assert summary["collect_wait_us"] is None


def test_clocks_that_differ_a_little_make_no_negative_time():
    times = PeerTimes()
    times.add(AnswerTimes(compute=1.0, wire=-3.0, wait=0.0))
    assert times.wire.max_ns == 0
    assert times.wire.n == 1
