"""The page's memory: the newest rows, however they came, and never more than its bound."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hilrt.monitor.stream import Full, Signals, binary
from hilrt.web.shared_session import BUDGET_BYTES, Ring, SignalHistory


@given(length=st.integers(1, 20), sizes=st.lists(st.integers(0, 50), max_size=12))
def test_ring_is_the_end_of_everything(length, sizes):
    ring, everything = Ring(length, 2), np.zeros((0, 2))
    for size in sizes:
        rows = np.arange(ring.total, ring.total + size)[:, None] * np.ones(2)
        ring.add(rows)
        everything = np.concatenate((everything, rows))
    kept = min(length, len(everything))
    assert ring.total == len(everything)
    np.testing.assert_array_equal(ring.newest(kept), everything[len(everything) - kept :])
    np.testing.assert_array_equal(ring.newest(10**6)[-kept:][:kept], everything[-kept:][:kept])
    if len(everything) and kept:
        np.testing.assert_array_equal(ring.since(len(everything) - 1), everything[-1:])


def interval(t, values):
    data = binary(np.array(values, dtype=float))
    return Signals(
        number=1, t_from=t, t_until=t, rows=1, lost=3, minimum=data, maximum=data, last=data
    )


def test_history_keeps_values_bit_by_bit():
    history = SignalHistory()
    history.restart(["a.x", "a.v"])
    history.add(interval(0.1, [1 / 3, np.nan]))
    history.add(interval(0.2, [2.0]))  # of another session: does not fit
    assert history.value("a.x") == 1 / 3
    assert np.isnan(history.value("a.v"))
    assert np.isnan(history.value("nonsense"))
    assert history.t.newest(5)[:, 0].tolist() == [0.1]
    assert history.lost == 3


def test_full_rate_signals_stand_beside():
    history = SignalHistory()
    data = binary(np.array([1.0, 2.0]))
    history.add_full(Full(number=1, name="a.x", t=data, value=data))
    assert history.full["a.x"].newest(9).tolist() == [[1.0, 1.0], [2.0, 2.0]]


def test_memory_is_bounded_for_any_number_of_signals():
    for n in (1, 100, 5000):
        history = SignalHistory()
        history.restart([str(i) for i in range(n)])
        arrays = [history.last, history.low, history.high]
        assert sum(ring.nbytes for ring in arrays) <= BUDGET_BYTES
