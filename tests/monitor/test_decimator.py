"""Whatever the batches, an interval keeps the extremes and the newest value of every signal."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hilrt.monitor.decimator import Decimator

VALUES = st.one_of(st.floats(-1e6, 1e6), st.just(np.nan))
BLOCKS = hnp.arrays(np.float64, st.tuples(st.integers(1, 30), st.just(3)), elements=VALUES)


@given(block=BLOCKS, cuts=st.lists(st.integers(0, 30), max_size=4))
def test_batches_do_not_matter(block, cuts):
    whole, parts = Decimator(3), Decimator(3)
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
    reduced = Decimator(1)
    for start in range(0, 5000, 64):
        reduced.add(np.arange(start, min(start + 64, 5000)) * 1e-3, block[start : start + 64])
    assert reduced.maximum[0] == 99.0
    assert (reduced.last[0], reduced.rows) == (0.0, 5000)


def test_next_interval_forgets_the_extremes_and_keeps_the_last_value():
    reduced = Decimator(1)
    reduced.add(np.zeros(1), np.array([[7.0]]))
    reduced.restart()
    reduced.add(np.ones(1), np.array([[np.nan]]))
    assert np.isnan(reduced.maximum[0])
    assert reduced.last[0] == 7.0
