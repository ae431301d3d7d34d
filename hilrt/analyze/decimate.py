"""A log's curves with few points, whatever its length: smallest and largest value per interval.

Rows are grouped in equal numbers; when there are too many groups, neighbours are merged. So a file
larger than memory is read once, and a spike of a single tick stays visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.record.reader import Block, Channel, LogStream
from hilrt.solver import Floats

#: Rows of a topic that are taken together: a numpy call costs more than a hundred values.
ROWS_AT_ONCE = 4096


class Curve(NamedTuple):
    """Points of a signal: session times (n,) [s] and values (n,); gaps of NaN are left out."""

    t: Floats
    y: Floats


class _Groups(NamedTuple):
    """Intervals of rows: first and last time (n,) [ns]; smallest, largest, first and last values.

    Values have the shape (n, signals).
    """

    first_ns: NDArray[np.int64]
    last_ns: NDArray[np.int64]
    low: Floats
    high: Floats
    first: Floats
    last: Floats


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
        self._parts: list[_Groups] = []
        self._count = 0

    def add(self, block: Block) -> None:
        """Take the next rows."""
        t, values = block.times_ns, block.values
        if len(self._tail_t):
            t, values = np.concatenate([self._tail_t, t]), np.concatenate([self._tail, values])
        whole = len(t) - len(t) % self._group
        self._tail_t, self._tail = t[whole:].copy(), values[whole:].copy()
        self._append(t[:whole].reshape(-1, self._group), values[:whole])
        while self._count >= 2 * self._limit:
            self._merge()

    def finish(self) -> None:
        """Take what is left of an interval that has not filled up."""
        if len(self._tail_t):
            self._append(self._tail_t[None, :], self._tail)
            self._tail_t, self._tail = self._tail_t[:0], self._tail[:0]

    def curve(self, column: int) -> Curve:
        """Points of one signal: its extremes, in the order in which the signal went."""
        if not self._count:
            return Curve(np.empty(0), np.empty(0))
        groups = self._all()
        low, high = groups.low[:, column], groups.high[:, column]
        falls = groups.first[:, column] > groups.last[:, column]
        low, high = np.where(falls, high, low), np.where(falls, low, high)
        t = np.column_stack([groups.first_ns, groups.last_ns]).ravel() / 1e9
        y = np.column_stack([low, high]).ravel()
        keep = ~np.isnan(y)
        if np.array_equal(groups.first_ns, groups.last_ns):
            keep[1::2] = False  # one row per interval: both are the same
        return Curve(t[keep], y[keep])

    def _append(self, t: NDArray[np.int64], values: Floats) -> None:
        if t.size == 0:
            return
        n, rows = t.shape
        flat = values.reshape(n, -1)
        columns = flat.shape[1] // rows
        low, high = _fold(flat, columns, np.fmin), _fold(flat, columns, np.fmax)
        ends = flat[:, :columns].copy(), flat[:, -columns:].copy()
        self._parts.append(_Groups(t[:, 0].copy(), t[:, -1].copy(), low, high, *ends))
        self._count += n

    def _all(self) -> _Groups:
        """All intervals so far, in one piece."""
        if len(self._parts) > 1:
            columns = zip(*self._parts, strict=True)
            self._parts = [_Groups(*(np.concatenate(parts) for parts in columns))]
        return self._parts[0]

    def _merge(self) -> None:
        groups = self._all()
        # An odd interval out goes back to the rows that wait; its extremes stand for them.
        odd = self._count % 2
        if odd:
            self._tail_t = np.concatenate(
                [self._spread(groups.first_ns, groups.last_ns), self._tail_t]
            )
            falls = groups.first[-1:] > groups.last[-1:]
            ends = (
                np.where(falls, groups.high[-1:], groups.low[-1:]),
                np.where(falls, groups.low[-1:], groups.high[-1:]),
            )
            self._tail = np.concatenate([self._spread(*ends), self._tail])
        even, uneven = slice(0, self._count - odd, 2), slice(1, self._count - odd, 2)
        self._parts = [
            _Groups(
                first_ns=groups.first_ns[even],
                last_ns=groups.last_ns[uneven],
                low=np.fmin(groups.low[even], groups.low[uneven]),
                high=np.fmax(groups.high[even], groups.high[uneven]),
                first=groups.first[even],
                last=groups.last[uneven],
            )
        ]
        self._count //= 2
        self._group *= 2

    def _spread(self, first: NDArray[Any], last: NDArray[Any]) -> NDArray[Any]:
        """A group of rows: the newest `first`, then the newest `last` repeated."""
        rows = np.repeat(last[-1:], self._group, axis=0)
        rows[0] = first[-1]
        return rows


class Envelopes:
    """An `Envelope` for every topic.

    Parameters
    ----------
    limit : int
        As of `Envelope`.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._of: dict[str, Envelope] = {}

    def add(self, block: Block) -> None:
        """Take the next rows of a topic."""
        topic = block.channel.topic
        if topic not in self._of:
            self._of[topic] = Envelope(len(block.channel.signals), self._limit)
        self._of[topic].add(block)

    def curves(self, channels: Iterable[Channel]) -> dict[str, Curve]:
        """The points of every signal, by name."""
        found: dict[str, Curve] = {}
        for channel in channels:
            envelope = self._of.get(channel.topic)
            if envelope is None:
                continue
            envelope.finish()
            for column, signal in enumerate(channel.signals):
                found[signal.name] = envelope.curve(column)
        return found


def _fold(rows: Floats, columns: int, extreme: np.ufunc) -> Floats:
    """Extreme of each of the `columns` of rows that stand one behind the other; NaN is none.

    Halves are laid on each other: long contiguous operations are several times as fast as a
    reduction over short rows, and do not trip over NaN.
    """
    while rows.shape[1] > columns:
        count = rows.shape[1] // columns
        half = count // 2 * columns
        folded = extreme(rows[:, :half], rows[:, half : 2 * half])
        if count % 2:
            folded[:, :columns] = extreme(folded[:, :columns], rows[:, 2 * half :])
        rows = folded
    return rows if rows.base is None else rows.copy()


def extremes(values: Floats) -> tuple[Floats, Floats]:
    """Smallest and largest value of each column, shapes (n, signals) to (signals,); NaN is none."""
    flat, columns = values.reshape(1, -1), values.shape[1]
    return _fold(flat, columns, np.fmin)[0], _fold(flat, columns, np.fmax)[0]


def joined(blocks: Iterable[Block]) -> Iterator[Block]:
    """The same rows in fewer blocks, with those of one time still handed out together."""
    waiting: dict[str, list[Block]] = {}
    for block in blocks:
        topic = block.channel.topic
        if sum(len(b.times_ns) for b in waiting.get(topic, [])) >= ROWS_AT_ONCE:
            yield from map(_join, waiting.values())
            waiting = {}
        waiting.setdefault(topic, []).append(block)
    yield from map(_join, waiting.values())


def _join(blocks: list[Block]) -> Block:
    times, values, rows = (
        np.concatenate(parts)
        for parts in zip(*((b.times_ns, b.values, b.rows) for b in blocks), strict=True)
    )
    return Block(blocks[0].channel, times, values, rows)


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
        Called with all rows, topic by topic.
    """
    envelopes = Envelopes(limit)
    for block in joined(stream.blocks()):
        envelopes.add(block)
        if also is not None:
            also(block)
    return envelopes.curves(stream.channels.values())
