"""``stability.html``: a stability analysis as one page, readable without a network."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from bokeh.embed import components
from bokeh.models import DataRange1d, FixedTicker, HoverTool, LinearColorMapper, Range1d
from bokeh.models.annotations import ColorBar, Span
from bokeh.plotting import figure
from bokeh.resources import Resources
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from hilrt.analyze.stability_study import STEP, MapAxis, StabilityMap, StabilityStudy
from hilrt.errors import RecordError
from hilrt.files.text import write_whole
from hilrt.solver import Floats

#: Size that fits a terminal; a larger map is thinned out.
MAX_COLUMNS, MAX_ROWS = 7, 24
UNSTABLE = "bold red"


def show(study: StabilityStudy, console: Console) -> None:
    """Print the results, except the curve."""
    console.print(render(study), highlight=False)


def render(study: StabilityStudy) -> RenderableType:
    """Compose the text."""
    parts: list[RenderableType] = [_head(study), _subsystems(study), _crossings(study)]
    if study.map is not None:
        parts.append(_map(study.map))
    parts += [Text(f"left out: {text}") for text in study.left_out]
    return Group(*parts)


def summary_line(study: StabilityStudy) -> str:
    """Spectral radius at the configured step, in one sentence."""
    what = {
        "stable": f"stable; the slowest mode decays at {-study.growth:.4g} 1/s",
        "unstable": f"unstable; a mode grows at {study.growth:.4g} 1/s",
        "neutral": "neutral; a mode neither grows nor decays (undamped, or free to move)",
    }[study.verdict]
    per = "" if study.cycle == 1 else f" (per macro step, of a cycle of {study.cycle})"
    return (
        f"at the macro step of {study.step:.6g} s: spectral radius {study.radius:.9g}{per}: {what}"
    )


def _head(study: StabilityStudy) -> Text:
    text = Text(f"{study.session}: extrapolation of order {study.order}\n", style="bold")
    style = UNSTABLE if study.verdict == "unstable" else ""
    return text.append(summary_line(study), style=style)


def _subsystems(study: StabilityStudy) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False)
    for heading in ("subsystem", "states", "taken from"):
        table.add_column(heading, justify="right" if heading == "states" else "left")
    for name, states, source in study.subsystems:
        table.add_row(name, str(states), source)
    return table


def crossing_lines(study: StabilityStudy) -> list[tuple[str, str]]:
    """Every crossing and the state above it, as text."""
    return [
        (f"{step:.6g}", "unstable above" if above else "stable above")
        for step, above in study.crossings
    ]


def range_line(study: StabilityStudy) -> str:
    """The searched range, and stability there if there is no crossing."""
    low, high = study.steps[0], study.steps[-1]
    between = f"between {low:.4g} s and {high:.4g} s"
    if study.crossings:
        return f"macro steps where the spectral radius crosses 1, {between}:"
    if study.verdict != "unstable":
        return f"the spectral radius does not cross 1 {between}"
    return (
        f"the spectral radius is above 1 everywhere {between}: even the shortest step does not "
        "help, or the system itself is unstable"
    )


def _crossings(study: StabilityStudy) -> RenderableType:
    line = Text(range_line(study))
    if not study.crossings:
        return line
    table = Table(box=None, pad_edge=False, show_edge=False, show_header=False)
    table.add_column(justify="right")
    table.add_column()
    for step, above in crossing_lines(study):
        table.add_row(f"{step} s", above)
    return Group(line, table)


def _map(drawn: StabilityMap) -> RenderableType:
    columns, rows = (
        thinned(len(drawn.x.values), MAX_COLUMNS),
        thinned(len(drawn.y.values), MAX_ROWS),
    )
    title = f"spectral radius per macro step; across {drawn.x.key}, down {drawn.y.key}"
    table = Table(box=None, pad_edge=False)
    table.add_column("", justify="right")
    for i in columns:
        table.add_column(f"{drawn.x.values[i]:.3g}", justify="right", no_wrap=True)
    for j in reversed(rows):
        cells = [_cell(drawn.radius, j, i) for i in columns]
        table.add_row(f"{drawn.y.values[j]:.4g}", *cells)
    return Group(Text(title), table)


def _cell(radius: Floats, j: int, i: int) -> Text:
    value = float(radius[j, i])
    return Text(f"{value:.5f}" if value < 10.0 else f"{value:.1e}", style=UNSTABLE * (value > 1.0))


def thinned(n: int, most: int) -> Sequence[int]:
    """Thin out `n` indices to at most `most`, including the first and the last."""
    if n <= most:
        return range(n)
    return [round(i * (n - 1) / (most - 1)) for i in range(most)]


STABLE_COLOUR, UNSTABLE_COLOUR, LINE = "#2f7f79", "#c8503c", "#3b82c4"
#: Distance of the spectral radius from 1 at which the colour scale ends.
STRONGEST = 0.3
#: Labels of the colour scale below 1.
LABELS = np.array([0.7, 0.9, 0.99, 0.999])
WIDTH, HEIGHT = 900, 420


def write_page(study: StabilityStudy, folder: Path) -> Path:
    """Write the page into `folder` and return its path.

    Raises
    ------
    RecordError
        If the page cannot be written.
    """
    figures = [draw_curve(study)]
    if study.map is not None:
        figures.append(draw_surface(study.map, study.step))
    script, divs = components(figures)
    body = "".join(f"<section>{div}</section>" for div in divs)
    page = _PAGE.format(
        title=html.escape(f"{study.session}: stability of the coupling"),
        facts=_facts(study),
        library=Resources(mode="inline", components=["bokeh"]).render_js(),
        body=body,
        script=script,
    )
    target = folder / "stability.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(target, page)
    except OSError as error:
        raise RecordError(f"{target}: cannot be written: {error.strerror}") from None
    return target


def draw_curve(study: StabilityStudy) -> Any:
    """Draw the spectral radius over the macro step, with every crossing of 1."""
    plot = figure(
        width=WIDTH,
        height=HEIGHT,
        x_axis_type="log",
        title="Spectral radius per macro step",
        x_axis_label="macro step in s",
        y_axis_label="spectral radius",
        tools="pan,wheel_zoom,box_zoom,reset,save",
        sizing_mode="scale_width",
    )
    finite = np.minimum(study.radii, 1e6)
    # The axis ends at 1.3, so that values near 1 can be distinguished.
    low, high = min(float(finite.min()), 1.0), min(float(finite.max()), 1.3)
    plot.y_range = Range1d(start=low - 0.02, end=max(high, 1.0) + 0.02)
    line = plot.line(study.steps, finite, line_width=2, color=LINE)
    plot.add_tools(
        HoverTool(
            renderers=[line],
            mode="vline",
            tooltips=[("macro step", "@x{0.000e+0} s"), ("radius", "@y{0.000000000}")],
        )
    )
    plot.add_layout(Span(location=1.0, dimension="width", line_color="#7a848e", line_width=1))
    for step, above in study.crossings:
        colour = UNSTABLE_COLOUR if above else STABLE_COLOUR
        plot.add_layout(
            Span(location=step, dimension="height", line_color=colour, line_dash="dashed")
        )
    plot.add_layout(Span(location=study.step, dimension="height", line_color="#7a848e"))
    return plot


def draw_surface(drawn: StabilityMap, step: float) -> Any:
    """Draw the map: green where the coupling is stable, red where it is not, lightest at 1."""
    plot = figure(
        width=WIDTH,
        height=HEIGHT + 100,
        x_axis_type=_scale(drawn.x),
        y_axis_type=_scale(drawn.y),
        x_range=DataRange1d(range_padding=0),
        y_range=DataRange1d(range_padding=0),
        title="Spectral radius over two parameters; the lightest colours meet where it is 1",
        x_axis_label=_label(drawn.x),
        y_axis_label=_label(drawn.y),
        tools="pan,wheel_zoom,box_zoom,reset,save",
        sizing_mode="scale_width",
    )
    mapper = LinearColorMapper(palette=_palette(), low=1.0 - STRONGEST, high=1.0 + STRONGEST)
    x, y = np.array(drawn.x.values, dtype=float), np.array(drawn.y.values, dtype=float)
    left, right = edges(x, drawn.x.logarithmic)
    bottom, top = edges(y, drawn.y.logarithmic)
    across, down = len(y), len(x)
    radius = np.minimum(drawn.radius, 1e6)
    cells = plot.quad(
        left="left",
        right="right",
        bottom="bottom",
        top="top",
        source={
            "left": np.tile(left, across),
            "right": np.tile(right, across),
            "bottom": np.repeat(bottom, down),
            "top": np.repeat(top, down),
            "x": np.tile(x, across),
            "y": np.repeat(y, down),
            "radius": radius.ravel(),
            "shade": shade(radius).ravel(),
        },
        fill_color={"field": "shade", "transform": mapper},
        line_color=None,
    )
    hover = [(drawn.x.key, "@x{0.0000e+0}"), (drawn.y.key, "@y{0.0000e+0}")]
    plot.add_tools(
        HoverTool(renderers=[cells], tooltips=[*hover, ("radius", "@radius{0.000000000}")])
    )
    if drawn.x.key == STEP:
        plot.add_layout(Span(location=step, dimension="height", line_color="#1d2126"))
    if drawn.y.key == STEP:
        plot.add_layout(Span(location=step, dimension="width", line_color="#1d2126"))
    ticks = sorted([*LABELS, 1.0, *(2.0 - LABELS)])
    labels: dict[Any, Any] = {round(float(shade(np.array(r))), 4): f"{r:g}" for r in ticks}
    bar = ColorBar(
        color_mapper=mapper, ticker=FixedTicker(ticks=list(labels)), major_label_overrides=labels
    )
    plot.add_layout(bar, "right")
    plot.grid.visible = False
    return plot


def shade(radius: Floats) -> Floats:
    """Position on the colour scale: signed square root of the distance from 1.

    Most interesting values are within a thousandth of 1.
    """
    distance = radius - 1.0
    bent = np.sign(distance) * np.sqrt(np.abs(distance) * STRONGEST)
    shaded: Floats = 1.0 + np.clip(bent, -STRONGEST, STRONGEST)
    return shaded


def edges(values: Floats, logarithmic: bool) -> tuple[Floats, Floats]:
    """Both edges of the cell around every value, half way to its neighbours."""
    v = np.log(values) if logarithmic else values
    middle = 0.5 * (v[1:] + v[:-1])
    bounds = np.concatenate([[2.0 * v[0] - middle[0]], middle, [2.0 * v[-1] - middle[-1]]])
    bounds = np.exp(bounds) if logarithmic else bounds
    return bounds[:-1], bounds[1:]


def _scale(axis: MapAxis) -> Literal["log", "linear"]:
    return "log" if axis.logarithmic else "linear"


def _label(axis: MapAxis) -> str:
    return "macro step in s" if axis.key == STEP else axis.key


def _palette(n: int = 128) -> list[str]:
    """Palette from the colour of stable through almost white to that of unstable."""
    half = n // 2
    return [*_fade(STABLE_COLOUR, half), *reversed(_fade(UNSTABLE_COLOUR, half))]


def _fade(colour: str, n: int) -> list[str]:
    full = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], dtype=float)
    light = 0.12 * full + 0.88 * 255.0
    mixes: Sequence[Floats] = [full + (light - full) * k / (n - 1) for k in range(n)]
    return ["#" + "".join(f"{round(c):02x}" for c in mix.tolist()) for mix in mixes]


def _facts(study: StabilityStudy) -> str:
    lines = [f"<p>{html.escape(summary_line(study))}</p>"]
    lines.append(f"<p>{html.escape(range_line(study))}</p>")
    crossings = "".join(f"<li>{step} s: {above}</li>" for step, above in crossing_lines(study))
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{states}</td><td>{html.escape(source)}</td></tr>"
        for name, states, source in study.subsystems
    )
    lines.append(f"<ul>{crossings}</ul>" if crossings else "")
    lines.append(
        f"<p>extrapolation of order {html.escape(study.order)}</p><table><tr><th>subsystem</th>"
        f"<th>states</th><th>taken from</th></tr>{rows}</table>"
    )
    lines += [f"<p>left out: {html.escape(text)}</p>" for text in study.left_out]
    return "".join(lines)


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 0 auto; max-width: 1000px; padding: 28px 24px 60px; background: #fbfbfa;
  color: #1d2126; font: 15px/1.5 system-ui, sans-serif; }}
h1 {{ font-size: 24px; font-weight: 650; margin: 0 0 8px; }}
p {{ margin: 4px 0; }}
section {{ background: #fff; border: 1px solid #dfe2e5; border-radius: 8px; padding: 14px 16px;
  margin-top: 16px; }}
table {{ border-collapse: collapse; font-size: 13px; margin: 8px 0; }}
td, th {{ text-align: left; padding: 2px 18px 2px 0; font-weight: 400; }}
th {{ color: #626b75; }}
</style>
{library}
</head>
<body>
<h1>{title}</h1>
{facts}
{body}
{script}
</body>
</html>
"""
