"""A log record by record, whatever its channels hold, for files larger than memory.

`hilrt.record.reader` gives the signals; this gives everything, as it stands in the file: for
cutting, joining and looking. A file that was cut off is read as far as it is whole.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import zstandard
from mcap import records
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.stream_reader import CRCValidationError, get_chunk_data_stream

from hilrt.errors import RecordError
from hilrt.logs import frames
from hilrt.logs.frames import Frame

_MAGIC = b"\x89MCAP0\r\n"
_RECORD = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<BQHIQQ")
#: A larger record was not written by us.
_MAX_RECORD = 1 << 31
DAMAGE = (
    McapError,
    CRCValidationError,
    zstandard.ZstdError,
    struct.error,
    ValueError,
    LookupError,
    TypeError,
    OverflowError,
    MemoryError,
)


class Message(NamedTuple):
    """One message as it stands in the file; times are wall clock, ns."""

    channel: int
    sequence: int
    log_time: int
    publish_time: int
    data: bytes


class Batch(NamedTuple):
    """Messages of one chunk, in the order of the file."""

    messages: list[Message]


Piece = Batch | records.Metadata | records.Attachment


class LogFile:
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
        self.path = path
        self.channels: dict[int, records.Channel] = {}
        self.schemas: dict[int, records.Schema] = {}
        self.chunks = 0
        self.uncompressed = 0
        self.damage = ""
        self._start = -1 if start_ns is None else start_ns
        self._end = 1 << 63 if end_ns is None else end_ns

    def pieces(self) -> Iterator[Piece]:
        """Messages by chunk, metadata and attachments, in the order of the file.

        Raises
        ------
        RecordError
            If the file cannot be read, or is no MCAP file.
        """
        try:
            with self.path.open("rb") as file:
                if file.read(len(_MAGIC)) != _MAGIC:
                    raise RecordError(f"{self.path}: is not an MCAP file; give a session.mcap")
                yield from self._read(file)
        except OSError as error:
            raise RecordError(
                f"{self.path}: cannot be read: {error.strerror}; check the path"
            ) from None

    def messages(self) -> Iterator[Message]:
        """All messages."""
        for piece in self.pieces():
            if isinstance(piece, Batch):
                yield from piece.messages

    def frames(self) -> Iterator[Frame]:
        """CAN frames, in the order of the file."""
        buses: dict[int, str] = {}
        for message in self.messages():
            bus = buses.get(message.channel)
            if bus is None:
                channel = self.channels[message.channel]
                bus = frames.bus_of(channel.topic) if "frames" in channel.metadata else ""
                buses[message.channel] = bus
            if bus:
                yield frames.decode(message.log_time, bus, message.data)

    def _read(self, file: BinaryIO) -> Iterator[Piece]:
        while True:
            start = file.tell()
            head = file.read(_RECORD.size)
            if len(head) < _RECORD.size:
                self.damage = f"cut off after {start} bytes"
                return
            kind, length = _RECORD.unpack(head)
            if kind == Opcode.MESSAGE_INDEX and length < _MAX_RECORD:
                file.seek(length, io.SEEK_CUR)
                continue
            body = file.read(length) if length <= _MAX_RECORD else b""
            if len(body) < length:
                self.damage = f"cut off after {start} bytes"
                return
            if kind in (Opcode.DATA_END, Opcode.FOOTER):
                return
            try:
                piece = self._piece(kind, head, body)
            except DAMAGE as error:
                self.damage = f"damaged after {start} bytes: {error}"
                return
            if piece is not None:
                yield piece

    def _piece(self, kind: int, head: bytes, body: bytes) -> Piece | None:
        stream = ReadDataStream(io.BytesIO(body))
        if kind == Opcode.CHUNK:
            chunk = records.Chunk.read(stream)
            self.chunks += 1
            self.uncompressed += chunk.uncompressed_size
            data, length = get_chunk_data_stream(chunk, validate_crc=True)
            inside = chunk.message_start_time <= self._end and chunk.message_end_time >= self._start
            return self._batch(data.read(length), inside)
        if kind in (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE):  # a file without chunks
            return self._batch(head + body, True)
        if kind == Opcode.METADATA:
            metadata: records.Metadata = records.Metadata.read(stream)
            return metadata
        if kind == Opcode.ATTACHMENT:
            if zlib.crc32(body[:-4]) != int.from_bytes(body[-4:], "little"):
                raise ValueError("an attachment does not match its checksum")
            attachment: records.Attachment = records.Attachment.read(stream)
            return attachment
        return None

    def _batch(self, data: bytes, inside: bool) -> Batch | None:
        """Messages of a chunk; schemas and channels are noted also where none is wanted."""
        messages: list[Message] = []
        position, low, high = 0, self._start, self._end
        unpack, fixed, header = _MESSAGE.unpack_from, _MESSAGE.size, _RECORD.size
        while position < len(data):
            kind, size = _RECORD.unpack_from(data, position)
            end = position + header + size
            if end > len(data):
                raise ValueError("a chunk that ends inside a record")
            if kind == Opcode.MESSAGE:
                if inside:
                    _, _, channel, sequence, log_time, publish_time = unpack(data, position)
                    if low <= log_time <= high:
                        body = data[position + fixed : end]
                        messages.append(Message(channel, sequence, log_time, publish_time, body))
            elif kind == Opcode.CHANNEL:
                self._note_channel(data[position + header : end])
            elif kind == Opcode.SCHEMA:
                found = records.Schema.read(_stream(data[position + header : end]))
                self.schemas[found.id] = found
            position = end
        return Batch(messages) if messages else None

    def _note_channel(self, body: bytes) -> None:
        found = records.Channel.read(_stream(body))
        self.channels[found.id] = found


def _stream(body: bytes) -> ReadDataStream:
    return ReadDataStream(io.BytesIO(body))
