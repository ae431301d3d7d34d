"""Decode CAN frames to signals, by databases; every message is a topic."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hilrt.can.id_table import with_contained
from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError
from hilrt.logs.columns import columns_of
from hilrt.logs.message_topics import NO_DATA, MessageTopics, TopicDecoders, message_topic
from hilrt.logs.source import Source
from hilrt.record.logged_frame import LoggedFrame
from hilrt.record.messages import Attachment, Topic
from hilrt.record.reader import Block, LogChannel

if TYPE_CHECKING:
    from cantools.database.can import Message


class BusDatabase(NamedTuple):
    """Database file, and the bus of the log whose frames it describes (None: all other buses)."""

    path: Path
    bus: str | None = None


def bus_databases(texts: Iterable[str]) -> list[BusDatabase]:
    """Parse databases given as ``FILE``, or as ``BUS=FILE`` for one bus of the log."""
    found = []
    for text in texts:
        bus, equals, file = text.partition("=")
        if Path(text).exists() or not equals:
            found.append(BusDatabase(Path(text)))
        elif not bus or not file:
            raise ConfigError(f"--database {text}: write it as FILE, or as BUS=FILE")
        else:
            found.append(BusDatabase(Path(file), bus))
    return found


class LoadedDatabases:
    """Messages of the databases, by bus.

    Parameters
    ----------
    databases : sequence of BusDatabase

    Attributes
    ----------
    files : list of Path
        Database files, each once.
    messages : list of Message
        Messages of all databases.
    """

    def __init__(self, databases: Sequence[BusDatabase]) -> None:
        from hilrt.can.database import database_file, load_database

        self._loaded = [
            (bus, load_database(path, "--database").messages) for path, bus in databases
        ]
        self.files = list(dict.fromkeys(database_file(path)[0] for path, _ in databases))
        self.messages = [message for _, messages in self._loaded for message in messages]

    def on_bus(self, bus: str) -> list[Message] | None:
        """Messages of the bus's own databases, else of those for all buses; None without any.

        If a file describes several buses, one of them of this name, only that bus's messages.
        """
        own = [messages for name, messages in self._loaded if name == bus]
        chosen = own or [messages for name, messages in self._loaded if name is None]
        if not chosen:
            return None
        return [message for messages in chosen for message in _part(messages, bus)]

    def lost(self, buses: Collection[str]) -> list[str]:
        """Notes on buses for which a database was given but which the log does not have."""
        return [
            f"there is no frame on bus {name!r}, for which a database was "
            f"given{nearest(name, buses)}"
            for name, _ in self._loaded
            if name is not None and name not in buses
        ]


def _part(messages: list[Message], bus: str) -> list[Message]:
    names = {message.bus_name for message in messages}
    return [m for m in messages if m.bus_name == bus] if bus in names else messages


#: Time span of a block of decoded frames, ns.
WINDOW_NS = 1_000_000_000


class Decoded(Source):
    """Source whose frames are also decoded to signals, named ``Message.Signal``."""

    kind = "decoded CAN log"

    def __init__(self, source: Source, databases: Sequence[BusDatabase]) -> None:
        super().__init__(source.path, source.label)
        self.kind = source.kind  # type: ignore[misc]
        self.notes = source.notes
        self._source = source
        self._databases = LoadedDatabases(databases)
        self._topics: list[Topic] | None = None

    def topics(self) -> list[Topic]:
        """Topics of the source, then those of the messages, one for each sender.

        This reads all frames, because only the frames identify the senders.
        """
        if self._topics is None:
            own = self.read_head()
            self._topics = own + self._message_topics()
        return self._topics

    def read_head(self) -> list[Topic]:
        """Topics of the source only, without reading its frames."""
        own = self._source.topics()
        self.epoch_ns = self._source.epoch_ns
        return own

    def _message_topics(self) -> list[Topic]:
        """Topics of messages that occur, then of all others, under their plain names."""
        seen = MessageTopics(self._databases)
        for frame in self.frames():
            if not frame.flags & NO_DATA:
                seen.parts(frame)
        taken = {known.topic.name for known in seen.found}
        topics: list[Topic] = []
        for message, _ in with_contained(self._databases.messages):
            mine = [known.topic for known in seen.found if known.message is message]
            if not mine and message.name not in taken:
                taken.add(message.name)
                mine = [message_topic(message, message.frame_id)]
            topics += mine
        return topics

    def blocks(self, wanted: Collection[str] | None = None) -> Iterator[Block]:
        """Rows of the source's own topics, then those of the messages, a second at a time."""
        yield from self._source.blocks(wanted)
        yield from columns_of(self._decoded(), wanted)

    def _decoded(self) -> Iterator[Block]:
        """Yield rows of the messages in the frames, one time window after the other."""
        known, decoders, rows = MessageTopics(self._databases), TopicDecoders(), _Rows()
        window = -(1 << 62)
        for frame in self.frames():
            if frame.flags & NO_DATA:
                continue
            t_ns = self.since_start(frame)
            if t_ns // WINDOW_NS != window:
                yield from rows.pop()
                window = t_ns // WINDOW_NS
            for found, data in known.parts(frame):
                values = decoders.decode(found.message, data) if found.topic.signals else None
                if values is not None:
                    rows.add(found.topic, t_ns, values)
        yield from rows.pop()
        self.unknown_frames = known.unknown
        self.notes += known.notes() + decoders.notes()

    def frames(self) -> Iterator[LoggedFrame]:
        """Frames of the source; if it states no time 0, the first frame is at time 0."""
        for frame in self._source.frames():
            self.since_start(frame)
            yield frame

    def attachments(self) -> list[Attachment]:
        """Attachments of the source, and the databases."""
        databases = [
            Attachment(file.name, "text/plain", file.read_bytes()) for file in self._databases.files
        ]
        return [*self._source.attachments(), *databases]

    def metadata(self) -> dict[str, str]:
        """Facts of the source."""
        return self._source.metadata()

    def close(self) -> None:
        """Free the file."""
        self._source.close()


class _Rows:
    """Rows of each topic since the last window."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[int, list[float]]]] = {}
        self._channels: dict[str, LogChannel] = {}

    def add(self, topic: Topic, t_ns: int, values: list[float]) -> None:
        if topic.name not in self._channels:
            self._channels[topic.name] = LogChannel(topic.name, topic.signals)
        self._rows.setdefault(topic.name, []).append((t_ns, values))

    def pop(self) -> list[Block]:
        """Rows since the last call, one block per topic."""
        blocks = []
        for name, rows in self._rows.items():
            rows.sort(key=lambda row: row[0])  # in logs of several buses, times may not ascend
            times = np.array([t for t, _ in rows], np.int64)
            values = np.array([v for _, v in rows], np.float64)
            blocks.append(Block(self._channels[name], times, values))
        self._rows = {}
        return blocks
