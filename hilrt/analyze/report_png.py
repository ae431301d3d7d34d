"""The figures of a report as PNG pictures, drawn again by matplotlib from the same numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hilrt.analyze.figure_style import Drawing
from hilrt.errors import RecordError
from hilrt.files.whole_file import whole_file


def write_pictures(drawings: Sequence[Drawing], folder: Path) -> list[Path]:
    """One picture per figure; `RecordError` without matplotlib, or if a file cannot be written."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise RecordError("pictures need matplotlib; install hilrt[report]") from None
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, drawing in enumerate(drawings, 1):
            picture = Figure(figsize=(10.0, max(2.6, drawing.plot.height / 80.0)), dpi=110)
            axes = picture.add_subplot()
            _draw(axes, drawing)
            picture.tight_layout()
            slug = re.sub(r"[^a-z0-9]+", "_", drawing.heading.lower()).strip("_")
            target = folder / f"{number:02}_{slug}.png"
            with whole_file(target) as part:
                picture.savefig(part)
            written.append(target)
    except OSError as error:
        raise RecordError(f"{folder}: cannot be written: {error.strerror}") from None
    return written


def _draw(axes: Any, drawing: Drawing) -> None:
    plot = drawing.plot
    axes.set_title(_plain(drawing.heading), loc="left", fontsize=11)
    axes.set_xlabel(_plain(plot.xaxis[0].axis_label))
    axes.set_ylabel(_plain(plot.yaxis[0].axis_label))
    if drawing.draw_picture is not None:
        drawing.draw_picture(axes)
        return
    factors = list(getattr(plot.y_range, "factors", []) or [])
    labels = _labels(plot)
    for renderer in plot.renderers:
        glyph, data = renderer.glyph, renderer.data_source.data
        colour = glyph.line_color if type(glyph).__name__ == "Line" else glyph.fill_color
        style: dict[str, Any] = {"color": colour, "label": labels.get(renderer.id)}
        kind = type(glyph).__name__
        if kind == "Line":
            style |= {"linewidth": 0.7 * glyph.line_width, "alpha": glyph.line_alpha}
            style["linestyle"] = "--" if glyph.line_dash else "-"
            axes.plot(data[glyph.x], data[glyph.y], **style)
        elif kind == "HBar":
            rows = [factors.index(name) for name in data[_field(glyph.y)]]
            left, right = (np.asarray(data[_field(end)]) for end in (glyph.left, glyph.right))
            axes.barh(rows, right - left, left=left, height=0.6, **style)
        elif kind == "Quad":
            left, right = (np.asarray(data[_field(end)]) for end in (glyph.left, glyph.right))
            top = np.asarray(data[_field(glyph.top)])
            axes.bar(left, top, width=right - left, align="edge", **style)
            axes.set_xscale("log")
            axes.set_yscale("log")
    if factors:
        axes.set_yticks(range(len(factors)), [_plain(name) for name in factors])
    if any(labels.values()):
        axes.legend(fontsize=8, loc="best", framealpha=0.6)
    axes.grid(alpha=0.25)


def _field(spec: Any) -> str:
    """Column of the source that a property of a glyph names."""
    return str(getattr(spec, "field", spec))


def _labels(plot: Any) -> dict[str, str]:
    """Renderer to its text in the legend."""
    found = {}
    for legend in plot.legend:
        for item in legend.items:
            text = getattr(item.label, "value", item.label)
            for renderer in item.renderers:
                found[renderer.id] = _plain(text)
    return found


def _plain(text: Any) -> str:
    """Text with dollar signs escaped, which matplotlib would typeset."""
    return str(text or "").replace("$", r"\$")
