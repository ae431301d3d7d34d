"""Curves of a log, reduced to few points; the log is read once, in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from hilrt.record.decimate import Curve, Envelope
from hilrt.record.reader import Block, LogChannel, LogStream
from hilrt.solver import Floats

#: Rows of a topic processed at once: a numpy call takes as long as for a hundred values.
ROWS_AT_ONCE = 4096


class Envelopes:
    """An `Envelope` for every topic.

    Parameters
    ----------
    limit : int
        As for `Envelope`.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._of: dict[str, Envelope] = {}

    def add(self, block: Block) -> None:
        """Process the next rows of a topic."""
        topic = block.channel.topic
        if topic not in self._of:
            self._of[topic] = Envelope(len(block.channel.signals), self._limit)
        self._of[topic].add(block.times_ns, block.values)

    def curves(self, channels: Iterable[LogChannel]) -> dict[str, Curve]:
        """Points of every signal, by name."""
        found: dict[str, Curve] = {}
        for channel in channels:
            envelope = self._of.get(channel.topic)
            if envelope is None:
                continue
            for column, signal in enumerate(channel.signals):
                found[signal.name] = envelope.curve(column)
        return found


def for_plot(y: Floats) -> NDArray[np.float32]:
    """Convert values to single precision, limited to its largest number."""
    largest = float(np.finfo(np.float32).max)
    return np.clip(y, -largest, largest).astype(np.float32)


def joined(blocks: Iterable[Block]) -> Iterator[Block]:
    """Combine blocks into larger ones; rows of the same time stay together."""
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
