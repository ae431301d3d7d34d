"""Figures in one style."""

from __future__ import annotations

from typing import Any

from bokeh.models.annotations import Legend
from bokeh.plotting import figure

BLUE, ORANGE, GREEN, PINK, PURPLE = "#2f6fb3", "#d9732a", "#2a8f66", "#bd4a86", "#7c62c4"
GREY, DARK = "#8a939c", "#1d2126"
ORDERS = (BLUE, ORANGE, GREEN, PINK, PURPLE)
WIDTH = 620


def make(title: str, x: str, y: str, *, height: int = 270, width: int = WIDTH, **more: Any) -> Any:
    """An empty figure in the page's style."""
    plot: Any = figure(
        title=title,
        x_axis_label=x,
        y_axis_label=y,
        width=width,
        height=height,
        tools="pan,wheel_zoom,box_zoom,reset,save",
        **more,
    )
    plot.toolbar.logo = None
    plot.min_border_left, plot.min_border_right = 76, 12  # aligns the time axes
    plot.toolbar.autohide = True
    plot.title.text_font_size = "13px"
    plot.title.text_font_style = "normal"
    plot.title.text_color = DARK
    plot.axis.axis_label_text_font_style = "normal"
    plot.axis.axis_label_text_font_size = "12px"
    plot.axis.minor_tick_line_color = None
    plot.axis.axis_line_color = "#aab2b9"
    plot.grid.grid_line_color = "#eceff1"
    plot.outline_line_color = None
    return plot


def line(plot: Any, x: Any, y: Any, label: str, colour: str, **more: Any) -> Any:
    """A curve; `legend` shows its label beside the figure."""
    more = {"line_width": 1.8, **more}
    drawn = plot.line(x, y, color=colour, **more)
    plot.tags.append((label, [drawn]))
    return drawn


def dots(plot: Any, x: Any, y: Any, label: str, colour: str, *, dash: str = "solid") -> None:
    """A curve with its points."""
    drawn = plot.line(x, y, color=colour, line_width=1.8, line_dash=dash)
    fill = colour if dash == "solid" else "#ffffff"
    points = plot.scatter(x, y, color=colour, fill_color=fill, size=6)
    plot.tags.append((label, [drawn, points]))


def legend(plot: Any, place: str = "right", columns: int = 1) -> Any:
    """Labels of all curves of `line` and `dots`, outside the axes; returns the figure."""
    box: Any = Legend(items=list(plot.tags), ncols=columns)
    plot.tags = []
    box.border_line_color = None
    box.background_fill_alpha = 0.0
    box.label_text_font_size = "11px"
    box.label_text_color = DARK
    box.glyph_width, box.spacing, box.padding = 18, 2, 4
    if place == "above":
        box.location, box.spacing = "left", 12
    box.click_policy = "hide"
    plot.add_layout(box, place)
    return plot
