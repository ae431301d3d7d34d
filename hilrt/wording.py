"""Format numbers and names as text, for the terminal and the report."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

#: Times of a subsystem's answers, keys of `summary.json`, as text.
PEER_TIMES = {
    "compute_us": "computing",
    "wire_us": "on the wire",
    "collect_wait_us": "waited for",
}

#: Reason for a missed tick: the part that took most of the time, as text.
MISSED_BECAUSE = {
    "wake": "the host woke the master late",
    "previous": "the previous tick and its slack took too long",
    "cut": "receiving samples took too long",
    "macro_step": "the macro step took too long",
    "dispatch": "sending the inputs took too long",
    "skipped": "ticks that had passed completely",
}

#: Sources that are omitted in an event's text.
SPEAKERS = ("session", "operator")


def number(value: float | None, digits: int = 4) -> str:
    """Format a number with constant width while it changes; a dash for None."""
    if value is None or math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e6 or size < 1e-3 or math.isinf(size):
        return f"{value:.{digits - 1}g}"
    decimals = max(0, digits - 1 - max(0, math.floor(math.log10(size))))
    return f"{value:,.{decimals}f}"


def width(value: float, unit: str) -> str:
    """``± 720 N``, with two digits; without an undeclared unit."""
    rounded = float(f"{value:.2g}")
    text = f"{rounded:,.0f}" if 100.0 <= rounded < 1e6 else f"{rounded:g}"
    return f"± {text} {unit_text(unit)}".rstrip()


def unit_text(unit: str) -> str:
    """Format a unit; an undeclared one, ``?``, is omitted."""
    return unit.replace("?", "")


def words(name: str) -> str:
    """``sample_late`` as ``sample late``."""
    return name.replace("_", " ")


#: Follows the verdict of a session in which no measurement found anything wrong.
FOR_LACK = "for lack of evidence"


def verdict_text(verdict: str | None, evidence_lacking: object) -> str:
    """``degraded``, or ``degraded for lack of evidence``; empty without a verdict."""
    lacking = evidence_lacking is True and verdict == "degraded"
    return f"{verdict} {FOR_LACK}" if lacking else verdict or ""


def verdict_of(summary: Mapping[str, Any]) -> str:
    """`verdict_text` of a summary, also of older versions."""
    return verdict_text(summary.get("verdict"), summary.get("evidence_lacking"))


def reason_text(reason: str) -> str:
    """Format a verdict's reason, with its cause as in diagrams, capitalised."""
    cause, colon, rest = reason.partition(": ")
    line = f"{words(cause)}: {rest}" if colon and cause.isidentifier() else reason
    return line[:1].upper() + line[1:]


def event_text(source: str, text: str) -> str:
    """Format an event with its source, in one line."""
    return text if source in SPEAKERS else f"{source}: {text}"


class Told(NamedTuple):
    """An event at session time `t` [s]; among those of one kind, a larger `value` is worse."""

    t: float
    level: str
    cause: str
    source: str
    text: str
    value: float | None = None


class RepeatedEvent(NamedTuple):
    """Events of one kind: number, first and last time [s], and the worst of them.

    The worst is the one with the largest value, or the newest if they have none.
    """

    level: str
    cause: str
    source: str
    text: str
    value: float | None
    times: int
    first_t: float
    last_t: float
    #: How the text differs from the others': ``worst``, ``newest``; empty if it does not.
    which: str = ""

    @property
    def line(self) -> str:
        """The text, with the number of occurrences."""
        if self.times == 1:
            return self.text
        since = f"{self.times:,} times since {self.first_t:.1f} s"
        return f"{self.text} ({since}{f'; the {self.which}' if self.which else ''})"


#: Isolated numbers; numbers within a name distinguish it.
_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]\w)", re.ASCII)


def kind_of(level: str, cause: str, source: str, text: str) -> tuple[str, ...]:
    """The kind of an event: events of one kind differ only in numbers.

    Events at level info must be identical, except for changes of the state.
    """
    numbered = level != "info" or cause == "session"
    return (level, cause, source, _NUMBER.sub("#", text) if numbered else text)


def gather_repeated(events: Iterable[Told]) -> list[RepeatedEvent]:
    """Combine events of the same kind, in the order of each kind's last occurrence.

    Parameters
    ----------
    events : iterable of Told
        In the order of their times.
    """
    kinds: dict[tuple[str, ...], RepeatedEvent] = {}
    for t, level, cause, source, text, value in events:
        kind = kind_of(level, cause, source, text)
        before = kinds.pop(kind, None)
        if before is None:
            kinds[kind] = RepeatedEvent(level, cause, source, text, value, 1, t, t)
            continue
        now = before._replace(times=before.times + 1, last_t=t)
        if text != before.text:
            now = now._replace(which="newest" if value is None else "worst")
        if value is None or before.value is None or value >= before.value:
            now = now._replace(text=text, value=value)
        kinds[kind] = now
    return list(kinds.values())


def missed_ticks(summary: Mapping[str, Any]) -> str:
    """``31 (0.10 %)``: ticks missed, and their share of all grid points, including skipped ones."""
    missed, steps = int(summary.get("missed_ticks") or 0), int(summary.get("steps") or 0)
    step_s = (summary.get("step_size_s") or {}).get("min") or 0.0
    points = max(steps, round((summary.get("time_s") or 0.0) / step_s) if step_s > 0 else 0)
    return f"{missed:,} ({100 * min(1.0, missed / points):.2f} %)" if points else f"{missed:,}"


#: Columns of `flag_rows` after the cause.
FLAG_COLUMNS = ("times", "of the time", "of its worst second")


def flag_rows(summary: Mapping[str, Any]) -> list[list[str]]:
    """Causes that were raised, by the share affected: number of times, and shares.

    Causes of missing evidence about the steps are omitted if runs at shorter steps provided it.
    Summaries of older versions contain the flags' durations instead.
    """
    time_s = summary.get("time_s") or 0.0
    shares = {
        cause: (flag.get("affected_s", flag.get("seconds")) or 0.0) / time_s if time_s else 0.0
        for cause, flag in (summary.get("flags") or {}).items()
        if flag.get("count") and not (cause == "inside_unknown" and _at_shorter_steps(summary))
    }
    rows = []
    for cause, share in sorted(shares.items(), key=lambda item: -item[1]):
        flag = summary["flags"][cause]
        worst = flag.get("worst_second")
        second = "–" if worst is None else f"{100 * worst:.1f} %"
        rows.append([words(cause), f"{flag['count']:,}", f"{100 * share:.2f} %", second])
    return rows


def _at_shorter_steps(summary: Mapping[str, Any]) -> bool:
    """Whether runs at shorter steps have shown the error of every signal."""
    ways = [str(one.get("how")) for one in (summary.get("estimated_error") or {}).values()]
    return bool(ways) and all(how.startswith(SHORTER_STEPS) for how in ways)


def columns_text(rows: Sequence[Sequence[str]]) -> str:
    """Format rows in aligned columns, for a terminal or a pipe.

    The first row is the heading; columns without other content are omitted.
    """
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    lines = zip(*columns, strict=True)
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


#: Columns of `alarm_rows`.
ALARM_COLUMNS = ("alarm", "times", "first at s", "cleared at s", "up for s", "acknowledged")


def alarm_rows(summary: Mapping[str, Any]) -> list[list[str]]:
    """Alarms in the order of raising; "still up" if one has not cleared."""
    rows = []
    for alarm in summary.get("alarms") or ():
        cleared = alarm.get("cleared_t")
        ended = "still up" if cleared is None else number(cleared)
        first, active = number(alarm.get("first_t")), number(alarm.get("active_s"))
        cells = (f"{alarm['count']:,}", first, ended, active, _acknowledged(alarm))
        rows.append([str(alarm["name"]), *cells])
    return rows


def _acknowledged(alarm: Mapping[str, Any]) -> str:
    if who := alarm.get("acknowledged_by"):
        return f"{who} at {number(alarm.get('acknowledged_t'))} s"
    if who := alarm.get("seen_by"):
        return f"{who} at {number(alarm.get('seen_t'))} s, but it was raised again"
    return "–"


def alarm_line(alarm: Mapping[str, Any]) -> str:
    """Format an alarm of a summary in one line."""
    name, count = alarm["name"], alarm["count"]
    times = "once" if count == 1 else f"{count:,} times"
    cleared = alarm.get("cleared_t")
    ended = "still up" if cleared is None else f"cleared at {number(cleared)} s"
    return f"{name}: {times}, first at {number(alarm.get('first_t'))} s, {ended}"


def unmet(summary: Mapping[str, Any]) -> str:
    """``expectations and measures: 2 failed``; empty if all passed."""
    found = Counter(str(one.get("result")) for one in summary.get("results") or ())
    counts = [f"{found[word]:,} {word}" for word in ("failed", "inconclusive") if found[word]]
    return f"expectations and measures: {', '.join(counts)}" if counts else ""


def stolen(summary: Mapping[str, Any]) -> str:
    """``the host took …``: the master's time taken by a virtual machine's host, if any."""
    seconds, wall_s = summary.get("stolen_s") or 0.0, summary.get("wall_s") or 0.0
    if not (seconds > 0.0 and wall_s > 0.0):
        return ""
    share = 100 * min(1.0, seconds / wall_s)
    return f"the host of this virtual machine took {share:.2f} % of the master's time"


def processors(summary: Mapping[str, Any]) -> str:
    """``master 97 % (real-time priority 1), engine 31 %``: shares of one, greatest first."""
    shares: Mapping[str, float] = summary.get("processor_share") or {}
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    priority = summary.get("real_time_priority")
    real_time = {"master": f" (real-time priority {priority})"} if priority else {}
    return ", ".join(f"{name} {100 * had:.0f} %{real_time.get(name, '')}" for name, had in ordered)


#: Columns of `error_rows` after the signal.
ERROR_COLUMNS = ("error", "of variation", "by")


def error_rows(summary: Mapping[str, Any]) -> list[list[str]]:
    """Estimated errors, the largest relative to their signals first, unknown ones last.

    A signal that never moved has no relative error.
    """
    errors: Mapping[str, Mapping[str, Any]] = summary.get("estimated_error") or {}

    def order(name: str) -> tuple[bool, float]:
        relative = errors[name].get("relative")
        return errors[name].get("high") is None, -math.inf if relative is None else -relative

    rows = []
    for name in sorted(errors, key=order):
        error = errors[name]
        high, relative = error.get("high"), error.get("relative")
        band = "–" if high is None else width(high, error.get("unit") or "")
        share = "–" if relative is None else f"{number(100.0 * relative, 2)} %"
        rows.append([name, band, share, str(error.get("how", ""))])
    return rows


#: Methods of estimation by runs at shorter steps; `hilrt.reliability.estimates`.
SHORTER_STEPS = ("repeated at shorter steps", "against a converged reference")
#: The method that relies on a reference model.
OF_MODEL = "sensitivities of a model"
#: Note about estimates by this method.
UNCHECKED_MODEL = (
    "The estimate uses a reference model of a subsystem, which has not been validated against "
    "the subsystem."
)


#: Note about every estimate, unless trials have shown an error of a model's own integration.
COUPLING_ALONE = "Of the coupling alone: the models' own integration is not included."
#: Note about the estimates of many sessions, or of one that runs.
OWN_INTEGRATION = "The models' own integration is included only where trials show its error."
#: Maximum number of models named in a note.
MOST_NAMED = 3


def about_errors(summary: Mapping[str, Any]) -> str:
    """Caveats of a session's estimated errors."""
    errors: Mapping[str, Mapping[str, Any]] = summary.get("estimated_error") or {}
    of_model = any(error.get("how") == OF_MODEL for error in errors.values())
    note = _about_integration(summary.get("own_integration") or [])
    return f"{note} {UNCHECKED_MODEL}" if of_model else note


def _about_integration(included: Sequence[str]) -> str:
    """Note on the models whose own integration errors the estimates include."""
    if not included:
        return COUPLING_ALONE
    named, more = ", ".join(included[:MOST_NAMED]), len(included) - MOST_NAMED
    names = f"{named} and {more} more" if more > 0 else named
    return f"The integration error of {names} is included, that of other models is not."


#: Headings of results.
RESULT_COLUMNS = ("result", "", "robustness", "± error", "at s", "why")


def result_rows(summary: Mapping[str, Any]) -> list[list[str]]:
    """Results of tests, those that have not passed first.

    Passed values at coordinates are combined in one row per quantity.
    """
    order = {"failed": 0, "inconclusive": 1}
    results = sorted(summary.get("results") or (), key=lambda one: order.get(one["result"], 2))
    points: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in results:
        if one.get("at") and one["result"] == "passed":
            key = (str(one.get("of") or ""), str(one.get("quantity")))
            points.setdefault(key, []).append(one)
    singles = [one for one in results if not (one.get("at") and one["result"] == "passed")]
    return [_result_row(one) for one in singles] + [
        _points_row(of, quantity, passed) for (of, quantity), passed in points.items()
    ]


def _result_row(one: Mapping[str, Any]) -> list[str]:
    return [
        str(one["result"]),
        f"{one['of']}: {one['name']}" if one.get("of") else str(one["name"]),
        f"{number(one.get('robustness'), 4)} {one.get('unit') or ''}".rstrip(),
        number(one.get("error"), 3),
        number(one.get("t")),
        "; ".join(filter(None, (one.get("text"), one.get("reason")))),
    ]


def _points_row(of: str, quantity: str, passed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Row of values measured at several coordinates."""
    values = [one["value"] for one in passed if one.get("value") is not None]
    span = f"{number(min(values), 4)} to {number(max(values), 4)}" if values else "–"
    unit = str(passed[0].get("unit") or "")
    axes = " and ".join(str(axis["name"]) for axis in passed[0]["at"])
    plural = "s" if len(passed) > 1 else ""
    return [
        "passed",
        f"{of}: {quantity}" if of else quantity,
        *("–",) * 3,
        f"{' '.join(filter(None, (span, unit)))} at {len(passed)} point{plural} of {axes}",
    ]
