"""Values measured by a test at coordinates: an engine map, a characteristic."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from bokeh.models import ColumnDataSource, HoverTool
from bokeh.palettes import Viridis256
from bokeh.plotting import figure
from bokeh.transform import linear_cmap

from hilrt.analyze.figure_style import Drawing, literal, plain
from hilrt.analyze.log_analysis import LogAnalysis
from hilrt.analyze.report_page import table
from hilrt.expect.of_sequences import outcome_of
from hilrt.record.messages import MEASURE
from hilrt.solver import Floats
from hilrt.wording import number


@dataclass
class MeasuredPoints:
    """Values of one quantity, in the order of their measurement.

    Attributes
    ----------
    quantity, unit : str
    axes : tuple of (str, str)
        Name and unit of each coordinate.
    at : ndarray, shape (n, n_axes)
        Coordinates, in their units.
    values : ndarray, shape (n,)
        Measured values; NaN if missing.
    times : ndarray, shape (n,)
        Session time of each measurement, s.
    results : list of str
        Outcome of each measurement.
    """

    quantity: str
    unit: str
    axes: tuple[tuple[str, str], ...]
    at: Floats
    values: Floats
    times: Floats
    results: list[str]

    def label(self, axis: int) -> str:
        """A coordinate with its unit."""
        return with_unit(*self.axes[axis])

    def grid(self) -> tuple[Floats, Floats, Floats] | None:
        """Both coordinates, and the values at them, shape (n_second, n_first); None: no grid.

        A grid has two coordinates, at least two values of each, and each of its points once.
        """
        if len(self.axes) != 2:
            return None
        (first, column), (second, row) = (
            np.unique(coordinate, return_inverse=True) for coordinate in self.at.T
        )
        places = {*zip(row.tolist(), column.tolist(), strict=True)}
        size = len(first) * len(second)
        if min(len(first), len(second)) < 2 or not len(places) == len(self.values) == size:
            return None
        values = np.full((len(second), len(first)), np.nan)
        values[row, column] = self.values
        return first, second, values


def with_unit(name: str, unit: str) -> str:
    """Heading of a column or an axis, with the unit."""
    return f"{name}, {unit}" if unit else name


def results_of(analysis: LogAnalysis) -> list[Mapping[str, Any]]:
    """Results of tests; without a summary, those in the events of the log."""
    found = analysis.summary.get("results")
    if found or analysis.summarised:
        return list(found or ())
    measured: list[Mapping[str, Any]] = []
    for event in analysis.stream.events:
        if event.cause == MEASURE:
            with contextlib.suppress(msgspec.MsgspecError):  # another tool's event of this name
                measured.append(msgspec.to_builtins(outcome_of(event.text, event.source)))
    return measured


def measured_points(results: Iterable[Mapping[str, Any]]) -> list[MeasuredPoints]:
    """Results with coordinates, grouped by sequence, quantity and names of the coordinates."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for one in results:
        if one.get("at"):
            axes = tuple((axis["name"], axis.get("unit", "")) for axis in one["at"])
            key = (one.get("of"), one.get("quantity"), one.get("unit"), axes)
            groups.setdefault(key, []).append(one)
    return [
        MeasuredPoints(
            quantity=str(quantity),
            unit=str(unit or ""),
            axes=axes,
            at=np.array([[axis["value"] for axis in one["at"]] for one in group]),
            values=np.array([one.get("value") for one in group], float),
            times=np.array([one.get("t") for one in group], float),
            results=[str(one["result"]) for one in group],
        )
        for (_, quantity, unit, axes), group in groups.items()
    ]


def point_table(points: MeasuredPoints) -> str:
    """Table with one row per point; points that did not pass are marked."""
    names = [points.label(i) for i in range(len(points.axes))]
    columns = [*names, with_unit(points.quantity, points.unit), "t in s"]
    rows = [
        [*(number(x) for x in at), number(value, 5), f"{t:.3f}"]
        for at, value, t in zip(
            points.at.tolist(), points.values.tolist(), points.times.tolist(), strict=True
        )
    ]
    value_column = len(points.axes)
    marked = [(i, value_column) for i, word in enumerate(points.results) if word != "passed"]
    return table(f"Measured points: {points.quantity}", columns, rows, marked=marked)


#: Approximate number of intervals between contours.
INTERVALS = 10
HEIGHT = 420


def draw_maps(found: Sequence[MeasuredPoints]) -> list[Drawing]:
    """Draw a map of each quantity with two coordinates, unless its values are equal."""
    return [_draw(one) for one in found if len(one.axes) == 2 and _differ(one.values)]


def _differ(values: Floats) -> bool:
    """Whether values differ enough for distinct contour levels."""
    finite = values[np.isfinite(values)]
    return len(finite) > 1 and float(np.ptp(finite)) > 1e-9 * float(np.abs(finite).max())


def contour_levels(values: Floats) -> Floats:
    """Round levels that enclose all finite values, in steps of 1, 2 or 5 times a power of ten."""
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
    """Draw the map on matplotlib axes."""
    if (grid := points.grid()) is not None:
        filled = axes.contourf(*grid, levels=levels, colors=colours)
        axes.contour(*grid, levels=levels, colors="#ffffff", linewidths=0.6)
        axes.figure.colorbar(filled, ax=axes)
    axes.scatter(*points.at.T, c="#1d2126", s=14)
    if grid is None:
        for (x, y), value in zip(points.at.tolist(), points.values.tolist(), strict=True):
            axes.annotate(f"{value:.4g}", (x, y), fontsize=8)


def _colours(count: int) -> list[str]:
    """List `count` colours from dark to bright."""
    return [Viridis256[round(i)] for i in np.linspace(0.0, 255.0, count).tolist()]


def _or_none(values: Floats) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]
