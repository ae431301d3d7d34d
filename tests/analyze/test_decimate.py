"""Curves keep every extreme, whatever the length, and never more points than promised."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hilrt.analyze import decimate
from hilrt.analyze.decimate import Envelope, extremes
from hilrt.record.messages import Signal
from hilrt.record.reader import Block, Channel

CHANNEL = Channel("outputs", [Signal("a.x"), Signal("a.y")])


def envelope_of(values: np.ndarray, sizes: list[int], limit: int) -> Envelope:
    envelope = Envelope(2, limit)
    times = np.arange(len(values), dtype=np.int64) * 1_000_000
    start = 0
    for size in [*sizes, len(values)]:
        part = slice(start, start + size)
        envelope.add(Block(CHANNEL, times[part], values[part]))
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
        envelope.add(Block(CHANNEL, times, np.column_stack([times, -times]).astype(float)))
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


def test_rows_of_one_time_stay_together_when_blocks_are_joined(monkeypatch):
    monkeypatch.setattr(decimate, "ROWS_AT_ONCE", 30)
    other = Channel("flags", [Signal("flag:x")])
    times, blocks = np.arange(100, dtype=np.int64), []
    for i in range(0, 100, 7):
        part = times[i : i + 7]
        blocks += [Block(CHANNEL, part, np.column_stack([part, -part]).astype(np.float64), part)]
        blocks += [Block(other, part, part[:, None].astype(np.float64), part)]
    found = list(decimate.joined(blocks))
    for a, b in zip(found[::2], found[1::2], strict=True):
        assert (a.channel, b.channel) == (CHANNEL, other)
        np.testing.assert_array_equal(a.times_ns, b.times_ns)
        assert len(a.times_ns) <= 36
    np.testing.assert_array_equal(np.concatenate([b.times_ns for b in found[::2]]), times)
    np.testing.assert_array_equal(np.concatenate([b.values[:, 0] for b in found[1::2]]), times)
