"""A log's curves with few points, whatever its length: smallest and largest value per interval.

Rows are grouped in equal numbers; when there are too many groups, neighbours are merged. So a file
larger than memory is read once, and a spike of a single tick stays visible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.record.reader import Block, LogStream
from hilrt.solver import Floats


class Curve(NamedTuple):
    """Points of a signal: session times (n,) [s] and values (n,); gaps of NaN are left out."""

    t: Floats
    y: Floats


class Envelope:
    """Smallest and largest values of one topic over intervals of equally many rows.

    Parameters
    ----------
    columns : int
        Signals of the topic.
    limit : int
        Intervals to keep at least, once there are as many rows; at most twice as many are kept.
    """

    def __init__(self, columns: int, limit: int) -> None:
        self._limit = limit
        self._group = 1
        self._tail_t = np.empty(0, np.int64)
        self._tail = np.empty((0, columns))
        self.first_ns = np.empty(0, np.int64)
        self.last_ns = np.empty(0, np.int64)
        self.low: Floats = np.empty((0, columns))
        self.high: Floats = np.empty((0, columns))
        self._first: Floats = np.empty((0, columns))
        self._last: Floats = np.empty((0, columns))

    def add(self, block: Block) -> None:
        """Take the next rows."""
        t = np.concatenate([self._tail_t, block.times_ns])
        values = np.concatenate([self._tail, block.values])
        whole = len(t) - len(t) % self._group
        self._tail_t, self._tail = t[whole:], values[whole:]
        self._append(t[:whole].reshape(-1, self._group), values[:whole])
        while len(self.first_ns) >= 2 * self._limit:
            self._merge()

    def finish(self) -> None:
        """Take what is left of an interval that has not filled up."""
        if len(self._tail_t):
            self._append(self._tail_t[None, :], self._tail)
            self._tail_t, self._tail = self._tail_t[:0], self._tail[:0]

    def curve(self, column: int) -> Curve:
        """Points of one signal: its extremes, in the order in which the signal went."""
        low, high = self.low[:, column], self.high[:, column]
        falls = self._first[:, column] > self._last[:, column]
        low, high = np.where(falls, high, low), np.where(falls, low, high)
        t = np.column_stack([self.first_ns, self.last_ns]).ravel() / 1e9
        y = np.column_stack([low, high]).ravel()
        keep = ~np.isnan(y)
        if len(self.first_ns) and np.array_equal(self.first_ns, self.last_ns):
            keep[1::2] = False  # one row per interval: both are the same
        return Curve(t[keep], y[keep])

    def _append(self, t: NDArray[np.int64], values: Floats) -> None:
        if t.size == 0:
            return
        groups = values.reshape(*t.shape, values.shape[1])
        self.first_ns = np.concatenate([self.first_ns, t[:, 0]])
        self.last_ns = np.concatenate([self.last_ns, t[:, -1]])
        self.low = np.concatenate([self.low, np.fmin.reduce(groups, axis=1)])
        self.high = np.concatenate([self.high, np.fmax.reduce(groups, axis=1)])
        self._first = np.concatenate([self._first, groups[:, 0]])
        self._last = np.concatenate([self._last, groups[:, -1]])

    def _merge(self) -> None:
        # An odd interval out goes back to the rows that wait; its extremes stand for them.
        odd = len(self.first_ns) % 2
        if odd:
            self._tail_t = np.concatenate([self._spread(self.first_ns, self.last_ns), self._tail_t])
            falls = self._first[-1:] > self._last[-1:]
            ends = (
                np.where(falls, self.high[-1:], self.low[-1:]),
                np.where(falls, self.low[-1:], self.high[-1:]),
            )
            self._tail = np.concatenate([self._spread(*ends), self._tail])
        end = len(self.first_ns) - odd
        self.first_ns, self.last_ns = self.first_ns[0:end:2], self.last_ns[1:end:2]
        self._first, self._last = self._first[0:end:2], self._last[1:end:2]
        self.low = np.fmin(self.low[0:end:2], self.low[1:end:2])
        self.high = np.fmax(self.high[0:end:2], self.high[1:end:2])
        self._group *= 2

    def _spread(self, first: NDArray[Any], last: NDArray[Any]) -> NDArray[Any]:
        """A group of rows: the newest `first`, then the newest `last` repeated."""
        rows = np.repeat(last[-1:], self._group, axis=0)
        rows[0] = first[-1]
        return rows


def read_curves(
    stream: LogStream, limit: int, also: Callable[[Block], None] | None = None
) -> dict[str, Curve]:
    """Read a whole log and return the points of every signal, by name.

    Parameters
    ----------
    stream : LogStream
        The log; its other attributes are filled on return.
    limit : int
        A curve has at most four times as many points.
    also : callable, optional
        Called with every block.
    """
    envelopes: dict[str, Envelope] = {}
    for block in stream.blocks():
        topic = block.channel.topic
        if topic not in envelopes:
            envelopes[topic] = Envelope(len(block.channel.signals), limit)
        envelopes[topic].add(block)
        if also is not None:
            also(block)
    curves: dict[str, Curve] = {}
    for channel in stream.channels.values():
        envelope = envelopes.get(channel.topic)
        if envelope is None:
            continue
        envelope.finish()
        for column, signal in enumerate(channel.signals):
            curves[signal.name] = envelope.curve(column)
    return curves
