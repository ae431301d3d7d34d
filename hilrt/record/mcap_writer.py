"""Writer of MCAP files that writes the rows of all topics at once.

It uses the records of the mcap library (`mcap.records`), but not its writer, which encodes messages
one by one (several times slower for rows with a message on each of nine topics) and keeps 1 KB of
objects per chunk until the end. Here numpy lays out the rows, and only the compressed index entry
of a chunk is kept.
"""

from __future__ import annotations

import struct
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO

import numpy as np
import zstandard
from mcap import records
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from numpy.typing import NDArray

from hilrt.record import cdr
from hilrt.record.record_file import HEAD, MAGIC
from hilrt.solver import Floats
from hilrt.version import VERSION

#: Default size of a chunk before compression, bytes.
CHUNK_BYTES = 1 << 20
_COMPRESSION = "zstd"
#: Head of a message: kind, length, channel, sequence, log time and publish time [ns].
_MESSAGE = struct.Struct("<BQHIQQ")
#: Bytes of the head that count towards the message's length.
_MESSAGE_BYTES = _MESSAGE.size - HEAD.size
#: Head of a message index: kind, length, channel, length of the entries.
_MESSAGE_INDEX = struct.Struct("<BQHI")
_INDEX_BYTES = _MESSAGE_INDEX.size - HEAD.size
#: Entry of a message index: log time and offset in the chunk.
_ENTRY = struct.Struct("<QQ")


class RowLayout:
    """Layout of a row in a chunk: one message for each channel, in sequence.

    Parameters
    ----------
    channels : sequence of int
    columns : sequence of slice
        Columns of the row in each channel's message; float64.
    """

    def __init__(self, channels: Sequence[int], columns: Sequence[slice]) -> None:
        kinds = [_message_kind(part.stop - part.start) for part in columns]
        self.kind = np.dtype([(str(i), kind) for i, kind in enumerate(kinds)])
        self.channels, self.columns = list(channels), list(columns)
        self._blank = np.zeros(1, self.kind)
        for i, (channel, kind) in enumerate(zip(channels, kinds, strict=True)):
            part = self._blank[str(i)]
            part["kind"], part["length"] = Opcode.MESSAGE, kind.itemsize - HEAD.size
            part["channel"] = channel
            part["header"] = int.from_bytes(cdr.HEADER, "little")
        #: Offset of each channel's message in the row.
        self.offsets = [self.kind.fields[str(i)][1] for i in range(len(kinds))]  # type: ignore[index]

    def lay_out(self, first: int, times_ns: NDArray[np.int64], rows: Floats) -> bytes:
        """Messages of rows, shape (n, signals), numbered from `first`."""
        laid = np.repeat(self._blank, len(rows))
        numbers = np.arange(first, first + len(rows)).astype(np.uint32)
        for i, columns in enumerate(self.columns):
            part = laid[str(i)]
            part["sequence"] = numbers
            part["log_time"] = part["publish_time"] = times_ns
            part["values"] = rows[:, columns]
        return laid.tobytes()


def _message_kind(values: int) -> np.dtype[np.void]:
    head = [("kind", "u1"), ("length", "<u8"), ("channel", "<u2"), ("sequence", "<u4")]
    times = [("log_time", "<u8"), ("publish_time", "<u8")]
    return np.dtype([*head, *times, ("header", "<u4"), ("values", "<f8", (values,))])


class McapWriter:
    """An MCAP file: chunked, compressed (zstd), indexed, with checksums.

    Parameters
    ----------
    file : binary file
        Open at its beginning; it is not closed here.
    chunk_bytes : int, optional
        Size before compression at which a chunk is closed; `flush` closes it earlier.

    Attributes
    ----------
    whole : int
        Bytes of the file up to the end of the newest chunk.
    """

    def __init__(self, file: IO[bytes], chunk_bytes: int | None = None) -> None:
        self.whole = 0
        self._file = file
        self._chunk_bytes = CHUNK_BYTES if chunk_bytes is None else chunk_bytes
        self._crc = 0
        self._schemas: list[records.Schema] = []
        self._channels: list[records.Channel] = []
        self._attachments: list[records.AttachmentIndex] = []
        self._metadata: list[records.MetadataIndex] = []
        self._chunk = bytearray()
        self._entries: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._span: tuple[int, int] | None = None  # first and last time in the chunk, ns
        self._spans: tuple[int, int] | None = None  # first and last time in all earlier chunks
        self._chunks = 0
        # Parts, because a single growing buffer would be moved repeatedly and fragment the memory.
        self._chunk_indexes: list[bytes] = []
        self._compressor = zlib.compressobj()
        self._counts: defaultdict[int, int] = defaultdict(int)

    def start(self) -> None:
        """Write the header."""
        self._put(MAGIC + _encoded(records.Header("", f"hilrt {VERSION}")))

    def register_schema(self, name: str, encoding: str, data: bytes) -> int:
        """Register a schema; return its number."""
        schema = records.Schema(len(self._schemas) + 1, data, encoding, name)
        self._schemas.append(schema)
        self._chunk += _encoded(schema)
        return schema.id

    def register_channel(
        self, topic: str, encoding: str, schema: int, metadata: Mapping[str, str] | None = None
    ) -> int:
        """Register a channel; return its number. Schema 0 means none."""
        number = len(self._channels) + 1
        channel = records.Channel(number, topic, encoding, dict(metadata or {}), schema)
        self._channels.append(channel)
        self._chunk += _encoded(channel)
        return number

    def add_message(
        self,
        channel: int,
        time_ns: int,
        data: bytes,
        sequence: int = 0,
        publish_ns: int | None = None,
    ) -> None:
        """Write a message; the publish time defaults to its log time."""
        self._entries[channel] += _ENTRY.pack(time_ns, len(self._chunk))
        head = (_MESSAGE_BYTES + len(data), channel, sequence & 0xFFFFFFFF, time_ns)
        self._chunk += _MESSAGE.pack(
            Opcode.MESSAGE, *head, time_ns if publish_ns is None else publish_ns
        )
        self._chunk += data
        self._count((channel,), 1, time_ns, time_ns)

    def add_rows(
        self, layout: RowLayout, first: int, times_ns: NDArray[np.int64], rows: Floats
    ) -> None:
        """Write rows; a row is never split between chunks.

        Parameters
        ----------
        layout : RowLayout
        first : int
            Number of the first row.
        times_ns : ndarray of int, shape (n,)
            Times on the wall clock, ns.
        rows : ndarray, shape (n, signals)
        """
        size = layout.kind.itemsize
        while len(rows):
            fit = max(1, -(-(self._chunk_bytes - len(self._chunk)) // size))
            times, now = times_ns[:fit], rows[:fit]
            entries = np.empty((len(now), 2), np.uint64)
            entries[:, 0] = times
            places = len(self._chunk) + size * np.arange(len(now))
            for channel, offset in zip(layout.channels, layout.offsets, strict=True):
                entries[:, 1] = places + offset
                self._entries[channel] += entries.tobytes()
            self._chunk += layout.lay_out(first, times, now)
            self._count(layout.channels, len(now), int(times.min()), int(times.max()))
            first, times_ns, rows = first + len(now), times_ns[fit:], rows[fit:]

    def _count(self, channels: Iterable[int], messages: int, start_ns: int, end_ns: int) -> None:
        """Count messages written on each of the channels, and end the chunk if it is full."""
        for channel in channels:
            self._counts[channel] += messages
        self._span = _joined(self._span, (start_ns, end_ns))
        if len(self._chunk) >= self._chunk_bytes:
            self.flush()

    def add_attachment(
        self, created_ns: int, time_ns: int, name: str, media_type: str, data: bytes
    ) -> None:
        """Attach a file to the log."""
        attachment = records.Attachment(created_ns, time_ns, name, media_type, data)
        start, length = self._put(_encoded(attachment))
        entry = (time_ns, created_ns, len(data), name, media_type)
        self._attachments.append(records.AttachmentIndex(start, length, *entry))

    def add_metadata(self, name: str, data: Mapping[str, str]) -> None:
        """Write names and values as metadata."""
        start, length = self._put(_encoded(records.Metadata(name, dict(data))))
        self._metadata.append(records.MetadataIndex(start, length, name))

    def flush(self) -> None:
        """Write the messages so far to the file, as a chunk, if there are any."""
        if self._span is None:
            return
        start_ns, end_ns = self._span
        size, checksum = len(self._chunk), zlib.crc32(self._chunk)
        data = zstandard.compress(self._chunk)
        chunk = records.Chunk(_COMPRESSION, data, end_ns, start_ns, checksum, size)
        start, length = self._put(_encoded(chunk))
        places: dict[int, int] = {}
        index_length = 0
        for channel, entries in self._entries.items():
            head = _MESSAGE_INDEX.pack(
                Opcode.MESSAGE_INDEX, _INDEX_BYTES + len(entries), channel, len(entries)
            )
            places[channel], written = self._put(head + entries)
            index_length += written
        index = records.ChunkIndex(
            chunk_length=length,
            chunk_start_offset=start,
            compression=_COMPRESSION,
            compressed_size=len(data),
            message_end_time=end_ns,
            message_index_length=index_length,
            message_index_offsets=places,
            message_start_time=start_ns,
            uncompressed_size=size,
        )
        if packed := self._compressor.compress(_encoded(index)):  # returned in large parts
            self._chunk_indexes.append(packed)
        self._chunks += 1
        self._spans, self._span = _joined(self._spans, self._span), None
        self._chunk.clear()
        self._entries.clear()
        self._file.flush()
        self.whole = start + length + index_length

    def finish(self) -> None:
        """Write the last chunk, the summary and the index; the file is not closed."""
        self.flush()
        self._put(_encoded(records.DataEnd(self._crc)))
        summary, offsets = bytearray(), bytearray()
        begin = self._file.tell()
        for kind, group in self._summary():
            if group:
                offset = records.SummaryOffset(kind, begin + len(summary), len(group))
                offsets += _encoded(offset)
                summary += group
        starts = begin, begin + len(summary)
        summary += offsets
        # The footer's checksum covers the footer itself, except for the checksum.
        head = _encoded(records.Footer(*starts, 0))[:-4]
        checksum = zlib.crc32(head, zlib.crc32(summary))
        self._put(summary + _encoded(records.Footer(*starts, checksum)) + MAGIC)

    def _summary(self) -> Iterator[tuple[Opcode, bytes]]:
        """Kind and records of each group in the summary."""
        start_ns, end_ns = self._spans or (0, 0)
        statistics = records.Statistics(
            attachment_count=len(self._attachments),
            channel_count=len(self._channels),
            channel_message_counts=dict(self._counts),
            chunk_count=self._chunks,
            message_count=sum(self._counts.values()),
            message_end_time=end_ns,
            message_start_time=start_ns,
            metadata_count=len(self._metadata),
            schema_count=len(self._schemas),
        )
        yield Opcode.SCHEMA, _encoded(*self._schemas)
        yield Opcode.CHANNEL, _encoded(*self._channels)
        yield Opcode.STATISTICS, _encoded(statistics)
        self._chunk_indexes.append(self._compressor.flush())
        yield Opcode.CHUNK_INDEX, zlib.decompress(b"".join(self._chunk_indexes))
        yield Opcode.ATTACHMENT_INDEX, _encoded(*self._attachments)
        yield Opcode.METADATA_INDEX, _encoded(*self._metadata)

    def _put(self, data: bytes | bytearray) -> tuple[int, int]:
        """Write data to the file; return its offset and length."""
        start = self._file.tell()
        self._crc = zlib.crc32(data, self._crc)
        self._file.write(data)
        return start, len(data)


def _encoded(*found: records.McapRecord) -> bytes:
    builder = RecordBuilder()
    for record in found:
        record.write(builder)
    return builder.end()  # type: ignore[no-any-return, no-untyped-call]


def _joined(span: tuple[int, int] | None, other: tuple[int, int]) -> tuple[int, int]:
    """First and last time of the union of two spans."""
    return other if span is None else (min(span[0], other[0]), max(span[1], other[1]))
