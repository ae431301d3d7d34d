import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.timing.count_times import count_us
from hilrt.timing.histogram import BINS, Distribution, Recent


def filled(times) -> Distribution:
    distribution = Distribution()
    for ns in times:
        distribution.add(ns)
    return distribution


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=200), st.sampled_from([0.5, 0.99, 1.0]))
def test_quantiles_are_right_to_a_bin(times, q):
    expected = np.sort(times)[max(int(np.ceil(q * len(times))) - 1, 0)]
    assert filled(times).quantile_us(q) * 1e3 == pytest.approx(expected, rel=0.0125)


def test_the_maximum_is_exact():
    quantiles = filled([1500, 7, 123_457]).quantiles()
    assert quantiles["max"] == pytest.approx(123.457, rel=1e-15)
    assert quantiles["p50"] <= quantiles["p99"] <= quantiles["p999"] <= quantiles["max"]


def test_out_of_range_times_count_at_the_ends():
    early, long = filled([-5, 0, 1]), filled([5 * 10**9])
    assert early.quantile_us(1.0) == pytest.approx(1e-3, rel=0.02)
    assert long.quantiles()["max"] == 5e6
    assert long.quantile_us(0.5) == pytest.approx(1e6, rel=0.02)


@given(st.lists(st.floats(-1.0, 2e6) | st.just(np.nan), min_size=1, max_size=50))
def test_compiled_code_counts_as_python_does(times_us):
    counts, longest_ns = np.zeros((3, BINS), np.int64), np.zeros(3, np.int64)
    for us in times_us:
        count_us(us, 2, counts, longest_ns)
    expected = filled(max(0, round(us * 1e3)) for us in times_us if not np.isnan(us))
    assert counts[2].tolist() == expected.counts
    assert longest_ns[2] == expected.max_ns
    assert not counts[:2].any()


@pytest.mark.parametrize("us", [np.inf, 1e300, -np.inf])
def test_what_is_no_time_at_all_counts_at_the_ends(us):
    counts, longest_ns = np.zeros((1, BINS), np.int64), np.zeros(1, np.int64)
    count_us(us, 0, counts, longest_ns)
    assert counts[0, -1 if us > 0 else 0] == counts.sum() == 1
    assert longest_ns[0] == (10**15 if us > 0 else 0)


def test_nothing_yet():
    empty = Distribution()
    assert empty.quantiles() == dict.fromkeys(("p50", "p99", "p999", "p9999", "max"), 0.0)
    edges, counts = empty.histogram()
    assert (len(edges), counts) == (0, [])


@given(st.lists(st.integers(1, 10**9 - 1), min_size=1, max_size=100))
def test_histogram_counts_what_lies_between_its_edges(times):
    edges, counts = filled(times).histogram()
    assert len(edges) == len(counts) + 1
    assert sum(counts) == len(times)
    assert counts[0] > 0
    assert counts[-1] > 0
    # a time on an edge may fall on either side of it by rounding
    clear = [ns for ns in times if np.abs(np.log10(ns) * 10 % 1.0 - 0.5) < 0.49]
    inside, _ = np.histogram(np.array(clear) * 1e-3, edges)
    assert (inside <= counts).all()
    assert inside.sum() == len(clear)


def test_recent_quantiles_know_nothing_of_what_was_before():
    whole, recent = filled([80_000_000]), Recent()
    assert recent.update(whole, (1.0,)) == pytest.approx([80_000.0])
    assert recent.update(whole, (0.5, 1.0)) is None
    times = [1_000 * (i + 1) for i in range(100)]
    for ns in times:
        whole.add(ns)
    assert recent.update(whole, (0.5, 0.99, 1.0)) == pytest.approx([50.0, 99.0, 100.0], rel=0.0125)
    whole.add(5 * 10**9)  # beyond the scale
    assert recent.update(whole, (1.0,)) == pytest.approx([5e6])


def test_many_times_at_once_are_counted_as_one_by_one():
    times_us = np.random.default_rng(1).gamma(3.0, 50.0, 20_000)
    at_once, single = Distribution(), filled(np.rint(times_us * 1e3))
    for part in np.array_split(np.append(times_us, np.nan), 7):
        at_once.add_all(part)
    assert at_once.counts == single.counts
    quantiles = {**at_once.quantiles()}
    for key, share in (("p50", 50.0), ("p99", 99.0), ("p999", 99.9)):
        assert quantiles[key] == pytest.approx(np.percentile(times_us, share), rel=0.015)
    assert quantiles["max"] == pytest.approx(times_us.max(), abs=5e-4)
    edges, counts = at_once.histogram()
    assert sum(counts) == 20_000
    assert edges[0] <= times_us.min()
    assert edges[-1] >= times_us.max() * 0.99


@given(st.lists(st.floats(-1.0, 2e6) | st.just(np.nan), max_size=50))
def test_times_out_of_range_are_counted_at_the_ends_at_once_too(times_us):
    known = [np.rint(us * 1e3) for us in times_us if not np.isnan(us)]
    at_once, single = Distribution(), filled(known)
    at_once.add_all(np.array(times_us))
    assert at_once.counts == single.counts
    assert at_once.max_ns == single.max_ns
