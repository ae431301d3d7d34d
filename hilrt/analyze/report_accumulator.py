"""What the recorder keeps for a page about its log, so that one about hours need not read hours.

While it writes rows, the recorder tallies them and follows their extremes, as a reader of the log
would; what came out is attached to the log when it is closed. A log that was cut off has none, and
is read.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from hilrt.analyze.curves import Envelopes
from hilrt.analyze.log_statistics import (
    LogStatistics,
    SignalStatistics,
    TimeDistribution,
    WorstStep,
)
from hilrt.analyze.step_advice import caps_of
from hilrt.logs.contents import read_attachments, read_index
from hilrt.record import cdr
from hilrt.record.decimate import Curve
from hilrt.record.messages import REPORT_STATISTICS, Begin, Topic
from hilrt.record.reader import Block, Channel, LogEvent, LogStream
from hilrt.solver import Floats

#: A log with fewer rows is read in a moment, and not made larger.
LEAST_ROWS = 100_000
#: More events than that are not kept in memory, and such a log is read.
MOST_EVENTS = 100_000
#: Rows that are taken together: more cost less, but hold up the writing for longer.
ROWS_AT_ONCE = 1024
#: Points of all curves together: what keeps a page small whatever the session's length.
POINT_BUDGET = 500_000
MIN_INTERVALS, MAX_INTERVALS = 250, 1500
#: The curves are mostly noise: more effort finds little more.
LEVEL = 1


class _Accumulated(msgspec.Struct):
    """The attachment; arrays as little-endian bytes."""

    rows_written: int
    events: list[LogEvent]
    curves: dict[str, tuple[bytes, bytes]]
    stats: dict[str, SignalStatistics]
    spreads: dict[str, tuple[int, float, bytes]]
    capped: dict[str, int]
    worst: list[WorstStep]
    rows: int
    start_ns: int
    end_ns: int


def intervals(signals: int) -> int:
    """Intervals that the curves of so many signals are reduced to, at least."""
    return min(max(POINT_BUDGET // (4 * max(signals, 1)), MIN_INTERVALS), MAX_INTERVALS)


class ReportAccumulator:
    """Follows the rows that a recorder writes.

    Parameters
    ----------
    topics : sequence of Topic
        What a row holds.
    metadata, attachments : mapping
        Of the log.
    """

    def __init__(
        self,
        topics: Sequence[Topic],
        metadata: Mapping[str, str],
        attachments: Mapping[str, bytes],
    ) -> None:
        self._channels = [Channel(topic.name, topic.signals) for topic in topics]
        self._columns = cdr.signal_slices(topics)
        self._envelopes = Envelopes(intervals(sum(len(c.signals) for c in self._channels)))
        self._tally = LogStatistics(caps=lambda: caps_of(metadata, attachments))
        self._waiting: list[tuple[NDArray[np.int64], Floats]] = []
        self._number = self._rows = 0
        self._events: list[LogEvent] = []
        flags = (channel for channel in self._channels if channel.topic == "flags")
        self._flags = {s.name.rpartition(":")[2] for channel in flags for s in channel.signals}

    @classmethod
    def of(cls, begin: Begin) -> ReportAccumulator:
        """For a log that begins."""
        attachments = {file.name: file.data for file in begin.attachments}
        return cls(begin.topics, begin.metadata, attachments)

    def event(self, event: LogEvent) -> None:
        """An event was written; a flag's are in the rows, too, and a page shows those."""
        if event.cause not in self._flags and len(self._events) <= MOST_EVENTS:
            self._events.append(event)

    def take(self, times: NDArray[np.int64], rows: Floats) -> None:
        """Rows, shape (n, n_signals), were written, at session times [ns]; nobody changes them."""
        self._waiting.append((times, rows))
        self._number += len(times)
        if self._number >= ROWS_AT_ONCE:
            self._follow()

    def _follow(self) -> None:
        times, rows = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
        self._waiting.clear()
        self._rows, self._number = self._rows + self._number, 0
        for channel, columns in zip(self._channels, self._columns, strict=True):
            block = Block(channel, times, np.ascontiguousarray(rows[:, columns]))
            self._envelopes.add(block)
            self._tally.add(block)

    def attachment(self) -> bytes:
        """The attachment; empty for a log that needs none."""
        if self._rows + self._number < LEAST_ROWS or len(self._events) > MOST_EVENTS:
            return b""
        if self._waiting:
            self._follow()
        statistics, curves = self._tally, self._envelopes.curves(self._channels)
        kept = _Accumulated(
            rows_written=self._rows,
            events=self._events,
            curves={name: (curve.t.tobytes(), curve.y.tobytes()) for name, curve in curves.items()},
            stats=statistics.stats,
            spreads={
                name: (spread.count, spread.max, spread.counts.tobytes())
                for name, spread in statistics.spreads.items()
            },
            capped=statistics.capped,
            worst=statistics.worst_steps(),
            rows=statistics.rows,
            start_ns=statistics.start_ns,
            end_ns=statistics.end_ns,
        )
        return zlib.compress(msgspec.msgpack.encode(kept), LEVEL)


def read_accumulated(file: Path) -> tuple[LogStream, dict[str, Curve], LogStatistics] | None:
    """The log without its rows, and what the recorder has kept of them.

    None where it has kept nothing, or something that this version does not know.
    """
    contents = read_index(file)
    if contents is None or REPORT_STATISTICS not in (name for name, _, _ in contents.attachments):
        return None
    stream = LogStream(file)
    stream.attachments = {a.name: a.data for a in read_attachments(file)}
    try:
        text = zlib.decompress(stream.attachments.pop(REPORT_STATISTICS))
        kept = msgspec.msgpack.decode(text, type=_Accumulated)
    except (zlib.error, msgspec.MsgspecError):
        return None
    if contents.metadata.get("rows") != str(kept.rows_written):
        return None  # of another log
    stream.metadata, stream.events = contents.metadata, kept.events
    stream.channels = {
        i: Channel(topic.name, topic.signals)
        for i, topic in enumerate(contents.topics)
        if topic.signals
    }
    curves = {
        name: Curve(np.frombuffer(t), np.frombuffer(y)) for name, (t, y) in kept.curves.items()
    }
    return stream, curves, _tally(kept)


def _tally(kept: _Accumulated) -> LogStatistics:
    spreads = {}
    for name, (count, largest, counts) in kept.spreads.items():
        spreads[name] = spread = TimeDistribution()
        spread.count, spread.max = count, largest
        spread.counts = np.frombuffer(counts, np.int64)
    return LogStatistics.of(
        kept.stats,
        kept.worst,
        spreads=spreads,
        capped=kept.capped,
        rows=kept.rows,
        start_ns=kept.start_ns,
        end_ns=kept.end_ns,
    )
