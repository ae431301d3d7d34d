"""Two sessions on one page: numbers side by side, curves superimposed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, Range1d

from hilrt.analyze.curves import for_plot
from hilrt.analyze.figure_style import COLOURS, Drawing, legend_above, time_figure
from hilrt.analyze.figures import connections_of
from hilrt.analyze.log_analysis import LogAnalysis
from hilrt.analyze.log_comparison import (
    PARTED,
    QUANTITIES,
    LogComparison,
    SignalDifference,
    flattened,
)
from hilrt.analyze.report import notes_of, save
from hilrt.analyze.report_page import escape, render, table, tables_html, verdict_badge
from hilrt.record.decimate import Curve
from hilrt.step_log.signals import CIRCUMSTANCES
from hilrt.wording import number, reason_text, words

#: Numbers further apart than this are highlighted.
NOTABLE = 0.05
MAX_SIGNALS = 60
#: Keys of the summary that are not results of the session.
_NO_FIGURES = ("host.", "versions.", "lateness_histogram", "slowest_ticks")
#: Numbers that differ between runs.
_TIMES = ("compute us", "lateness us", "timeline us", "wall s", "missed ticks")


def write_comparison(found: LogComparison, out: Path, *, png: bool = False) -> Path:
    """Write the page about two logs, and its numbers as JSON beside it."""
    first, others = draw_differences(found)
    settings = [_settings(found)]
    page = render("comparison", _head(found), [*settings, *first, _tables(found), *others])
    save(out, page)
    save(out.with_suffix(".json"), json.dumps(found.as_json(), indent=1, default=str))
    if png:
        from hilrt.analyze.report_page import write_pictures

        write_pictures([*first, *others], out.with_suffix(""))
    return out


def _head(found: LogComparison) -> str:
    """Verdicts with their reasons, and the result of the comparison."""
    both = "".join(_one(letter, log) for letter, log in (("A", found.a), ("B", found.b)))
    return f'<h1>Comparison</h1>{both}<p class="advice">{escape(_verdict(found))}</p>'


def _one(letter: str, log: LogAnalysis) -> str:
    """Name, file, verdict and notes of one of the sessions."""
    session = log.summary.get("session") or log.stream.metadata.get("session", "")
    reasons = [*map(reason_text, log.summary.get("reasons") or ()), *notes_of(log)]
    items = "".join(f"<li>{escape(reason)}</li>" for reason in dict.fromkeys(reasons))
    return (
        f'<p class="facts"><b>{letter}</b> {escape(session)} · {escape(log.file)} '
        f"{verdict_badge(log.summary)}</p>" + (f'<ul class="reasons">{items}</ul>' if items else "")
    )


def _settings(found: LogComparison) -> str:
    """Table of the settings that differ."""
    if not found.settings:
        return '<p class="facts">No setting differs.</p>'
    rows = [list(row) for row in found.settings]
    return tables_html([table("Different settings", ["", "A", "B"], rows, text=(1, 2))])


def _verdict(found: LogComparison) -> str:
    if found.equal:
        return "The logs are equal: every signal, at every tick, to the last bit."
    apart = [s for s in found.signals if s.parted is not None and ":" not in s.name]
    if apart:
        return f"{len(apart)} outputs differ. {_parting(apart)}"
    others = [
        s for s in found.signals if s.parted is not None and s.unit != "us" and not _of_ticks(s)
    ]
    if others:
        return f"The outputs are equal, but other signals differ: {len(others)}. {_parting(others)}"
    timing = "" if found.only_a or found.only_b else " Only timing and similar signals differ."
    return f"No output differs by more than {PARTED:g} of its size.{timing}"


def _of_ticks(signal: SignalDifference) -> bool:
    """Whether the signal describes the run itself, not a computed value."""
    owner, _, kind = signal.name.rpartition(":")
    return owner in ("master", "cut") or kind in CIRCUMSTANCES


def _parting(apart: Sequence[SignalDifference]) -> str:
    """Text about the first difference of the logs, and the signal that differs most."""
    first = min(apart, key=lambda s: s.parted or 0.0)
    most = max(apart, key=lambda s: s.relative)
    share = "" if math.isinf(most.relative) else f" ({number(100 * most.relative, 3)} %, RMS)"
    return (
        f"The first to differ is {first.name}, at {number(first.parted)} s; the largest "
        f"difference is at {most.name}{share}."
    )


def _tables(found: LogComparison) -> str:
    numbers = list(_numbers(found.a.summary, found.b.summary))
    times = [row for row in numbers if row[0].startswith(_TIMES)]
    rows = [row for row in numbers if row not in times]
    marked = [(r, 3) for r, row in enumerate(rows) if _notable(row[1], row[2])]
    shown = [_number_row(*row) for row in rows]
    coupled = [s for s in found.signals if s.unit != "us"]  # computing times always differ
    apart = [s for s in coupled if not s.equal]
    signals, heading = apart[:MAX_SIGNALS], f"Signals that differ: {len(apart)} of "
    parts = [
        table(
            f"{heading}{len(coupled)}",
            ["", "unit", "RMS of A − B", "of A", "largest", "at, s", "differs from, s"],
            [_signal_row(s) for s in signals],
            marked=[(r, 3) for r, s in enumerate(signals) if s.relative > NOTABLE],
        ),
        table("Figures of the sessions", ["", "A", "B", "change"], shown, marked=marked),
        table("Timing", ["", "A", "B", "change"], [_number_row(*row) for row in times]),
    ]
    for letter, names in (("A", found.only_a), ("B", found.only_b)):
        parts.append(table(f"Only in {letter}", [""], [[name] for name in names[:MAX_SIGNALS]]))
    advice = [
        [letter, d.advice.text]
        for letter, d in (("A", found.a), ("B", found.b))
        if d.advice is not None
    ]
    parts.append(table("Step size", ["", ""], advice, text=(1,)))
    return tables_html(parts)


def _number_row(label: str, a: float | None, b: float | None) -> list[str]:
    return [label, number(a), number(b), _change(a, b)]


def _signal_row(s: SignalDifference) -> list[str]:
    share = "∞" if math.isinf(s.relative) else f"{number(100 * s.relative, 3)} %"
    parted = "–" if s.parted is None else number(s.parted)
    return [s.name, s.unit, number(s.rms, 3), share, number(s.largest, 3), number(s.at), parted]


def _numbers(
    a: Mapping[str, Any], b: Mapping[str, Any]
) -> Iterator[tuple[str, float | None, float | None]]:
    """Yield label and values of every number in either summary."""
    left, right = flattened(a), flattened(b)
    for key in left | right:
        table_, _, leaf = key.rpartition(".")
        if key.startswith(_NO_FIGURES) or leaf == "last":
            continue
        values = [flat.get(key) for flat in (left, right)]
        numeric = [
            float(v) if isinstance(v, (int, float)) and not isinstance(v, bool) else None
            for v in values
        ]
        if any(value is not None for value in numeric) and any(numeric):
            yield words(f"{table_}.{leaf}" if table_ else leaf), numeric[0], numeric[1]


def _notable(a: float | None, b: float | None) -> bool:
    if a is None or b is None:  # missing in one of them
        return False
    return abs(a - b) > NOTABLE * max(abs(a), abs(b))


def _change(a: float | None, b: float | None) -> str:
    if a is None or b is None or a == b:
        return "" if a == b else "–"
    if a == 0.0:
        return f"{'+' if b > a else ''}{number(b - a, 3)}"
    return f"{100.0 * (b - a) / abs(a):+.1f} %"


# Superimposed curves of two sessions, and their difference.

#: Signals that are drawn first, with their difference.
MOST = 6
#: Signals that are drawn after the tables.
REST = 18
#: Topics with results of a session, not with facts of its run; the first ones are values of ports.
_TOPICS = (*QUANTITIES, "bonds", "defects")
#: Marks of a tick, which are not drawn as curves.
_MARKS = ("capped", "communicates")
_DIFFERENCE_HEIGHT = 150


def draw_differences(found: LogComparison) -> tuple[list[Drawing], list[Drawing]]:
    """Figures of the signals that differ most, with their differences, and of others."""
    shared = _time_range(found)
    order = [pair for pair in _most_different(found) if _both_have(found, pair.name)]
    apart, measured = [pair for pair in order if not pair.equal], _names(found, QUANTITIES)
    ports = [pair for pair in apart if pair.name in measured][: MOST - 2]
    derived = [pair for pair in apart if pair.name not in measured]
    first: list[Drawing] = []
    for pair in [*ports, *derived[: MOST - len(ports)]]:
        first.append(Drawing(pair.name, _note(pair), _both(shared, pair, found)))
        if pair.curve is not None and len(pair.curve.t):
            plot = _difference(shared, pair.unit, pair.curve)
            first.append(Drawing(f"{pair.name}: A − B", "", plot))
    drawn = {drawing.heading for drawing in first}
    rest = [pair for pair in order if pair.name not in drawn][:REST]
    others = [
        Drawing(pair.name, "A and B are equal." if pair.equal else "", _both(shared, pair, found))
        for pair in rest
    ]
    return first, others


def _time_range(found: LogComparison) -> Range1d:
    start = min(d.statistics.start_ns for d in (found.a, found.b)) / 1e9
    end = max(d.statistics.end_ns for d in (found.a, found.b)) / 1e9
    air = 0.02 * max(end - start, 1e-9)
    return Range1d(start=start, end=max(end, start + 1e-9), bounds=(start - air, end + air))


def _both_have(found: LogComparison, name: str) -> bool:
    """Whether both logs have the signal, and it is not always zero in both."""
    curves = [c for c in (found.a.curves.get(name), found.b.curves.get(name)) if c is not None]
    if len(curves) < 2 or not all(len(curve.t) for curve in curves):
        return False
    return any(np.nanmax(np.abs(curve.y), initial=0.0) > 0.0 for curve in curves)


def _most_different(found: LogComparison) -> Iterator[SignalDifference]:
    """Signals, the most different first; each quantity only once, by its first name."""
    kept = _names(found, _TOPICS) or set(found.a.curves)
    sources = {to: source for source, to in connections_of(found.a.stream)}
    seen: set[str] = set()
    for pair in found.signals:
        port, _, kind = pair.name.rpartition(":")
        if pair.name not in kept or kind in _MARKS or kind.rpartition("_d")[2].isdecimal():
            continue  # a derivative is shown with its value
        quantity = pair.name
        if kind in ("corrected", "sent"):
            quantity = sources.get(port, port) if kind == "sent" else port
        if quantity not in seen:
            seen.add(quantity)
            yield pair


def _names(found: LogComparison, topics: Sequence[str]) -> set[str]:
    channels = found.a.stream.channels.values()
    return {s.name for channel in channels if channel.topic in topics for s in channel.signals}


def _note(pair: SignalDifference) -> str:
    share = "" if math.isinf(pair.relative) else f", {number(100 * pair.relative, 3)} % of A"
    unit = f" {pair.unit}" if pair.unit else ""
    return (
        f"RMS of the difference {number(pair.rms, 3)}{unit}{share}; the largest, "
        f"{number(pair.largest, 3)}{unit}, at {number(pair.at)} s."
    )


def _both(shared: Range1d, pair: SignalDifference, found: LogComparison) -> object:
    plot = time_figure(shared, pair.unit)
    curves = found.a.curves[pair.name], found.b.curves[pair.name]
    for curve, label, colour, width, alpha in (
        (curves[0], "A", COLOURS[0], 3.5, 0.5),
        (curves[1], "B", COLOURS[1], 1.3, 1.0),
    ):
        plot.line(
            "t",
            "y",
            source=_source(curve),
            color=colour,
            line_width=width,
            line_alpha=alpha,
            legend_label=label,
        )
    plot.add_tools(_hover())
    legend_above(plot)
    return plot


def _difference(shared: Range1d, unit: str, curve: Curve) -> object:
    plot = time_figure(shared, unit, height=_DIFFERENCE_HEIGHT)
    plot.line("t", "y", source=_source(curve), color=COLOURS[3], line_width=1.3)
    plot.yaxis[0].formatter.power_limit_high = 7
    plot.add_tools(_hover())
    return plot


def _source(curve: Curve) -> ColumnDataSource:
    return ColumnDataSource({"t": curve.t, "y": for_plot(curve.y)})


def _hover() -> HoverTool:
    return HoverTool(tooltips=[("t", "$x{0.000} s"), ("value", "$y{0.0000}")])
