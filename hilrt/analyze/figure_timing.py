"""Where the time of the ticks went: how late the inputs were, and what took it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.models.annotations import Span
from bokeh.plotting import figure

from hilrt.analyze.curves import for_plot
from hilrt.analyze.figure_style import COLOURS, Drawing, legend_above, literal, plain, time_figure
from hilrt.record.decimate import Curve

#: Intervals of a figure over time; of each the largest value is drawn.
PEAKS = 300
#: What is shorter is drawn as this, because the axis is logarithmic, µs.
SHORTEST_US = 0.1
_PARTS = {
    "wake": "waking up",
    "cut": "taking in samples",
    "macro_step": "macro step",
    "dispatch": "handing over inputs",
    "slack": "slack (everything after)",
}


def draw_timing(
    curves: Mapping[str, Curve],
    shared: Range1d,
    summary: Mapping[str, Any],
    deadline_us: float | None,
) -> list[Drawing]:
    """The figures of a session in real time; nothing in virtual time.

    Parameters
    ----------
    curves : mapping
        Of the topic "timing".
    shared : Range1d
        Session time.
    summary : mapping
    deadline_us : float or None
        How late inputs may be, where it is known.
    """
    histogram = summary.get("lateness_histogram") or {}
    if not (summary.get("lateness_us") and histogram.get("counts")):
        return []
    plot = _histogram(histogram["edges_us"], histogram["counts"], deadline_us)
    note = "Ticks by the time from their grid point to the last input on the wire"
    note += "." if deadline_us is None else "; the red line is the deadline."
    drawings = [Drawing("How late the inputs were: all ticks", note, plot)]
    note = "The largest value of every interval, on a logarithmic axis."
    kinds = [
        ("How late the inputs were, over time", {"master:lateness": "latest input on the wire"}),
        (
            "What the time of a tick went into",
            {f"master:{part}": text for part, text in _PARTS.items()},
        ),
        ("How long subsystems computed", _of_peers(curves, "compute")),
        ("How long answers were on the wire", _of_peers(curves, "wire")),
    ]
    for number, (heading, labels) in enumerate(kinds):
        present = {name: label for name, label in labels.items() if _has_times(curves, name)}
        if present:
            plot = _peaks_figure(curves, shared, present, None if number else deadline_us)
            drawings.append(Drawing(heading, note, plot))
    return drawings


def _of_peers(curves: Mapping[str, Curve], kind: str) -> dict[str, str]:
    owners = {name: name.removesuffix(f":{kind}") for name in curves if name.endswith(f":{kind}")}
    return {name: owner for name, owner in owners.items() if owner != "master"}


def _has_times(curves: Mapping[str, Curve], name: str) -> bool:
    curve = curves.get(name)
    return curve is not None and len(curve.y) > 0 and bool(np.nanmax(curve.y) > 0.0)


def peaks(curve: Curve) -> Curve:
    """The largest value in each of `PEAKS` intervals of the curve's time."""
    start = float(curve.t[0])
    width = max(float(curve.t[-1]) - start, 1e-9) / PEAKS
    place = np.clip(((curve.t - start) / width).astype(np.intp), 0, PEAKS - 1)
    highest = np.full(PEAKS, -np.inf)
    np.maximum.at(highest, place, np.nan_to_num(curve.y, nan=-np.inf))
    known = np.isfinite(highest)
    middle = start + width * (np.arange(PEAKS) + 0.5)
    return Curve(middle[known], np.maximum(highest[known], SHORTEST_US))


def _peaks_figure(
    curves: Mapping[str, Curve],
    shared: Range1d,
    labels: Mapping[str, str],
    deadline_us: float | None,
) -> Any:
    plot = time_figure(shared, "µs", y_axis_type="log")
    for (name, label), colour in zip(labels.items(), COLOURS, strict=False):
        curve = peaks(curves[name])
        source = ColumnDataSource({"t": curve.t, "y": for_plot(curve.y)})
        plot.line(
            "t", "y", source=source, color=colour, line_width=1.5, legend_label=literal(label)
        )
    if deadline_us is not None:
        plot.add_layout(_deadline(deadline_us, "width"))
    plot.add_tools(HoverTool(tooltips=[("t", "$x{0.000} s"), ("longest", "$y{0.0} µs")]))
    legend_above(plot)
    return plot


def _deadline(us: float, dimension: Literal["width", "height"]) -> Span:
    return Span(
        location=us, dimension=dimension, line_color=COLOURS[7], line_dash="dashed", line_width=1.5
    )


def _histogram(edges: Sequence[float], counts: Sequence[int], deadline_us: float | None) -> Any:
    left, right = np.array(edges[:-1], float), np.array(edges[1:], float)
    left = np.where(left > 0.0, left, right / 2.0)  # the axis is logarithmic
    filled = np.flatnonzero(np.array(counts))
    first, last = (filled[0], filled[-1] + 1) if len(filled) else (0, len(counts))
    plot = figure(
        height=230,
        sizing_mode="stretch_width",
        x_axis_label="lateness in µs",
        y_axis_label="ticks",
        x_axis_type="log",
        y_axis_type="log",
        y_range=Range1d(start=0.5, end=2.0 * max([1, *counts])),
        tools="pan,box_zoom,reset,save",
        active_scroll=None,
    )
    plain(plot)
    shown = slice(first, last)
    top = np.maximum(np.array(counts, float)[shown], 0.5)
    ends = np.where(np.isfinite(right[shown]), right[shown], left[shown] * 1.1)
    plot.quad(left=left[shown], right=ends, bottom=0.5, top=top, color=COLOURS[0], line_width=0)
    if deadline_us is not None:
        plot.add_layout(_deadline(deadline_us, "height"))
    return plot
