"""Read an MCAP file from front to back, record by record, as far as it is intact.

All readers of logs use this. Reading, checksums and unpacking run in a thread, one record ahead of
their use: they are half of the work, and do not need the Python interpreter.
"""

from __future__ import annotations

import functools
import io
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
import zstandard
from mcap import records
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.stream_reader import CRCValidationError
from numpy.typing import NDArray

from hilrt.errors import RecordError
from hilrt.files.text import open_regular
from hilrt.record import cdr

MAGIC = b"\x89MCAP0\r\n"
#: Kind and length of a record.
HEAD = struct.Struct("<BQ")
#: Largest record, and largest unpacked chunk, that hilrt writes, bytes.
MAX_RECORD = 1 << 31
MAX_CHUNK = 1 << 28
#: Largest ratio of unpacked chunks to the file, checked above `RATIO_FROM` bytes: rows of constants
#: reach 300.
MAX_RATIO, RATIO_FROM = 500, 1 << 30
#: Metadata of a log that are whole numbers.
_NUMBERS = ("epoch_ns", "rows", "rows_missing", "rows_left_out", "frames_missing")
_DECIMAL = re.compile(r"-?[0-9]{1,19}")
#: Exceptions from reading a damaged record.
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

T = TypeVar("T")


class Chunk(NamedTuple):
    """Unpacked records of a chunk, and its first and last time, wall clock [ns]."""

    data: bytes
    start_ns: int
    end_ns: int


class Record(NamedTuple):
    """Record that begins after `start` bytes of the file; `body` is its content without head."""

    start: int
    kind: int
    body: bytes | Chunk


class RecordFile:
    """MCAP file that is read once.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    damage : str
        Reason why reading ended early; empty for an intact file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage = ""

    def read(self, take: Callable[[int, bytes | Chunk], Iterable[T]]) -> Iterator[T]:
        """Call `take` with kind and content of every record up to the end of the data.

        Raises
        ------
        RecordError
            If the file cannot be read, or is no MCAP file.
        """
        try:
            with open_regular(self.path) as file:
                if file.read(len(MAGIC)) != MAGIC:
                    raise RecordError(f"{self.path}: is not an MCAP file; give a session.mcap")
                for record in _one_ahead(self._records(file)):
                    try:
                        found = take(record.kind, record.body)
                    except DAMAGE as error:
                        self.damage = f"damaged after {record.start} bytes: {error}"
                        return
                    yield from found
        except OSError as error:
            raise RecordError(
                f"{self.path}: cannot be read: {error.strerror}; check the path"
            ) from None

    def _records(self, file: BinaryIO) -> Iterator[Record]:
        """Records in the order of the file, without the indices of chunks."""
        checksum = zlib.crc32(MAGIC)
        size = os.fstat(file.fileno()).st_size
        unpacked = 0
        while True:
            start = file.tell()
            head = file.read(HEAD.size)
            kind, length = HEAD.unpack(head) if len(head) == HEAD.size else (0, 1)
            if length > size:  # a log that is being written may have grown
                size = os.fstat(file.fileno()).st_size
            body = file.read(length) if length <= min(MAX_RECORD, size) else b""
            if len(body) < length:
                self.damage = f"truncated after {start} bytes"
                return
            if kind == Opcode.DATA_END:
                if int.from_bytes(body, "little") not in (0, checksum):
                    self.damage = "does not match its checksum: a part of it is wrong or missing"
                return
            checksum = zlib.crc32(body, zlib.crc32(head, checksum))
            if kind == Opcode.MESSAGE_INDEX:
                continue
            try:
                content = unpack(body) if kind == Opcode.CHUNK else body
            except DAMAGE as error:
                self.damage = f"damaged after {start} bytes: {error}"
                return
            unpacked += len(content.data) if isinstance(content, Chunk) else 0
            if unpacked > max(RATIO_FROM, MAX_RATIO * size):
                self.damage = f"unpacks to more than {unpacked:,} bytes after {start} bytes"
                return
            yield Record(start, kind, content)


def _one_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the items, each computed in a thread while the previous one is in use."""
    from concurrent.futures import ThreadPoolExecutor  # not needed by a recorder

    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


def unpack(body: bytes) -> Chunk:
    """Unpack a chunk; raise one of `DAMAGE` if it does not match its size or its checksum."""
    chunk = records.Chunk.read(stream_of(body))
    if chunk.uncompressed_size > MAX_CHUNK:
        raise ValueError(f"a chunk of {chunk.uncompressed_size} bytes")
    data = _decompressed(chunk)
    if len(data) != chunk.uncompressed_size:
        raise ValueError(f"a chunk that does not unpack to {chunk.uncompressed_size} bytes")
    if chunk.uncompressed_crc not in (0, zlib.crc32(data)):
        raise ValueError("a chunk that does not match its checksum")
    return Chunk(data, chunk.message_start_time, chunk.message_end_time)


def _decompressed(chunk: records.Chunk) -> bytes:
    """Data of a chunk, limited to little more than its stated size.

    The mcap library has no limit: it unpacks whatever the compressed data contain.
    """
    if not chunk.compression:
        return bytes(chunk.data)
    if not chunk.uncompressed_size:
        return b""
    if chunk.compression == "zstd":
        # A size stated in the compressed data takes precedence over the limit.
        if zstandard.frame_content_size(chunk.data) > chunk.uncompressed_size:
            raise ValueError(f"a chunk that unpacks to more than {chunk.uncompressed_size} bytes")
        return zstandard.decompress(chunk.data, chunk.uncompressed_size)
    if chunk.compression == "lz4":
        import lz4.frame  # other tools' logs

        unpacking = lz4.frame.LZ4FrameDecompressor()
        try:
            return bytes(unpacking.decompress(chunk.data, chunk.uncompressed_size + 1))
        except (RuntimeError, EOFError) as error:
            raise ValueError(f"a chunk that cannot be unpacked: {error}") from None
    raise ValueError(f"a chunk compressed by {chunk.compression[:20]!r}")


def read_metadata(body: bytes) -> records.Metadata:
    """Metadata of the log; `ValueError` for an invalid number."""
    found: records.Metadata = records.Metadata.read(stream_of(body))
    check_metadata(found.metadata)
    return found


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Raise `ValueError` for an invalid number, or one of more than 63 bits."""
    for key in _NUMBERS:
        text = metadata.get(key, "0")
        if not _DECIMAL.fullmatch(text) or abs(int(text)) >= 1 << 63:
            raise ValueError(f"{key} = {text[:30]!r} is not a number")


def read_attachment(body: bytes) -> records.Attachment:
    """Attachment of the log; `ValueError` if it does not match its checksum."""
    found: records.Attachment = records.Attachment.read(stream_of(body))
    if zlib.crc32(body[:-4]) != int.from_bytes(body[-4:], "little"):
        raise ValueError(f"attachment {found.name} does not match its checksum")
    return found


def stream_of(body: bytes) -> ReadDataStream:
    """Stream from which the mcap library reads records."""
    return ReadDataStream(io.BytesIO(body))


#: Kind, length and channel: messages with the same head have the same layout.
_MESSAGE = struct.Struct("<BQH")
#: Size of the first batch of rows compared with the first row, and growth of later batches.
_FEW, _GROWTH = 32, 8


class Run(NamedTuple):
    """Messages of one channel, `period` bytes apart, starting with the one at `first`."""

    first: int
    period: int
    number: int


class Layout(NamedTuple):
    """Runs by channel, in the order of the chunk, and the other records: kind, begin, end."""

    runs: dict[int, list[Run]]
    others: list[tuple[int, int, int]]


def find_messages(data: bytes) -> Layout:
    """Find the messages in a chunk; `ValueError` if it ends inside a record."""
    found = Layout({}, [])
    lap: dict[int, int] = {}  # start of each channel's message in this repetition
    at = 0
    while at < len(data):
        kind, size = HEAD.unpack_from(data, at)
        end = at + HEAD.size + size
        if end > len(data):
            raise ValueError("a chunk that ends inside a record")
        if kind != Opcode.MESSAGE:
            _note(found, lap, 0, 1)
            found.others.append((kind, at + HEAD.size, end))
            at = end
            continue
        channel = _MESSAGE.unpack_from(data, at)[2]
        if channel not in lap:
            lap[channel] = at
            at = end
            continue
        first = next(iter(lap.values()))
        if lap[channel] != first:  # the pattern is not complete yet
            _note(found, lap, 0, 1)
            continue
        period = at - first
        count = _repetitions(data, first, period, list(lap.values()))
        _note(found, lap, period, count)
        at = first + count * period
    _note(found, lap, 0, 1)
    return found


def _note(found: Layout, lap: dict[int, int], period: int, count: int) -> None:
    for channel, first in lap.items():
        found.runs.setdefault(channel, []).append(Run(first, period, count))
    lap.clear()


def _repetitions(data: bytes, first: int, period: int, heads: list[int]) -> int:
    """Number of successive repetitions of a pattern of heads; at least 1."""
    most, count, window = (len(data) - first) // period, 1, _FEW
    columns = _head_bytes(tuple([at - first for at in heads]))
    pattern = np.frombuffer(data, np.uint8, period, first)[columns]
    while count < most:
        laps = min(window, most - count)
        rows = np.ndarray((laps, period), np.uint8, data, first + count * period)
        same = (rows.take(columns, axis=1) == pattern).all(axis=1)
        if not same.all():
            return count + int(same.argmin())
        count, window = count + laps, window * _GROWTH
    return count


@functools.lru_cache(maxsize=64)
def _head_bytes(starts: tuple[int, ...]) -> NDArray[np.intp]:
    """Indices of the bytes of heads that begin at `starts`."""
    return (np.array(starts, np.intp)[:, None] + np.arange(_MESSAGE.size)).ravel()


@functools.cache
def record_type(signals: int) -> np.dtype[Any]:
    """Structured type of a message with this number of float64, as in a chunk."""
    return np.dtype(
        [
            ("kind", "u1"),
            ("length", "<u8"),
            ("channel", "<u2"),
            ("sequence", "<u4"),
            ("log_time", "<i8"),
            ("publish_time", "<i8"),
            ("cdr", f"V{len(cdr.HEADER)}"),
            ("values", "<f8", (signals,)),
        ]
    )


def gather(data: bytes, runs: list[Run], kind: np.dtype[Any]) -> list[NDArray[Any]]:
    """Messages of the runs as structured arrays, without a copy.

    `ValueError` if the length of a message differs from that of `kind`.
    """
    parts = [np.ndarray((r.number,), kind, data, r.first, (r.period,)) for r in runs]
    size = kind.itemsize - HEAD.size
    if any(part["length"][0] != size for part in parts):
        raise ValueError("a message that does not fit its signals")
    return parts
