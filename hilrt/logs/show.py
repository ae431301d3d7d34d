"""A log's contents as text, JSON or rows, for `hilrt log info`, `ls` and `cat`."""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from hilrt.errors import ConfigError, RecordError
from hilrt.files.formats import parse_json
from hilrt.logs.columns import between, tables
from hilrt.logs.export_csv import every, seconds, wanted_topics, write_head, write_rows
from hilrt.logs.log_file import Contents, LogFile, TopicContents
from hilrt.logs.open_source import open_source
from hilrt.logs.source import Source, chosen
from hilrt.record.logged_frame import FrameFlag
from hilrt.record.messages import EVENTS, Topic


def as_json(contents: Contents) -> dict[str, Any]:
    """Everything that `info` and `ls` show, as plain types for JSON; times in s."""
    return {
        "path": str(contents.path),
        "bytes": contents.size,
        "bytes_uncompressed": contents.uncompressed,
        "chunks": contents.chunks,
        "epoch_ns": contents.epoch_ns,
        "start_s": contents.start_ns / 1e9,
        "end_s": contents.end_ns / 1e9,
        "damage": contents.damage,
        "topics": [
            {
                "name": topic.name,
                "messages": topic.messages,
                "rate_hz": rate(contents, topic),
                "schema": topic.schema,
                "signals": [
                    {"name": s.name, "unit": s.unit, "source": s.source, "comment": s.comment}
                    for s in topic.signals
                ],
            }
            for topic in contents.topics
        ],
        "attachments": [
            {"name": name, "media_type": kind, "bytes": size}
            for name, kind, size in contents.attachments
        ],
        "metadata": contents.metadata,
    }


def rate(contents: Contents, topic: TopicContents) -> float:
    """Messages of a topic per second of the log, Hz."""
    duration = (contents.end_ns - contents.start_ns) / 1e9
    return (topic.messages - 1) / duration if topic.messages > 1 and duration > 0.0 else 0.0


def info_lines(contents: Contents) -> Iterator[str]:
    """Description of the log, line by line."""
    started = datetime.datetime.fromtimestamp(
        (contents.epoch_ns + contents.start_ns) / 1e9, datetime.UTC
    )
    ratio = contents.uncompressed / contents.size if contents.size else 0.0
    span = f"{seconds(contents.start_ns)} s to {seconds(contents.end_ns)} s"
    yield f"log          {contents.path}"
    yield f"session      {contents.metadata.get('session', '–')}"
    yield f"written by   hilrt {contents.metadata.get('hilrt', '–')}"
    yield f"began        {started:%Y-%m-%d %H:%M:%S.%f} UTC"
    yield f"time         {span}"
    size = f"{contents.size:,} bytes in {contents.chunks:,} chunks"
    yield f"size         {size}; compression {ratio:.1f}:1"
    yield f"complete     {'no: ' + contents.damage if contents.damage else 'yes'}"
    missing = contents.metadata.get("rows_missing", "0")
    if missing != "0":
        yield f"rows missing {missing}"
    if contents.metadata.get("rows_left_out"):
        yield f"left out     {contents.metadata['rows_left_out']} rows, without a trigger"
    if contents.metadata.get("frames_missing", "0") != "0":
        yield f"CAN frames missing {contents.metadata['frames_missing']}"
    yield "topics"
    width = max((len(topic.name) for topic in contents.topics), default=0)
    for topic in contents.topics:
        what = f"{len(topic.signals)} signals" if topic.signals else topic.schema
        yield (
            f"  {topic.name:{width}}  {topic.messages:>10,}  "
            f"{rate(contents, topic):>9.2f} Hz  {what}"
        )
    if contents.attachments:
        yield "attachments"
        for name, kind, length in contents.attachments:
            yield f"  {name}  {length:,} bytes  {kind}"


def list_lines(contents: Contents, patterns: Sequence[str] = ()) -> Iterator[str]:
    """Yield one line per signal: name, unit, topic, source and comment, separated by tabs.

    `ConfigError` for a log without signals.
    """
    topics: Sequence[Topic | TopicContents] = contents.topics
    if not any(topic.signals for topic in topics):  # hilrt's logs list signals in the index
        with contextlib.closing(open_source(contents.path)) as source:
            topics = source.topics()
    names = [s.name for topic in topics for s in topic.signals]
    if not names:
        raise ConfigError(f"{contents.path}: has no signals; `hilrt log info` lists its topics")
    wanted = set(chosen(names, patterns))
    for topic in topics:
        for s in topic.signals:
            if s.name in wanted:
                yield "\t".join([s.name, s.unit or "-", topic.name, s.source, s.comment]).rstrip()


def cat(
    source: Source,
    file: TextIO,
    patterns: Sequence[str],
    span_ns: tuple[int, int],
    *,
    step: int = 1,
    limit: int | None = None,
) -> int:
    """Write signals as CSV, piece by piece; return the number of rows."""
    topics = source.topics()
    names = [signal.name for topic in topics for signal in topic.signals]
    if not names:
        raise ConfigError(f"{source.path}: has no signals; --frames shows CAN frames")
    wanted = set(chosen(names, patterns))
    topics = wanted_topics(topics, wanted)
    write_head(file, [signal for topic in topics for signal in topic.signals])
    rows = tables(between(source.blocks(wanted), *span_ns), topics)
    return write_rows(file, every(rows, step) if step > 1 else rows, limit)


def cat_events(path: Path, file: TextIO, contents: Contents, span_ns: tuple[int, int]) -> int:
    """Write events as one JSON object per line, with ``t`` in s."""
    log = LogFile(path)
    count = 0
    for message in log.messages():
        t_ns = message.log_time - contents.epoch_ns
        if log.channels[message.channel].topic == EVENTS and span_ns[0] <= t_ns <= span_ns[1]:
            try:
                body = dict(parse_json(message.data))
            except (ValueError, TypeError) as error:
                raise RecordError(
                    f"{path}: the event at {seconds(t_ns)} s cannot be read: {error}"
                ) from None
            keep = {k: body[k] for k in ("t", "until", "cause", "name", "message") if k in body}
            file.write(json.dumps(keep, ensure_ascii=False) + "\n")
            count += 1
    return count


def cat_frames(source: Source, file: TextIO, span_ns: tuple[int, int]) -> int:
    """Write CAN frames as text, with times in s since the start of the log."""
    source.read_head()
    count = 0
    for frame in source.frames():
        t_ns = source.since_start(frame)
        if not span_ns[0] <= t_ns <= span_ns[1]:
            continue
        width = 8 if frame.flags & FrameFlag.EXTENDED else 3
        kinds = [
            k.name.lower() for k in FrameFlag if frame.flags & k and k.name and k.name != "EXTENDED"
        ]
        data = " ".join(f"{byte:02X}" for byte in frame.data)
        line = (
            f"{seconds(t_ns)} {frame.bus or '-'} {frame.identifier:0{width}X} [{frame.dlc}] {data}"
        )
        file.write(" ".join([line, *kinds]).rstrip() + "\n")
        count += 1
    return count
