"""Statistics and curves of a log, gathered while it is written, so that a report need not read it.

The recorder passes every row to `ReportAccumulator`, which computes the same values as a reader of
the log; the result is attached to the log when it is closed. A truncated log has no attachment, so
that the report reads all of its rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from hilrt.analyze.curves import Envelopes
from hilrt.analyze.log_statistics import Intervals, LogStatistics, SignalStatistics, WorstStep
from hilrt.files.formats import NOT_MSGPACK
from hilrt.logs.log_file import read_attachments, read_index
from hilrt.record import cdr
from hilrt.record.decimate import Curve
from hilrt.record.messages import REPORT_STATISTICS, Begin, Topic
from hilrt.record.reader import Block, LogChannel, LogEvent, LogStream
from hilrt.solver import Floats
from hilrt.timing.histogram import Distribution

#: A log with fewer rows gets no attachment: reading it takes a moment.
LEAST_ROWS = 100_000
#: With more events there is no attachment either: they would fill the memory.
MOST_EVENTS = 100_000
#: Rows that are processed together: larger batches take less time per row, but delay writing more.
ROWS_AT_ONCE = 1024
#: Points of all curves together, which bounds the size of a page.
POINT_BUDGET = 500_000
MIN_INTERVALS, MAX_INTERVALS = 250, 1500
#: Compression level of zlib: the curves are mostly noise, for which higher levels gain little.
LEVEL = 1
#: Maximum unpacked size of an attachment, bytes.
_MOST_BYTES = 256 << 20


class _Accumulated(msgspec.Struct):
    """The attachment; arrays as little-endian bytes."""

    rows_written: int
    events: list[LogEvent]
    curves: dict[str, tuple[bytes, bytes]]
    stats: dict[str, SignalStatistics]
    times: dict[str, tuple[float, list[int]]]
    overdue_parts: list[int]
    intervals: Intervals
    worst: list[WorstStep]
    rows: int
    start_ns: int
    end_ns: int


def intervals(signals: int) -> int:
    """Minimum number of intervals for the curves of this number of signals."""
    return min(max(POINT_BUDGET // (4 * max(signals, 1)), MIN_INTERVALS), MAX_INTERVALS)


class ReportAccumulator:
    """Statistics and curves of the rows that a recorder writes.

    Parameters
    ----------
    topics : sequence of Topic
        Contents of a row.
    """

    def __init__(self, topics: Sequence[Topic]) -> None:
        self._channels = [LogChannel(topic.name, topic.signals) for topic in topics]
        self._columns = cdr.signal_slices(topics)
        self._envelopes = Envelopes(intervals(sum(len(c.signals) for c in self._channels)))
        self._statistics = LogStatistics()
        self._waiting: list[tuple[NDArray[np.int64], NDArray[np.int64], Floats]] = []
        self._number = self._rows = 0
        self._events: list[LogEvent] = []
        flags = (channel for channel in self._channels if channel.topic == "flags")
        self._flags = {s.name.rpartition(":")[2] for channel in flags for s in channel.signals}

    @classmethod
    def of(cls, begin: Begin) -> ReportAccumulator:
        """Create the accumulator for a log that begins."""
        return cls(begin.topics)

    def event(self, event: LogEvent) -> None:
        """Add an event that was written.

        Events of flags are left out, because rows contain the flags; but rows do not name alarms.
        """
        if (event.cause == "alarm" or event.cause not in self._flags) and len(
            self._events
        ) <= MOST_EVENTS:
            self._events.append(event)

    def take(self, first: int, times: NDArray[np.int64], rows: Floats) -> None:
        """Add written rows, shape (n, n_signals), at session times [ns]; both must not change."""
        self._waiting.append((np.arange(first, first + len(times)), times, rows))
        self._number += len(times)
        if self._number >= ROWS_AT_ONCE:
            self._follow()

    def _follow(self) -> None:
        parts = zip(*self._waiting, strict=True)
        numbers, times, rows = (np.concatenate(part) for part in parts)
        self._waiting.clear()
        self._rows, self._number = self._rows + self._number, 0
        for channel, columns in zip(self._channels, self._columns, strict=True):
            block = Block(channel, times, np.ascontiguousarray(rows[:, columns]), numbers)
            self._envelopes.add(block)
            self._statistics.add(block)

    def attachment(self) -> bytes:
        """The attachment; empty if none is needed."""
        if self._rows + self._number < LEAST_ROWS or len(self._events) > MOST_EVENTS:
            return b""
        if self._waiting:
            self._follow()
        statistics, curves = self._statistics, self._envelopes.curves(self._channels)
        kept = _Accumulated(
            rows_written=self._rows,
            events=self._events,
            curves={name: (curve.t.tobytes(), curve.y.tobytes()) for name, curve in curves.items()},
            stats=statistics.stats,
            times={name: (found.max_ns, found.counts) for name, found in statistics.times.items()},
            overdue_parts=statistics.overdue_parts,
            intervals=statistics.intervals,
            worst=statistics.worst_steps(),
            rows=statistics.rows,
            start_ns=statistics.start_ns,
            end_ns=statistics.end_ns,
        )
        return zlib.compress(msgspec.msgpack.encode(kept), LEVEL)


def read_accumulated(file: Path) -> tuple[LogStream, dict[str, Curve], LogStatistics] | None:
    """Read a log without its rows, and the attached curves and statistics.

    None if there is no attachment of this version.
    """
    contents = read_index(file)
    if contents is None or REPORT_STATISTICS not in (name for name, _, _ in contents.attachments):
        return None
    stream = LogStream(file)
    stream.attachments = {a.name: a.data for a in read_attachments(file)}
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(stream.attachments.pop(REPORT_STATISTICS), _MOST_BYTES)
        if unpacking.unconsumed_tail:
            return None
        kept = msgspec.msgpack.decode(text, type=_Accumulated)
    except (zlib.error, *NOT_MSGPACK):
        return None
    if contents.metadata.get("rows") != str(kept.rows_written):
        return None  # the attachment of another log
    stream.metadata, stream.events = contents.metadata, kept.events
    stream.channels = {
        i: LogChannel(topic.name, topic.signals)
        for i, topic in enumerate(contents.topics)
        if topic.signals
    }
    curves = {
        name: Curve(np.frombuffer(t), np.frombuffer(y)) for name, (t, y) in kept.curves.items()
    }
    return stream, curves, _statistics(kept)


def _statistics(kept: _Accumulated) -> LogStatistics:
    times = {name: Distribution(counts, longest) for name, (longest, counts) in kept.times.items()}
    return LogStatistics.of(
        kept.stats,
        kept.worst,
        times=times,
        overdue_parts=kept.overdue_parts,
        intervals=kept.intervals,
        rows=kept.rows,
        start_ns=kept.start_ns,
        end_ns=kept.end_ns,
    )
