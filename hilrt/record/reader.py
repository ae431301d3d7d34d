"""Reading a session's log: `load_log`, and `LogStream` for logs larger than memory.

A log that was cut off (power, kill -9, full disk) is read as far as it is whole.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import zstandard
from mcap import records
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.stream_reader import CRCValidationError, get_chunk_data_stream
from numpy.typing import NDArray

from hilrt.errors import RecordError
from hilrt.record import cdr
from hilrt.record.messages import EVENTS, FILE_NAME, LEVELS, Signal
from hilrt.solver import Floats

_MAGIC = b"\x89MCAP0\r\n"
_RECORD = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<BQH")
#: Where things stand in a message record, bytes from its start.
_SEQUENCE, _LOG_TIME, _DATA = 11, 15, 31
_STAMP = struct.Struct("<IQ")
#: A larger chunk was not written by us.
_MAX_CHUNK = 1 << 30
_LEVEL_NAMES = {number: name for name, number in LEVELS.items()}
#: What reading a damaged record may raise.
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


@dataclass(frozen=True)
class LogEvent:
    """Something that happened; times are session time, s (`until`: the end of what lasted)."""

    t: float
    level: str
    cause: str
    source: str
    text: str
    until: float | None = None


class Channel(NamedTuple):
    """A topic of the log and the signals that each of its messages holds, in order."""

    topic: str
    signals: list[Signal]


class Block(NamedTuple):
    """Consecutive messages of one topic: times (n,) [ns of session time], values (n, signals).

    `rows` are their numbers since the start of the session, shape (n,): a jump is a gap.
    """

    channel: Channel
    times_ns: NDArray[np.int64]
    values: Floats
    rows: NDArray[np.int64] = np.empty(0, np.int64)


class Aside(NamedTuple):
    """What was recorded beside the rows: how things stood before the row number `row`."""

    topic: str
    row: int
    t_ns: int
    data: bytes


@dataclass
class Log:
    """A recorded session.

    ``log["engine.torque"]`` are the values, shape (n,), in ``log.units["engine.torque"]``;
    ``log.time("engine.torque")`` their session times, shape (n,), s. NaN means that the signal had
    no fresh value at that tick.

    Attributes
    ----------
    path : Path
        The file.
    names : list of str
        Signals in the order of recording.
    units, sources : dict
        Unit and origin of each signal.
    events : list of LogEvent
        In the order of time.
    attachments : dict
        File name to bytes: session file, databases, ``summary.json``.
    metadata : dict
        Versions, ``epoch_ns`` (wall clock at session time 0) and what the master added.
    truncated : str
        Empty if the log is whole; else why it ends early.
    """

    path: Path
    names: list[str]
    units: dict[str, str]
    sources: dict[str, str]
    events: list[LogEvent]
    attachments: dict[str, bytes]
    metadata: dict[str, str]
    truncated: str
    _where: dict[str, tuple[str, int]] = field(repr=False)
    _times: dict[str, NDArray[np.int64]] = field(repr=False)
    _values: dict[str, list[Floats]] = field(repr=False)

    def __getitem__(self, name: str) -> Floats:
        topic, column = self._find(name)
        blocks = [block[:, column] for block in self._values.get(topic, [])]
        return np.concatenate(blocks) if blocks else np.empty(0)

    def __contains__(self, name: object) -> bool:
        return name in self._where

    def time_ns(self, name: str) -> NDArray[np.int64]:
        """Session times of a signal's values, shape (n,), ns."""
        return self._times.get(self._find(name)[0], np.empty(0, np.int64))

    def time(self, name: str) -> Floats:
        """Session times of a signal's values, shape (n,), s."""
        return self.time_ns(name) / 1e9

    @property
    def t(self) -> Floats:
        """Session times of the ticks, shape (n,), s: those of the first signal."""
        return self.time(self.names[0])

    def _find(self, name: str) -> tuple[str, int]:
        try:
            return self._where[name]
        except KeyError:
            from hilrt.config import nearest  # a hint is worth an import, a log is not

            hint = nearest(name, self.names)
            raise KeyError(f"{self.path}: no signal {name!r}{hint}") from None


def load_log(path: str | Path) -> Log:
    """Read a recorded session.

    Parameters
    ----------
    path : str or Path
        ``session.mcap``, or the run's folder.

    Raises
    ------
    RecordError
        If there is no log, it cannot be read, or it is none of ours.
    """
    stream = LogStream(find_log(path))
    times: dict[str, list[NDArray[np.int64]]] = {}
    values: dict[str, list[Floats]] = {}
    for block in stream.blocks():
        times.setdefault(block.channel.topic, []).append(block.times_ns)
        values.setdefault(block.channel.topic, []).append(block.values)
    channels = stream.channels.values()
    where = {
        signal.name: (channel.topic, column)
        for channel in channels
        for column, signal in enumerate(channel.signals)
    }
    signals = [signal for channel in channels for signal in channel.signals]
    return Log(
        path=stream.path,
        names=[signal.name for signal in signals],
        units={signal.name: signal.unit for signal in signals},
        sources={signal.name: signal.source for signal in signals},
        events=sorted(stream.events, key=lambda event: event.t),
        attachments=stream.attachments,
        metadata=stream.metadata,
        truncated=stream.damage,
        _where=where,
        _times={topic: np.concatenate(blocks) for topic, blocks in times.items()},
        _values=values,
    )


def find_log(path: str | Path) -> Path:
    """The log in a run's folder, or the file itself."""
    path = Path(path)
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise RecordError(f"{file}: there is no log; give a run's folder or its {FILE_NAME}")
    return file


class LogStream:
    """A log read piece by piece, for files larger than memory.

    Everything that is not a row is collected in the attributes while `blocks` runs.

    Parameters
    ----------
    path : Path
        The file.
    asides : collection of str
        Topics beside the rows (`ASIDES`) to collect.

    Attributes
    ----------
    asides : deque of Aside
        To be emptied by the caller; each one comes before the row that it belongs to.
    channels : dict
        Channel id to topic and signals.
    events, attachments, metadata
        As in `Log`.
    damage : str
        Why reading ended early, empty at a whole file.
    """

    def __init__(self, path: Path, asides: Collection[str] = ()) -> None:
        self.path = path
        self.asides: deque[Aside] = deque()
        self._wanted = asides
        self._aside_channels: dict[int, str] = {}
        self.channels: dict[int, Channel] = {}
        self.events: list[LogEvent] = []
        self.attachments: dict[str, bytes] = {}
        self.metadata: dict[str, str] = {}
        self.damage = ""
        self._event_channels: set[int] = set()

    def blocks(self) -> Iterator[Block]:
        """Rows in the order of the file, about a second of one topic at a time.

        Raises
        ------
        RecordError
            If the file cannot be read or holds no signals of ours.
        """
        try:
            with self.path.open("rb") as file:
                if file.read(len(_MAGIC)) != _MAGIC:
                    raise RecordError(f"{self.path}: is not an MCAP file; give a {FILE_NAME}")
                yield from self._read(file)
        except OSError as error:
            raise RecordError(f"{self.path}: cannot be read: {error.strerror}") from None
        if not self.channels:
            raise RecordError(
                f"{self.path}: holds no signals; it was not written by hilrt, or it was cut off "
                "before the first"
            )

    def _read(self, file: BinaryIO) -> Iterator[Block]:
        checksum = zlib.crc32(_MAGIC)
        while True:
            start = file.tell()
            head = file.read(_RECORD.size)
            kind, length = _RECORD.unpack(head) if len(head) == _RECORD.size else (0, 1)
            body = file.read(length) if length <= 2 * _MAX_CHUNK else b""
            if len(body) < length:
                self.damage = f"cut off after {start} bytes"
                return
            if kind == Opcode.DATA_END:
                expected = int.from_bytes(body, "little")
                if expected not in (0, checksum):
                    self.damage = "does not match its checksum: some of it is wrong or missing"
                return
            checksum = zlib.crc32(body, zlib.crc32(head, checksum))
            try:
                blocks = self._read_record(kind, body)
            except DAMAGE as error:
                self.damage = f"damaged after {start} bytes: {error}"
                return
            yield from blocks

    def _read_record(self, kind: int, body: bytes) -> list[Block]:
        stream = ReadDataStream(io.BytesIO(body))
        if kind == Opcode.CHUNK:
            return self._read_chunk(records.Chunk.read(stream))
        if kind == Opcode.METADATA:
            self.metadata.update(records.Metadata.read(stream).metadata)
        elif kind == Opcode.ATTACHMENT:
            attachment = records.Attachment.read(stream)
            if zlib.crc32(body[:-4]) != int.from_bytes(body[-4:], "little"):
                raise ValueError(f"attachment {attachment.name} does not match its checksum")
            self.attachments[attachment.name] = attachment.data
        return []

    def _read_chunk(self, chunk: records.Chunk) -> list[Block]:
        if chunk.uncompressed_size > _MAX_CHUNK:
            raise ValueError(f"a chunk of {chunk.uncompressed_size} bytes")
        stream, length = get_chunk_data_stream(chunk, validate_crc=True)
        data = stream.read(length)
        starts: dict[int, list[int]] = {}
        position = 0
        while position < length:  # only the positions: the numbers are gathered by numpy
            kind, size, channel_id = _MESSAGE.unpack_from(data, position)
            if kind == Opcode.MESSAGE:
                starts.setdefault(channel_id, []).append(position)
            elif kind == Opcode.CHANNEL:
                self._read_channel(data[position + _RECORD.size :][:size])
            position += _RECORD.size + size
        if position != length:
            raise ValueError("a chunk that ends inside a record")
        epoch_ns = int(self.metadata["epoch_ns"])
        for channel_id in self._event_channels & starts.keys():
            for start in starts[channel_id]:
                size = _MESSAGE.unpack_from(data, start)[1]
                self.events.append(_event(data[start + _DATA : start + _RECORD.size + size]))
        for channel_id, topic in self._aside_channels.items():
            for start in starts.get(channel_id, ()):
                size = _MESSAGE.unpack_from(data, start)[1]
                row, log_time = _STAMP.unpack_from(data, start + _SEQUENCE)
                body = data[start + _DATA : start + _RECORD.size + size]
                self.asides.append(Aside(topic, row, log_time - epoch_ns, body))
        return [
            _gather(data, np.array(starts[channel_id]), channel, epoch_ns)
            for channel_id, channel in self.channels.items()
            if channel_id in starts
        ]

    def _read_channel(self, body: bytes) -> None:
        channel = records.Channel.read(ReadDataStream(io.BytesIO(body)))
        if "signals" in channel.metadata:
            signals = [Signal(*entry) for entry in json.loads(channel.metadata["signals"])]
            self.channels[channel.id] = Channel(channel.topic.removeprefix("/"), signals)
        elif channel.topic == EVENTS:
            self._event_channels.add(channel.id)
        elif channel.topic in self._wanted:
            self._aside_channels[channel.id] = channel.topic


def _gather(data: bytes, starts: NDArray[np.int64], channel: Channel, epoch_ns: int) -> Block:
    """Times and values of the messages that start at these positions."""
    raw = np.frombuffer(data, np.uint8)
    width = len(cdr.HEADER) + 8 * len(channel.signals)
    sizes = np.lib.stride_tricks.sliding_window_view(raw, 8)[starts + 1].view("<u8").ravel()
    if np.any(sizes != _DATA - _RECORD.size + width):
        raise ValueError(f"a message of {channel.topic} that does not fit its signals")
    log_times = np.lib.stride_tricks.sliding_window_view(raw, 8)[starts + _LOG_TIME].view("<i8")
    numbers = np.lib.stride_tricks.sliding_window_view(raw, 4)[starts + _SEQUENCE].view("<u4")
    records_ = np.lib.stride_tricks.sliding_window_view(raw, width)[starts + _DATA]
    values = np.ascontiguousarray(records_[:, len(cdr.HEADER) :]).view("<f8")
    return Block(
        channel,
        log_times.ravel() - epoch_ns,
        values.astype(np.float64, copy=False),
        numbers.ravel().astype(np.int64),
    )


def _event(data: bytes) -> LogEvent:
    body = json.loads(data)
    return LogEvent(
        t=float(body["t"]),
        level=_LEVEL_NAMES.get(body["level"], "info"),
        cause=body["cause"],
        source=body["name"],
        text=body["message"],
        until=body.get("until"),
    )
