"""Cut a part out of a log, and merge several logs, message by message."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mcap import records

from hilrt.errors import ConfigError
from hilrt.files.formats import parse_json
from hilrt.logs.log_file import Batch, Contents, LogFile, LogMessage, read_contents
from hilrt.logs.source import new_file
from hilrt.record.mcap_writer import McapWriter
from hilrt.record.messages import REPORT_STATISTICS
from hilrt.version import VERSION

#: Attachment about a whole session, invalid for a part of it or for several sessions.
SUMMARY = "summary.json"
_END = "hilrt.end"


class Written(NamedTuple):
    """New log: its messages, and notes about it."""

    path: Path
    messages: int
    notes: list[str]


def cut(
    path: Path,
    out: Path,
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    topics: Sequence[str] = (),
    replace: bool = False,
) -> Written:
    """Write the messages of a time span, with the log's attachments and metadata.

    Times are unchanged. The summary of the whole session is kept as ``whole_summary.json``.

    Parameters
    ----------
    path, out : Path
    start_s, end_s : float, optional
        Session times, s; both ends are included.
    topics : sequence of str
        Only these topics; default: all.
    replace : bool
        Whether `out` may exist.

    Raises
    ------
    ConfigError, RecordError
        If the span or the files are wrong, with place and remedy.
    """
    contents = read_contents(path)
    low, high = _span(contents, start_s, end_s)
    known = [topic.name for topic in contents.topics]
    lost = [name for name in topics if name not in known]
    if lost:
        raise ConfigError(f"{path}: has no topic {', '.join(lost)}; there is {', '.join(known)}")
    file = LogFile(path, contents.epoch_ns + low, contents.epoch_ns + high)
    with new_file(out, replace=replace) as part, part.open("wb") as stream:
        copy = _CutCopy(McapWriter(stream))
        for piece in file.pieces():
            if isinstance(piece, Batch):
                for message in _by_time(piece):
                    channel = file.channels[message.channel]
                    if not topics or channel.topic.removeprefix("/") in topics:
                        copy.message(channel, file.schemas.get(channel.schema_id), message)
            elif isinstance(piece, records.Metadata):
                if piece.name != _END:
                    copy.writer.add_metadata(piece.name, piece.metadata)
            elif piece.name != REPORT_STATISTICS:
                name = "whole_summary.json" if piece.name == SUMMARY else piece.name
                copy.attach(piece, name)
        if not copy.count:
            raise ConfigError(f"{path}: has no messages from {low / 1e9:g} s to {high / 1e9:g} s")
        interval = {"cut.from_s": f"{low / 1e9:.9f}", "cut.to_s": f"{high / 1e9:.9f}"}
        copy.writer.add_metadata("hilrt.cut", {"cut.of": path.name, **interval})
        copy.finish()
    return Written(out, copy.count, [f"{path}: {file.damage}"] if file.damage else [])


def _by_time(batch: Batch) -> list[LogMessage]:
    """Messages of a chunk, sorted by time, so that all topics of a row are adjacent."""
    return sorted(batch.messages, key=lambda message: message.log_time)


def _span(contents: Contents, start_s: float | None, end_s: float | None) -> tuple[int, int]:
    low = contents.start_ns if start_s is None else round(start_s * 1e9)
    high = contents.end_ns if end_s is None else round(end_s * 1e9)
    if start_s is not None and end_s is not None and low > high:
        raise ConfigError(f"--from {start_s:g} s is after --until {end_s:g} s; swap them")
    if high < contents.start_ns or low > contents.end_ns:
        raise ConfigError(
            f"{contents.path}: lasts from {contents.start_ns / 1e9:g} s to "
            f"{contents.end_ns / 1e9:g} s; --from and --until are outside"
        )
    return low, high


def merge(
    paths: Sequence[Path],
    out: Path,
    *,
    align: bool = False,
    shifts_s: Sequence[float] = (),
    replace: bool = False,
) -> Written:
    """Merge logs by their wall clock times; time 0 is that of the first log.

    A topic that several logs have with the same signals becomes one topic, so that parts cut from a
    session can be merged again. If the signals differ, the topic gets the log's name as a prefix.

    Parameters
    ----------
    paths : sequence of Path
    out : Path
    align : bool
        Let all logs begin at the same time, regardless of the clock.
    shifts_s : sequence of float
        Time by which each log is shifted, s.
    replace : bool
        Whether `out` may exist.
    """
    if len(paths) < 2:
        raise ConfigError("merge: give at least two logs")
    if shifts_s and len(shifts_s) != len(paths):
        raise ConfigError(
            f"--shift: is given {len(shifts_s)} times for {len(paths)} logs; give one for each"
        )
    contents = [read_contents(path) for path in paths]
    base = contents[0]
    moves = [round(s * 1e9) for s in shifts_s] or [0] * len(paths)
    if align:
        first = base.epoch_ns + base.start_ns
        starts = [c.epoch_ns + c.start_ns for c in contents]
        moves = [m + first - s for m, s in zip(moves, starts, strict=True)]
    files = [LogFile(path) for path in paths]
    names = _renamed(contents)
    with new_file(out, replace=replace) as part, part.open("wb") as stream:
        copy = _CutCopy(McapWriter(stream))
        inputs = [
            _moved(k, file, move, _extras(copy, k, paths[k], alone=_alone(contents)))
            for k, (file, move) in enumerate(zip(files, moves, strict=True))
        ]
        for k, message in heapq.merge(*inputs, key=lambda item: item[1].log_time):
            file = files[k]
            channel = names[k](file.channels[message.channel])
            copy.message(channel, file.schemas.get(channel.schema_id), message)
        copy.finish()
    notes = [f"{file.path}: {file.damage}" for file in files if file.damage]
    return Written(out, copy.count, notes)


def _alone(contents: Sequence[Contents]) -> bool:
    """Whether only one log is from a whole session, so that its summary stays valid."""
    return sum(any(a[0] == SUMMARY for a in c.attachments) for c in contents) <= 1 and not any(
        "cut.of" in c.metadata for c in contents
    )


def _moved(
    k: int,
    file: LogFile,
    move_ns: int,
    extra: Callable[[records.Metadata | records.Attachment], None],
) -> Iterator[tuple[int, LogMessage]]:
    """Yield messages of one log, sorted by time in each chunk; pass the rest to `extra`."""
    for piece in file.pieces():
        if not isinstance(piece, Batch):
            extra(piece)
            continue
        for m in _by_time(piece):
            at, published = m.log_time + move_ns, m.publish_time + move_ns
            yield k, LogMessage(m.channel, m.sequence, at, published, m.data)


def _extras(
    copy: _CutCopy, k: int, path: Path, *, alone: bool
) -> Callable[[records.Metadata | records.Attachment], None]:
    """Function that copies the k-th log's metadata and attachments."""

    def copy_piece(piece: records.Metadata | records.Attachment) -> None:
        if isinstance(piece, records.Metadata):
            if piece.name == _END:
                return
            if k == 0:
                copy.writer.add_metadata(piece.name, piece.metadata)
            else:  # separate keys, so that they do not hide the first log's
                moved = {f"merged.{k}.{key}": text for key, text in piece.metadata.items()}
                copy.writer.add_metadata(f"{piece.name}.{k}", {**moved, f"merged.{k}": path.name})
            return
        if piece.name == REPORT_STATISTICS:
            return
        name = piece.name if alone or piece.name != SUMMARY else f"summary_of_{path.stem}.json"
        if copy.attached.get(name, piece.data) != piece.data:
            name = f"{path.stem}_{k}_{name}"
        if name not in copy.attached:
            copy.attach(piece, name)

    return copy_piece


def _renamed(
    contents: Sequence[Contents],
) -> list[Callable[[records.Channel], records.Channel]]:
    """Renaming of each log's channels, with the log's name as a prefix if signals collide."""
    signals: dict[str, str] = {}  # signal name -> topic of the first log that has it
    kept: dict[str, list[str]] = {}  # topic -> its signals there
    renamed: list[Callable[[records.Channel], records.Channel]] = []
    for number, each in enumerate(contents, 1):
        clashing = set()
        for topic in each.topics:
            names = [s.name for s in topic.signals]
            same = kept.get(topic.name) == names
            if not same and (topic.name in kept or any(n in signals for n in names)):
                clashing.add(topic.name)
            elif names:
                kept.setdefault(topic.name, names)
                signals.update(dict.fromkeys(names, topic.name))
        renamed.append(_renamer(f"{each.path.stem}_{number}", clashing))
    return renamed


def _renamer(prefix: str, clashing: set[str]) -> Callable[[records.Channel], records.Channel]:
    def rename(channel: records.Channel) -> records.Channel:
        topic = channel.topic.removeprefix("/")
        if topic not in clashing:
            return channel
        metadata = dict(channel.metadata)
        if "signals" in metadata:
            entries = parse_json(metadata["signals"])
            own = [[f"{prefix}/{name}", *rest] for name, *rest in entries]
            metadata["signals"] = json.dumps(own, ensure_ascii=False)
        return records.Channel(
            id=channel.id,
            topic=f"/{prefix}/{topic}",
            message_encoding=channel.message_encoding,
            metadata=metadata,
            schema_id=channel.schema_id,
        )

    return rename


class _CutCopy:
    """Writer of other logs' messages; a channel is registered at its first message."""

    def __init__(self, writer: McapWriter) -> None:
        self.writer = writer
        writer.start()
        self.count = 0
        self.attached: dict[str, bytes] = {}
        self._channels: dict[tuple[str, str], int] = {}
        self._schemas: dict[tuple[str, bytes], int] = {}
        self._next: dict[int, int] = {}
        self._first = -1
        self._rows = self._missing = 0

    def message(
        self, channel: records.Channel, schema: records.Schema | None, message: LogMessage
    ) -> None:
        """Write a message with its original sequence number."""
        key = (channel.topic, channel.metadata.get("signals", ""))
        number = self._channels.get(key)
        if number is None:
            number = self._register(channel, schema)
            self._channels[key] = number
            if self._first < 0 and key[1]:
                self._first = number
        self.writer.add_message(
            number, message.log_time, message.data, message.sequence, message.publish_time
        )
        self.count += 1
        if number == self._first:
            expected = self._next.get(number, message.sequence)
            self._missing += max(0, message.sequence - expected)
            self._next[number] = message.sequence + 1
            self._rows += 1

    def attach(self, piece: records.Attachment, name: str) -> None:
        """Write an attachment."""
        self.attached[name] = piece.data
        self.writer.add_attachment(
            piece.create_time, piece.log_time, name, piece.media_type, piece.data
        )

    def finish(self) -> None:
        """Write counts and index, and close the log."""
        counts = {"rows": str(self._rows), "rows_missing": str(self._missing)}
        self.writer.add_metadata(_END, {**counts, "written_by": f"hilrt {VERSION}"})
        self.writer.finish()

    def _register(self, channel: records.Channel, schema: records.Schema | None) -> int:
        number = 0
        if schema is not None:
            key = (schema.name, schema.data)
            if key not in self._schemas:
                self._schemas[key] = self.writer.register_schema(
                    schema.name, schema.encoding, schema.data
                )
            number = self._schemas[key]
        return self.writer.register_channel(
            channel.topic, channel.message_encoding, number, channel.metadata
        )
