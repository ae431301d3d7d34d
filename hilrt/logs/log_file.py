"""A log record by record, whatever its channels hold, for files larger than memory.

`hilrt.record.reader` gives the signals; this gives everything, as it stands in the file: for
cutting, joining and looking. A file that was cut off is read as far as it is whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mcap import records
from mcap.opcode import Opcode

from hilrt.record import logged_frame
from hilrt.record.logged_frame import LoggedFrame
from hilrt.record.record_file import (
    HEAD,
    Chunk,
    RecordFile,
    read_attachment,
    read_metadata,
    stream_of,
)

_MESSAGE = struct.Struct("<BQHIQQ")


class LogMessage(NamedTuple):
    """One message as it stands in the file; times are wall clock, ns."""

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
    """A log read from front to back.

    Parameters
    ----------
    path : Path
    start_ns, end_ns : int, optional
        Wall clock [ns]: only messages in ``[start_ns, end_ns]``.

    Attributes
    ----------
    channels, schemas : dict
        By identifier; filled while `pieces` runs, before the first message that needs them.
    chunks : int
    uncompressed : int
        Bytes of all chunks before compression.
    damage : str
        Why reading ended early; empty at a whole file.
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
        """Messages by chunk, metadata and attachments, in the order of the file.

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
        if kind in (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE):  # a file without chunks
            return self._batch(HEAD.pack(kind, len(body)) + body, True)
        if kind == Opcode.METADATA:
            return [read_metadata(body)]
        if kind == Opcode.ATTACHMENT:
            return [read_attachment(body)]
        return []

    def _batch(self, data: bytes, inside: bool) -> list[Piece]:
        """Messages of a chunk; schemas and channels are noted also where none is wanted."""
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
                        raise ValueError(f"a message of channel {channel}, which is not there")
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
