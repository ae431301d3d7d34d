"""Read a log record by record, whatever its channels contain; it may be larger than memory.

`hilrt.record.reader` reads only signals; this reads all records unchanged, for cutting, merging and
showing. A truncated file is read as far as it is intact.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mcap import records
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.reader import make_reader
from mcap.records import Channel
from mcap.records import Metadata as MetadataRecord

from hilrt.errors import RecordError
from hilrt.files.text import open_regular
from hilrt.record import logged_frame
from hilrt.record.logged_frame import LoggedFrame
from hilrt.record.messages import Attachment, Signal, signals_in
from hilrt.record.record_file import (
    DAMAGE,
    HEAD,
    Chunk,
    RecordFile,
    check_metadata,
    read_attachment,
    read_metadata,
    stream_of,
)

_MESSAGE = struct.Struct("<BQHIQQ")


class LogMessage(NamedTuple):
    """Message as in the file; times are wall clock, ns."""

    channel: int
    sequence: int
    log_time: int
    publish_time: int
    data: bytes


class Batch(NamedTuple):
    """Messages of one chunk, in the order of the file."""

    messages: list[LogMessage]


Piece = Batch | records.Metadata | records.Attachment


class LogFile(RecordFile):
    """Log that is read from front to back.

    Parameters
    ----------
    path : Path
    start_ns, end_ns : int, optional
        Wall clock [ns]: only messages in ``[start_ns, end_ns]``.

    Attributes
    ----------
    channels, schemas : dict
        By identifier; `pieces` fills them in before the first message that needs them.
    chunks, uncompressed : int
        Number of chunks read, and their bytes before compression.
    damage : str
        Reason why reading ended early; empty for an intact file.
    """

    def __init__(self, path: Path, start_ns: int | None = None, end_ns: int | None = None) -> None:
        super().__init__(path)
        self.channels: dict[int, records.Channel] = {}
        self.schemas: dict[int, records.Schema] = {}
        self.chunks = 0
        self.uncompressed = 0
        self._start = -1 if start_ns is None else start_ns
        self._end = 1 << 63 if end_ns is None else end_ns

    def pieces(self) -> Iterator[Piece]:
        """Yield messages by chunk, metadata and attachments, in the order of the file.

        Raises
        ------
        RecordError
            If the file cannot be read, or is no MCAP file.
        """
        return self.read(self._pieces)

    def messages(self) -> Iterator[LogMessage]:
        """All messages."""
        for piece in self.pieces():
            if isinstance(piece, Batch):
                yield from piece.messages

    def frames(self) -> Iterator[LoggedFrame]:
        """CAN frames, in the order of the file."""
        buses: dict[int, str] = {}
        for message in self.messages():
            bus = buses.get(message.channel)
            if bus is None:
                channel = self.channels[message.channel]
                bus = logged_frame.bus_of(channel.topic) if "frames" in channel.metadata else ""
                buses[message.channel] = bus
            if bus:
                try:
                    frame = logged_frame.decode(message.log_time, bus, message.data)
                except ValueError as error:
                    self.damage = f"damaged at {message.log_time} ns: {error}"
                    return
                yield frame

    def _pieces(self, kind: int, body: bytes | Chunk) -> list[Piece]:
        if isinstance(body, Chunk):
            self.chunks += 1
            self.uncompressed += len(body.data)
            inside = body.start_ns <= self._end and body.end_ns >= self._start
            return self._batch(body.data, inside)
        if kind in (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE):  # outside chunks
            return self._batch(HEAD.pack(kind, len(body)) + body, True)
        if kind == Opcode.METADATA:
            return [read_metadata(body)]
        if kind == Opcode.ATTACHMENT:
            return [read_attachment(body)]
        return []

    def _batch(self, data: bytes, inside: bool) -> list[Piece]:
        """Messages of a chunk; registers its schemas and channels even if no message is wanted."""
        messages: list[LogMessage] = []
        position, low, high = 0, self._start, self._end
        unpack, fixed, header = _MESSAGE.unpack_from, _MESSAGE.size, HEAD.size
        while position < len(data):
            kind, size = HEAD.unpack_from(data, position)
            end = position + header + size
            if end > len(data):
                raise ValueError("a chunk that ends inside a record")
            if kind == Opcode.MESSAGE:
                if inside:
                    _, _, channel, sequence, log_time, publish_time = unpack(data, position)
                    if channel not in self.channels:
                        raise ValueError(f"a message of channel {channel}, which does not exist")
                    if low <= log_time <= high:
                        body = data[position + fixed : end]
                        messages.append(LogMessage(channel, sequence, log_time, publish_time, body))
            elif kind == Opcode.CHANNEL:
                self._note_channel(data[position + header : end])
            elif kind == Opcode.SCHEMA:
                found = records.Schema.read(stream_of(data[position + header : end]))
                self.schemas[found.id] = found
            position = end
        return [Batch(messages)] if messages else []

    def _note_channel(self, body: bytes) -> None:
        found = records.Channel.read(stream_of(body))
        self.channels[found.id] = found


@dataclass
class TopicContents:
    """Topic of a log: its signals (none for frames, events and the like) and number of messages."""

    name: str
    encoding: str
    schema: str
    signals: list[Signal]
    messages: int
    frames: bool = False


@dataclass
class Contents:
    """Contents of a log.

    Attributes
    ----------
    size, uncompressed : int
        Bytes of the file, and of its chunks before compression.
    epoch_ns : int
        Wall clock at session time 0, ns.
    start_ns, end_ns : int
        Session times of the first and the last message, ns; 0 if there is none.
    attachments : list of (str, str, int)
        Name, media type, and size in bytes.
    damage : str
        Reason why the log ends early; empty if it is intact.
    """

    path: Path
    size: int
    epoch_ns: int = 0
    start_ns: int = 0
    end_ns: int = 0
    chunks: int = 0
    uncompressed: int = 0
    topics: list[TopicContents] = field(default_factory=list)
    attachments: list[tuple[str, str, int]] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    damage: str = ""


def read_contents(path: Path) -> Contents:
    """Read a log's contents; with an index, the time does not depend on the log's size.

    Raises
    ------
    RecordError
        If it cannot be read or is no MCAP file.
    """
    contents = _empty(path)
    if not _from_index(contents):
        _by_reading(contents)
    return _in_session_time(contents)


def read_index(path: Path) -> Contents | None:
    """Read a log's contents from its index; None if it has no index."""
    contents = _empty(path)
    return _in_session_time(contents) if _from_index(contents) else None


def _empty(path: Path) -> Contents:
    try:
        return Contents(path, path.stat().st_size)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}; check the path") from None


def _in_session_time(contents: Contents) -> Contents:
    contents.epoch_ns = int(contents.metadata.get("epoch_ns") or 0)
    if contents.end_ns:  # 0 if there is no message
        contents.start_ns -= contents.epoch_ns
        contents.end_ns -= contents.epoch_ns
    return contents


def read_attachments(path: Path) -> list[Attachment]:
    """Read a log's attachments; without an index, this reads the whole log."""
    try:
        with open_regular(path) as file:
            reader = make_reader(file)
            if reader.get_summary() is not None:
                return [Attachment(a.name, a.media_type, a.data) for a in reader.iter_attachments()]
    except (McapError, *DAMAGE):
        pass
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}; check the path") from None
    found = []
    for piece in LogFile(path).pieces():
        if not isinstance(piece, (Batch, MetadataRecord)):
            found.append(Attachment(piece.name, piece.media_type, piece.data))
    return found


def _from_index(contents: Contents) -> bool:
    try:
        with open_regular(contents.path) as file:
            reader = make_reader(file)
            summary = reader.get_summary()
            if summary is None or summary.statistics is None:
                return False
            for record in reader.iter_metadata():
                check_metadata(record.metadata)
                contents.metadata.update(record.metadata)
    except OSError as error:
        raise RecordError(
            f"{contents.path}: cannot be read: {error.strerror}; check the path"
        ) from None
    except (McapError, *DAMAGE):  # no index, or a damaged one: read the whole file
        contents.metadata.clear()
        return False
    statistics = summary.statistics
    contents.start_ns = statistics.message_start_time
    contents.end_ns = statistics.message_end_time
    contents.chunks = statistics.chunk_count
    contents.uncompressed = sum(chunk.uncompressed_size for chunk in summary.chunk_indexes)
    contents.attachments = [
        (entry.name, entry.media_type, entry.data_size) for entry in summary.attachment_indexes
    ]
    schemas = {key: schema.name for key, schema in summary.schemas.items()}
    counts = statistics.channel_message_counts
    contents.topics = list(_topics(summary.channels, schemas, counts))
    return True


def _by_reading(contents: Contents) -> None:
    file = LogFile(contents.path)
    counts: dict[int, int] = {}
    first, last = 1 << 63, 0
    for piece in file.pieces():
        if isinstance(piece, Batch):
            for message in piece.messages:
                counts[message.channel] = counts.get(message.channel, 0) + 1
                first, last = min(first, message.log_time), max(last, message.log_time)
        elif isinstance(piece, MetadataRecord):
            contents.metadata.update(piece.metadata)
        else:
            contents.attachments.append((piece.name, piece.media_type, len(piece.data)))
    contents.start_ns, contents.end_ns = (first, last) if last else (0, 0)
    contents.chunks, contents.uncompressed = file.chunks, file.uncompressed
    contents.damage = file.damage or "it has no index; it was not closed properly"
    schemas = {key: schema.name for key, schema in file.schemas.items()}
    contents.topics = list(_topics(file.channels, schemas, counts))


def _topics(
    channels: dict[int, Channel], schemas: dict[int, str], counts: dict[int, int]
) -> Iterator[TopicContents]:
    for key, channel in sorted(channels.items()):
        try:
            signals = signals_in(channel.metadata.get("signals", "[]"))
        except ValueError:  # of another version: list it without its signals
            signals = []
        yield TopicContents(
            name=channel.topic.removeprefix("/"),
            encoding=channel.message_encoding,
            schema=schemas.get(channel.schema_id, ""),
            signals=signals,
            messages=counts.get(key, 0),
            frames="frames" in channel.metadata,
        )
