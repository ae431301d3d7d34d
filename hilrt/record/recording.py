"""Writing of one log file: rows, events, CAN frames and other records, as MCAP."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hilrt.record import cdr, logged_frame
from hilrt.record.frame_feed import FrameIntake, SessionClock
from hilrt.record.gate import Gate, HeldFrame, Rows
from hilrt.record.mcap_writer import McapWriter, RowLayout
from hilrt.record.messages import (
    ASIDE,
    ASIDES,
    BATCH,
    EVENTS,
    FILE_NAME,
    REPORT_STATISTICS,
    SNAPSHOTS,
    Attachment,
    Begin,
    RecordEnd,
    RecordEvent,
)
from hilrt.record.reader import LogEvent
from hilrt.solver import Floats
from hilrt.version import VERSION

T = TypeVar("T")

#: Time limit for the disk at the end, s.
SYNC_S = 5.0


class Follower(Protocol):
    """Consumer of a log's rows while it is written, whose result is attached at the end."""

    def event(self, event: LogEvent) -> None:
        """Process an event that was written."""
        ...

    def take(self, first: int, times: NDArray[np.int64], rows: Floats) -> None:
        """Process rows that were written, shape (n, n_signals), at session times [ns].

        The arrays do not change later. `first` is the number of the first row since the start of
        the session.
        """
        ...

    def attachment(self) -> bytes:
        """Contents of the attachment; empty for none."""
        ...


class Recording:
    """Log file being written; every method raises `OSError` if the disk fails.

    Parameters
    ----------
    begin : Begin
        Path of the log, and the contents of a row.
    follow : callable, optional
        Creates the log's follower.
    """

    def __init__(self, begin: Begin, follow: Callable[[Begin], Follower] | None = None) -> None:
        folder = Path(begin.out_dir)
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE_NAME
        self._begin = begin
        self._columns = sum(len(topic.signals) for topic in begin.topics)
        self._next = 0
        self._last_ns = 0
        self._written = 0  # number of the row after the newest one in the file
        self._written_ns = 0
        self._syncing: threading.Thread | None = None
        self.missing = 0
        self.arrived = self.rows = 0  # rows received, and rows in the file
        self.events = 0
        self.frames = self.frames_missing = 0
        self.clock = SessionClock(begin.clock_ns)
        self._intake = FrameIntake(begin.buses, self.clock)
        self._follower = follow(begin) if follow is not None else None
        trigger = begin.trigger
        self._gate = None if trigger is None else Gate(trigger, begin.topics)
        self._file = open(self.path, "xb")  # noqa: SIM115 - closed by finish or abandon
        self._writer = McapWriter(self._file)
        try:
            self._write_head()
        except OSError:
            self.abandon()
            raise

    def _write_head(self) -> None:
        begin = self._begin
        self._writer.start()
        facts = {
            **begin.metadata,
            "session": begin.session,
            "epoch_ns": str(begin.epoch_ns),
            "hilrt": VERSION,
        }
        self._writer.add_metadata("hilrt", facts)
        for attachment in begin.attachments:
            self._attach(attachment)
        channels = []
        for topic in begin.topics:
            text = cdr.schema_text(topic).encode()
            schema = self._writer.register_schema(cdr.schema_name(topic.name), "ros2msg", text)
            names = [[s.name, s.unit, s.source] for s in topic.signals]
            channel = self._writer.register_channel(
                f"/{topic.name}", "cdr", schema, {"signals": json.dumps(names, ensure_ascii=False)}
            )
            channels.append(channel)
        self._layout = RowLayout(channels, cdr.signal_slices(begin.topics))
        text = json.dumps(cdr.LOG_SCHEMA).encode()
        schema = self._writer.register_schema(cdr.LOG_NAME, "jsonschema", text)
        self._event_channel = self._writer.register_channel(EVENTS, "json", schema)
        self._asides = {
            topic.encode(): self._writer.register_channel(topic, "msgpack", 0) for topic in ASIDES
        }
        self._buses = {}
        if begin.buses:
            schema = self._writer.register_schema(
                logged_frame.SCHEMA_NAME, logged_frame.SCHEMA_ENCODING, logged_frame.SCHEMA
            )
        for bus in begin.buses:
            self._buses[bus] = self._writer.register_channel(
                logged_frame.topic(bus), logged_frame.ENCODING, schema, {"frames": "can"}
            )
        # This message completes a first chunk, which contains the channels, so that even a log
        # truncated early lists its signals.
        self.event(RecordEvent(0, "info", "recording", "recorder", f"recording {begin.session}"))
        self.flush()

    def batch(self, first: int, times: NDArray[np.int64], rows: Floats) -> None:
        """Write rows, shape (n, n_signals), at session times [ns]; `first` is the first's index."""
        if len(times) == 0:
            return
        if first != self._next:
            self._note_gap(first, int(times[0]))
        self._next = first + len(times)
        self._last_ns = int(times[-1])
        self.arrived += len(times)
        if self._gate is None:
            self._write(Rows(first, times, rows))
            return
        for part in self._gate.rows(Rows(first, times, rows)):
            self._write(part)
        self._write_held()

    def _write(self, part: Rows) -> None:
        first, times, rows, opens = part
        if opens and first > self._written:
            self._note_pause(first, int(times[0]))
        self._writer.add_rows(self._layout, first, times + self._begin.epoch_ns, rows)
        self._follow(lambda follower: follower.take(first, times, rows))
        self._written = first + len(times)
        self._written_ns = int(times[-1])
        self.rows += len(times)

    def _follow(self, use: Callable[[Follower], T]) -> T | None:
        """Call the follower; if it fails, the log continues, and only reports take longer."""
        if self._follower is None:
            return None
        try:
            return use(self._follower)
        except Exception as error:
            self._follower = None
            text = f"no statistics are attached, reports will read the whole log: {error!r}"
            self.event(RecordEvent(self._last_ns, "warning", "recording", "recorder", text))
            return None

    def _write_held(self) -> None:
        """Write buffered frames that are requested now."""
        assert self._gate is not None
        for t_ns, channel, data in self._gate.frames():
            self._write_frame(t_ns, channel, data)

    def raw_frames(self, data: bytes) -> None:
        """Write a batch of CAN frames from a gateway; `ValueError` for anything else."""
        taken = self._intake.take(data)
        if taken.lost:
            self.frames_missing += taken.lost
            text = (
                f"{taken.lost} CAN frames of {taken.bus} from {taken.since_ns * 1e-9:.6f} s to "
                f"{taken.until_ns * 1e-9:.6f} s are missing: the recorder did not keep up"
            )
            event = RecordEvent(
                taken.since_ns, "warning", "frame_gap", "recorder", text, taken.lost
            )
            self.event(event, until_ns=taken.until_ns)
        channel, gate = self._buses[taken.bus], self._gate
        for t_ns, record in taken.records:
            if gate is None or gate.covers(t_ns):
                self._write_frame(t_ns, channel, record)
            else:
                gate.hold(HeldFrame(t_ns, channel, record))

    def _write_frame(self, t_ns: int, channel: int, data: bytes) -> None:
        log_time = self._begin.epoch_ns + t_ns
        self._writer.add_message(channel, log_time, data, self.frames)
        self.frames += 1

    def raw_batch(self, index: bytes, times: bytes, rows: bytes) -> None:
        """Write rows from message frames; `ValueError` if the frames do not fit together."""
        if len(index) != BATCH.size:
            raise ValueError(f"row index of {len(index)} bytes")
        t = np.frombuffer(times, "<i8")
        shape = (len(t), self._columns)
        self.batch(BATCH.unpack(index)[0], t, np.frombuffer(rows, "<f8").reshape(shape))

    def aside(self, topic: bytes, stamp: bytes, data: bytes) -> None:
        """Write a record that is not a row; `ValueError` for an unknown topic."""
        if topic not in self._asides or len(stamp) != ASIDE.size:
            raise ValueError(f"data for {topic!r}")
        index, t_ns = ASIDE.unpack(stamp)
        log_time = self._begin.epoch_ns + t_ns
        self._writer.add_message(self._asides[topic], log_time, data, index)
        if self._gate is not None and topic == SNAPSHOTS.encode():
            self._gate.snapshot(index)

    def _note_pause(self, first: int, t_ns: int) -> None:
        """Write an event about rows that no trigger requested."""
        since, count = self._written_ns, first - self._written
        text = f"{count} rows from {since * 1e-9:.6f} s to {t_ns * 1e-9:.6f} s are left out: "
        text += "no trigger"
        self.event(RecordEvent(since, "info", "record_pause", "recorder", text), until_ns=t_ns)

    def _note_gap(self, first: int, t_ns: int) -> None:
        lost = first - self._next
        self.missing += lost
        since = self._last_ns if self._next else 0
        text = (
            f"{lost} rows from {since * 1e-9:.6f} s to {t_ns * 1e-9:.6f} s are missing: the "
            "recorder did not keep up"
        )
        gap = RecordEvent(since, "warning", "record_gap", "recorder", text, lost)
        self.event(gap, until_ns=t_ns)

    def event(self, event: RecordEvent, until_ns: int | None = None) -> None:
        """Write an event; `until_ns` is the end of something that lasted."""
        if self._gate is not None:
            self._gate.event(event)
        log_time = self._begin.epoch_ns + event.t_ns
        t, until = event.t_ns / 1e9, None if until_ns is None else until_ns / 1e9
        text = (event.level, event.cause, event.source, event.text)
        data = cdr.log_entry(log_time, t, *text, until, event.value)
        self._follow(lambda follower: follower.event(LogEvent(t, *text, until, event.value)))
        self._writer.add_message(self._event_channel, log_time, data)
        self.events += 1

    def clock_step(self, step_ns: int) -> None:
        """Write an event about a step of the wall clock; session times are not affected."""
        text = (
            f"the system clock was changed by {step_ns * 1e-9:+.3f} s: the log's times "
            "continue, and differ from it by that much from here on"
        )
        self.event(RecordEvent(self._last_ns, "warning", "clock_step", "recorder", text))

    @property
    def progress(self) -> tuple[Path, int, int]:
        """Path, number of the row after the newest one, and number of missing rows before it.

        These are sent to the master after a `flush`.
        """
        return self.path, self._next, self.missing

    def flush(self) -> None:
        """Write everything so far to the file, as one chunk."""
        self._writer.flush()

    def sync(self) -> None:
        """Synchronise flushed data to the disk, so that a power failure does not lose it.

        This runs in a thread, one at a time, because a disk may take seconds while rows arrive.
        """
        if self._syncing is not None and self._syncing.is_alive():
            return
        self._syncing = threading.Thread(target=_sync, args=(self._file.fileno(),), daemon=True)
        self._syncing.start()

    def _wait_for_sync(self) -> None:
        if self._syncing is not None:
            self._syncing.join(SYNC_S)
            self._syncing = None

    def finish(self, end: RecordEnd | None) -> None:
        """Write the summary and the index, and close; no `end` means that the master was lost."""
        if end is None:
            text = "the log was closed without a message from the master: it crashed or was killed"
            self.event(RecordEvent(self._last_ns, "error", "master_lost", "recorder", text))
        elif end.rows > self._next:
            self._note_gap(end.rows, self._last_ns)
        if self._gate is not None:
            self._finish_gate(self._gate)
        self.flush()
        if end is not None and end.summary:
            self._attach(Attachment("summary.json", "application/json", end.summary))
        if attached := self._follow(lambda follower: follower.attachment()):
            self._attach(Attachment(REPORT_STATISTICS, "application/zlib", attached))
        counts = {"rows": str(self.rows), "rows_missing": str(self.missing)}
        if self._buses:
            counts |= {"frames": str(self.frames), "frames_missing": str(self.frames_missing)}
        if self._gate is not None:
            counts["rows_left_out"] = str(self.arrived - self.rows)
        self._writer.add_metadata("hilrt.end", counts)
        self._writer.finish()
        self._wait_for_sync()
        self._file.close()

    def _finish_gate(self, gate: Gate) -> None:
        for part in gate.finish():
            self._write(part)
        self._write_held()
        if self._next > self._written:
            self._note_pause(self._next, self._last_ns)
        if gate.shortened:
            text = "the buffer before a trigger was full, and shorter than requested"
            self.event(RecordEvent(self._last_ns, "warning", "record_buffer", "recorder", text))

    def abandon(self) -> None:
        """Close after an `OSError`, and keep the complete part."""
        self._wait_for_sync()
        with contextlib.suppress(OSError):  # it tries to write buffered data
            self._file.close()
        with contextlib.suppress(OSError):
            os.truncate(self.path, self._writer.whole)

    def _attach(self, file: Attachment) -> None:
        epoch = self._begin.epoch_ns
        self._writer.add_attachment(epoch, epoch, file.name, file.media_type, file.data)


def _sync(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # write errors are reported by the next write
        os.fsync(descriptor)
