"""A stability analysis in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from hilrt.analyze.stability_study import StabilityMap, StabilityStudy
from hilrt.solver import Floats

#: What fits a terminal; a larger map is thinned out.
MAX_COLUMNS, MAX_ROWS = 7, 24
UNSTABLE = "bold red"


def show(study: StabilityStudy, console: Console) -> None:
    """Print everything but the curve."""
    console.print(render(study), highlight=False)


def render(study: StabilityStudy) -> RenderableType:
    """The whole text."""
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
    """Every crossing and what lies above it, as text."""
    return [
        (f"{step:.6g}", "unstable above" if above else "stable above")
        for step, above in study.crossings
    ]


def range_line(study: StabilityStudy) -> str:
    """The searched range, and what holds in it where nothing crosses."""
    low, high = study.steps[0], study.steps[-1]
    between = f"between {low:.4g} s and {high:.4g} s"
    if study.crossings:
        return f"macro steps where the spectral radius crosses 1, {between}:"
    if study.verdict != "unstable":
        return f"the spectral radius does not cross 1 {between}"
    return (
        f"the spectral radius is above 1 everywhere {between}: even the shortest step does not "
        "help, or the system grows by itself"
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
    """At most `most` indices out of `n`, the first and the last among them."""
    if n <= most:
        return range(n)
    return [round(i * (n - 1) / (most - 1)) for i in range(most)]
