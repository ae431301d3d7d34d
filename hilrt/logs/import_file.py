"""Import other tools' files: signals with their units and sources, and unchanged frames."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hilrt.errors import ConfigError
from hilrt.logs.decode_frames import BusDatabase
from hilrt.logs.open_source import open_source
from hilrt.logs.source import Source, new_file
from hilrt.record import cdr, logged_frame
from hilrt.record.logged_frame import LoggedFrame
from hilrt.record.mcap_writer import McapWriter, RowLayout
from hilrt.record.messages import Signal, Topic
from hilrt.record.reader import Block
from hilrt.version import VERSION


class LogWriter:
    """Writer of one log file.

    Parameters
    ----------
    path : Path
        Path of the new file.
    session : str
        Name of the log.
    epoch_ns : int
        Wall clock (ns since 1970, UTC) at time 0 of the blocks.
    metadata : mapping, optional
        Further metadata.
    """

    def __init__(
        self, path: Path, session: str, epoch_ns: int, metadata: Mapping[str, str] | None = None
    ) -> None:
        self.epoch_ns = epoch_ns
        self.rows = 0
        self.frames = 0
        self._layouts: dict[str, RowLayout] = {}
        self._sequence: dict[str, int] = {}
        self._buses: dict[str, int] = {}
        self._frame_schema = 0
        self._file = path.open("wb")
        self._writer = McapWriter(self._file)
        self._writer.start()
        facts = {"session": session, "epoch_ns": str(epoch_ns), "hilrt": VERSION}
        self._writer.add_metadata("hilrt", {**(metadata or {}), **facts})

    def block(self, block: Block) -> None:
        """Write rows of one topic, times in ns since the epoch of the log."""
        topic = block.channel.topic
        layout = self._layouts.get(topic)
        if layout is None:
            channel = self._register(Topic(topic, block.channel.signals))
            layout = RowLayout([channel], [slice(0, block.values.shape[1])])
            self._layouts[topic] = layout
        sequence = self._sequence.get(topic, 0)
        self._writer.add_rows(layout, sequence, block.times_ns + self.epoch_ns, block.values)
        self._sequence[topic] = sequence + len(block.times_ns)
        self.rows += len(block.times_ns)

    def frame(self, frame: LoggedFrame) -> None:
        """Write a CAN frame, at its own time on the wall clock."""
        channel = self._buses.get(frame.bus)
        if channel is None:
            if not self._buses:
                self._frame_schema = self._writer.register_schema(
                    logged_frame.SCHEMA_NAME, logged_frame.SCHEMA_ENCODING, logged_frame.SCHEMA
                )
            channel = self._writer.register_channel(
                logged_frame.topic(frame.bus),
                logged_frame.ENCODING,
                self._frame_schema,
                {"frames": "can"},
            )
            self._buses[frame.bus] = channel
        body = logged_frame.encode(frame)
        self._writer.add_message(channel, frame.time_ns, body, self.frames)
        self.frames += 1

    def attach(self, name: str, media_type: str, data: bytes) -> None:
        """Attach a file to the log."""
        self._writer.add_attachment(self.epoch_ns, self.epoch_ns, name, media_type, data)

    def close(self) -> None:
        """Write index and summary, and close the file."""
        self._writer.add_metadata("hilrt.end", {"rows": str(self.rows), "rows_missing": "0"})
        self._writer.finish()
        self._file.close()

    def abandon(self) -> None:
        """Close the unfinished file after an error."""
        self._file.close()

    def _register(self, topic: Topic) -> int:
        text = cdr.schema_text(topic).encode()
        schema = self._writer.register_schema(cdr.schema_name(topic.name), "ros2msg", text)
        signals = json.dumps([entry(s) for s in topic.signals], ensure_ascii=False)
        return self._writer.register_channel(f"/{topic.name}", "cdr", schema, {"signals": signals})


def entry(signal: Signal) -> list[Any]:
    """Signal as stored in the channel's metadata."""
    return [signal.name, signal.unit, signal.source, signal.comment]


@dataclass
class Imported:
    """Result of an import.

    `unknown_frames` is the number of frames that are in no database; 0 without a database.
    """

    path: Path
    rows: int = 0
    frames: int = 0
    signals: int = 0
    unknown_frames: int = 0
    notes: list[str] = field(default_factory=list)


def import_file(
    path: Path,
    out: Path,
    *,
    databases: Sequence[BusDatabase] = (),
    time: str | None = None,
    replace: bool = False,
) -> Imported:
    """Convert a file of another format to a log of hilrt.

    Parameters
    ----------
    path : Path
        MF4, CSV, Parquet, or a CAN log; also a log of hilrt, to decode its frames.
    out : Path
        Path of the new log.
    databases : sequence of BusDatabase
        CAN databases by which frames are also decoded to signals.
    time : str, optional
        Time column of a CSV or Parquet file.
    replace : bool
        Whether `out` may exist.

    Raises
    ------
    ConfigError, RecordError
        If the file cannot be read or the log cannot be written, with place and remedy.
    """
    source = open_source(path, databases=databases, time=time)
    try:
        with new_file(out, replace=replace) as part:
            return _write(source, part, out)
    finally:
        source.close()


def _write(source: Source, part: Path, out: Path) -> Imported:
    source.read_head()
    result = Imported(out)
    frames = _Ahead(_since_1970(source))
    if frames.head is not None:
        source.since_start(frames.head)
    epoch_ns = source.epoch_ns or 0
    facts = {f"imported.{k}": v for k, v in source.metadata().items() if k != "epoch_ns"}
    facts |= {"imported": source.path.name, "imported_format": source.kind}
    writer = LogWriter(part, source.path.stem, epoch_ns, facts)
    signals: dict[str, int] = {}
    try:
        for attachment in source.attachments():
            writer.attach(attachment.name, attachment.media_type, attachment.data)
        for block in source.blocks():
            if epoch_ns + int(block.times_ns.min()) < 0:
                raise _before_1970(source, "a row", epoch_ns + int(block.times_ns.min()))
            # Write frames together with the signals of the same time, as a recorder would.
            end_ns = epoch_ns + int(block.times_ns[-1])
            for frame in frames.until(end_ns):
                writer.frame(frame)
            writer.block(block)
            signals[block.channel.topic] = len(block.channel.signals)
        for frame in frames.until(None):
            writer.frame(frame)
        result.notes = source.notes
        if result.notes:
            notes = json.dumps(result.notes, ensure_ascii=False).encode()
            writer.attach("import_notes.json", "application/json", notes)
    except BaseException:
        writer.abandon()
        raise
    writer.close()
    if not writer.rows and not writer.frames:
        raise source.fail("has neither signals nor CAN frames")
    result.rows, result.frames = writer.rows, writer.frames
    result.signals = sum(signals.values())
    result.unknown_frames = source.unknown_frames
    return result


def _since_1970(source: Source) -> Iterator[LoggedFrame]:
    """Frames of a source; `ConfigError` for a time before 1970, which a log cannot hold."""
    for frame in source.frames():
        if frame.time_ns < 0:
            raise _before_1970(source, "a frame", frame.time_ns)
        yield frame


def _before_1970(source: Source, what: str, time_ns: int) -> ConfigError:
    return source.fail(
        f"has {what} {-time_ns / 1e9:g} s before 1970, or before its time 0; give it a date, or "
        "shift its times"
    )


class _Ahead:
    """Iterator over frames with a look-ahead of one."""

    def __init__(self, frames: Iterator[LoggedFrame]) -> None:
        self._frames = frames
        self.head: LoggedFrame | None = next(frames, None)

    def until(self, time_ns: int | None) -> Iterator[LoggedFrame]:
        """Yield frames up to a time [ns]; None: all remaining frames."""
        while self.head is not None and (time_ns is None or self.head.time_ns <= time_ns):
            frame, self.head = self.head, next(self._frames, None)
            yield frame
