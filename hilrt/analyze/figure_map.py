"""Maps: a value measured at two coordinates, as contours where the points make a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool
from bokeh.palettes import Viridis256
from bokeh.plotting import figure
from bokeh.transform import linear_cmap

from hilrt.analyze.figure_style import Drawing, literal, plain
from hilrt.analyze.measured_points import MeasuredPoints, with_unit
from hilrt.solver import Floats

#: Intervals between the contours, about.
INTERVALS = 10
HEIGHT = 420


def draw_maps(found: Sequence[MeasuredPoints]) -> list[Drawing]:
    """A map of each quantity with two coordinates and values that differ."""
    return [_draw(one) for one in found if len(one.axes) == 2 and _differ(one.values)]


def _differ(values: Floats) -> bool:
    """Whether values are so far from each other that contours between them are numbers."""
    finite = values[np.isfinite(values)]
    return len(finite) > 1 and float(np.ptp(finite)) > 1e-9 * float(np.abs(finite).max())


def contour_levels(values: Floats) -> Floats:
    """Round numbers around all of the finite values: steps of 1, 2 or 5 times a power of ten."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    raw = (high - low) / INTERVALS
    power = 10.0 ** np.floor(np.log10(raw))
    step = power * next(f for f in (1.0, 2.0, 5.0, 10.0) if f * power >= raw * (1.0 - 1e-9))
    first, last = np.floor(low / step), np.ceil(high / step)
    return np.asarray(np.arange(first, last + 1.0) * step)


def _draw(points: MeasuredPoints) -> Drawing:
    plot = figure(
        height=HEIGHT,
        sizing_mode="stretch_width",
        x_axis_label=literal(points.label(0)),
        y_axis_label=literal(points.label(1)),
        tools="pan,box_zoom,reset,save",
        active_drag="box_zoom",
        output_backend="canvas",
    )
    plain(plot)
    levels, title = contour_levels(points.values), with_unit(points.quantity, points.unit)
    colours = _colours(len(levels) - 1)
    if (grid := points.grid()) is not None:
        first, second, values = grid
        contours = plot.contour(
            first, second, values, levels, fill_color=colours, line_color="#ffffff", line_width=0.8
        )
        bar = contours.construct_color_bar(title=literal(title), background_fill_alpha=0.0)
        plot.add_layout(bar, "right")
    source = ColumnDataSource(
        {"x": points.at[:, 0], "y": points.at[:, 1], "value": _or_none(points.values)}
    )
    shade = linear_cmap("value", colours, float(levels[0]), float(levels[-1]), nan_color="#888888")
    dots = plot.scatter("x", "y", source=source, size=9, fill_color=shade, line_color="#ffffff")
    tips = [(points.label(0), "@x"), (points.label(1), "@y"), (title, "@value{0.000}")]
    plot.add_tools(HoverTool(renderers=[dots], tooltips=tips))
    note = "Points: as measured."
    if grid is not None:
        note += " Contours: linear between them."
    return Drawing(
        f"Map of {title}", note, plot, lambda axes: _draw_picture(axes, points, levels, colours)
    )


def _draw_picture(
    axes: Any, points: MeasuredPoints, levels: Floats, colours: Sequence[str]
) -> None:
    """The same on axes of matplotlib."""
    if (grid := points.grid()) is not None:
        filled = axes.contourf(*grid, levels=levels, colors=colours)
        axes.contour(*grid, levels=levels, colors="#ffffff", linewidths=0.6)
        axes.figure.colorbar(filled, ax=axes)
    axes.scatter(*points.at.T, c="#1d2126", s=14)
    if grid is None:
        for (x, y), value in zip(points.at.tolist(), points.values.tolist(), strict=True):
            axes.annotate(f"{value:.4g}", (x, y), fontsize=8)


def _colours(count: int) -> list[str]:
    """So many colours from dark to bright."""
    return [Viridis256[round(i)] for i in np.linspace(0.0, 255.0, count).tolist()]


def _or_none(values: Floats) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]
