"""Repair a truncated or damaged log: its intact part becomes a log for every reader.

The file is read record by record. A chunk that does not match its checksum is left out; if the
length of a record is invalid, reading continues at the next intact chunk. Messages are copied bit
for bit, and the new log gets the index and the summary that the truncated one lacks.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from mcap import records
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode

from hilrt.errors import RecordError
from hilrt.record.mcap_writer import McapWriter
from hilrt.record.messages import EVENTS, LEVELS, REPORT_STATISTICS
from hilrt.record.record_file import (
    DAMAGE,
    HEAD,
    MAGIC,
    MAX_CHUNK,
    read_attachment,
    stream_of,
    unpack,
)

_OPCODES = {int(code) for code in Opcode}


@dataclass
class Repaired:
    """Result of a repair: the parts kept and lost.

    Attributes
    ----------
    path : Path
        The new log.
    whole : bool
        Whether the log had no damage at all.
    rows, missing : int
        Steps kept, and steps missing between the first and the last one kept.
    messages : int
        Messages kept, of all topics.
    end : float
        Session time of the newest message kept, s.
    lost : list of str
        Parts left out, with their positions.
    """

    path: Path
    whole: bool = False
    rows: int = 0
    missing: int = 0
    messages: int = 0
    end: float = 0.0
    lost: list[str] = field(default_factory=list)


def repair(source: Path, target: Path) -> Repaired:
    """Write the intact part of `source` to `target`, which must not be the same file.

    Raises
    ------
    RecordError
        If the file cannot be read, is not an MCAP file or has nothing that could be kept.
    """
    done = Repaired(target)
    try:
        with source.open("rb") as file, target.open("wb") as out:
            if source.stat().st_size == 0:
                raise RecordError(f"{source}: is empty; there is nothing to repair")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                if data[: len(MAGIC)] != MAGIC:
                    raise RecordError(f"{source}: is not an MCAP file; give a session.mcap")
                _RepairCopy(out, done).run(_scan(data, done))
    except OSError as error:
        name = error.filename or target
        raise RecordError(f"{name}: {error.strerror or error}; check the disk") from None
    if done.messages == 0:
        raise RecordError(
            f"{source}: was truncated before its first message; nothing can be recovered"
        )
    return done


def _scan(data: mmap.mmap, done: Repaired) -> Iterator[tuple[int, bytes]]:
    """Yield kind and body of every record up to the end of the data; note damage."""
    at, size = len(MAGIC), len(data)
    while at < size:
        if size - at >= HEAD.size:
            kind, length = HEAD.unpack_from(data, at)
            end = at + HEAD.size + length
            if kind in _OPCODES and end <= size:
                body = data[at + HEAD.size : end]
                if kind == Opcode.DATA_END:
                    if data[-len(MAGIC) :] != MAGIC:
                        done.lost.append(f"truncated in its index, after {end} bytes")
                    done.whole = not done.lost
                    return
                yield kind, body
                at = end
                continue
        following = _next_chunk(data, at + 1)
        if following is None:
            done.lost.append(
                f"truncated after {at} bytes: {size - at} bytes are not a complete record"
            )
            return
        done.lost.append(f"{following - at} bytes from {at} on are invalid")
        at = following


def _next_chunk(data: mmap.mmap, at: int) -> int | None:
    """Position of the next record that can be a chunk written by hilrt."""
    mark = struct.pack("<I", 4) + b"zstd"
    while (found := data.find(mark, at)) >= 0:
        # Opcode, length, two times, size and checksum come before the name of the compression.
        start = found - (HEAD.size + 28)
        if start >= at:
            kind, length = HEAD.unpack_from(data, start)
            if kind == Opcode.CHUNK and start + HEAD.size + length <= len(data):
                return start
        at = found + 1
    return None


class _RepairCopy:
    """Writer of the intact records into a new log."""

    def __init__(self, out: IO[bytes], done: Repaired) -> None:
        self._done = done
        self._writer = McapWriter(out, MAX_CHUNK)
        self._schemas: dict[int, int] = {0: 0}
        self._channels: dict[int, int] = {}
        self._known: dict[Any, int] = {}
        self._rows_on: int | None = None  # channel whose messages are counted as steps
        self._events_on: int | None = None
        self._first = self._last = -1
        self._epoch_ns = self._newest_ns = 0
        self._ended = False

    def run(self, found: Iterator[tuple[int, bytes]]) -> None:
        """Copy everything, and close the log."""
        self._writer.start()
        for kind, body in found:
            try:
                self._record(kind, body)
            except DAMAGE as error:
                self._done.lost.append(f"a damaged {Opcode(kind).name.lower()}: {error}")
        done = self._done
        if self._last >= 0:
            done.missing = self._last - self._first + 1 - done.rows
        done.end = (self._newest_ns - self._epoch_ns) * 1e-9
        if not done.whole:
            self._note()
        if not self._ended:
            counts = {"rows": str(done.rows), "rows_missing": str(done.missing)}
            self._writer.add_metadata("hilrt.end", counts)
        self._writer.finish()

    def _record(self, kind: int, body: bytes) -> None:
        if kind == Opcode.CHUNK:
            self._chunk(unpack(body).data)
        elif kind == Opcode.METADATA:
            metadata = records.Metadata.read(stream_of(body))
            self._epoch_ns = int(metadata.metadata.get("epoch_ns", self._epoch_ns))
            self._ended |= metadata.name == "hilrt.end"
            self._writer.add_metadata(metadata.name, metadata.metadata)
        elif kind == Opcode.ATTACHMENT:
            a = read_attachment(body)
            if a.name != REPORT_STATISTICS:  # rows may be missing now
                self._writer.add_attachment(a.create_time, a.log_time, a.name, a.media_type, a.data)

    def _chunk(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            kind, size = HEAD.unpack_from(data, at)
            body = data[at + HEAD.size : at + HEAD.size + size]
            self._in_chunk(kind, stream_of(body), size)
            at += HEAD.size + size
        self._writer.flush()

    def _in_chunk(self, kind: int, stream: ReadDataStream, size: int) -> None:
        if kind == Opcode.MESSAGE:
            self._message(records.Message.read(stream, size))
        elif kind == Opcode.SCHEMA:
            schema = records.Schema.read(stream)
            key = (schema.name, schema.encoding, schema.data)
            if key not in self._known:
                self._known[key] = self._writer.register_schema(*key)
            self._schemas[schema.id] = self._known[key]
        elif kind == Opcode.CHANNEL:
            channel = records.Channel.read(stream)
            if channel.id in self._channels:
                return
            self._channels[channel.id] = self._writer.register_channel(
                channel.topic,
                channel.message_encoding,
                self._schemas[channel.schema_id],
                channel.metadata,
            )
            if "signals" in channel.metadata and self._rows_on is None:
                self._rows_on = channel.id
            if channel.topic == EVENTS:
                self._events_on = channel.id

    def _message(self, message: records.Message) -> None:
        done = self._done
        self._writer.add_message(
            self._channels[message.channel_id],
            message.log_time,
            message.data,
            message.sequence,
            message.publish_time,
        )
        done.messages += 1
        self._newest_ns = max(self._newest_ns, message.log_time)
        if message.channel_id == self._rows_on:
            done.rows += 1
            self._first = message.sequence if self._first < 0 else self._first
            self._last = max(self._last, message.sequence)

    def _note(self) -> None:
        """Write an event at the end of the log about its repair and losses."""
        if self._events_on is None:
            return
        lost = "; ".join(self._done.lost) or "its end"
        body = {
            "timestamp": {"sec": self._newest_ns // 10**9, "nsec": self._newest_ns % 10**9},
            "level": LEVELS["warning"],
            "message": f"the log was repaired: {lost}",
            "name": "repair",
            "file": "",
            "line": 0,
            "cause": "log_repaired",
            "t": self._done.end,
        }
        channel = self._channels[self._events_on]
        data = json.dumps(body, ensure_ascii=False).encode()
        self._writer.add_message(channel, self._newest_ns, data)
