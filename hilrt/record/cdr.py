"""Rows of float64 as CDR messages with a ``ros2msg`` schema, which MCAP viewers read.

A record is a 4-byte header and the array's bytes, so it is bit-exact. With nested types, one per
subsystem, a viewer shows ``engine.torque`` of the topic ``outputs`` as ``/outputs.engine.torque``.
Field names are restricted to lower case, digits and single underscores; the exact signal names are
kept as JSON in the channel's metadata.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

from hilrt.record.messages import LEVELS, Level, Signal, Topic

#: Header of little-endian CDR without options. Float64 fields after it need no padding.
HEADER = b"\x00\x01\x00\x00"
PACKAGE = "hilrt"
_RULE = "=" * 80


def schema_name(topic: str) -> str:
    """Name of the topic's message type."""
    return f"{PACKAGE}/msg/{_type(topic)}"


def schema_text(topic: Topic) -> str:
    """Message definition of the topic: one nested type per subsystem, fields in row order."""
    root: list[str] = []
    nested: list[str] = []
    groups: set[str] = set()
    paths = [_path(topic.name, signal) for signal in topic.signals]
    # Only adjacent signals share a type, so that the fields keep the order of the row.
    for group, run in itertools.groupby(zip(paths, topic.signals, strict=True), lambda p: p[0][0]):
        field = _unique(group, groups)
        kind = _type(f"{topic.name}_{field}")
        root.append(f"{PACKAGE}/{kind} {field}")
        names: set[str] = set()
        lines = [f"{_RULE}\nMSG: {PACKAGE}/{kind}"]
        for (_, leaf), signal in run:
            lines.append(f"float64 {_unique(leaf, names)}{_comment(signal)}")
        nested.append("\n".join(lines))
    return "\n".join([*root, *nested]) + "\n"


def field_paths(topic: Topic) -> list[str]:
    """Paths at which viewers find each signal of the topic: ``subsystem.field``."""
    text = schema_text(topic)
    root, *nested = text.split(_RULE)
    groups = [line.split()[1] for line in root.splitlines() if line]
    paths = []
    for group, block in zip(groups, nested, strict=True):
        fields = [line.split()[1] for line in block.splitlines() if line.startswith("float64 ")]
        paths += [f"{group}.{field}" for field in fields]
    return paths


def _path(topic: str, signal: Signal) -> tuple[str, str]:
    name = signal.name.removesuffix(f":{topic}")
    group, *rest = re.split(r"[.:]", name, maxsplit=1)
    return (_field(group), _field(rest[0])) if rest else ("session", _field(group))


def _field(name: str) -> str:
    field = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return field if field[:1].isalpha() else f"x_{field}".rstrip("_")


def _type(name: str) -> str:
    return "".join(part.capitalize() for part in _field(name).split("_"))


def _unique(name: str, taken: set[str]) -> str:
    candidates = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(2)))
    chosen = next(c for c in candidates if c not in taken)
    taken.add(chosen)
    return chosen


def _comment(signal: Signal) -> str:
    text = " ".join(f"{signal.name} [{signal.unit or '-'}]".split())
    return f"  # {text}"


def signal_slices(topics: Sequence[Topic]) -> list[slice]:
    """Slice of the row that belongs to each topic."""
    ends = list(itertools.accumulate(len(topic.signals) for topic in topics))
    return [slice(end - len(t.signals), end) for end, t in zip(ends, topics, strict=True)]


# Events as entries of a viewer's log panel: ``foxglove.Log`` as JSON. No I/O.

LOG_NAME = "foxglove.Log"
LOG_SCHEMA: dict[str, Any] = {
    "title": LOG_NAME,
    "type": "object",
    "properties": {
        "timestamp": {
            "type": "object",
            "title": "time",
            "properties": {"sec": {"type": "integer"}, "nsec": {"type": "integer"}},
        },
        "level": {"type": "integer"},
        "message": {"type": "string"},
        "name": {"type": "string"},
        "cause": {"type": "string"},
        "t": {"type": "number"},
    },
}


def log_entry(
    log_time: int,
    t: float,
    level: Level,
    cause: str,
    source: str,
    text: str,
    until: float | None = None,
    value: float | None = None,
) -> bytes:
    """Entry of an event.

    Parameters
    ----------
    log_time : int
        Wall clock, ns since 1970.
    t, until : float
        Session time of the event, and of its end if it lasted, s.
    value : float
        As in `RecordEvent`.
    """
    body: dict[str, Any] = {
        "timestamp": {"sec": log_time // 10**9, "nsec": log_time % 10**9},
        "level": LEVELS.get(level, LEVELS["info"]),
        "message": text,
        "name": source,
        "file": "",
        "line": 0,
        "cause": cause,
        "t": t,
    }
    if until is not None:
        body["until"] = until
    if value is not None:
        body["value"] = value
    return json.dumps(body, ensure_ascii=False).encode()
