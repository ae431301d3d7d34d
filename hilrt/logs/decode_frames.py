"""Signals of CAN frames, by a database: every message of the database is a topic."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hilrt.can.codec import codec
from hilrt.can.database import load_database
from hilrt.can.id_table import carries
from hilrt.can.library_errors import DECODE_ERRORS
from hilrt.logs.columns import columns_of
from hilrt.logs.source import Source
from hilrt.record.logged_frame import FrameFlag, LoggedFrame
from hilrt.record.messages import Attachment, Signal, Topic
from hilrt.record.reader import Block, LogChannel

if TYPE_CHECKING:
    from cantools.database.can import Message

#: Frames of this time become one block of each message, ns.
WINDOW_NS = 1_000_000_000


class Decoded(Source):
    """A source whose frames give signals as well, named ``Message.Signal``."""

    kind = "decoded CAN log"

    def __init__(self, source: Source, database: Path) -> None:
        super().__init__(source.path, source.label)
        self.kind = source.kind  # type: ignore[misc]
        self.notes = source.notes
        self._source = source
        self._database = database
        self._messages = load_database(database, str(database)).messages

    def topics(self) -> list[Topic]:
        """Topics of the source, then one per message of the database."""
        own = self._source.topics()
        self.epoch_ns = self._source.epoch_ns
        if self.epoch_ns is None:  # exports write it before they ask for the first block
            for frame in self._source.frames():
                self.since_start(frame)
                break
        return own + [_topic(message) for message in self._messages]

    def blocks(self, wanted: Collection[str] | None = None) -> Iterator[Block]:
        """Rows of the source's own topics, then those of the messages, a second at a time."""
        yield from self._source.blocks(wanted)
        frames = self.frames()
        for block in decode_blocks(frames, self._messages, self.since_start, self.notes):
            kept = columns_of(block, wanted)
            if kept is not None:
                yield kept

    def frames(self) -> Iterator[LoggedFrame]:
        """Frames of the source; without a time of its own, time 0 is that of the first."""
        for frame in self._source.frames():
            self.since_start(frame)
            yield frame

    def attachments(self) -> list[Attachment]:
        """Those of the source, and the database."""
        data = self._database.read_bytes()
        return [*self._source.attachments(), Attachment(self._database.name, "text/plain", data)]

    def metadata(self) -> dict[str, str]:
        """Facts of the source."""
        return self._source.metadata()

    def close(self) -> None:
        """Free the file."""
        self._source.close()


def decode_blocks(
    frames: Iterable[LoggedFrame],
    messages: Collection[Message],
    since_start: Callable[[LoggedFrame], int],
    notes: list[str],
) -> Iterator[Block]:
    """Rows of the messages that the frames carry, a window of time after the other.

    Parameters
    ----------
    frames : iterable of LoggedFrame
    messages : collection of Message
    since_start : callable
        Time of a frame since time 0, ns.
    notes : list of str
        Extended, at the end, by what could not be decoded.
    """
    tables = _Tables(messages)
    window = -(1 << 62)
    for frame in frames:
        if frame.flags & (FrameFlag.ERROR | FrameFlag.REMOTE):
            continue
        t_ns = since_start(frame)
        if t_ns // WINDOW_NS != window:
            yield from tables.take()
            window = t_ns // WINDOW_NS
        tables.add(t_ns, frame)
    yield from tables.take()
    for name, count in tables.failures.items():
        notes.append(f"{count} frames of message {name} that its database cannot decode")
    for name, count in tables.truncated.items():
        notes.append(f"{count} frames of message {name} that are shorter than its database says")


class _Tables:
    """Rows of each message since the last window."""

    def __init__(self, messages: Collection[Message]) -> None:
        self._messages = list(messages)
        self._by_id: dict[tuple[int, bool], str | None] = {}
        self._first: dict[str, int] = {}
        self._channels: dict[str, LogChannel] = {}
        self._message: dict[str, Message] = {}
        self._codecs = {
            m.name: codec(m, [s.name for s in m.signals]) for m in messages if m.signals
        }
        self._rows: dict[str, list[tuple[int, list[float]]]] = {}
        self.failures: dict[str, int] = {}
        self.truncated: dict[str, int] = {}

    def add(self, t_ns: int, frame: LoggedFrame) -> None:
        key = (frame.identifier, bool(frame.flags & FrameFlag.EXTENDED))
        if key not in self._by_id:
            self._by_id[key] = self._find(*key)
        topic = self._by_id[key]
        if topic is None:
            return
        message = self._message[topic]
        values = self._decode(message, frame.data)
        if values is None:
            self.failures[message.name] = self.failures.get(message.name, 0) + 1
        else:
            self._rows.setdefault(topic, []).append((t_ns, values))

    def take(self) -> list[Block]:
        """Rows since the last call, one block per topic."""
        blocks = []
        for topic, rows in self._rows.items():
            rows.sort(key=lambda row: row[0])  # logs of several buses may be mixed
            times = np.array([t for t, _ in rows], np.int64)
            values = np.array([v for _, v in rows], np.float64)
            blocks.append(Block(self._channels[topic], times, values))
        self._rows = {}
        return blocks

    def _find(self, identifier: int, extended: bool) -> str | None:
        """Topic of an identifier; a further sender of a J1939 group gets one of its own."""
        for message in self._messages:
            if message.name in self._codecs and carries(message, identifier, extended):
                first = self._first.setdefault(message.name, identifier)
                suffix = "" if first == identifier else f"@{identifier:X}"
                topic = _topic(message, suffix)
                self._channels[topic.name] = LogChannel(topic.name, topic.signals)
                self._message[topic.name] = message
                return topic.name
        return None

    def _decode(self, message: Message, data: bytes) -> list[float] | None:
        try:
            try:
                found = self._codecs[message.name].decode(data)
            except DECODE_ERRORS:
                if len(data) >= message.length:
                    raise
                whole = message.decode(data, decode_choices=False, allow_truncated=True)
                assert isinstance(whole, dict)
                found = [whole.get(s.name) for s in message.signals]  # type: ignore[misc]
                self.truncated[message.name] = self.truncated.get(message.name, 0) + 1
        except DECODE_ERRORS:
            return None
        return [math.nan if value is None else float(value) for value in found]


def _topic(message: Message, suffix: str = "") -> Topic:
    source = f"{message.name} 0x{message.frame_id:X}"
    return Topic(
        message.name + suffix,
        [
            Signal(f"{message.name}{suffix}.{s.name}", s.unit or "", source, s.comment or "")
            for s in message.signals
        ],
    )
