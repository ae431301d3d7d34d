"""Writes a log of our format from blocks of signals, CAN frames and events.

The recorder writes one row of all topics per tick; this writes topics with times of their own, as
other tools' files have them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hilrt.record import cdr, logged_frame
from hilrt.record.logged_frame import LoggedFrame
from hilrt.record.mcap_writer import McapWriter, RowLayout
from hilrt.record.messages import Signal, Topic
from hilrt.record.reader import Block
from hilrt.version import VERSION


class LogWriter:
    """One log file.

    Parameters
    ----------
    path : Path
        New file.
    session : str
        What the log is called.
    epoch_ns : int
        Wall clock (ns since 1970, UTC) at time 0 of the blocks.
    metadata : mapping, optional
        Further facts.
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
        """Keep a file in the log."""
        self._writer.add_attachment(self.epoch_ns, self.epoch_ns, name, media_type, data)

    def close(self) -> None:
        """Write index and summary."""
        self._writer.add_metadata("hilrt.end", {"rows": str(self.rows), "rows_missing": "0"})
        self._writer.finish()
        self._file.close()

    def abandon(self) -> None:
        """Close without an end, after an error."""
        self._file.close()

    def _register(self, topic: Topic) -> int:
        text = cdr.schema_text(topic).encode()
        schema = self._writer.register_schema(cdr.schema_name(topic.name), "ros2msg", text)
        signals = json.dumps([entry(s) for s in topic.signals], ensure_ascii=False)
        return self._writer.register_channel(f"/{topic.name}", "cdr", schema, {"signals": signals})


def entry(signal: Signal) -> list[Any]:
    """A signal as the channel's metadata keep it."""
    return [signal.name, signal.unit, signal.source, signal.comment]
