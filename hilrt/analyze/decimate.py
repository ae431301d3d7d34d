"""A log's curves with few points, whatever its length: smallest and largest value per interval.

Rows are grouped in equal numbers; when there are too many groups, neighbours are merged. So a file
larger than memory is read once, and a spike of a single tick stays visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

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
        # All there will ever be: a recorder's memory must not grow over the hours.
        self._room = 2 * limit
        self._first_ns, self._last_ns = np.empty((2, self._room), np.int64)
        self._low, self._high, self._first, self._last = np.empty((4, self._room, columns))
        self._count = 0
        self._rows = 1  # of an interval
        self._missing = 0  # rows that the newest one has yet to get

    def add(self, block: Block) -> None:
        """Take the next rows."""
        t, values = block.times_ns, block.values
        while len(t):
            whole = min(len(t) // self._rows, self._room - self._count)
            if self._missing:
                used = min(self._missing, len(t))
                self._extend(t[:used], values[:used])
            elif self._count == self._room:
                used = 0
                self._merge()
            elif whole:
                used = whole * self._rows
                self._append(t[:used].reshape(whole, -1), values[:used].reshape(whole, -1))
            else:
                used = len(t)
                self._append(t[None, :], values.reshape(1, -1))
                self._missing = self._rows - used
            t, values = t[used:], values[used:]

    def curve(self, column: int) -> Curve:
        """Points of one signal: its extremes, in the order in which the signal went."""
        kept = slice(self._count)
        first_ns, last_ns = self._first_ns[kept], self._last_ns[kept]
        low, high = self._low[kept, column], self._high[kept, column]
        falls = self._first[kept, column] > self._last[kept, column]
        t = np.column_stack([first_ns, last_ns]).ravel() / 1e9
        y = np.column_stack([np.where(falls, high, low), np.where(falls, low, high)]).ravel()
        keep = ~np.isnan(y)
        if np.array_equal(first_ns, last_ns):
            keep[1::2] = False  # one row per interval: both are the same
        return Curve(t[keep], y[keep])

    def _append(self, t: NDArray[np.int64], values: Floats) -> None:
        """Times of intervals, shape (n, rows), and values, shape (n, rows * columns)."""
        columns = self._low.shape[1]
        new = slice(self._count, self._count + len(t))
        self._first_ns[new], self._last_ns[new] = t[:, 0], t[:, -1]
        self._low[new] = _fold(values, columns, np.fmin)
        self._high[new] = _fold(values, columns, np.fmax)
        self._first[new], self._last[new] = values[:, :columns], values[:, -columns:]
        self._count += len(t)

    def _extend(self, t: NDArray[np.int64], values: Floats) -> None:
        """More rows of the newest interval."""
        newest = self._count - 1
        low, high = extremes(values)
        np.fmin(self._low[newest], low, out=self._low[newest])
        np.fmax(self._high[newest], high, out=self._high[newest])
        self._last_ns[newest], self._last[newest] = t[-1], values[-1]
        self._missing -= len(t)

    def _merge(self) -> None:
        """Make one interval of each two neighbours."""
        even, odd, half = slice(0, None, 2), slice(1, None, 2), slice(self._room // 2)
        np.fmin(self._low[even], self._low[odd], out=self._low[half])
        np.fmax(self._high[even], self._high[odd], out=self._high[half])
        for firsts in (self._first_ns, self._first):
            firsts[half] = firsts[even]
        for lasts in (self._last_ns, self._last):
            lasts[half] = lasts[odd]
        self._count //= 2
        self._rows *= 2


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
