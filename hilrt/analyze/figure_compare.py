"""Curves of two sessions on top of each other."""

from __future__ import annotations

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, Range1d

from hilrt.analyze.figure_style import COLOURS, Drawing, legend_above, time_figure
from hilrt.analyze.log_comparison import LogComparison
from hilrt.record.decimate import Curve

MAX_FIGURES = 24
_TOPICS = ("outputs", "bonds", "sent", "defects")


def draw_both(found: LogComparison) -> list[Drawing]:
    """The signals that differ most, A broad and pale below B; then those of the bonds."""
    ends = [d.statistics.start_ns / 1e9 for d in (found.a, found.b)]
    lasts = [d.statistics.end_ns / 1e9 for d in (found.a, found.b)]
    start, end = min(ends), max(*lasts, min(ends) + 1e-9)
    air = 0.02 * (end - start)
    shared = Range1d(start=start, end=end, bounds=(start - air, end + air))
    drawings = []
    for name in _chosen(found):
        a, b = found.a.curves.get(name), found.b.curves.get(name)
        if a is None or b is None or not (len(a.t) and len(b.t)):
            continue
        pair = next(signal for signal in found.signals if signal.name == name)
        note = "A and B are equal." if pair.equal else ""
        drawings.append(Drawing(name, note, _both(shared, pair.unit, a, b)))
        if len(drawings) == MAX_FIGURES:
            break
    return drawings


def _chosen(found: LogComparison) -> list[str]:
    """Outputs before defects and residuals, each with the largest difference first."""
    topics = {c.topic: [s.name for s in c.signals] for c in found.a.stream.channels.values()}
    order = [signal.name for signal in found.signals]
    chosen = []
    for topic in _TOPICS:
        subsystems = set(topics.get(topic, []))
        chosen += [n for n in order if n in subsystems and not n.endswith(("_d1", "_d2", "_d3"))]
    return chosen or order


def _both(shared: Range1d, unit: str, a: Curve, b: Curve) -> object:
    plot = time_figure(shared, unit)
    for curve, label, colour, width, alpha in (
        (a, "A", COLOURS[0], 3.5, 0.5),
        (b, "B", COLOURS[1], 1.3, 1.0),
    ):
        source = ColumnDataSource({"t": curve.t, "y": curve.y.astype(np.float32)})
        plot.line(
            "t",
            "y",
            source=source,
            color=colour,
            line_width=width,
            line_alpha=alpha,
            legend_label=label,
        )
    plot.add_tools(HoverTool(tooltips=[("t", "$x{0.000} s"), ("value", "$y{0.0000}")]))
    legend_above(plot)
    return plot
