"""Sources for MCAP files: logs of hilrt, and files of other tools."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from mcap.opcode import Opcode

from hilrt.errors import RecordError
from hilrt.files.formats import parse_json
from hilrt.logs.columns import columns_of
from hilrt.logs.log_file import LogFile
from hilrt.logs.source import Source
from hilrt.record.logged_frame import LATEST_NS, LoggedFrame
from hilrt.record.messages import REPORT_STATISTICS, Attachment, Signal, Topic
from hilrt.record.reader import Block, LogChannel, LogStream
from hilrt.record.record_file import Chunk, RecordFile, read_metadata


class McapSource(Source):
    """Recorded session, or imported file."""

    kind = "hilrt log"

    def topics(self) -> list[Topic]:
        """Topics of the log, which its first chunks list."""
        from hilrt.logs.log_file import read_contents

        try:
            contents = read_contents(self.path)
        except RecordError as error:
            raise self.fail(str(error).removeprefix(f"{self.path}: ")) from None
        self._note_epoch(contents.metadata)
        return [Topic(entry.name, entry.signals) for entry in contents.topics if entry.signals]

    def blocks(self, wanted: Collection[str] | None = None) -> Iterator[Block]:
        """Rows, about a second of each topic in turn."""
        stream = LogStream(self.path)
        if not self.topics():
            return
        yield from columns_of(stream.blocks(), wanted)
        if stream.damage:
            self._note_damage(stream.damage)
        self._note_epoch(stream.metadata)

    def _note_epoch(self, metadata: Mapping[str, str]) -> None:
        known = metadata.get("epoch_ns")
        self.epoch_ns = int(known) if known else None

    def frames(self) -> Iterator[LoggedFrame]:
        """Frames on all buses."""
        log = LogFile(self.path)
        yield from log.frames()
        if log.damage:
            self._note_damage(log.damage)

    def _note_damage(self, damage: str) -> None:
        note = f"its end: the log is incomplete: {damage}"
        if note not in self.notes:
            self.notes.append(note)

    def attachments(self) -> list[Attachment]:
        """Session file, databases, summary, …"""
        from hilrt.logs.log_file import read_attachments

        return [a for a in read_attachments(self.path) if a.name != REPORT_STATISTICS]

    def metadata(self) -> dict[str, str]:
        """Metadata of the session."""
        from hilrt.logs.log_file import read_contents

        return read_contents(self.path).metadata


#: Maximum number of signals in a file; with more, its JSON keys are probably data.
MAX_SIGNALS = 10_000
#: Longest list that is read; longer ones are images, scans and the like.
MAX_ELEMENTS = 64
#: Deepest nesting of fields.
MAX_DEPTH = 16
#: Messages out of order by less than this are sorted by time, ns.
LAG_NS = 1_000_000_000
#: Messages collected before they become blocks.
MESSAGES = 8192

#: Message: time since 1970 or since the tool's own zero [ns], and values by signal name.
_Row = tuple[int, dict[str, float]]


def is_foreign(path: Path) -> bool:
    """Whether an MCAP file has messages but lacks the first record of a log of hilrt."""
    beginnings = (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE)

    def inspect(kind: int, body: bytes | Chunk) -> list[bool]:
        if isinstance(body, Chunk) or kind in beginnings:
            return [True]
        ours = kind == Opcode.METADATA and "epoch_ns" in read_metadata(body).metadata
        return [False] if ours else []

    try:
        return next(RecordFile(path).read(inspect), False)
    except RecordError:
        return False  # reported when it is read


class ForeignMcapSource(Source):
    """MCAP file written by another tool."""

    kind = "MCAP file of another tool"

    def __init__(self, path: Path, label: str = "") -> None:
        super().__init__(path, label)
        self._topics: list[Topic] | None = None

    def topics(self) -> list[Topic]:
        """Topics with numbers; the whole file is read to find them."""
        if self._topics is None:
            self._topics = self._find_topics()
        return self._topics

    def blocks(self, wanted: Collection[str] | None = None) -> Iterator[Block]:
        """Rows in the order of time."""
        channels = {topic.name: LogChannel(topic.name, topic.signals) for topic in self.topics()}
        epoch_ns = self.epoch_ns or 0
        pending: list[tuple[str, _Row]] = []
        done_ns = newest_ns = 0
        for name, row in self._rows(Counter()):
            if row[0] < done_ns:
                raise self.fail(
                    f"the times of topic {name!r} decrease by more than {LAG_NS / 1e9:g} s; "
                    "sort the messages by log time"
                )
            newest_ns = max(newest_ns, row[0])
            pending.append((name, row))
            if len(pending) >= MESSAGES and newest_ns - LAG_NS > pending[0][1][0]:
                done_ns = newest_ns - LAG_NS
                ready = [one for one in pending if one[1][0] < done_ns]
                pending = [one for one in pending if one[1][0] >= done_ns]
                yield from _blocks(ready, channels, epoch_ns, wanted)
        yield from _blocks(pending, channels, epoch_ns, wanted)

    def _find_topics(self) -> list[Topic]:
        """Find the numbers in all messages by name, and note the parts left out."""
        names: dict[str, dict[str, None]] = {}
        skipped: Counter[str] = Counter()
        first_ns = None
        for name, (time_ns, values) in self._rows(skipped):
            first_ns = time_ns if first_ns is None else min(first_ns, time_ns)
            names.setdefault(name, {}).update(dict.fromkeys(values))
            if sum(map(len, names.values())) > MAX_SIGNALS:
                raise self.fail(f"has more than {MAX_SIGNALS:,} numbers with different names")
        self.notes += [f"{what}: {n} messages left out" for what, n in skipped.items()]
        found = [
            Topic(name, [Signal(one, "", name) for one in signals])
            for name, signals in names.items()
            if signals
        ]
        if not found:
            left_out = "; ".join(self.notes) or "it has no messages"
            raise self.fail(
                f"has no signals that can be read ({left_out}); it was not written by hilrt; in "
                "MCAP files of other tools only numbers in JSON can be read: convert it, or "
                "export it as MF4, CSV or Parquet"
            )
        self.epoch_ns = first_ns
        return found

    def _rows(self, skipped: Counter[str]) -> Iterator[tuple[str, _Row]]:
        """Yield topic and numbers of each message; count unreadable ones by kind."""
        file = LogFile(self.path)
        try:
            for message in file.messages():
                channel = file.channels[message.channel]
                name = channel.topic.removeprefix("/")
                if channel.message_encoding != "json":
                    encoding = channel.message_encoding or "no encoding"
                    skipped[f"topic {name!r}, in {encoding}, not JSON"] += 1
                    continue
                if message.log_time > LATEST_NS:
                    raise self.fail(
                        f"topic {name!r} has a time that is a century or more from 1970"
                    )
                try:
                    values = dict(_numbers(name, parse_json(message.data)))
                except ValueError:
                    skipped[f"topic {name!r}, declared as JSON, but invalid"] += 1
                    continue
                yield name, (message.log_time, values)
        except RecordError as error:
            raise self.fail(str(error).removeprefix(f"{self.path}: ")) from None
        note = f"its end: the file is incomplete: {file.damage}"
        if file.damage and note not in self.notes:
            self.notes.append(note)


def _numbers(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, float]]:
    """Numbers and booleans in JSON data, with their names; text and null are left out."""
    if isinstance(value, (int, float)):
        try:
            yield name, float(value)
        except OverflowError:
            yield name, math.inf if value > 0 else -math.inf
    elif depth < MAX_DEPTH and isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(f"{name}.{key}", inner, depth + 1)
    elif depth < MAX_DEPTH and isinstance(value, list) and len(value) <= MAX_ELEMENTS:
        for k, inner in enumerate(value):
            yield from _numbers(f"{name}[{k}]", inner, depth + 1)


def _blocks(
    rows: list[tuple[str, _Row]],
    channels: dict[str, LogChannel],
    epoch_ns: int,
    wanted: Collection[str] | None,
) -> Iterator[Block]:
    """Yield a block of each topic; a field missing in a message becomes NaN."""
    by_topic: dict[str, list[_Row]] = {}
    for name, row in rows:
        by_topic.setdefault(name, []).append(row)
    for name, own in by_topic.items():
        if name not in channels:
            continue
        own.sort(key=lambda row: row[0])
        times = np.array([time_ns - epoch_ns for time_ns, _ in own], np.int64)
        signals = channels[name].signals
        values = np.array([[row.get(s.name, math.nan) for s in signals] for _, row in own])
        yield from columns_of([Block(channels[name], times, values)], wanted)
