"""Reduce rows to their extremes per interval, which keeps spikes of a single tick.

`IntervalExtremes` covers one interval, for live views: the caller begins the next one.
`Envelope` covers a whole session in bounded memory: intervals with equal numbers of rows, merged in
pairs when there are too many.

tsdownsample (MinMax, LTTB) was rejected: it needs whole signals as arrays in memory, and a log may
be too large for that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.solver import Floats


class IntervalExtremes:
    """Smallest, largest and last value of each signal over the rows since `restart`.

    Parameters
    ----------
    width : int
        Signals in a row.

    Attributes
    ----------
    rows : int
        Rows of the interval.
    t_from, t_until : float
        Session times of the first and the last row, s.
    minimum, maximum : ndarray, shape (width,)
        Extremes over these rows; NaN if every value was NaN.
    last : ndarray, shape (width,)
        Newest value that was not NaN, in any interval.
    """

    def __init__(self, width: int) -> None:
        self.rows = 0
        self.t_from = self.t_until = 0.0
        self.minimum: Floats = np.full(width, np.nan)
        self.maximum: Floats = np.full(width, np.nan)
        self.last: Floats = np.full(width, np.nan)

    def add(self, t: Floats, block: Floats) -> None:
        """Add rows, shape (n, width), at session times `t` [s], shape (n,)."""
        if not len(t):
            return
        if self.rows == 0:
            self.t_from = float(t[0])
            self.minimum, self.maximum = extremes(block)
        else:
            widen(self.minimum, self.maximum, block)
        self.t_until = float(t[-1])
        self.rows += len(t)
        known = ~np.isnan(block)
        newest = len(t) - 1 - np.argmax(known[::-1], axis=0)
        values = np.take_along_axis(block, newest[None, :], axis=0)[0]
        np.copyto(self.last, values, where=known.any(axis=0))

    def restart(self) -> None:
        """Begin the next interval."""
        self.rows = 0


class Curve(NamedTuple):
    """Points of a signal: session times (n,) [s] and values (n,); gaps of NaN are left out."""

    t: Floats
    y: Floats


class Envelope:
    """Extremes of the signals of one topic over intervals with equal numbers of rows.

    Parameters
    ----------
    columns : int
        Signals of the topic.
    limit : int
        Minimum number of intervals kept, given enough rows; at most twice as many are kept.
    """

    def __init__(self, columns: int, limit: int) -> None:
        # Allocated once, so that a recorder's memory does not grow.
        self._room = 2 * limit
        self._first_ns, self._last_ns = np.empty((2, self._room), np.int64)
        self._low, self._high, self._first, self._last = np.empty((4, self._room, columns))
        self._count = 0
        self._rows = 1  # per interval
        self._missing = 0  # rows still missing in the newest interval

    def add(self, t: NDArray[np.int64], values: Floats) -> None:
        """Add rows, shape (n, columns), at session times `t` [ns], shape (n,)."""
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
        """Points of one signal: its extremes, in their order in time."""
        filled = slice(self._count)
        first_ns, last_ns = self._first_ns[filled], self._last_ns[filled]
        low, high = self._low[filled, column], self._high[filled, column]
        falls = self._first[filled, column] > self._last[filled, column]
        t = np.column_stack([first_ns, last_ns]).ravel() / 1e9
        y = np.column_stack([np.where(falls, high, low), np.where(falls, low, high)]).ravel()
        shown = ~np.isnan(y)
        if np.array_equal(first_ns, last_ns):
            shown[1::2] = False  # one row per interval: both are the same
        return Curve(t[shown], y[shown])

    def _append(self, t: NDArray[np.int64], values: Floats) -> None:
        """Append intervals: times, shape (n, rows), and values, shape (n, rows * columns)."""
        columns = self._low.shape[1]
        new = slice(self._count, self._count + len(t))
        self._first_ns[new], self._last_ns[new] = t[:, 0], t[:, -1]
        self._low[new] = _fold(values, columns, np.fmin)
        self._high[new] = _fold(values, columns, np.fmax)
        self._first[new], self._last[new] = values[:, :columns], values[:, -columns:]
        self._count += len(t)

    def _extend(self, t: NDArray[np.int64], values: Floats) -> None:
        """Add rows to the newest interval."""
        newest = self._count - 1
        widen(self._low[newest], self._high[newest], values)
        self._last_ns[newest], self._last[newest] = t[-1], values[-1]
        self._missing -= len(t)

    def _merge(self) -> None:
        """Merge the intervals in pairs."""
        even, odd, half = slice(0, None, 2), slice(1, None, 2), slice(self._room // 2)
        np.fmin(self._low[even], self._low[odd], out=self._low[half])
        np.fmax(self._high[even], self._high[odd], out=self._high[half])
        for firsts in (self._first_ns, self._first):
            firsts[half] = firsts[even]
        for lasts in (self._last_ns, self._last):
            lasts[half] = lasts[odd]
        self._count //= 2
        self._rows *= 2


def extremes(values: Floats) -> tuple[Floats, Floats]:
    """Smallest and largest value of each column, shapes (n, signals) to (signals,).

    NaN is ignored; a column with only NaN gives NaN.
    """
    flat, columns = values.reshape(1, -1), values.shape[1]
    return _fold(flat, columns, np.fmin)[0], _fold(flat, columns, np.fmax)[0]


def widen(low: Floats, high: Floats, values: Floats) -> None:
    """Widen the extremes `low` and `high`, shape (signals,), to rows, shape (n, signals)."""
    lowest, highest = extremes(values)
    np.fmin(low, lowest, out=low)
    np.fmax(high, highest, out=high)


def _fold(rows: Floats, columns: int, extreme: np.ufunc) -> Floats:
    """Extreme of each of the `columns` over concatenated rows.

    The array is folded in half until one row is left: contiguous operations on long arrays are
    several times faster than a reduction over short rows.
    """
    while rows.shape[1] > columns:
        count = rows.shape[1] // columns
        half = count // 2 * columns
        folded = extreme(rows[:, :half], rows[:, half : 2 * half])
        if count % 2:
            folded[:, :columns] = extreme(folded[:, :columns], rows[:, 2 * half :])
        rows = folded
    return rows if rows.base is None else rows.copy()
