"""Statistics of a session, gathered while its log is read once.

`hilrt.analyze.rows_summary` computes the content of `summary.json` from them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.record.decimate import extremes
from hilrt.record.reader import Block, LogChannel
from hilrt.solver import Floats
from hilrt.timing.histogram import Distribution

WORST = 10
#: Measures of a tick's slowness: in real time, and in virtual time.
KEYS = ("master:lateness", "master:compute")


@dataclass
class WorstStep:
    """A tick with one of the largest values of `key`; times in µs, `t` in s.

    `tick` is its number, -1 if unknown; `values` its row of the topic "timing".
    """

    t: float
    key: str
    values: dict[str, float]
    causes: list[str]
    tick: int = -1


@dataclass
class _Row:
    """A row of the topic "timing"."""

    value: float
    t_ns: int
    values: Floats
    channel: LogChannel
    causes: list[str]
    tick: int = -1


class SlowestRows:
    """The rows with the largest positive values of each of `KEYS`; of equal ones, the earliest.

    The topics of a row must be added in the file's order: flags, timing, number.
    """

    def __init__(self) -> None:
        self._kept: dict[str, list[_Row]] = {key: [] for key in KEYS}
        self._flags: Block | None = None

    def add(self, block: Block) -> None:
        """Process the next rows of a topic."""
        topic = block.channel.topic
        if topic == "flags":
            self._flags = block
        elif topic == "timing":
            for key in KEYS:
                self._add_timing(block, key)
        elif topic == "arrivals":
            self._add_ticks(block)

    def _add_timing(self, block: Block, key: str) -> None:
        names = [signal.name for signal in block.channel.signals]
        if key not in names:
            return
        kept = self._kept[key]
        values = block.values[:, names.index(key)]
        least = kept[-1].value if len(kept) == WORST else 0.0
        rows = np.flatnonzero(values > least)
        order = np.lexsort((block.times_ns[rows], -values[rows]))
        for row in rows[order[:WORST]].tolist():
            t_ns = int(block.times_ns[row])
            found = block.values[row].copy()
            kept.append(_Row(values[row], t_ns, found, block.channel, self._causes_at(t_ns)))
        kept.sort(key=lambda row: (-row.value, row.t_ns))
        del kept[WORST:]

    def _causes_at(self, t_ns: int) -> list[str]:
        """Causes whose flags were up."""
        row = None if self._flags is None else _row_at(self._flags, t_ns)
        if self._flags is None or row is None:
            return []
        up = np.flatnonzero(self._flags.values[row] > 0.0)
        return [self._flags.channel.signals[i].name.rpartition(":")[2] for i in up]

    def _add_ticks(self, block: Block) -> None:
        names = [signal.name for signal in block.channel.signals]
        if "cut:tick" not in names:
            return
        ticks = block.values[:, names.index("cut:tick")]
        for kept in (row for rows in self._kept.values() for row in rows if row.tick < 0):
            if (row := _row_at(block, kept.t_ns)) is not None:
                kept.tick = int(ticks[row])

    def steps(self) -> list[WorstStep]:
        """Worst first: by lateness if any tick was late, otherwise by computing time."""
        for key in KEYS:
            kept = self._kept[key]
            if kept:
                return [_step(row, key) for row in kept]
        return []


def _row_at(block: Block, t_ns: int) -> int | None:
    """The row of that time."""
    row = int(np.searchsorted(block.times_ns, t_ns))
    found = row < len(block.times_ns) and block.times_ns[row] == t_ns
    return row if found else None


def _step(row: _Row, key: str) -> WorstStep:
    names = [signal.name for signal in row.channel.signals]
    values = dict(zip(names, row.values.tolist(), strict=True))
    return WorstStep(row.t_ns / 1e9, key, values, row.causes, row.tick)


#: Topics with signals that are never negative: flags, and marks of each tick.
MARKS = ("flags", "timing")


@dataclass
class SignalStatistics:
    """One signal; sums over time are weighted with the interval that ended at the row, s.

    Attributes
    ----------
    count : int
        Values that are not NaN.
    first, last, low, high : float
        First value, value of the last row (NaN if it has none), smallest and largest.
    total : float
        Sum of the values.
    square : float
        ∫ x² dt.
    seconds : float
        ∫ dt over the values.
    above : float
        ∫ dt where x > 0, s: time for which a flag or mark was up; for the topics in `MARKS`.
    rises : int
        Number of rising edges.
    """

    count: int = 0
    first: float = math.nan
    last: float = math.nan
    low: float = math.inf
    high: float = -math.inf
    total: float = 0.0
    square: float = 0.0
    seconds: float = 0.0
    above: float = 0.0
    rises: int = 0

    @property
    def rms(self) -> float:
        """Root mean square over time."""
        return math.sqrt(self.square / self.seconds) if self.seconds > 0.0 else math.nan

    @property
    def largest(self) -> float:
        """Largest magnitude."""
        return max(abs(self.low), abs(self.high)) if self.count else math.nan

    @property
    def change(self) -> float:
        """Change from the first value to the last."""
        return self.last - self.first


class Intervals(NamedTuple):
    """Intervals between the rows of a log, in ns: number, sum, first, shortest, longest."""

    number: int = 0
    together: int = 0
    first: int = 0
    shortest: int = 0
    longest: int = 0

    def merged(self, dt_ns: NDArray[np.int64]) -> Intervals:
        """Combine with the intervals of further rows; zeros are ignored."""
        found = dt_ns[dt_ns > 0]
        if not len(found):
            return self
        low, high = int(found.min()), int(found.max())
        return Intervals(
            self.number + len(found),
            self.together + int(found.sum()),
            self.first or int(found[0]),
            min(self.shortest or low, low),
            max(self.longest, high),
        )


class _Columns:
    """`SignalStatistics` of all signals of a topic at once, as arrays of shape (n_signals,)."""

    def __init__(self, names: list[str]) -> None:
        n = len(names)
        self.names = names
        self.count, self.rises = np.zeros((2, n), np.int64)
        self.first, self.last = np.full((2, n), np.nan)
        self.low, self.high = np.full(n, np.inf), np.full(n, -np.inf)
        self.total, self.square, self.seconds, self.above = np.zeros((4, n))
        self._up = np.zeros(n, bool)

    def add(self, values: Floats, dt: Floats) -> None:
        """Add rows, shape (n, n_signals), with the intervals before them, shape (n,), s."""
        missing = np.isnan(values)
        low, high = extremes(values)
        self.low, self.high = np.fmin(self.low, low), np.fmax(self.high, high)
        if missing.any():
            keep, known = ~missing, np.where(missing, 0.0, values)
            counts = keep.sum(axis=0)
            self.seconds += dt @ keep
        else:
            known, counts = values, len(values)
            self.seconds += dt.sum()
        with np.errstate(over="ignore", invalid="ignore"):  # infinite values, infinite squares
            self.total += known.sum(axis=0)
            self.square += dt @ (known * known)
        for i in np.flatnonzero((self.count == 0) & (counts > 0)):
            self.first[i] = values[missing[:, i].argmin(), i]
        self.count += counts
        self.last = values[-1].copy()

    def add_marks(self, values: Floats, dt: Floats) -> None:
        """Add duration and number of times for which values of the same rows are above 0."""
        up = values > 0.0
        self.above += dt @ up
        self.rises += (up & ~np.vstack([self._up, up[:-1]])).sum(axis=0)
        self._up = up[-1]

    def stats(self) -> dict[str, SignalStatistics]:
        """Statistics by signal."""
        columns = (self.count, self.first, self.last, self.low, self.high)
        sums = (self.total, self.square, self.seconds, self.above, self.rises)
        rows = zip(*(column.tolist() for column in (*columns, *sums)), strict=True)
        return {name: SignalStatistics(*row) for name, row in zip(self.names, rows, strict=True)}


class _LastRow(NamedTuple):
    """Time [ns] and number of the newest row of a topic."""

    t_ns: int
    number: int


@dataclass
class LogStatistics:
    """Statistics of all signals, gathered in one pass over a log.

    Durations only include recorded rows, without intervals in which rows are missing.

    Attributes
    ----------
    times : dict of str to Distribution
        Distributions of the signals in µs.
    overdue_parts : list of int
        Overdue ticks by the number in ``master:longest``.
    rows : int
        Rows of the topic with the timing, or of the first topic.
    intervals : Intervals
        Between those rows.
    """

    times: dict[str, Distribution] = field(default_factory=dict)
    overdue_parts: list[int] = field(default_factory=list)
    rows: int = 0
    intervals: Intervals = field(default_factory=Intervals)
    start_ns: int = 1 << 62
    end_ns: int = -(1 << 62)
    _columns: dict[str, _Columns] = field(default_factory=dict)
    _stats: dict[str, SignalStatistics] | None = None
    _last: dict[str, _LastRow] = field(default_factory=dict)
    _slowest: SlowestRows = field(default_factory=SlowestRows)
    _worst_steps: list[WorstStep] | None = None

    @classmethod
    def of(
        cls, stats: dict[str, SignalStatistics], worst: list[WorstStep], **found: Any
    ) -> LogStatistics:
        """Create complete statistics from their attributes `found`."""
        return cls(**found, _stats=stats, _worst_steps=worst)

    @property
    def stats(self) -> dict[str, SignalStatistics]:
        """Statistics of every signal."""
        if self._stats is None:
            self._stats = {}
            for columns in self._columns.values():
                self._stats |= columns.stats()
        return self._stats

    def add(self, block: Block) -> None:
        """Process the next rows of a topic."""
        block, dt_ns = self._follow(block)
        topic, times_ns = block.channel.topic, block.times_ns
        if not len(times_ns):
            return
        self.start_ns = min(self.start_ns, int(times_ns[0]))
        self.end_ns = max(self.end_ns, int(times_ns[-1]))
        names, dt = [signal.name for signal in block.channel.signals], dt_ns / 1e9
        columns = self._columns.get(topic)
        if columns is None:
            columns = self._columns[topic] = _Columns(names)
        columns.add(block.values, dt)
        if topic in MARKS:
            columns.add_marks(block.values, dt)
        self._stats = None
        for i, signal in enumerate(block.channel.signals):
            if signal.unit == "us":
                self.times.setdefault(signal.name, Distribution()).add_all(block.values[:, i])
        if topic == "timing":
            self.rows += len(times_ns)
            self.intervals = self.intervals.merged(dt_ns)
            self._count_overdue(block, names)
        self._slowest.add(block)

    def _follow(self, block: Block) -> tuple[Block, NDArray[np.int64]]:
        """Return new rows, and the interval before each, ns; 0 if rows are missing.

        Logs that were cut at a row and merged contain that row twice.
        """
        times, topic = block.times_ns, block.channel.topic
        if not len(times):
            return block, times
        last = self._last.get(topic)
        numbers = block.rows if len(block.rows) else np.arange(len(times), dtype=np.int64)
        if not len(block.rows) and last is not None:
            numbers = numbers + last.number + 1
        before = last or _LastRow(int(times[0]), int(numbers[0]) - 1)
        dt = np.diff(times, prepend=before.t_ns)
        steps = np.diff(numbers, prepend=before.number)
        self._last[topic] = _LastRow(int(times[-1]), int(numbers[-1]))
        dt[(steps > 1) | (steps < 0)] = 0
        again = (dt == 0) & (steps == 0)
        if again.any():
            new = ~again
            block = Block(block.channel, times[new], block.values[new], numbers[new])
            dt = dt[new]
        return block, dt

    def _count_overdue(self, block: Block, names: Sequence[str]) -> None:
        """Count overdue ticks by the part that took most of their time."""
        if "master:overdue" not in names or "master:longest" not in names:
            return
        overdue = block.values[:, names.index("master:overdue")] > 0.0
        parts = block.values[overdue, names.index("master:longest")].astype(np.intp)
        new = np.bincount(parts).tolist()
        pairs = itertools.zip_longest(self.overdue_parts, new, fillvalue=0)
        self.overdue_parts = [a + b for a, b in pairs]

    def worst_steps(self) -> list[WorstStep]:
        """The ten worst ticks, worst first: by lateness in real time, else by computing time."""
        if self._worst_steps is None:
            self._worst_steps = self._slowest.steps()
        return self._worst_steps

    @property
    def duration_s(self) -> float:
        """Time from the first row to the last, s."""
        return max(0, self.end_ns - self.start_ns) / 1e9

    def of_kind(self, suffix: str) -> Iterator[tuple[str, SignalStatistics]]:
        """Owner and values of every signal whose name ends in ``:suffix``."""
        for name, stats in self.stats.items():
            owner, _, kind = name.rpartition(":")
            if kind == suffix and owner:
                yield owner, stats
