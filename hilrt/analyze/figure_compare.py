"""Curves of two sessions on top of each other, and their difference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from bokeh.models import ColumnDataSource, HoverTool, Range1d

from hilrt.analyze.curves import for_plot
from hilrt.analyze.figure_style import COLOURS, Drawing, legend_above, time_figure
from hilrt.analyze.figures import connections_of
from hilrt.analyze.log_comparison import QUANTITIES, LogComparison, SignalDifference
from hilrt.record.decimate import Curve
from hilrt.wording import number

#: Signals that are drawn first, with their difference.
MOST = 6
#: Signals that are drawn after the tables.
REST = 18
#: Topics of what the session is about, not of how it ran; the first are values of ports.
_TOPICS = (*QUANTITIES, "bonds", "defects")
#: Marks of a tick are no curves.
_MARKS = ("capped", "communicates")
_DIFFERENCE_HEIGHT = 150


def draw_differences(found: LogComparison) -> tuple[list[Drawing], list[Drawing]]:
    """Figures of the signals that differ most, each with its difference; and of others."""
    shared = _time_range(found)
    order = [pair for pair in _told_apart(found) if _both_have(found, pair.name)]
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
    curves = (found.a.curves.get(name), found.b.curves.get(name))
    return all(curve is not None and len(curve.t) for curve in curves)


def _told_apart(found: LogComparison) -> Iterator[SignalDifference]:
    """Signals, the most different first; of one quantity under several names the first alone."""
    kept = _names(found, _TOPICS) or set(found.a.curves)
    sources = {to: source for source, to in connections_of(found.a.stream)}
    seen: set[str] = set()
    for pair in found.signals:
        port, _, kind = pair.name.rpartition(":")
        if pair.name not in kept or kind in _MARKS or kind.rpartition("_d")[2].isdecimal():
            continue  # a derivative goes with its value
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
