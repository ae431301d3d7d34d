"""Intervals keep every extreme, whatever the batches, in memory that does not grow."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hilrt.record.decimate import Envelope, IntervalExtremes, extremes

VALUES = st.one_of(st.floats(-1e6, 1e6), st.just(np.nan))
BLOCKS = hnp.arrays(np.float64, st.tuples(st.integers(1, 30), st.just(3)), elements=VALUES)


@given(block=BLOCKS, cuts=st.lists(st.integers(0, 30), max_size=4))
def test_batches_do_not_matter(block, cuts):
    whole, parts = IntervalExtremes(3), IntervalExtremes(3)
    t = np.arange(len(block), dtype=float)
    whole.add(t, block)
    edges = [0, *sorted(min(cut, len(block)) for cut in cuts), len(block)]
    for start, stop in itertools.pairwise(edges):
        parts.add(t[start:stop], block[start:stop])
    for key in ("minimum", "maximum", "last"):
        np.testing.assert_array_equal(getattr(whole, key), getattr(parts, key))
    assert (whole.rows, whole.t_from, whole.t_until) == (parts.rows, parts.t_from, parts.t_until)
    for column in range(3):
        known = block[:, column][~np.isnan(block[:, column])]
        if len(known):
            assert whole.minimum[column] == known.min()
            assert whole.maximum[column] == known.max()
            assert whole.last[column] == known[-1]
        else:
            assert np.isnan([whole.minimum[column], whole.maximum[column]]).all()


def test_one_spike_among_thousands_survives():
    block = np.zeros((5000, 1))
    block[1234] = 99.0
    interval = IntervalExtremes(1)
    for start in range(0, 5000, 64):
        interval.add(np.arange(start, min(start + 64, 5000)) * 1e-3, block[start : start + 64])
    assert interval.maximum[0] == 99.0
    assert (interval.last[0], interval.rows) == (0.0, 5000)


def test_next_interval_forgets_the_extremes_and_keeps_the_last_value():
    interval = IntervalExtremes(1)
    interval.add(np.zeros(1), np.array([[7.0]]))
    interval.restart()
    interval.add(np.ones(1), np.array([[np.nan]]))
    assert np.isnan(interval.maximum[0])
    assert interval.last[0] == 7.0


# -- a whole session ------------------------------------------------------------------------------


def envelope_of(values: np.ndarray, sizes: list[int], limit: int) -> Envelope:
    envelope = Envelope(2, limit)
    times = np.arange(len(values), dtype=np.int64) * 1_000_000
    start = 0
    for size in [*sizes, len(values)]:
        part = slice(start, start + size)
        envelope.add(times[part], values[part])
        start += size
    return envelope


@given(
    n=st.integers(1, 400),
    sizes=st.lists(st.integers(1, 90), max_size=6),
    limit=st.integers(2, 20),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_extreme_is_kept(n, sizes, limit, seed):
    values = np.random.default_rng(seed).normal(size=(n, 2))
    curve = envelope_of(values, sizes, limit).curve(1)
    assert curve.y.min() == values[:, 1].min()
    assert curve.y.max() == values[:, 1].max()
    assert len(curve.t) <= 4 * limit
    assert np.all(np.diff(curve.t) >= 0.0)
    assert curve.t[0] == 0.0
    assert curve.t[-1] == pytest.approx((n - 1) * 1e-3)


def test_hours_need_no_more_memory_than_minutes():
    envelope = Envelope(2, 10)

    def held() -> int:
        arrays = [value for value in vars(envelope).values() if isinstance(value, np.ndarray)]
        return sum(array.nbytes for array in arrays)

    at_first = held()
    for k in range(1000):
        times = np.arange(7 * k, 7 * k + 7)
        envelope.add(times, np.column_stack([times, -times]).astype(float))
    assert held() == at_first > 0


def test_short_log_is_kept_as_it_is():
    values = np.column_stack([np.arange(7.0), -np.arange(7.0)])
    curve = envelope_of(values, [], 10).curve(1)
    np.testing.assert_array_equal(curve.y, values[:, 1])
    np.testing.assert_array_equal(curve.t, np.arange(7) / 1e3)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_slope_is_drawn_as_a_slope(sign):
    """The order of the two extremes follows the signal, else every fall would be a sawtooth."""
    values = np.column_stack([sign * np.arange(1000.0)] * 2)
    y = envelope_of(values, [64] * 10, 20).curve(0).y
    assert np.all(sign * np.diff(y) >= 0.0)


def test_slow_signal_between_missing_values_stays_connected():
    values = np.full((100, 2), np.nan)
    values[::10, 0] = np.arange(10.0)
    envelope = envelope_of(values, [], 1000)
    np.testing.assert_array_equal(envelope.curve(0).y, np.arange(10.0))
    assert len(envelope.curve(1).t) == 0


@given(
    values=hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 40), st.integers(1, 5)),
        elements=st.floats(width=64),
    )
)
def test_extremes_are_those_of_numpy(values):
    low, high = extremes(values)
    np.testing.assert_array_equal(low, np.fmin.reduce(values))
    np.testing.assert_array_equal(high, np.fmax.reduce(values))
