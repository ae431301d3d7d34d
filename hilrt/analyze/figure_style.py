"""Style of a report's figures: colours, axes, legends; and a figure with its heading.

Colours of axes and text are those of the page, see `report_page`; the curves' colours are readable
on light and dark backgrounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bokeh.models import Range1d
from bokeh.plotting import figure

COLOURS = ("#3b82c4", "#e0802b", "#2a9d6f", "#c4508f", "#8b70d6", "#a5812a", "#4aa5b8", "#d0574e")
#: Width for axis labels, which aligns the time axes of all figures.
LEFT_BORDER = 76


@dataclass
class Drawing:
    """A figure with its heading and a sentence that explains it.

    `draw_picture` draws it on matplotlib's axes; only for figures with more than lines and bars.
    """

    heading: str
    note: str
    plot: Any
    draw_picture: Callable[[Any], None] | None = None


def time_figure(shared: Range1d, unit: str, height: int = 230, **options: Any) -> Any:
    """Create a figure over session time; figures with the same range zoom together."""
    plot = figure(
        height=height,
        sizing_mode="stretch_width",
        x_range=shared,
        x_axis_label="session time in s",
        y_axis_label="" if unit == "?" else literal(unit or "–"),
        tools="pan,box_zoom,xwheel_zoom,reset,save",
        active_drag="box_zoom",
        active_scroll=None,
        output_backend="canvas",
        **options,
    )
    plain(plot)
    return plot


def literal(text: str) -> str:
    """Replace dollar signs, because Bokeh typesets text between double ones."""
    return text.replace("$", "＄")


def plain(plot: Any) -> None:
    """Apply the page's colours, remove the frame, and align labels with those of other figures."""
    plot.toolbar.logo = None
    plot.toolbar.autohide = True
    plot.background_fill_alpha = 0.0
    plot.border_fill_alpha = 0.0
    plot.outline_line_color = None
    plot.min_border_left = LEFT_BORDER
    plot.min_border_right = 16
    plot.axis.axis_label_text_font_style = "normal"
    plot.axis.axis_label_text_font_size = "12px"


def legend_above(plot: Any) -> None:
    """Move the legend into a row above the curves; a click on an entry hides its curve."""
    if hasattr(plot.yaxis[0].formatter, "power_limit_high"):  # a logarithmic axis has none
        plot.yaxis[0].formatter.power_limit_high = 7
    plot.legend.click_policy = "hide"
    plot.legend.location = "top_left"
    plot.legend.orientation = "horizontal"
    plot.legend.padding = 2
    plot.legend.margin = 0
    plot.legend.background_fill_alpha = 0.0
    plot.legend.border_line_alpha = 0.0
    plot.add_layout(plot.legend[0], "above")
