"""Figures of the ticks' timing (lateness of inputs, and its causes), and of the CAN buses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from bokeh.models import ColumnDataSource, FactorRange, HoverTool, Range1d
from bokeh.models.annotations import Span
from bokeh.plotting import figure

from hilrt.analyze.can_traffic import LATE_CYCLES, MAX_FRAMES, BusLoad, CanTraffic, MessageTraffic
from hilrt.analyze.curves import for_plot
from hilrt.analyze.figure_style import COLOURS, Drawing, legend_above, literal, plain, time_figure
from hilrt.analyze.figures import Material, ReportFigures, draw_all, time_range
from hilrt.analyze.log_analysis import LogAnalysis
from hilrt.analyze.log_statistics import WorstStep
from hilrt.analyze.report_page import table
from hilrt.record.decimate import Curve
from hilrt.wording import number, words

#: Intervals of a figure over time; the largest value of each is drawn.
PEAKS = 300
#: Lower limit of drawn values, because the axis is logarithmic, µs.
SHORTEST_US = 0.1
_PARTS = {
    "wake": "waking up",
    "cut": "receiving samples",
    "macro_step": "macro step",
    "dispatch": "sending inputs",
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
        Curves of the topic "timing".
    shared : Range1d
        Range of session time.
    summary : mapping
    deadline_us : float or None
        Maximum lateness of inputs, if known.
    """
    histogram = summary.get("lateness_histogram") or {}
    if not (summary.get("lateness_us") and histogram.get("counts")):
        return []
    plot = _histogram(histogram["edges_us"], histogram["counts"], deadline_us)
    note = "Ticks by the time from their grid point until the last input was sent"
    note += "." if deadline_us is None else "; the red line is the deadline."
    drawings = [Drawing("How late the inputs were: all ticks", note, plot)]
    note = "The largest value of every interval, on a logarithmic axis."
    kinds = [
        ("How late the inputs were, over time", {"master:lateness": "last input sent"}),
        (
            "Where the time of a tick went",
            {f"master:{part}": text for part, text in _PARTS.items()},
        ),
        ("Computing time of subsystems", _of_peers(curves, "compute")),
        ("Transmission time of replies", _of_peers(curves, "wire")),
    ]
    for i, (heading, labels) in enumerate(kinds):
        present = {name: label for name, label in labels.items() if _has_times(curves, name)}
        if present:
            plot = _peaks_figure(curves, shared, present, None if i else deadline_us)
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


def draw_worst(steps: Sequence[WorstStep]) -> list[Drawing]:
    """Draw one bar per step, the worst on top; nothing without steps."""
    if not steps:
        return []
    compute = [step.values.get("master:compute", 0.0) for step in steps]
    total = [
        max(step.values.get("master:lateness", 0.0), c)
        for step, c in zip(steps, compute, strict=True)
    ]
    woke = [t - c for t, c in zip(total, compute, strict=True)]
    names = [f"{step.t:.4f} s" for step in steps]
    plot: Any = figure(
        height=90 + 24 * len(steps),
        sizing_mode="stretch_width",
        y_range=FactorRange(factors=list(reversed(list(dict.fromkeys(names))))),
        x_axis_label="µs after the tick",
        tools="pan,box_zoom,reset,save",
        active_scroll=None,
        output_backend="canvas",
    )
    plain(plot)
    plot.ygrid.grid_line_color = None
    notes = [_peers(step) for step in steps]
    parts = (
        ("woke late", COLOURS[1], [0.0] * len(steps), woke),
        ("computing", COLOURS[0], woke, total),
    )
    for label, colour, left, right in parts:
        data = {"y": names, "left": left, "right": right, "note": notes}
        plot.hbar(
            y="y",
            left="left",
            right="right",
            height=0.6,
            source=ColumnDataSource(data),
            color=colour,
            legend_label=label,
        )
    plot.add_tools(HoverTool(tooltips=[("until", "@right{0.0} µs"), ("", "@note")]))
    plot.legend.orientation = "horizontal"
    plot.legend.background_fill_alpha = 0.0
    plot.legend.border_line_alpha = 0.0
    plot.legend.padding = 2
    plot.legend.margin = 0
    plot.add_layout(plot.legend[0], "above")
    note = "From the tick until the last input was sent. Point at a bar to see the subsystems."
    return [Drawing("The ten worst ticks: where their time went", note, plot)]


def _peers(step: WorstStep) -> str:
    """Text about the subsystems' computing times and lateness at the tick."""
    parts = []
    for name, value in step.values.items():
        peer, _, kind = name.rpartition(":")
        if peer != "master" and kind == "compute" and value == value:
            parts.append(f"{peer} computed {value:.0f} µs")
        elif kind == "late" and value > 0.0:
            parts.append(f"{peer} late")
    return "; ".join([*parts, *(words(cause) for cause in step.causes)])


def draw_report(analysis: LogAnalysis, traffic: CanTraffic | None) -> ReportFigures:
    """The figures for which a log has data."""
    material = Material.gather(analysis.stream, analysis.curves)
    shared = time_range(material)
    names = material.present(material.topics.get("timing", []))
    curves = {name: analysis.curves[name] for name in names}
    deadline_us = analysis.deadline_us
    timing = draw_timing(curves, shared, analysis.summary, deadline_us)
    timing += draw_worst(analysis.statistics.worst_steps())
    can = [] if traffic is None else draw_can(traffic, shared)
    return draw_all(material, shared, [*can, *timing])


# Load of the CAN buses over time, and regularity of the messages.

#: Messages in the figure of the cycle times.
MAX_MESSAGES = 40


def draw_can(traffic: CanTraffic, shared: Range1d) -> list[Drawing]:
    """Draw the load of every bus over time, and the regularity of the messages."""
    drawings = [_load(name, bus, shared) for name, bus in traffic.buses.items()]
    return drawings + _cycles(traffic.messages)


def _load(name: str, bus: BusLoad, shared: Range1d) -> Drawing:
    plot = time_figure(shared, bus.unit, height=190)
    t = np.repeat(np.append(bus.t, bus.t[-1] + bus.width_s), 2)[1:-1]
    source = ColumnDataSource({"t": t, "y": np.repeat(bus.load, 2)})
    plot.line("t", "y", source=source, color=COLOURS[0], line_width=1.3)
    plot.y_range.start = 0
    plot.add_tools(HoverTool(tooltips=[("t", "$x{0.000} s"), ("load", f"$y{{0.0}} {bus.unit}")]))
    note = (
        f"Mean {number(float(bus.load.mean()), 3)}, highest {number(float(bus.load.max()), 3)} "
        f"{bus.unit}, over {number(1e3 * bus.width_s, 3)} ms each, of the frames in the log, "
        "without stuff bits."
    )
    if bus.unit != "%":
        note += " If the session file's bus table has a bitrate, the load is a share."
    if bus.errors:
        note += f" {bus.errors:,} error frames."
    return Drawing(f"Load of the CAN bus {name}", note, plot)


def _cycles(messages: Sequence[MessageTraffic]) -> list[Drawing]:
    """Range from the 1 % to the 99 % quantile of each message's intervals, in cycles."""
    labels: list[str] = []
    spans: list[str] = []
    low: list[float] = []
    middle: list[float] = []
    high: list[float] = []
    for message in messages:
        nominal, spread = message.nominal_s, message.quantiles_s()
        if nominal and spread and len(labels) < MAX_MESSAGES:
            label = f"{message.bus}: {label_of(message)}{' (sent)' if message.sent else ''}"
            labels.append(literal(label))
            low.append(spread["p1"] / nominal)
            middle.append(spread["p50"] / nominal)
            high.append(spread["p99"] / nominal)
            spans.append(f"{milliseconds(spread['p1'])} to {milliseconds(spread['p99'])} ms")
    if not labels:
        return []
    plot: Any = figure(
        height=80 + 22 * len(labels),
        sizing_mode="stretch_width",
        y_range=FactorRange(factors=list(reversed(list(dict.fromkeys(labels))))),
        x_axis_label="interval between frames, in cycles",
        y_axis_label=" ",
        tools="pan,box_zoom,reset,save",
        active_scroll=None,
        output_backend="canvas",
    )
    plain(plot)
    plot.min_border_left = 200
    plot.ygrid.grid_line_color = None
    data = {"y": labels, "left": low, "right": high, "span": spans}
    plot.hbar(
        y="y", left="left", right="right", height=0.5, source=ColumnDataSource(data),
        color=COLOURS[0],
    )  # fmt: skip
    width = 0.004 * (max(high) or 1.0)
    ends = {"left": [m - width for m in middle], "right": [m + width for m in middle]}
    plot.hbar(
        y="y", left="left", right="right", height=0.8,
        source=ColumnDataSource({"y": labels, "span": spans, **ends}), color=COLOURS[1],
    )  # fmt: skip
    plot.add_tools(HoverTool(tooltips=[("", "@y"), ("1 % to 99 %", "@span")]))
    note = "Bars: 1 % to 99 % of the intervals; the mark is the median. 1 is on time."
    return [Drawing("Regularity of CAN messages", note, plot)]


_WRONG = ("late", "checksum", "counter", "lost")


def can_table(traffic: CanTraffic) -> str:
    """Table with a row per message and direction; errors are highlighted."""
    rows, marked = [], []
    for r, message in enumerate(traffic.messages):
        spread = message.quantiles_s() or {}
        times = [milliseconds(spread.get(key)) for key in ("min", "p50", "p99", "max")]
        wrong = [getattr(message, key) for key in _WRONG]
        head = [f"{message.bus}: {label_of(message)}", "sent" if message.sent else "received"]
        row = [*head, f"{message.frames:,}", milliseconds(message.cycle_s), *times]
        marked += [(r, len(row) + i) for i, count in enumerate(wrong) if count]
        rows.append([*row, *("–" if count is None else f"{count:,}" for count in wrong)])
    columns = ["message", "", "frames", "cycle, ms", "shortest", "median", "p99", "longest"]
    columns += ["late", "bad checksum", "bad counter", "lost"]
    note = (
        f"Cycle: from the database or the session file. Late: after more than {LATE_CYCLES:g} "
        "cycles, or median intervals if no cycle is known. Bad counter: repeated, or out of order; "
        "lost: missing according to the counter. A dash: the message has no such check, or none is "
        "known."
    )
    if not traffic.whole:
        note += f" Only the first {MAX_FRAMES:,} frames are counted."
    heading = "CAN messages: count, cycle time, errors"
    return table(heading, columns, rows, note=note, text=(1,), marked=marked)


def label_of(message: MessageTraffic) -> str:
    """``MotorFast (0A0)``, or the identifier alone."""
    identifier = f"{message.identifier:0{8 if message.extended else 3}X}"
    return f"{message.name} ({identifier})" if message.name else identifier


def milliseconds(seconds: float | None) -> str:
    """A time [s] in ms; a dash for none."""
    return "–" if seconds is None else number(1e3 * seconds, 4)
