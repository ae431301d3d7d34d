"""Texts and tables of the page as HTML, from a `Viewer`. No Bokeh, no I/O.

No state is shown by colour alone: each also has a shape and a word. All text of a session is
escaped.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hilrt.monitor.stream import Happening, Head, change_of
from hilrt.monitor.telemetry import (
    BondStatus,
    PeerStatus,
    RaisedFlag,
    Status,
    doing,
    message_of,
    not_passed,
    result_words,
    shown_values,
)
from hilrt.monitor.terminal import flag_words
from hilrt.monitor.viewer import Viewer
from hilrt.wording import (
    FOR_LACK,
    OWN_INTEGRATION,
    Told,
    event_text,
    gather_repeated,
    kind_of,
    number,
    reason_text,
    verdict_text,
    words,
)

SHAPES = {"good": "●", "unverified": "◆", "degraded": "▲", "unreliable": "■", "nothing": "✕"}
#: Kind of the lamp of a session that is `degraded` for lack of evidence.
LACKING = "lacking"
SHAPES[LACKING] = "△"
LEVELS = ("good", "unverified", "degraded", "unreliable")
#: Maximum causes of flags named, places named per cause, and reasons of a verdict; further ones are
#: counted.
MAX_CAUSES, MAX_PLACES, MAX_REASONS = 3, 2, 3


def text(value: object) -> str:
    """Value as text, escaped for HTML."""
    return html.escape(str(value))


def stated(unit: str) -> str:
    """Unit, escaped; empty for one that is not stated."""
    return text(unit.replace("?", ""))


#: Message of a waiting session on its terminal, and its text on the page with and without buttons.
AT_TERMINAL, HERE, NOT_HERE = "press Enter to arm", "press Arm", "press Enter at its terminal"


def on_page(content: str, head: Head | None) -> str:
    """Session's message reworded for the page, depending on whether it has command buttons."""
    arms = head is not None and "arm" in head.control
    return content.replace(AT_TERMINAL, HERE if arms else NOT_HERE)


class Lamp(NamedTuple):
    """State of the page's lamp: kind, word, and reasons, one line each."""

    kind: str
    word: str
    reasons: list[str]


#: Lamp's word before the first verdict; the session's state is shown beside it.
NO_VERDICT = "NO VERDICT YET"
#: States with a verdict.
WITH_VERDICT = ("RUNNING", "IMPAIRED", "STOPPING", "STOPPED")


def lamp(viewer: Viewer) -> Lamp:
    """Lamp that shows how far the results since the first tick can be trusted, with the reason.

    `present` shows the flags that are up now.
    """
    status = viewer.status
    if status is None:
        return Lamp("nothing", "NO DATA", ["nothing has been received from the session yet"])
    if viewer.silent and not viewer.ended:
        age = viewer.now - viewer.heard_at
        return Lamp("nothing", "NO DATA", [f"the session has been silent for {age:.0f} s"])
    if status.state in ("FAULT", "SAFE"):
        return Lamp("unreliable", status.state, [status.message])
    if status.state not in WITH_VERDICT or not status.verdict:
        return Lamp("nothing", NO_VERDICT, [on_page(message_of(status), viewer.head)])
    reasons = [reason_text(reason) for reason in status.reasons]
    if len(reasons) > MAX_REASONS:
        more = len(reasons) - MAX_REASONS + 1
        reasons = [*reasons[: MAX_REASONS - 1], f"and {more} more reasons"]
    kind = LACKING if told_verdict(status) != status.verdict else status.verdict
    return Lamp(kind, status.verdict.upper(), reasons)


def told_verdict(status: Status) -> str:
    """Verdict of a status, with its lack of evidence."""
    return verdict_text(status.verdict, status.evidence_lacking)


def estimates(viewer: Viewer) -> bool:
    """Whether the session's errors are estimated."""
    signals = viewer.head.signals if viewer.head is not None else []
    return any(signal.name.endswith(":estimated_error") for signal in signals)


def end_in_words(viewer: Viewer) -> str:
    """End of the session as text; empty while it runs."""
    status = viewer.status
    if status is None or not viewer.ended:
        return ""
    if status.state == "FAULT":
        return f"ended: fault, {status.message}"
    verdict = told_verdict(status)
    return f"ended: {status.state.lower()}" + (f", {verdict}" if verdict else "")


def present(viewer: Viewer) -> Lamp | None:
    """Lamp for current faults: flags, and the reason of an impaired session; None without data."""
    status, state = viewer.status, lamp(viewer)
    if status is None or state.word == "NO DATA" or status.state not in WITH_VERDICT:
        return None
    if viewer.ended:
        return Lamp("", "at its end", [causes_in_words(viewer.flags) or "no flags"])
    impaired = status.message if status.state == "IMPAIRED" else ""
    flags = [flag for flag in viewer.flags if f"alarm {flag.where}" != impaired]
    reasons = [part for part in (impaired, causes_in_words(flags)) if part]
    return Lamp("degraded", "now", reasons) if reasons else Lamp("good", "now", ["no flags"])


def causes_in_words(flags: Sequence[RaisedFlag]) -> str:
    """First causes with their first places, and the number of the others."""
    places: dict[str, list[str]] = {}
    for flag in flags:
        places.setdefault(flag.cause, []).append(flag.where)
    shown: list[RaisedFlag] = []
    for cause, where in list(places.items())[:MAX_CAUSES]:
        shown += (RaisedFlag(cause, place) for place in where[:MAX_PLACES])
        if len(where) > MAX_PLACES:
            shown.append(RaisedFlag(cause, f"+{len(where) - MAX_PLACES}"))
    more = len(places) - MAX_CAUSES
    return f"{flag_words(shown)} and {more} more" if more > 0 else flag_words(shown)


def lamp_html(viewer: Viewer) -> str:
    """Large lamp, with the current flags below it."""
    kind, word, reasons = lamp(viewer)
    judged = kind == LACKING or (kind in LEVELS and word == kind.upper())
    span = f" {FOR_LACK}" if kind == LACKING else ""
    if judged and not viewer.ended:
        span += ", so far" if span else " so far"
    if judged and estimates(viewer):
        reasons = [*reasons, OWN_INTEGRATION]
    lines = "".join(f"<span>{text(reason)}</span>" for reason in reasons if reason)
    now = present(viewer)
    below = ""
    if now is not None:
        shape = f'<span aria-hidden="true">{SHAPES.get(now.kind, "")}</span>'
        content = text(" · ".join(now.reasons))
        below = (
            f'<div class="now {now.kind}" role="status">{shape}<b>{text(now.word)}:</b> '
            f"<span>{content}</span></div>"
        )
    return (
        f'<div class="lamps"><div class="lamp {kind}">'
        f'<span class="shape" aria-hidden="true">{SHAPES[kind]}</span>'
        f'<span class="word" role="status">{text(word)}<small>{span}</small></span>'
        f'<div class="cause">{lines}</div></div>{below}</div>'
    )


def state_html(viewer: Viewer) -> str:
    """Name, state, time and timing of the session."""
    status = viewer.status
    if status is None:
        return '<div class="state"><span class="name">waiting for a session</span></div>'
    share = 100 * min(1.0, status.t / status.duration) if status.duration > 0 else 0.0
    late = status.lateness_us
    timing = f"{status.tick:,} steps"
    if late is not None:
        timing = (
            f"lateness {late.p50:.0f} µs median, {late.p99:.0f} p99, {late.max:.0f} max · "
            f"missed {status.missed:,} of {status.tick:,} ticks"
        )
    if status.rate_hz > 0:
        timing = f"{number(status.rate_hz)} Hz · {timing}"
    message = on_page(message_of(status), viewer.head)
    now = present(viewer)
    elsewhere = [*lamp(viewer).reasons, *(now.reasons if now is not None else ())]
    content = "" if message in elsewhere else text(message)
    shadow = ' <span class="badge">SHADOW: no correction acts</span>' if status.shadow else ""
    return (
        f'<div class="state"><span class="name">{text(status.session)}</span>'
        f'<span class="big">{text(status.state)}</span>{shadow}'
        f'<span class="time">{status.t:.1f}<small> / {status.duration:g} s</small></span>'
        f'<div class="bar"><i style="width:{share:.1f}%"></i></div>'
        f'<span class="soft">{timing}</span><span class="soft">{content}</span>'
        f"{_lines(doing(status))}{_results(status)}</div>"
    )


def _results(status: Status) -> str:
    """Number of results, and the newest that did not pass."""
    content = [result_words(status)] if status.results else []
    content += [f"{one.name}: {one.text}" for one in not_passed(status)]
    return _lines(content)


def _lines(content: Sequence[str]) -> str:
    return "".join(f'<span class="soft">{text(line)}</span>' for line in content)


def set_points_html(status: Status) -> str:
    """Table of the benches' inputs: demanded, sent and measured value, and the source of each."""
    if not status.set_points:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{text(name)} <span class="soft">{stated(point.unit)}</span>'
        f'<small class="soft">driven by {text(point.by)}</small></th>'
        f"<td>{number(point.demanded)}</td><td>{number(point.sent)}</td>"
        f"<td>{number(point.measured)}</td></tr>"
        for name, point in status.set_points.items()
    )
    return (
        '<table class="peers points"><thead><tr><th>set-point</th><th>demanded</th><th>sent</th>'
        "<th>measured</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


#: Number of values shown if the session file selects none.
MAX_VALUES = 8


def values_html(viewer: Viewer) -> str:
    """Set-points, and in large type the outputs that the session file selects, or the first."""
    status = viewer.status
    if status is None or not status.values:
        return '<p class="soft">Values come with the first steps.</p>'
    chosen = viewer.head.values if viewer.head is not None else []
    shown = list(shown_values(status.values, chosen).items())
    shown = shown if chosen else shown[:MAX_VALUES]
    cells = "".join(
        f'<div class="value"><span class="soft">{text(name)}</span><b>{number(value)}</b>'
        f'<span class="soft">{stated(status.units.get(name, ""))}</span></div>'
        for name, value in shown
    )
    return f'{set_points_html(status)}<div class="values">{cells}</div>'


# -- bonds ---------------------------------------------------------------------------------------

LEDGER = (
    ("exchange", "residual_energy_j"),
    ("tracking", "tracking_energy_j"),
    ("removed", "corrected_energy_j"),
)


def bonds_html(status: Status | None, head: Head | None = None) -> str:
    """Power and energy ledger of every bond; bars grow from the middle. Empty without bonds."""
    if status is None or not status.bonds:
        if head is not None and head.topology.bonds:
            return '<p class="soft">Bonds: figures come with the first steps.</p>'
        return ""
    return "".join(_bond(name, bond) for name, bond in status.bonds.items())


def _bond(name: str, bond: BondStatus) -> str:
    energies = [(label, float(getattr(bond, key))) for label, key in LEDGER]
    scale = max((abs(value) for _, value in energies if math.isfinite(value)), default=0.0)
    rows = "".join(_bar(label, value, scale) for label, value in energies)
    power = f"{number(bond.power_w)} W"
    return (
        f'<div class="bond"><div class="head"><b>{text(name)}</b><span>{power}</span></div>'
        f'<table class="ledger"><caption class="soft">energy, J</caption>{rows}</table></div>'
    )


def _bar(label: str, value: float, scale: float) -> str:
    share = 50 * abs(value) / scale if scale > 0 and math.isfinite(value) else 0.0
    side = "left:50%" if value >= 0 else f"left:{50 - share:.1f}%"
    sign = "plus" if value >= 0 else "minus"
    return (
        f'<tr><th scope="row">{label}</th><td class="track"><i class="{sign}" '
        f'style="{side};width:{share:.1f}%"></i></td><td class="num">{number(value)}</td></tr>'
    )


# -- peers ---------------------------------------------------------------------------------------


def peers_html(viewer: Viewer) -> str:
    """Link quality per subsystem, and its late policy."""
    status, head = viewer.status, viewer.head
    if status is None or not status.peers:
        return '<p class="soft">no subsystem yet</p>'
    late = {flag.where for flag in viewer.flags if flag.cause == "sample_late"}
    rows = "".join(_peer(n, p, n in late, head, status.tick) for n, p in status.peers.items())
    return (
        '<table class="peers"><thead><tr><th>subsystem</th><th>link</th><th>age,&nbsp;ms</th>'
        "<th>late ticks</th><th>lost</th><th>dropped</th><th>when late</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _peer(name: str, peer: PeerStatus, late: bool, head: Head | None, ticks: int) -> str:
    parts = {part.name: part for part in head.topology.subsystems} if head is not None else {}
    part = parts.get(name)
    policy = part.late_policy if part is not None else ""
    kind, word = ("degraded", "late") if late else ("good", "in time")
    if late and not peer.late:  # all answers arrived, but the master was late and skipped ticks
        word = "behind"
    share = f" ({100 * peer.late / ticks:.1f}&nbsp;%)" if ticks > 0 and peer.late else ""
    in_force = f"<b>{text(policy)} now</b>" if late and policy else text(policy)
    return (
        f'<tr><th scope="row">{text(name)}</th><td class="{kind}">{SHAPES[kind]} {word}</td>'
        f"<td>{number(peer.age_ms, 3)}</td><td>{peer.late:,}{share}</td><td>{peer.lost:,}</td>"
        f"<td>{peer.dropped:,}</td><td>{in_force}</td></tr>"
    )


LEVEL_MARKS = {"warning": "▲", "error": "■", "fatal": "■"}
SEVERITIES = ("debug", "info", "warning", "error", "fatal")
#: Number of rows in the table, the newest.
MAX_ROWS = 200


class EventRow(NamedTuple):
    """Row of the page's table: events of one kind, or all changes of one flag.

    `number` is that of its newest event; `key` stays the same when events are added to the row.
    """

    number: int
    t: str
    level: str
    text: str
    acknowledged: str
    key: str


def event_rows(viewer: Viewer, alarms_only: bool) -> list[EventRow]:
    """Rows, newest first; with `alarms_only`, only unacknowledged ones above level info."""
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
    return rows[:MAX_ROWS]


MARKS = set(LEVEL_MARKS.values())


def _row(events: Sequence[Happening], content: str, key: str) -> EventRow:
    newest, level = events[-1], max((event.level for event in events), key=SEVERITIES.index)
    open_ones = [event for event in events if not event.acknowledged]
    return EventRow(
        newest.number,
        f"{newest.t:.3f}",
        f"{LEVEL_MARKS.get(level, '')} {level}".strip(),
        content,
        "" if open_ones else newest.acknowledged,
        key,
    )


def flag_in_words(viewer: Viewer, flag: RaisedFlag) -> str:
    """Count and duration of a flag, and whether it is up, as text."""
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
    """Events of one kind in one line: the worst event, their number, and the time of the first."""
    records = (Told(one.t, one.level, one.cause, "", in_words(one), one.value) for one in events)
    return gather_repeated(records)[0].line


def in_words(event: Happening) -> str:
    """Event with its place, in one line."""
    cause, content = event.cause, event.text
    if content.startswith(f"{cause} "):  # a flag's text includes the place
        return words(cause) + content.removeprefix(cause)
    return event_text(event.source, content)


def columns(rows: Iterable[EventRow]) -> dict[str, list[object]]:
    """Rows as a dictionary of columns."""
    table = list(rows)
    return {key: [getattr(row, key) for row in table] for key in EventRow._fields}
