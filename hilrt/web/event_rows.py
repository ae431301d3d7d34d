"""Events as rows of the page's table: what repeats, and a flag that comes and goes, is one row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hilrt.monitor.stream import Happening, change_of
from hilrt.monitor.telemetry import RaisedFlag
from hilrt.monitor.viewer import Viewer
from hilrt.web.panels import on_page
from hilrt.wording import event_text, gather_repeated, kind_of, number, words

LEVEL_MARKS = {"warning": "▲", "error": "■", "fatal": "■"}
LEVELS = ("debug", "info", "warning", "error", "fatal")
#: Rows of the table; the newest.
MAX_ROWS = 200


class EventRow(NamedTuple):
    """Events of one kind, or all changes of one flag, as the page's table shows them.

    `number` is that of the newest event in it; `key` stays the same when that changes.
    """

    number: int
    t: str
    level: str
    text: str
    acknowledged: str
    key: str


def event_rows(viewer: Viewer, alarms_only: bool, limit: int = MAX_ROWS) -> list[EventRow]:
    """Newest first; with `alarms_only` what is more than information and not acknowledged."""
    flags: dict[RaisedFlag, list[Happening]] = {}
    kinds: dict[tuple[str, ...], list[Happening]] = {}
    for event in viewer.events.values():
        if change_of(event) is None:
            kind = kind_of(event.level, event.cause, event.source, event.text)
            kinds.setdefault(kind, []).append(event)
        else:
            flags.setdefault(RaisedFlag(event.cause, event.source), []).append(event)
    rows = [
        _row(events, on_page(repeated_in_words(events), viewer.head), str(events[0].number))
        for events in kinds.values()
    ]
    rows += [
        _row(changes, flag_in_words(viewer, flag), f"{flag.cause} {flag.where}")
        for flag, changes in flags.items()
    ]
    rows.sort(key=lambda row: -row.number)
    if alarms_only:
        rows = [row for row in rows if row.level[0] in MARKS and not row.acknowledged]
    return rows[:limit]


MARKS = set(LEVEL_MARKS.values())


def _row(events: Sequence[Happening], said: str, key: str) -> EventRow:
    newest, level = events[-1], max((event.level for event in events), key=LEVELS.index)
    open_ones = [event for event in events if not event.acknowledged]
    return EventRow(
        newest.number,
        f"{newest.t:.3f}",
        f"{LEVEL_MARKS.get(level, '')} {level}".strip(),
        said,
        "" if open_ones else newest.acknowledged,
        key,
    )


def flag_in_words(viewer: Viewer, flag: RaisedFlag) -> str:
    """Count and duration of a flag, and whether it is up, in words."""
    spans = viewer.flag_spans.of(flag)
    name = f"{words(flag.cause)}: {flag.where}" if flag.where else words(flag.cause)
    if spans is None:
        return name
    parts = [name]
    if spans.count > 1:
        parts.append(f"{spans.count:,} times since {spans.first:.3f} s")
    if spans.seconds > 0.0:
        parts.append(f"{number(spans.seconds)} s" + (" in all" if spans.count > 1 else ""))
    if spans.since is not None:
        parts.append(f"up since {spans.since:.3f} s")
    return ", ".join(parts)


def repeated_in_words(events: Sequence[Happening]) -> str:
    """Events of one kind in one line: the largest of them, and how often since when."""
    said = ((one.t, one.level, one.cause, "", in_words(one)) for one in events)
    return gather_repeated(said)[0].line


def in_words(event: Happening) -> str:
    """An event with its place, in one line."""
    cause, said = event.cause, event.text
    if said.startswith(f"{cause} "):  # of a flag the text holds the place
        return words(cause) + said.removeprefix(cause)
    return event_text(event.source, said)


def columns(rows: Iterable[EventRow]) -> dict[str, list[object]]:
    """Rows as columns by name."""
    table = list(rows)
    return {key: [getattr(row, key) for row in table] for key in EventRow._fields}
