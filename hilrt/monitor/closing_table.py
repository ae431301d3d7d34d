"""Tables on the terminal at the end of a session, from `summary.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hilrt.documentation import in_documentation
from hilrt.wording import (
    ALARM_COLUMNS,
    ERROR_COLUMNS,
    FLAG_COLUMNS,
    FOR_LACK,
    MISSED_BECAUSE,
    PEER_TIMES,
    RESULT_COLUMNS,
    about_errors,
    alarm_rows,
    error_rows,
    flag_rows,
    missed_ticks,
    number,
    processors,
    reason_text,
    result_rows,
    stolen,
    unmet,
    verdict_of,
    words,
)

#: The colour of each result.
RESULT_COLOURS = {"passed": "green", "inconclusive": "yellow", "failed": "red"}
_RESULT_NUMBERS = ("robustness", "± error", "at s")
#: The colour of each verdict.
COLOURS = {"good": "green", "unverified": "magenta", "degraded": "yellow", "unreliable": "red"}
#: Number of signals listed with their estimated errors: those with the largest errors.
MOST_ERRORS = 6


def closing_table(summary: Mapping[str, Any]) -> RenderableType:
    """Tables for the terminal; those without data in the summary are left out.

    Parameters
    ----------
    summary : mapping
        Contents of ``summary.json``; ``files`` may list the files written.
    """
    parts: list[RenderableType] = [_steps(summary)]
    tables = (_alarms, _results, _ledger, _answers, _flag_times, _errors, _losses)
    for part in (make(summary) for make in tables):
        if part is not None:
            parts.append(part)
    for file in summary.get("files") or ():
        parts.append(Text(f"  {file}", style="dim"))
    return Group(*parts)


def styled_verdict(text: str) -> Text:
    """Verdict in its colour; a lack of evidence in that of ``unverified``."""
    word, lack, _ = text.partition(f" {FOR_LACK}")
    lacking = (lack, f"bold {COLOURS['unverified']}")
    return Text.assemble((word, f"bold {COLOURS.get(word, '')}"), lacking)


def closing_verdict(summary: Mapping[str, Any]) -> Text:
    """Verdict with its reasons, shown below the tables."""
    verdict = str(summary.get("verdict", "unknown"))
    text = Text.assemble(
        (f"{summary.get('session', '')}: ", "bold"), styled_verdict(verdict_of(summary) or verdict)
    )
    if value := unmet(summary):
        text.append(f"; {value}", "bold red")
    for reason in summary.get("reasons") or ():
        text.append(f"\n  {reason_text(reason)}")
    if verdict in ("unverified", "degraded", "unreliable"):
        page = in_documentation("docs/reliability.md")
        text.append(f"\n  {page} explains the reasons", style="dim")
    for change in summary.get("advice") or ():
        text.append(f"\n  try: {change['text']}", style="dim")
    return text


def _steps(summary: Mapping[str, Any]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    steps = int(summary.get("steps") or 0)
    time_s, wall_s = number(summary.get("time_s")), number(summary.get("wall_s"))
    table.add_row("steps", f"{steps:,} over {time_s} s, in {wall_s} s on the clock")
    size = summary.get("step_size_s") or {}
    if size.get("min") != size.get("max"):
        table.add_row("step size", f"{number(size.get('min'))} … {number(size.get('max'))} s")
    if repeated := summary.get("repeated"):
        scaling = number(repeated["largest_scaling"], 3)
        value = f"{repeated['steps']:,} steps, {repeated['refused']:,} times because of their error"
        table.add_row("repeated", f"{value}; largest scaling factor {scaling}")
        if corrections := repeated["corrections"]:
            value = f"{corrections:,} steps, {repeated['unsettled']:,} times without converging"
            table.add_row("corrector", value)
    for key, label in (("lateness_us", "lateness"), ("compute_us", "computing")):
        spread = summary.get(key)
        if spread:
            cells = (f"{number(spread.get(q), 3)} {name}" for q, name in _PERCENTILES)
            table.add_row(label, f"{', '.join(cells)} µs")
    stages = summary.get("timeline_us") or {}
    if summary.get("lateness_us"):
        if stages:
            cells = (f"{words(k)} {number(v.get('p50'), 3)}" for k, v in stages.items())
            table.add_row("of a tick", f"{', '.join(cells)} µs (medians)")
        table.add_row("missed ticks", missed_ticks(summary))
        for cause, count in sorted((summary.get("missed_because") or {}).items()):
            table.add_row("", f"{count:,}: {MISSED_BECAUSE.get(cause, words(cause))}")
        if value := stolen(summary):
            table.add_row("", value)
    if shares := processors(summary):
        table.add_row("processors", shares)
    learning = summary.get("identification") or {}
    if learning.get("skipped"):
        value = f"{learning['turns']:,} turns, {learning['skipped']:,} skipped for lack of time"
        table.add_row("identification", value)
    return table


_PERCENTILES = (("p50", "median"), ("p99", "p99"), ("p999", "p99.9"), ("max", "max"))
_LEDGER = ("residual_energy_j", "tracking_energy_j", "corrected_energy_j", "uncorrected_energy_j")


def _headed(*headings: str, left: int = 1) -> Table:
    """Empty table; its first `left` columns are for words, the others for numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for column, heading in enumerate(headings):
        table.add_column(heading, justify="left" if column < left else "right")
    return table


def _results(summary: Mapping[str, Any]) -> Table | None:
    """Results of tests; those that have not passed come first."""
    rows = result_rows(summary)
    if not rows:
        return None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for heading in RESULT_COLUMNS:
        table.add_column(heading, justify="right" if heading in _RESULT_NUMBERS else "left")
    for row in rows:
        table.add_row(Text(row[0], style=RESULT_COLOURS.get(row[0], "")), *map(Text, row[1:]))
    return table


def _alarms(summary: Mapping[str, Any]) -> Table | None:
    """Alarms that were raised, by name."""
    rows = alarm_rows(summary)
    if not rows:
        return None
    table = _headed(*ALARM_COLUMNS)
    for row in rows:
        table.add_row(Text(row[0], style="red"), *row[1:])
    return table


def _ledger(summary: Mapping[str, Any]) -> Table | None:
    bonds: Mapping[str, Mapping[str, Any]] = summary.get("bonds") or {}
    if not bonds:
        return None
    table = _headed("bond, energy in J", "exchange", "tracking", "removed", "left", "at cap")
    for name, bond in bonds.items():
        share = bond.get("cap_share")
        cap = "–" if share is None else f"{100 * share:.1f} %"
        table.add_row(name, *(number(bond.get(key)) for key in _LEDGER), cap)
    return table


def _answers(summary: Mapping[str, Any]) -> Table | None:
    """Breakdown of the time of the subsystems' answers."""
    headings = ("answers, time in µs", "", *(heading for _, heading in _PERCENTILES))
    table = _headed(*headings, left=2)
    for name, peer in (summary.get("peers") or {}).items():
        for key, label in PEER_TIMES.items():
            if spread := peer.get(key):
                table.add_row(name, label, *(number(spread.get(q), 3) for q, _ in _PERCENTILES))
    return table if table.row_count else None


def _flag_times(summary: Mapping[str, Any]) -> Table | None:
    """Counts of each cause, and the shares of the session and of a second that it affected."""
    rows = flag_rows(summary)
    if not rows:
        return None
    table = _headed("flag", *FLAG_COLUMNS)
    for row in rows:
        table.add_row(*row)
    return table


def _errors(summary: Mapping[str, Any]) -> Table | None:
    """The largest estimated errors, and signals whose error is unknown."""
    rows = error_rows(summary)
    if not rows:
        return None
    table = _headed("estimated error", "95 %", *ERROR_COLUMNS[1:])
    known = [row for row in rows if row[1] != "–"]
    for row in (*known[:MOST_ERRORS], *rows[len(known) :][:MOST_ERRORS]):
        table.add_row(*row)
    if more := len(rows) - table.row_count:
        table.add_row(f"and {more:,} more", "", "", "")
    table.caption, table.caption_justify = about_errors(summary), "left"
    return table


def _losses(summary: Mapping[str, Any]) -> Text | None:
    peers: Mapping[str, Mapping[str, int]] = summary.get("peers") or {}
    lines = [
        ", ".join(
            [f"{name}: {peer.get('late') or 0:,} late", f"{peer.get('lost') or 0:,} lost"]
            + ([f"{peer['dropped']:,} dropped"] if peer.get("dropped") else [])
            + ([f"came back {peer['rejoined']:,} times"] if peer.get("rejoined") else [])
        )
        for name, peer in peers.items()
        if any(peer.get(count) for count in ("late", "lost", "dropped", "rejoined"))
    ]
    return Text("\n".join(lines), style="yellow") if lines else None
