"""Live plots of chosen signals: one figure per unit, all with one time axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from bokeh.models.annotations import Span
from bokeh.models.formatters import CustomJSTickFormatter
from bokeh.models.ranges import DataRange1d, Range1d
from bokeh.models.sources import ColumnDataSource
from bokeh.models.tools import CrosshairTool, HoverTool
from bokeh.plotting import figure

from hilrt.config.units import UNSTATED
from hilrt.monitor.viewer import Viewer
from hilrt.solver import Floats
from hilrt.web.shared_session import FULL_SAMPLES, Ring, SignalHistory, change

#: Colours of Okabe and Ito (2008) without yellow and black, the light ones darkened to a contrast
#: of 3 on both light and dark pages. Every dash pattern has three colours, so that colour-blind
#: readers can distinguish the lines.
COLOURS = ("#0072b2", "#b87900", "#009e73", "#c76f9f", "#2b95d0", "#d55e00")
DASHES = ("solid", "dashed", "dotted", "dotdash")
COLOURS_PER_DASH = 3
#: Colours of text and axes on light and dark pages, contrast 4.5; no single colour has it on both.
INKS = {"light": "#57616b", "dark": "#a3adb7"}
MAX_SIGNALS = 12
LEFT_BORDER = 78
#: Height of the rows of a legend, px.
LEGEND_ROW = 22
#: Minimum messages on the time axis; in a session as fast as possible, one may cover minutes.
MIN_MESSAGES = 50
#: Maximum length of a line, in lengths of the time axis, and number of points always permitted.
KEPT_WINDOWS, MIN_KEPT = 1.2, 1000
#: Minimum span of a value axis, as a share of the largest value, so that a flat signal looks flat
#: and axis labels differ in readable digits.
MIN_SPAN = 0.02
TIMING_SIGNAL = "master:lateness"
#: Name in the stream for the half width of a signal's error band.
ERROR_OF = "{}:estimated_error"
#: Samples in the live timing histogram, and its bins per decade.
TIMING_SAMPLES, BINS_PER_DECADE = 10_000, 8
#: Smallest upper end of the histogram, µs.
TIMING_END_US = 1e4


def style(plot: Any) -> None:
    """Make a figure transparent, coloured as in `ink`; style sheets do not affect a canvas."""
    plot.background_fill_color = plot.border_fill_color = None
    plot.outline_line_color = None
    plot.grid.grid_line_alpha = 0.25
    plot.axis.minor_tick_line_color = None
    plot.axis.axis_label_text_font_style = "normal"
    plot.axis.major_label_text_font_size = plot.axis.axis_label_text_font_size = "13px"
    plot.min_border_left = LEFT_BORDER
    plot.toolbar.logo = None
    plot.toolbar.autohide = True


def ink(plot: Any, colour: str) -> None:
    """Set the colour of a figure's text, axes and grid."""
    plot.grid.grid_line_color = colour
    plot.axis.axis_line_color = plot.axis.major_tick_line_color = colour
    plot.axis.axis_label_text_color = plot.axis.major_label_text_color = colour
    if plot.legend:
        plot.legend.label_text_color = colour


class PlotLine:
    """One signal on a plot: its data source, and the amount already sent.

    If the stream has the signal's estimated error (95 %), the source's columns `least` and `most`
    bound the true value; `error` is the error's column in the history.
    """

    def __init__(self, name: str, history: SignalHistory, full: Ring | None) -> None:
        self.name, self.history, self.full = name, history, full
        error = history.column.get(ERROR_OF.format(name))
        self.error = error if full is None else None  # not requested at full rate
        columns = ["t", "last", "low", "high"]
        if self.error is not None:
            columns += ["least", "most"]
        self.source = ColumnDataSource({column: [] for column in columns})
        self.sent = -1
        self.largest = 0.0

    def update(self, window: float, until: float = math.inf) -> None:
        """Send new samples; on the first call, the whole window up to session time `until` [s]."""
        ring = self.full if self.full is not None else self.history.t
        new = ring.total - self.sent
        if new == 0:
            return
        first = self.sent < 0 or new > FULL_SAMPLES
        data = self._data(FULL_SAMPLES if first else new)
        sizes = np.abs(np.concatenate([data["low"], data["high"]]))
        self.largest = float(
            np.max(sizes, initial=0.0 if first else self.largest, where=sizes < math.inf)
        )
        self.sent = ring.total
        if not len(data["t"]):
            return
        if first:
            end = int(np.searchsorted(data["t"], until, side="right"))
            start = np.searchsorted(data["t"], (data["t"][end - 1] if end else 0.0) - window)
            self.sent -= len(data["t"]) - end
            self.source.data = {key: column[start:end] for key, column in data.items()}
            return
        shown: Floats = np.asarray(self.source.data["t"])
        oldest = data["t"][-1] - KEPT_WINDOWS * window
        kept = len(shown) - int(np.searchsorted(shown, oldest))
        self.source.stream(data, rollover=min(max(MIN_KEPT, kept + new), FULL_SAMPLES))

    def _data(self, n: int) -> dict[str, Any]:
        if self.full is not None:
            rows = self.full.newest(n).copy()
            t, values = rows[:, 0], rows[:, 1]
            return {"t": t, "last": values, "low": values, "high": values}
        column = self.history.column[self.name]
        rings = {"last": self.history.last, "low": self.history.low, "high": self.history.high}
        data = {key: ring.newest(n)[:, column].copy() for key, ring in rings.items()}
        if self.error is not None:  # widest band of each interval; NaN if unknown
            error = self.history.high.newest(n)[:, self.error]
            data["least"], data["most"] = data["last"] - error, data["last"] + error
        return {"t": self.history.t.newest(n)[:, 0].copy(), **data}


def draw(plot: Any, line: PlotLine, colour: str, dash: str) -> list[Any]:
    """Draw a signal; return the renderers that its axis must include, the line last."""
    drawn, source = [], line.source
    if line.full is None:
        drawn.append(
            plot.varea("t", "low", "high", source=source, fill_color=colour, fill_alpha=0.3)
        )
    for edge in ("least", "most") if line.error is not None else ():
        plot.line("t", edge, source=source, color=colour, line_dash="dotted")
    style = {"color": colour, "line_dash": dash, "line_width": 2}
    drawn.append(
        plot.line("t", "last", source=source, name=line.name, legend_label=line.name, **style)
    )
    return drawn


class Plots:
    """Figures of one client of the page.

    Attributes
    ----------
    figures : list
        Bokeh figures, rebuilt by `choose`.
    window : float
        Length of the moving time axis, s; the axis is longer if messages are far apart.
    colour : str
        Colour of text and axes; `paint` changes it.
    columns : int
        Columns of the legends, which widen a figure without enough room.
    """

    def __init__(self, viewer: Viewer, history: SignalHistory) -> None:
        self._viewer, self._history = viewer, history
        self.window, self.full, self.colour, self.columns = 30.0, False, INKS["light"], 2
        self.x_range = Range1d(start=0.0, end=self.window)
        self._until = math.inf
        self._cursor = Span(dimension="height", line_dash="dashed")
        self.figures: list[Any] = []
        self.lines: list[PlotLine] = []
        self._groups: list[list[PlotLine]] = []  # lines of each figure
        self._wanted: list[str] = []

    def choose(self, names: list[str]) -> list[Any]:
        """Build the figures of these signals, one per unit."""
        self.release()
        known = [name for name in names if name in self._history.column][:MAX_SIGNALS]
        head = self._viewer.head
        units = {s.name: s.unit for s in head.signals} if head is not None else {}
        groups: dict[str, list[str]] = {}
        for name in known:
            groups.setdefault(units.get(name, ""), []).append(name)
        self.figures, self._groups = [], []
        for unit, group in groups.items():
            first = len(self.lines)
            self.figures.append(self._figure(unit, group))
            self._groups.append(self.lines[first:])
        if self.figures:
            self.figures[-1].xaxis.axis_label = "session time, s"
        self.paint(self.colour)
        for line in self.lines:
            line.update(self._length(), self._until)
        self.update()
        return self.figures

    def paint(self, colour: str) -> None:
        """Draw text and axes in a colour, and lay out the legends."""
        self.colour = self._cursor.line_color = colour
        for plot, lines in zip(self.figures, self._groups, strict=True):
            ink(plot, colour)
            rows = -(-len(lines) // self.columns)
            change(plot.legend[0], ncols=self.columns)
            change(plot, height=210 + LEGEND_ROW * rows)

    @property
    def paused(self) -> bool:
        """Whether the figures are paused."""
        return self._until < math.inf

    def pause(self) -> None:
        """Stop the time axis; signals chosen while paused are shown up to this time."""
        newest = self._history.t.newest(1)
        self._until = float(newest[0, 0]) if len(newest) else 0.0

    def resume(self) -> None:
        """Follow the newest samples again."""
        self._until = math.inf
        self.update()

    def release(self) -> None:
        """Unsubscribe from signals at full rate."""
        for name in self._wanted:
            self._viewer.drop_full(name)
        self._wanted, self.lines = [], []

    def _figure(self, unit: str, names: list[str]) -> Any:
        about = [("", "$name"), ("t", "@t{0.000} s"), ("value", "@last{0.0000}")]
        hover: Any = HoverTool(tooltips=about, mode="mouse", renderers=[])  # lines, not bands
        # Scale the axis by the signals only, as an error band may be far wider.
        values: Any = DataRange1d(min_interval=1.0, renderers=[])
        plot = figure(
            sizing_mode="stretch_width",
            x_range=self.x_range,
            tools=["xpan", "xwheel_zoom", "box_zoom", "ywheel_zoom", "reset", "save", hover],
            active_drag="xpan",
            active_scroll="xwheel_zoom",
            y_range=values,
            y_axis_label="–" if unit in ("", UNSTATED) else unit,
            output_backend="webgl" if self.full else "canvas",
        )
        level = Span(dimension="width", line_color="gray", line_alpha=0.8)
        plot.add_tools(CrosshairTool(overlay=(self._cursor, level)))
        style(plot)
        for i, name in enumerate(names):
            line = PlotLine(name, self._history, self._full_ring(name))
            self.lines.append(line)
            colour = COLOURS[i % len(COLOURS)]
            dash = DASHES[i // COLOURS_PER_DASH % len(DASHES)]
            *areas, shown = draw(plot, line, colour, dash)
            hover.renderers = [*hover.renderers, shown]
            values.renderers = [*values.renderers, *areas, shown]
        plot.add_layout(plot.legend[0], "above")  # inside the figure, lines would cross it
        plot.legend.click_policy = "hide"
        plot.legend.location = "top_left"
        plot.legend.update(margin=0, padding=0)
        plot.legend.background_fill_alpha, plot.legend.border_line_color = 0.0, None
        plot.legend.label_text_font_size = "13px"
        return plot

    def _full_ring(self, name: str) -> Ring | None:
        if not self.full:
            return None
        self._viewer.want_full(name)
        self._wanted.append(name)
        return self._history.full.setdefault(name, Ring(FULL_SAMPLES, 2))

    def update(self) -> None:
        """Send new samples and move the time axis, unless paused."""
        if self.paused:
            return
        length = self._length()
        for line in self.lines:
            line.update(length)
        self._fit_axes()
        newest = self._history.t.newest(1)
        if len(newest):
            end = max(float(newest[0, 0]), length)
            self.x_range.update(start=end - length, end=end)

    def _length(self) -> float:
        """Length of the time axis, s."""
        newest = self._history.t.newest(MIN_MESSAGES)
        return max(self.window, float(newest[-1, 0] - newest[0, 0])) if len(newest) else self.window

    def _fit_axes(self) -> None:
        """Widen the value axes of flat signals, so that they do not show rounding noise."""
        for plot, lines in zip(self.figures, self._groups, strict=True):
            largest = max(line.largest for line in lines)
            change(plot.y_range, min_interval=MIN_SPAN * nice_above(largest) if largest else 1.0)

    def show_window(self, seconds: float) -> None:
        """Set the length of the time axis [s]."""
        self.window = seconds
        for line in self.lines:
            line.sent = -1
            line.update(self._length(), self._until)
        self.update()


class Timing:
    """Live histogram of the lateness over the newest ticks."""

    def __init__(self, viewer: Viewer, history: SignalHistory) -> None:
        viewer.want_full(TIMING_SIGNAL)
        self._ring = history.full.setdefault(TIMING_SIGNAL, Ring(FULL_SAMPLES, 2))
        self._seen = -1
        self.source = ColumnDataSource({"left": [], "right": [], "top": []})
        self.plot: Any = figure(
            height=180,
            sizing_mode="stretch_width",
            tools="",
            x_axis_type="log",
            x_axis_label="lateness, µs",
            y_axis_label="% of ticks",
            x_range=Range1d(start=10.0, end=TIMING_END_US),
            y_range=DataRange1d(start=0),
        )
        self.plot.quad("left", "right", "top", bottom=0, source=self.source, color=COLOURS[0])
        style(self.plot)
        ink(self.plot, INKS["light"])
        self.plot.xaxis.formatter = CustomJSTickFormatter(code="return tick.toLocaleString('en')")

    def update(self) -> None:
        """Recompute the histogram if there are new ticks."""
        if self._ring.total == self._seen:
            return
        self._seen = self._ring.total
        late = self._ring.newest(TIMING_SAMPLES)[:, 1]
        data = self.source.data = histogram(late)
        filled = data["right"][data["top"] > 0]
        self.plot.x_range.end = max(TIMING_END_US, filled[-1] if len(filled) else 0.0)


def nice_above(value: float) -> float:
    """Next power of two above a positive number, which rarely changes as the number grows."""
    return 2.0 ** math.ceil(math.log2(value))


def histogram(values: Floats) -> dict[str, Floats]:
    """Shares [%] of values [µs] in logarithmic bins; the first includes those below 1 µs."""
    values = values[np.isfinite(values)]
    edges = 10.0 ** (np.arange(0, 6 * BINS_PER_DECADE + 1) / BINS_PER_DECADE)
    if not len(values):
        return {"left": edges[:0], "right": edges[:0], "top": edges[:0]}
    counts, _ = np.histogram(np.clip(values, 1.0, edges[-1]), edges)
    share: Floats = 100.0 * counts / len(values)
    return {"left": edges[:-1], "right": edges[1:], "top": share}
