"""An event as an entry of a viewer's log panel: the JSON form of ``foxglove.Log``. No I/O."""

from __future__ import annotations

import json
from typing import Any

from hilrt.record.messages import LEVELS, Level

NAME = "foxglove.Log"
SCHEMA: dict[str, Any] = {
    "title": NAME,
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


def entry(
    log_time: int,
    t: float,
    level: Level,
    cause: str,
    source: str,
    text: str,
    until: float | None = None,
) -> bytes:
    """One entry.

    Parameters
    ----------
    log_time : int
        Wall clock, ns since 1970.
    t, until : float
        Session time of the event, and of its end if it lasted, s.
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
    return json.dumps(body, ensure_ascii=False).encode()
