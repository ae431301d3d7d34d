"""Compare two logs, signal by signal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.analyze.log_analysis import LogAnalysis, analyse_log
from hilrt.record.decimate import Curve, Envelope
from hilrt.record.reader import Block, LogStream
from hilrt.solver import Floats

#: Relative difference above which signals count as different.
PARTED = 1e-6


@dataclass
class SignalDifference:
    """One signal in both logs, at common times.

    Attributes
    ----------
    rows : int
        Common times at which both have a value.
    equal : bool
        Whether all values are the same to the last bit.
    rms, largest : float
        RMS and largest magnitude of A − B.
    scale : float
        RMS of A.
    at : float
        Time of the largest difference, s.
    parted : float or None
        First time at which they differ by more than `PARTED` of the largest magnitude so far, s.
    curve : Curve or None
        A − B, in few points.
    """

    name: str
    unit: str = ""
    rows: int = 0
    equal: bool = True
    square: float = 0.0
    scale_square: float = 0.0
    largest: float = 0.0
    at: float = math.nan
    parted: float | None = None
    curve: Curve | None = None
    _high: float = 0.0

    @property
    def rms(self) -> float:
        """Root mean square of the difference."""
        return math.sqrt(self.square / self.rows) if self.rows else math.nan

    @property
    def scale(self) -> float:
        """Root mean square of A."""
        return math.sqrt(self.scale_square / self.rows) if self.rows else math.nan

    @property
    def relative(self) -> float:
        """RMS of the difference over that of A; infinite if A is zero and B is not."""
        if not self.rows or self.rms == 0.0:
            return 0.0
        return self.rms / self.scale if self.scale > 0.0 else math.inf

    def as_json(self) -> dict[str, Any]:
        """Content of the JSON output."""
        return {
            "unit": self.unit,
            "rows": self.rows,
            "equal": self.equal,
            "rms": self.rms if self.rows else None,
            "relative": self.relative if math.isfinite(self.relative) else None,
            "largest": self.largest,
            "at_s": None if math.isnan(self.at) else self.at,
            "parted_s": self.parted,
        }

    def add(self, t: Floats, a: Floats, b: Floats) -> None:
        """Process values at common times [s]."""
        nan_a, nan_b = np.isnan(a), np.isnan(b)
        if np.any(nan_a != nan_b):
            self.equal = False
        keep = ~(nan_a | nan_b)
        t, a, b = t[keep], a[keep], b[keep]
        if not len(t):
            return
        self.rows += len(t)
        with np.errstate(invalid="ignore"):  # infinite in both: no difference
            gap = np.where(a == b, 0.0, np.abs(a - b))
        self.equal = self.equal and not gap.any()
        with np.errstate(over="ignore", invalid="ignore"):  # infinite values have infinite squares
            self.square += float(gap @ gap)
            self.scale_square += float(a @ a)
        worst = int(np.argmax(gap))
        if gap[worst] > self.largest:
            self.largest, self.at = float(gap[worst]), float(t[worst])
        if self.parted is None:
            high = np.maximum.accumulate(np.maximum(np.abs(a), self._high))
            over = np.flatnonzero(gap > PARTED * high)
            self.parted = float(t[over[0]]) if len(over) else None
            self._high = float(high[-1])


def differences(a: Path, b: Path, limit: int = 250) -> list[SignalDifference]:
    """Differences of the signals that both logs have, the largest relative ones first.

    Times are session times; the logs are read in parallel, one second at a time. A curve has at
    most four times `limit` points.
    """
    found: dict[str, SignalDifference] = {}
    envelopes: dict[str, tuple[list[str], Envelope]] = {}
    waiting: tuple[dict[str, list[Block]], dict[str, list[Block]]] = ({}, {})
    for side, block in _in_step(a, b):
        topic = block.channel.topic
        waiting[side].setdefault(topic, []).append(block)
        if topic in waiting[1 - side]:
            pieces = _common(waiting[0], waiting[1], topic)
            _compare(pieces, found)
            if len(pieces.names) and len(pieces.times_ns):
                names, envelope = envelopes.setdefault(
                    topic, (pieces.names, Envelope(len(pieces.names), limit))
                )
                if names == pieces.names:
                    with np.errstate(invalid="ignore"):
                        envelope.add(pieces.times_ns, pieces.left - pieces.right)
    for names, envelope in envelopes.values():
        for column, name in enumerate(names):
            found[name].curve = envelope.curve(column)
    return sorted(found.values(), key=lambda d: -d.relative)


def _in_step(a: Path, b: Path) -> Iterator[tuple[int, Block]]:
    """Blocks of both logs in the order of their times."""
    streams = [iter(LogStream(path).blocks()) for path in (a, b)]
    heads = [next(stream, None) for stream in streams]
    while any(head is not None for head in heads):
        times = [1 << 62 if head is None else int(head.times_ns[0]) for head in heads]
        side = 0 if times[0] <= times[1] else 1
        head = heads[side]
        assert head is not None
        yield side, head
        heads[side] = next(streams[side], None)


class _Common(NamedTuple):
    """Values at common times (n,) [ns] of the signals that both logs have, shape (n, signals)."""

    names: list[str]
    units: list[str]
    times_ns: NDArray[np.int64]
    left: Floats
    right: Floats


def _common(a: dict[str, list[Block]], b: dict[str, list[Block]], topic: str) -> _Common:
    """Yield rows of a topic at times in both logs; others wait for a match."""
    left, right = _joined(a.pop(topic)), _joined(b.pop(topic))
    until = min(int(left.times_ns[-1]), int(right.times_ns[-1]))
    times, i, j = np.intersect1d(left.times_ns, right.times_ns, return_indices=True)
    columns = {s.name: k for k, s in enumerate(right.channel.signals)}
    shared = [(k, s) for k, s in enumerate(left.channel.signals) if s.name in columns]
    for block, rest in ((left, a), (right, b)):
        keep = block.times_ns > until
        if keep.any():
            rest[topic] = [Block(block.channel, block.times_ns[keep], block.values[keep])]
    return _Common(
        [signal.name for _, signal in shared],
        [signal.unit for _, signal in shared],
        times,
        left.values[i][:, [k for k, _ in shared]],
        right.values[j][:, [columns[signal.name] for _, signal in shared]],
    )


def _compare(common: _Common, found: dict[str, SignalDifference]) -> None:
    """Add the differences at common times."""
    t = common.times_ns / 1e9
    if not len(t):
        return
    for k, (name, unit) in enumerate(zip(common.names, common.units, strict=True)):
        pair = found.setdefault(name, SignalDifference(name, unit))
        pair.add(t, common.left[:, k], common.right[:, k])


def _joined(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    times = np.concatenate([block.times_ns for block in blocks])
    values = np.concatenate([block.values for block in blocks])
    return Block(blocks[0].channel, times, values)


_NO_DEFAULT = "–"
#: Topics with the values of ports.
QUANTITIES = ("outputs", "corrected", "sent", "realised")


@dataclass
class LogComparison:
    """Two logs and their differences.

    Attributes
    ----------
    a, b : LogAnalysis
    signals : list of SignalDifference
        Signals of both, the most different first.
    only_a, only_b : list of str
        Signals in only one of the logs.
    settings : list of (key, a, b)
        Keys of the session files with different values, after overrides and changes of a replay.
    """

    a: LogAnalysis
    b: LogAnalysis
    signals: list[SignalDifference]
    only_a: list[str]
    only_b: list[str]
    settings: list[tuple[str, str, str]]

    @property
    def equal(self) -> bool:
        """Whether every signal is the same to the last bit, at the same times."""
        same = (
            self.a.statistics.rows == self.b.statistics.rows and not self.only_a and not self.only_b
        )
        return same and all(signal.equal for signal in self.signals)

    def as_json(self) -> dict[str, Any]:
        """Content of the JSON output."""
        return {
            "equal": self.equal,
            "settings": {key: {"a": a, "b": b} for key, a, b in self.settings},
            "signals": {signal.name: signal.as_json() for signal in self.signals},
            "only_a": self.only_a,
            "only_b": self.only_b,
            "a": self.a.as_json(),
            "b": self.b.as_json(),
        }


def compare_logs(a: Path, b: Path) -> LogComparison:
    """Read two logs.

    Raises
    ------
    RecordError
        If one cannot be read, or bokeh is missing.
    """
    left, right = analyse_log(a), analyse_log(b)
    names_a, names_b = (list(analysis.statistics.stats) for analysis in (left, right))
    return LogComparison(
        a=left,
        b=right,
        signals=differences(left.file, right.file),
        only_a=[name for name in names_a if name not in right.statistics.stats],
        only_b=[name for name in names_b if name not in left.statistics.stats],
        settings=list(_settings(left, right)),
    )


def _settings(a: LogAnalysis, b: LogAnalysis) -> Iterator[tuple[str, str, str]]:
    left, right = flattened(a.settings), flattened(b.settings)
    for key in sorted(left.keys() | right.keys()):
        if left.get(key) != right.get(key):
            yield key, str(left.get(key, _NO_DEFAULT)), str(right.get(key, _NO_DEFAULT))


def flattened(value: Any, path: str = "") -> dict[str, Any]:
    """Map dotted keys to values; tables in a list are identified by name or number."""
    if isinstance(value, dict):
        items = {str(key): inner for key, inner in value.items()}
    elif isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value):
        items = {str(inner.get("name", i)): inner for i, inner in enumerate(value)}
    else:
        return {path: value}
    found: dict[str, Any] = {}
    for key, inner in items.items():
        found |= flattened(inner, f"{path}.{key}" if path else key)
    return found
