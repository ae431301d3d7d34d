"""Rows and events kept in memory, for sessions without a log file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hilrt.record.cdr import signal_slices
from hilrt.record.feed import Feed
from hilrt.record.messages import Level, Signal, Topic
from hilrt.record.reader import Log, LogChannel, LogEvent, make_log
from hilrt.solver import Floats

#: Rows per block.
BLOCK_ROWS = 1024


class MemoryFeed(Feed):
    """Feed that keeps everything in memory.

    Parameters
    ----------
    topics : sequence of Topic
        Contents of a row: the topics' signals in sequence.
    only : collection of str, optional
        Ports whose signals are kept; default: all signals.
    """

    records = True

    def __init__(self, topics: Sequence[Topic], only: Collection[str] | None = None) -> None:
        super().__init__(topics)
        self._kept = self.topics
        self._columns: Any = slice(None)
        if only is not None:

            def counts(signal: Signal) -> bool:
                return signal.name.partition("[")[0] in only

            self._kept = [Topic(t.name, list(filter(counts, t.signals))) for t in self.topics]
            every = [signal for topic in self.topics for signal in topic.signals]
            self._columns = np.flatnonzero([counts(signal) for signal in every])
        self._width = sum(len(topic.signals) for topic in self._kept)
        self._blocks: list[Floats] = []
        self._times: list[NDArray[np.int64]] = []
        self._events: list[LogEvent] = []

    def commit(self, t_ns: int) -> None:
        """Record a row; see `Feed.commit`."""
        n = self.rows % BLOCK_ROWS
        if n == 0:
            self._blocks.append(np.empty((BLOCK_ROWS, self._width)))
            self._times.append(np.empty(BLOCK_ROWS, np.int64))
        self._blocks[-1][n] = self.row[self._columns]
        self._times[-1][n] = t_ns
        self.rows += 1

    def event(
        self,
        t_ns: int,
        level: Level,
        cause: str,
        source: str,
        text: str,
        value: float | None = None,
    ) -> None:
        """Record an event; see `Feed.event`."""
        self.events += 1
        self._events.append(LogEvent(t_ns / 1e9, level, cause, source, text, value=value))

    def log(self, path: Path, metadata: dict[str, str]) -> Log:
        """Log of everything so far, as from `hilrt.load_log`; `path` is the session's origin."""
        left = self.rows - BLOCK_ROWS * (len(self._blocks) - 1)
        blocks = [*self._blocks[:-1], *(block[:left] for block in self._blocks[-1:])]
        times = np.concatenate([np.empty(0, np.int64), *self._times])[: self.rows]
        parts = list(zip(self._kept, signal_slices(self._kept), strict=True))
        return make_log(
            path,
            [LogChannel(topic.name, topic.signals) for topic in self._kept],
            {topic.name: times for topic in self._kept},
            {topic.name: [block[:, part] for block in blocks] for topic, part in parts},
            self._events,
            metadata,
        )
