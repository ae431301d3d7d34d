"""The rows that curves are made of come in fewer blocks, and in the same order."""

import numpy as np

from hilrt.analyze import curves
from hilrt.record.messages import Signal
from hilrt.record.reader import Block, LogChannel

CHANNEL = LogChannel("outputs", [Signal("a.x"), Signal("a.y")])


def test_rows_of_one_time_stay_together_when_blocks_are_joined(monkeypatch):
    monkeypatch.setattr(curves, "ROWS_AT_ONCE", 30)
    other = LogChannel("flags", [Signal("flag:x")])
    times, blocks = np.arange(100, dtype=np.int64), []
    for i in range(0, 100, 7):
        part = times[i : i + 7]
        blocks += [Block(CHANNEL, part, np.column_stack([part, -part]).astype(np.float64), part)]
        blocks += [Block(other, part, part[:, None].astype(np.float64), part)]
    found = list(curves.joined(blocks))
    for a, b in zip(found[::2], found[1::2], strict=True):
        assert (a.channel, b.channel) == (CHANNEL, other)
        np.testing.assert_array_equal(a.times_ns, b.times_ns)
        assert len(a.times_ns) <= 36
    np.testing.assert_array_equal(np.concatenate([b.times_ns for b in found[::2]]), times)
    np.testing.assert_array_equal(np.concatenate([b.values[:, 0] for b in found[1::2]]), times)


def test_values_of_any_size_can_be_plotted():
    plotted = curves.for_plot(np.array([1e60, -1e60, 1.5, np.nan]))
    assert plotted.dtype == np.float32
    assert np.isfinite(plotted[:2]).all()
    assert plotted[2] == 1.5
    assert np.isnan(plotted[3])
