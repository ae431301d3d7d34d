"""Status as text for the terminal: a panel that fits it, or one line."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from hilrt.monitor.closing_table import styled_verdict
from hilrt.monitor.telemetry import (
    EventStatus,
    RaisedFlag,
    Status,
    alarm_order,
    alarm_words,
    doing,
    message_of,
    not_passed,
    result_words,
)
from hilrt.wording import Told, gather_repeated, number, verdict_text, words

MAX_VALUES, MAX_SET_POINTS, MAX_ALARMS = 12, 8, 3
#: Width of the column of set-points' names, characters.
SET_POINT_WIDTH = 24
#: Maximum number of events shown, and of lines for flags, for the message and for the keys.
MAX_EVENTS, MAX_FLAG_LINES, MAX_MESSAGE_LINES, MAX_KEY_LINES = 5, 4, 2, 3
#: Number of events that take lines from the values, and number of lines that values keep.
KEPT_EVENTS, KEPT_LINES = 3, 6
#: Gap between the panel's halves and between a table's columns, width of a value, characters.
GAP, COLUMN_GAP, VALUE_WIDTH = 3, 2, 8
#: Height of a panel without a limit, and of a panel's frame, lines.
UNLIMITED, FRAME = 100, 2


def live_view(
    status: Status,
    line: str = "",
    traces: Traces | None = None,
    *,
    height: int = UNLIMITED,
    events: Sequence[EventStatus] = (),
    silent_s: float = 0.0,
) -> RenderableType:
    """Panel to be redrawn while a session runs.

    `line` is the bottom line; `traces` are plotted beside the values. If `height` lines are not
    enough, some values and `events` are left out. `silent_s` [s] is the time since the session's
    last message, 0 while that is short; otherwise the panel states that its data are old.
    """
    foot: list[RenderableType] = [_Cut(alarm, 1) for alarm in _alarms(status)]
    foot.append(_Cut(_flags(others(status.flags)), MAX_FLAG_LINES))
    foot += [_Cut(Text(action), 1) for action in doing(status)]
    if results := result_words(status):
        foot.append(Text(results))
        for result in not_passed(status):
            foot.append(_Cut(Text(f"{result.name}: {result.text}", style="yellow"), 1))
    if status.message:
        foot.append(_Cut(Text(message_of(status), style="bold"), MAX_MESSAGE_LINES))
    if line:
        foot.append(_Cut(Text(line, style="dim"), MAX_KEY_LINES))
    head = Group(_progress(status), _timing(status), Text())
    body = Group(*_set_points(status), _Body(status, traces))
    fitted = _Fitted(head, body, gathered(events), Group(*foot), height - FRAME)
    title = Text.assemble((status.session, "bold"), "  ", _state(status, silent_s))
    return Panel(fitted, title=title, title_align="left", box=box.ROUNDED)


def state_word(status: Status, silent_s: float = 0.0) -> str:
    """State in words, with shadow mode, and with the time without data [s] if that is not 0."""
    shadow = ", shadow: no correction acts" if status.shadow else ""
    if silent_s > 0.0:
        return f"NO DATA for {silent_s:.0f} s (was {status.state}{shadow})"
    return f"{status.state}{shadow}"


class _Cut:
    """First lines of a renderable."""

    def __init__(self, part: RenderableType, lines: int) -> None:
        self._part, self._lines = part, lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        options = options.update(height=None)
        for line in console.render_lines(self._part, options)[: max(0, self._lines)]:
            yield from line
            yield Segment.line()


class _Body:
    """Values beside bonds and peers, with names shortened to the available width."""

    def __init__(self, status: Status, traces: Traces | None) -> None:
        self._status, self._traces = status, traces

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        status, width = self._status, options.max_width
        narrow = width // 7  # for the names on the right
        bonds: list[RenderableType] = [_bonds(status, narrow), Text()] if status.bonds else []
        right = Group(*bonds, _peers(status, narrow))
        used = Measurement.get(console, options, right).maximum + GAP
        units = max((len(status.units.get(name, "")) for name in status.values), default=0)
        columns = [VALUE_WIDTH, max(units, len("unit"))]
        columns += [] if self._traces is None else [LENGTH]
        room = width - used - sum(columns) - COLUMN_GAP * len(columns)
        left = _values(status, self._traces, room)
        body = Table.grid(padding=(0, GAP), expand=True)
        body.add_column(ratio=1)
        body.add_column()
        body.add_row(left, right)
        yield body


class _Fitted:
    """Head and foot in full, with the part between them cut to the remaining lines."""

    def __init__(
        self,
        head: RenderableType,
        body: RenderableType,
        events: list[str],
        foot: RenderableType,
        height: int,
    ) -> None:
        self._parts, self._events, self._height = (head, body, foot), events, height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        options = options.update(height=None)
        used = [len(console.render_lines(part, options)) for part in self._parts]
        head, body, foot = self._parts
        room = self._height - used[0] - used[2] - 1
        kept = max(room - used[1] - 1, min(KEPT_EVENTS, (room - KEPT_LINES) // 2))
        lines = max(0, min(MAX_EVENTS, len(self._events), kept))
        if lines:  # with an empty line above
            room -= lines + 1
        yield head
        yield _Cut(body, room)
        yield Text()
        if lines:
            for event in self._events[-lines:]:
                yield Text(event, style="dim", no_wrap=True, overflow="ellipsis")
            yield Text()
        yield foot


def plain_line(status: Status, silent_s: float = 0.0) -> str:
    """Status in one line."""
    share = f" ({100 * status.t / status.duration:.0f} %)" if status.duration > 0 else ""
    word = state_word(status, silent_s)
    parts = [f"{status.session}: {word}"]
    if status.values:  # there has been a tick
        parts.append(f"{status.t:.1f} of {status.duration:g} s{share}")
    if status.rate_hz > 0:
        parts.append(f"{number(status.rate_hz)} Hz")
    if status.lateness_us is not None:
        parts.append(f"late p99 {status.lateness_us.p99:.0f} µs")
        parts.append(f"missed {status.missed} of {status.tick}")
    if status.values:
        parts.append(f"flags: {flag_words(status.flags) or 'none'}")
    if status.verdict:
        found = verdict_text(status.verdict, status.evidence_lacking)
        parts.append(f"verdict so far {found}")
    parts += [f"{name} at {step}" for name, step in status.sequences.items()]
    if results := result_words(status):
        parts.append(results)
    if status.message:
        parts.append(message_of(status))
    return " | ".join(parts)


def flag_words(flags: Sequence[RaisedFlag]) -> str:
    """Flags as text, grouped by cause: ``sample late (engine.torque, engine.speed)``."""
    places: dict[str, list[str]] = {}
    for flag in flags:
        places.setdefault(flag.cause, []).append(flag.where)
    return ", ".join(
        f"{words(cause)} ({', '.join(w for w in where if w)})" if any(where) else words(cause)
        for cause, where in places.items()
    )


def gathered(events: Sequence[EventStatus]) -> list[str]:
    """Events as lines; events that differ only in numbers share a line."""
    kinds = gather_repeated(Told(one.t, "", "", "", one.text, one.value) for one in events)
    return [event_line(one.last_t, one.line) for one in kinds]


def event_line(t: float, text: str) -> str:
    """Line of an event at session time `t` [s]."""
    return f"{t:.1f} s  {text}"


def closing_line(status: Status) -> str:
    """The end of a session, in one line."""
    parts = [status.state, f"at {status.t:.1f} s"]
    found = verdict_text(status.verdict, status.evidence_lacking)
    parts += [part for part in (found, status.message) if part]
    return f"{status.session}: {', '.join(parts)}"


def _state(status: Status, silent_s: float) -> tuple[str, str]:
    styles = {"RUNNING": "green", "IMPAIRED": "yellow", "FAULT": "bold red"}
    style = "bold red" if silent_s > 0.0 else styles.get(status.state.upper(), "cyan")
    return state_word(status, silent_s), style


def _progress(status: Status) -> RenderableType:
    row = Table.grid(padding=(0, 1), expand=True)
    row.add_column(ratio=1)
    row.add_column(justify="right", no_wrap=True)
    total = status.duration if status.duration > 0 else None
    bar = ProgressBar(total=total, completed=min(status.t, total or status.t))
    rate = f"   {number(status.rate_hz)} Hz" if status.rate_hz > 0 else ""
    row.add_row(bar, f"{status.t:.1f} / {status.duration:g} s{rate}")
    return row


def _timing(status: Status) -> Text:
    late = status.lateness_us
    text = Text(style="dim")
    if late is not None:
        text.append(f"lateness {late.p50:.0f} µs median, {late.p99:.0f} p99, {late.max:.0f} max   ")
        missed = f"missed {status.missed:,} of {status.tick:,} ticks"
        text.append(missed, style="yellow" if status.missed else "")
    else:
        text.append(f"{status.tick:,} steps")
    if status.verdict:
        text.append("   verdict so far ")
        text.append_text(styled_verdict(verdict_text(status.verdict, status.evidence_lacking)))
    return text


def _values(status: Status, traces: Traces | None, width: int) -> Table:
    table = _table("signal")
    table.add_column("value", justify="right", min_width=VALUE_WIDTH, no_wrap=True)
    table.add_column("unit", style="dim", no_wrap=True)
    if traces is not None:
        table.add_column("", style="cyan", min_width=LENGTH, no_wrap=True)
    shown = dict(list(status.values.items())[:MAX_VALUES])
    names = short_names(shown, width)
    for name, value in shown.items():
        plot = [traces.plot(name)] if traces is not None else []
        table.add_row(names[name], number(value), status.units.get(name, ""), *plot)
    return table


def _set_points(status: Status) -> list[RenderableType]:
    """Table of each bench input's demanded, sent and measured value, and an empty line."""
    if not status.set_points:
        return []
    table = _table("set-point", ("demanded", "sent", "measured"), VALUE_WIDTH)
    table.add_column("unit", style="dim", no_wrap=True)
    table.add_column("driven by", style="dim", no_wrap=True, overflow="ellipsis", ratio=1)
    table.expand = True
    shown = dict(list(status.set_points.items())[:MAX_SET_POINTS])
    names = short_names(shown, SET_POINT_WIDTH)
    for name, point in shown.items():
        figures = map(number, (point.demanded, point.sent, point.measured))
        table.add_row(names[name], *figures, point.unit, point.by)
    return [table, Text()]


def _bonds(status: Status, width: int) -> Table:
    table = _table("bond", ("W", "residual J", "removed J"), 8)
    names = short_names(status.bonds, width)
    for name, bond in status.bonds.items():
        energies = (bond.power_w, bond.residual_energy_j, bond.corrected_energy_j)
        table.add_row(names[name], *map(number, energies))
    return table


def _peers(status: Status, width: int) -> Table:
    table = _table("peer", ("late", "lost", "dropped", "age ms"), 6)
    names = short_names(status.peers, width)
    for name, peer in status.peers.items():
        counts = (f"{count:,}" for count in (peer.late, peer.lost, peer.dropped))
        table.add_row(names[name], *counts, number(peer.age_ms, 3))
    return table


def _table(names: str, figures: Sequence[str] = (), width: int = 0) -> Table:
    """Table with a column for names, and columns of at least `width` characters for figures."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(names, no_wrap=True)
    for heading in figures:
        table.add_column(heading, justify="right", min_width=width)
    return table


def _alarms(status: Status) -> list[Text]:
    """Most urgent alarms, one line each; the one that the key acknowledges is marked."""
    ordered = alarm_order(status)
    lines = []
    for alarm in ordered[:MAX_ALARMS]:
        mark = "▶ " if alarm is ordered[0] and not alarm.acknowledged_by else "  "
        style = "dim" if not alarm.open else "bold red" if alarm.cleared_t is None else "yellow"
        lines.append(Text(f"{mark}alarm {alarm.name}: {alarm_words(alarm)}", style=style))
    if more := len(ordered) - MAX_ALARMS:
        lines += [Text(f"  and {more} more alarms", style="dim")] * (more > 0)
    return lines


def others(flags: Sequence[RaisedFlag]) -> list[RaisedFlag]:
    """Flags without those of alarms, which have a list of their own."""
    return [flag for flag in flags if flag.cause != "alarm"]


def _flags(flags: Sequence[RaisedFlag]) -> Text:
    if not flags:
        return Text("no flags", style="green")
    return Text(f"flags: {flag_words(flags)}", style="yellow")


# Names shortened from the left to a width, still distinct.

ELLIPSIS = "…"
#: Minimum number of letters kept of a name.
LEAST = 4


def short_names(names: Iterable[str], width: int) -> dict[str, str]:
    """Each name, shortened to `width` letters.

    Names keep their end, which is most specific. Names with the same end also keep the part before
    it in which they differ.
    """
    width = max(width, LEAST)
    shown = {name: _tail(name, width) for name in names}
    same: dict[str, list[str]] = {}
    for name, short in shown.items():
        same.setdefault(short, []).append(name)
    for group in same.values():
        if len(group) > 1:
            shown |= _distinguished(group, width)
    return shown


def _tail(name: str, width: int) -> str:
    return name if len(name) <= width else ELLIPSIS + name[1 - width :]


def _distinguished(group: Sequence[str], width: int) -> dict[str, str]:
    """Names with equal ends, shortened to the part in which they differ, or numbered."""
    before = _common(group)
    after = _common([name[before:][::-1] for name in group])
    for kept in range(1, width - 2):
        short = {}
        for name in group:
            part = name[before : len(name) - after]
            part = part if len(part) <= kept else part[:kept]
            end = width - len(part) - 2
            short[name] = ELLIPSIS + part + ELLIPSIS + (name[-end:] if end > 0 else "")
        if len(set(short.values())) == len(group):
            return short
    return {name: _tail(f"{name} {i}", width) for i, name in enumerate(group, 1)}


def _common(names: Sequence[str]) -> int:
    """Number of leading letters that all names share."""
    first, last = min(names), max(names)
    return next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )


# Small plots for the terminal view: the newest values of each signal as a row of bars.

BARS = "▁▂▃▄▅▆▇█"
#: Values kept per signal, one per status.
LENGTH = 10


def sparkline(values: Sequence[float]) -> str:
    """Values as bars scaled from the smallest to the largest; a gap for a missing value."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return " " * len(values)
    low, high = 0.5 * min(finite), 0.5 * max(finite)  # halved, so that the span cannot overflow
    span, highest = (high - low) or 1.0, len(BARS) - 1
    return "".join(
        BARS[round((0.5 * value - low) / span * highest)] if math.isfinite(value) else " "
        for value in values
    )


class Traces:
    """Newest values of each signal, for the small plots."""

    def __init__(self) -> None:
        self._values: dict[str, deque[float]] = {}
        self._t = -math.inf

    def add(self, status: Status) -> None:
        """Add the values of a status, unless it has been added already."""
        if not status.values or status.t == self._t:
            return
        if status.t < self._t:
            self._values.clear()
        self._t = status.t
        for name, value in status.values.items():
            self._values.setdefault(name, deque(maxlen=LENGTH)).append(value)

    def plot(self, name: str) -> str:
        """Small plot of a signal; empty before its first value."""
        return sparkline(self._values.get(name, ()))
