"""The worst steps of a session as timelines: what each microsecond after the tick went into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bokeh.models import ColumnDataSource, FactorRange, HoverTool
from bokeh.plotting import figure

from hilrt.analyze.figure_style import COLOURS, Drawing, plain
from hilrt.analyze.slowest_rows import WorstStep
from hilrt.wording import words


def draw_worst(steps: Sequence[WorstStep]) -> list[Drawing]:
    """One bar per step, the worst on top; nothing without steps."""
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
    note = "From the tick to the last input on the wire. Pointing at a bar tells the subsystems."
    return [Drawing("The ten worst ticks: what they were spent on", note, plot)]


def _peers(step: WorstStep) -> str:
    """What the subsystems did around the tick."""
    parts = []
    for name, value in step.values.items():
        peer, _, kind = name.rpartition(":")
        if peer != "master" and kind == "compute" and value == value:
            parts.append(f"{peer} computed {value:.0f} µs")
        elif kind == "late" and value > 0.0:
            parts.append(f"{peer} late")
    return "; ".join([*parts, *(words(cause) for cause in step.causes)])
