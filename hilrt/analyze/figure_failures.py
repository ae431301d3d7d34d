"""Figures around what has failed, or stayed inconclusive: the signals that were judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bokeh.models import Range1d
from bokeh.models.annotations import Span

from hilrt.analyze.figure_style import Drawing
from hilrt.analyze.figures import Material, draw_lines
from hilrt.analyze.log_analysis import LogAnalysis

#: Time that is shown on either side of the sample that decides, s.
AROUND_S = 1.0
#: Results with figures of their own; those that failed come first.
MAX_FAILURES = 12
_COLOURS = {"failed": "#b93a32", "inconclusive": "#b06a12"}


def draw_failures(analysis: LogAnalysis) -> list[Drawing]:
    """One figure for each unit of the signals of a result that has not passed."""
    material = Material.gather(analysis.stream, analysis.curves)
    results = [one for one in analysis.summary.get("results") or () if one["result"] in _COLOURS]
    results.sort(key=lambda one: one["result"] != "failed")
    found: list[Drawing] = []
    for result in results[:MAX_FAILURES]:
        if result.get("t") is not None:
            found += _draw(material, result)
    return found


def _draw(material: Material, result: Mapping[str, Any]) -> list[Drawing]:
    t = float(result["t"])
    start, end = material.span()
    shown = Range1d(start=max(start, t - AROUND_S), end=min(end, t + AROUND_S))
    by_unit: dict[str, list[str]] = {}
    for name in material.present(result.get("signals") or ()):
        by_unit.setdefault(material.units.get(name, ""), []).append(name)
    drawings = []
    for names in by_unit.values():
        plot = draw_lines(material, shown, names)
        colour = _COLOURS[result["result"]]
        plot.add_layout(Span(location=t, dimension="height", line_color=colour, line_dash="dashed"))
        heading = f"{result['name']}: {result['result']}"
        drawings.append(Drawing(heading, f"{result['text']}; decided at {t:.4f} s", plot))
    return drawings
