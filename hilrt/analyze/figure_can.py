"""Load of the CAN buses over time, and how evenly the messages came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, FactorRange, HoverTool, Range1d
from bokeh.plotting import figure

from hilrt.analyze.can_traffic import LATE_CYCLES, MAX_FRAMES, BusLoad, CanTraffic, MessageTraffic
from hilrt.analyze.figure_style import COLOURS, Drawing, literal, plain, time_figure
from hilrt.analyze.report_page import table
from hilrt.wording import number

#: Messages in the figure of the cycle times.
MAX_MESSAGES = 40


def draw_can(traffic: CanTraffic, shared: Range1d) -> list[Drawing]:
    """Load of every bus over time, and how evenly the messages came."""
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
        note += " With bitrate in the session file's table of the bus, it is a share."
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
    """A row per message and direction; errors are highlighted."""
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
        f"Cycle: that of the database, or as set. Late: more than {LATE_CYCLES:g} cycles, or "
        "median intervals where no cycle is known. Bad counter: repeated, or out of order; lost: "
        "missing according to the counter. A dash: the message has no such check, or none is known."
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
