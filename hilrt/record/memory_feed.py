"""Rows and events kept in memory, for sessions that leave no file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hilrt.record.cdr import signal_slices
from hilrt.record.feed import Feed
from hilrt.record.messages import Level, Topic
from hilrt.record.reader import Log, LogChannel, LogEvent, make_log
from hilrt.solver import Floats

#: Rows of a block.
BLOCK_ROWS = 1024


class MemoryFeed(Feed):
    """Keeps everything.

    Parameters
    ----------
    topics : sequence of Topic
        What a row holds: the topics' signals one after the other.
    """

    records = True

    def __init__(self, topics: Sequence[Topic]) -> None:
        super().__init__(topics)
        self._blocks: list[Floats] = []
        self._times: list[NDArray[np.int64]] = []
        self._events: list[LogEvent] = []

    def commit(self, t_ns: int) -> None:
        """See `Feed.commit`."""
        n = self.rows % BLOCK_ROWS
        if n == 0:
            self._blocks.append(np.empty((BLOCK_ROWS, len(self.row))))
            self._times.append(np.empty(BLOCK_ROWS, np.int64))
        self._blocks[-1][n] = self.row
        self._times[-1][n] = t_ns
        self.rows += 1

    def event(self, t_ns: int, level: Level, cause: str, source: str, text: str) -> None:
        """See `Feed.event`."""
        self.events += 1
        self._events.append(LogEvent(t_ns / 1e9, level, cause, source, text))

    def log(self, path: Path, metadata: dict[str, str]) -> Log:
        """Everything so far, as `hilrt.load_log` gives it; `path` is where the session is from."""
        left = self.rows - BLOCK_ROWS * (len(self._blocks) - 1)
        blocks = [*self._blocks[:-1], *(block[:left] for block in self._blocks[-1:])]
        times = np.concatenate([np.empty(0, np.int64), *self._times])[: self.rows]
        parts = list(zip(self.topics, signal_slices(self.topics), strict=True))
        return make_log(
            path,
            [LogChannel(topic.name, topic.signals) for topic in self.topics],
            {topic.name: times for topic in self.topics},
            {topic.name: [block[:, part] for block in blocks] for topic, part in parts},
            self._events,
            metadata,
        )
