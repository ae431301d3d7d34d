"""Numbers of a session from its log alone, gathered while the log is read once.

Where `summary.json` is missing, its numbers are computed again from the rows: for a session that
was killed, a part that was cut out, two logs that are compared.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.record.decimate import extremes
from hilrt.record.reader import Block, LogChannel
from hilrt.solver import Floats
from hilrt.timing.histogram import Distribution

WORST = 10
#: Topics with signals that are 0 or above: flags, and marks of each tick.
MARKS = ("flags", "timing")


@dataclass
class SignalStatistics:
    """One signal; sums over time are weighted with the interval that ended at the row, s.

    Attributes
    ----------
    count : int
        Values that are not NaN.
    first, last, low, high : float
    square : float
        ∫ x² dt.
    seconds : float
        ∫ dt over the values.
    above : float
        ∫ dt where x > 0, s: how long a flag or mark was up; for the topics in `MARKS`.
    rises : int
        How often it went up.
    """

    count: int = 0
    first: float = math.nan
    last: float = math.nan
    low: float = math.inf
    high: float = -math.inf
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
        """From the first value to the last."""
        return self.last - self.first


class Cap(NamedTuple):
    """Bound of a bond's correction: a share of the effort, and an absolute one in its unit."""

    effort: str
    relative: float
    absolute: float


@dataclass
class WorstStep:
    """A tick with one of the largest values of `key`; times in µs, `t` in s."""

    t: float
    key: str
    values: dict[str, float]
    causes: list[str]


class _Columns:
    """`SignalStatistics` of all signals of a topic at once, as arrays of shape (n_signals,)."""

    def __init__(self, names: list[str]) -> None:
        n = len(names)
        self.names = names
        self.count, self.rises = np.zeros((2, n), np.int64)
        self.first, self.last = np.full((2, n), np.nan)
        self.low, self.high = np.full(n, np.inf), np.full(n, -np.inf)
        self.square, self.seconds, self.above = np.zeros((3, n))
        self._up = np.zeros(n, bool)

    def add(self, values: Floats, dt: Floats) -> None:
        """Take rows, shape (n, n_signals), with the intervals before them, shape (n,), s."""
        missing = np.isnan(values)
        low, high = extremes(values)
        self.low, self.high = np.fmin(self.low, low), np.fmax(self.high, high)
        if missing.any():
            keep, squares = ~missing, np.where(missing, 0.0, values)
            counts = keep.sum(axis=0)
            self.seconds += dt @ keep
        else:
            squares, counts = values, len(values)
            self.seconds += dt.sum()
        with np.errstate(over="ignore", invalid="ignore"):  # infinite values, infinite squares
            self.square += dt @ (squares * squares)
        for i in np.flatnonzero((self.count == 0) & (counts > 0)):
            self.first[i] = values[missing[:, i].argmin(), i]
        self.count += counts
        np.copyto(self.last, values[-1], where=~missing[-1])
        for i in np.flatnonzero(missing[-1] & (counts > 0)):
            self.last[i] = values[len(values) - 1 - missing[::-1, i].argmin(), i]

    def add_marks(self, values: Floats, dt: Floats) -> None:
        """Count how long and how often values of the same rows are above 0."""
        up = values > 0.0
        self.above += dt @ up
        self.rises += (up & ~np.vstack([self._up, up[:-1]])).sum(axis=0)
        self._up = up[-1]

    def stats(self) -> dict[str, SignalStatistics]:
        """By signal."""
        columns = (self.count, self.first, self.last, self.low, self.high)
        sums = (self.square, self.seconds, self.above, self.rises)
        rows = zip(*(column.tolist() for column in (*columns, *sums)), strict=True)
        return {name: SignalStatistics(*row) for name, row in zip(self.names, rows, strict=True)}


@dataclass
class LogStatistics:
    """Statistics of all signals, gathered in one pass over a log.

    Attributes
    ----------
    times : dict of str to Distribution
        Of the signals in µs.
    caps : callable
        Bounds of the bonds' corrections, asked when rows of them come.
    capped : dict of str to int
        Steps in which a bond's correction was at its cap.
    rows : int
        Rows of the topic with the timing, or of the first topic.
    """

    caps: Callable[[], Mapping[str, Cap]] = dict
    times: dict[str, Distribution] = field(default_factory=dict)
    capped: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    start_ns: int = 1 << 62
    end_ns: int = -(1 << 62)
    _columns: dict[str, _Columns] = field(default_factory=dict)
    _stats: dict[str, SignalStatistics] | None = None
    _last_ns: dict[str, int] = field(default_factory=dict)
    _worst: dict[str, list[tuple[float, int, int, Floats, LogChannel]]] = field(
        default_factory=dict
    )
    _order: Iterator[int] = field(default_factory=itertools.count)
    _flags: Block | None = None
    _efforts: Block | None = None
    _causes: dict[int, list[str]] = field(default_factory=dict)
    _worst_steps: list[WorstStep] | None = None

    @classmethod
    def of(
        cls, stats: dict[str, SignalStatistics], worst: list[WorstStep], **found: Any
    ) -> LogStatistics:
        """Statistics that are complete, from their attributes `found`."""
        return cls(**found, _stats=stats, _worst_steps=worst)

    @property
    def stats(self) -> dict[str, SignalStatistics]:
        """Numbers of every signal."""
        if self._stats is None:
            self._stats = {}
            for columns in self._columns.values():
                self._stats |= columns.stats()
        return self._stats

    def add(self, block: Block) -> None:
        """Take the next rows of a topic."""
        if not len(block.times_ns):
            return
        self.start_ns = min(self.start_ns, int(block.times_ns[0]))
        self.end_ns = max(self.end_ns, int(block.times_ns[-1]))
        names = [signal.name for signal in block.channel.signals]
        before = self._last_ns.get(block.channel.topic, int(block.times_ns[0]))
        dt = np.diff(block.times_ns, prepend=before) / 1e9
        columns = self._columns.get(block.channel.topic)
        if columns is None:
            columns = self._columns[block.channel.topic] = _Columns(names)
        columns.add(block.values, dt)
        if block.channel.topic in MARKS:
            columns.add_marks(block.values, dt)
        self._stats = None
        for i, signal in enumerate(block.channel.signals):
            if signal.unit == "us":
                self.times.setdefault(signal.name, Distribution()).add_all(block.values[:, i])
        self._last_ns[block.channel.topic] = int(block.times_ns[-1])
        if block.channel.topic == "flags":
            self._flags = block
        elif block.channel.topic == "corrected":
            self._efforts = block
        elif block.channel.topic == "timing":
            self.rows += len(block.times_ns)
            self._add_worst(block, names)
        elif block.channel.topic == "bonds":
            self._add_caps(block, names)

    def _add_caps(self, block: Block, names: list[str]) -> None:
        """Count the steps at which a correction has exactly the size of its bound."""
        at = None if self._efforts is None else _rows_at(self._efforts, block.times_ns)
        if at is None or self._efforts is None:
            return
        outputs = [signal.name for signal in self._efforts.channel.signals]
        for bond, cap in self.caps().items():
            effort, computed = f"{cap.effort}:corrected", f"{bond}:correction_computed"
            if effort not in outputs or computed not in names:
                continue
            size = np.abs(self._efforts.values[at, outputs.index(effort)])
            bound = np.minimum(cap.relative * size, cap.absolute)
            reached = np.abs(block.values[:, names.index(computed)]) >= bound * (1.0 - 1e-9)
            self.capped[bond] = self.capped.get(bond, 0) + int((reached & (bound > 0.0)).sum())

    def _add_worst(self, block: Block, names: list[str]) -> None:
        for key in ("master:lateness", "master:compute"):
            if key not in names:
                continue
            values = block.values[:, names.index(key)]
            kept = self._worst.setdefault(key, [])
            for row in np.argsort(np.nan_to_num(values))[-WORST:].tolist():
                t_ns = int(block.times_ns[row])
                if math.isnan(values[row]) or (len(kept) == WORST and values[row] <= kept[0][0]):
                    continue
                # Merged logs may have a tick twice; the heap then compares the numbers.
                value, number = float(values[row]), next(self._order)
                item = (value, t_ns, number, block.values[row].copy(), block.channel)
                self._causes[t_ns] = self._causes_at(t_ns)
                if len(kept) < WORST:
                    heapq.heappush(kept, item)
                else:
                    heapq.heapreplace(kept, item)

    def _causes_at(self, t_ns: int) -> list[str]:
        """Causes whose flags were up; in the file a tick's flags precede its timing."""
        if self._flags is None:
            return []
        row = int(np.searchsorted(self._flags.times_ns, t_ns))
        if row >= len(self._flags.times_ns) or self._flags.times_ns[row] != t_ns:
            return []
        up = np.flatnonzero(self._flags.values[row] > 0.0)
        return [self._flags.channel.signals[i].name.rpartition(":")[2] for i in up]

    def worst_steps(self) -> list[WorstStep]:
        """The ten worst ticks, worst first: by lateness in real time, else by computing time."""
        if self._worst_steps is not None:
            return self._worst_steps
        for key in ("master:lateness", "master:compute"):
            items = [item for item in self._worst.get(key, []) if item[0] > 0.0]
            if items:
                break
        else:
            return []
        steps = []
        for _, t_ns, _, row, channel in sorted(items, key=lambda item: -item[0]):
            names = [signal.name for signal in channel.signals]
            values = dict(zip(names, row.tolist(), strict=True))
            steps.append(WorstStep(t_ns / 1e9, key, values, self._causes.get(t_ns, [])))
        return steps

    @property
    def duration_s(self) -> float:
        """From the first row to the last, s."""
        return max(0, self.end_ns - self.start_ns) / 1e9

    def summary(self) -> dict[str, Any]:
        """The part of ``summary.json`` that follows from the rows, in its layout."""
        stats = self.stats
        steps = max(self.rows - 1, 0)
        sizes = stats.get("master:step")
        real_time = stats.get("master:lateness", SignalStatistics()).largest > 0.0
        found: dict[str, Any] = {
            "steps": steps,
            "time_s": self.duration_s,
            "flags": {
                name.rpartition(":")[2]: {"count": s.rises, "seconds": s.above}
                for name, s in stats.items()
                if name.startswith("flag:") and s.rises
            },
            "bonds": self._bonds(),
            "ports": self._ports(),
        }
        if sizes is not None and sizes.count:
            found["step_size_s"] = {
                "first": sizes.first,
                "min": sizes.low,
                "mean": self.duration_s / steps if steps else sizes.first,
                "max": sizes.high,
            }
        if "master:compute" in self.times:
            found["compute_us"] = self.times["master:compute"].quantiles()
        if real_time:
            lateness = self.times["master:lateness"]
            edges, counts = lateness.histogram()
            found["lateness_us"] = lateness.quantiles()
            found["lateness_histogram"] = {"edges_us": edges.tolist(), "counts": counts}
            found["missed_ticks"] = self._marked_ticks("master:missed")
        peers = [n.removesuffix(":late") for n in stats if n.endswith(":late")]
        found["peers"] = {p: {"late": self._marked_ticks(f"{p}:late"), "lost": None} for p in peers}
        return found

    def _marked_ticks(self, name: str) -> int:
        """Ticks at which a mark was set, from the time it was set and the shortest step."""
        stats = self.stats.get(name)
        steps = self.stats.get("master:step")
        if stats is None or steps is None or not stats.above:
            return 0
        return max(stats.rises, round(stats.above / max(steps.low, 1e-12)))

    def _bonds(self) -> dict[str, dict[str, Any]]:
        bonds: dict[str, dict[str, Any]] = {}
        for name, stats in self.stats.items():
            bond, _, quantity = name.rpartition(":")
            if quantity.endswith("_energy") and bond and stats.count:
                bonds.setdefault(bond, {})[f"{quantity}_j"] = stats.change
        for bond, found in bonds.items():
            if bond in self.capped and self.rows:
                found["cap_hits"] = self.capped[bond]
                found["cap_share"] = self.capped[bond] / self.rows
        return bonds

    def _ports(self) -> dict[str, dict[str, Any]]:
        ports: dict[str, dict[str, Any]] = {}
        for name, stats in self.stats.items():
            port, _, kind = name.rpartition(":")
            if kind in ("connection_defect", "output_defect") and stats.count:
                ports.setdefault(port, {})[kind] = {"rms": stats.rms, "max": stats.largest}
        for port, found in ports.items():
            value = self.stats.get(f"{port}:corrected") or self.stats.get(f"{port}:sent")
            found["last"] = None if value is None else value.last
        return ports


def _rows_at(block: Block, times_ns: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Rows of the block at these times; None if one is missing."""
    rows = np.searchsorted(block.times_ns, times_ns)
    if rows[-1] >= len(block.times_ns) or np.any(block.times_ns[rows] != times_ns):
        return None
    return rows
