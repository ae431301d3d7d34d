"""The HTML of a report page: self-contained, light and dark, with inlined figures of bokeh."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hilrt.analyze.figure_style import Drawing
from hilrt.errors import RecordError
from hilrt.files.text import whole_file
from hilrt.wording import verdict_of


def escape(value: object) -> str:
    """Escape a text for HTML."""
    return html.escape(str(value))


def verdict_badge(summary: Mapping[str, Any]) -> str:
    """Verdict of a session; a lack of evidence has a dashed outline instead of a fill."""
    verdict, told = str(summary.get("verdict") or "unknown"), verdict_of(summary) or "unknown"
    lacking = " lacking" if told != verdict else ""
    return f'<span class="verdict {escape(verdict)}{lacking}">{escape(told)}</span>'


def table(
    heading: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    note: str = "",
    text: Iterable[int] = (),
    marked: Iterable[tuple[int, int]] = (),
) -> str:
    """Table with a heading; empty if there is no row.

    Parameters
    ----------
    text : iterable of int
        Columns of text; others are numbers.
    marked : iterable of (row, column)
        Cells to highlight.
    """
    highlight, left = set(marked), set(text)

    def mark(row: int, column: int) -> str:
        kinds = [("differs", (row, column) in highlight), ("text", column in left)]
        names = " ".join(name for name, on in kinds if on)
        return f' class="{names}"' if names else ""

    body = "".join(
        "<tr>"
        + "".join(f"<td{mark(r, c)}>{escape(cell)}</td>" for c, cell in enumerate(row))
        + "</tr>"
        for r, row in enumerate(rows)
    )
    if not body:
        return ""
    head = "".join(f"<th{mark(-1, c)}>{escape(name)}</th>" for c, name in enumerate(columns))
    tail = f"<p>{escape(note)}</p>" if note else ""
    return (
        f'<section class="table"><h2>{escape(heading)}</h2><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>{tail}</section>"
    )


def tables_html(tables: Iterable[str]) -> str:
    """Tables side by side, as far as there is room; empty without tables."""
    text = "".join(tables)
    return f'<div class="tables">{text}</div>' if text else ""


def render(title: str, head: str, parts: Sequence[str | Drawing]) -> str:
    """Whole page: `head` (HTML), and below it HTML and figures in their order."""
    from bokeh.document import Document
    from bokeh.embed import components
    from bokeh.resources import Resources

    drawings = [part for part in parts if not isinstance(part, str)]
    document = Document()
    with document.models.freeze():  # otherwise every new root traverses all models again
        for drawing in drawings:
            document.add_root(drawing.plot)
    script, divs = components([drawing.plot for drawing in drawings]) if drawings else ("", ())
    places = iter(divs)
    body = "".join(part if isinstance(part, str) else _figure(part, next(places)) for part in parts)
    return _PAGE.format(
        title=escape(title),
        style=_STYLE,
        library=Resources(mode="inline", components=["bokeh"]).render_js(),
        head=head,
        body=body,
        script=script,
        theme=_THEME,
    )


def _figure(drawing: Drawing, div: str) -> str:
    heading, note = escape(drawing.heading), escape(drawing.note)
    return f'<section class="figure"><h2>{heading}</h2><p>{note}</p>{div}</section>'


_STYLE = """
:root { --page: #fbfbfa; --ink: #1d2126; --soft: #626b75; --line: #dfe2e5; --card: #ffffff;
  --mark: #fbe3b5; }
@media (prefers-color-scheme: dark) {
  :root { --page: #15181b; --ink: #e4e7ea; --soft: #98a2ac; --line: #31373d; --card: #1c2024;
    --mark: #5a431a; }
}
html { color-scheme: light dark; }
body { margin: 0 auto; max-width: 1180px; padding: 28px 24px 60px; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; font-weight: 650; margin: 0; }
h2 { font-size: 15px; font-weight: 650; margin: 0 0 4px; }
p { margin: 0; color: var(--soft); font-size: 13px; }
h2.part { font-size: 19px; margin: 28px 0 10px; }
nav { margin: 0 0 14px; font-size: 14px; } nav a { color: inherit; margin-right: 14px; }
.facts { margin: 4px 0 10px; font-size: 14px; }
.reasons { margin: 0 0 18px; padding-left: 20px; }
.verdict { display: inline-block; vertical-align: 3px; margin-left: 8px; padding: 1px 12px;
  border-radius: 99px; font-size: 14px; color: #fff; background: #6b7580; }
.verdict.good { background: #23855c; } .verdict.unverified { background: none;
  color: var(--ink); outline: 2px dashed #8a5cb0; outline-offset: -2px; }
.verdict.degraded { background: #b06a12; }
.verdict.degraded.lacking { background: none; color: var(--ink); outline: 2px dashed #b06a12;
  outline-offset: -2px; }
.verdict.unreliable { background: #b93a32; }
.tables { display: flex; flex-wrap: wrap; gap: 16px; margin: 18px 0; }
.table, .figure { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 14px 16px; }
.figure { margin-bottom: 16px; }
.table, .figure { overflow-x: auto; max-width: 100%; box-sizing: border-box; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 500; color: var(--soft); padding: 2px 0 4px 18px; }
td { text-align: right; padding: 3px 0 3px 18px; border-top: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
td.differs { background: var(--mark); border-radius: 3px; }
.advice { background: var(--card); border: 1px solid var(--line); border-left: 4px solid #3b82c4;
  border-radius: 6px; padding: 10px 14px; margin: 14px 0 0; color: var(--ink); font-size: 14px; }
.events td, .events th, td.text, th.text { text-align: left; }
@media print { body { max-width: none; } .figure, .table { break-inside: avoid; } }
"""

#: Script that sets the colours of figures on a canvas, to which style sheets do not apply.
_THEME = """
function followPageColours() {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim();
  const soft = style.getPropertyValue("--soft").trim();
  const line = style.getPropertyValue("--line").trim();
  for (const doc of Bokeh.documents) for (const plot of doc.roots()) {
    const parts = [plot.above, plot.below, plot.left, plot.right, plot.center].flat();
    for (const part of parts) {
      if (part.type === "Grid") part.grid_line_color = line;
      else if (part.type.includes("ColorBar")) part.setv({title_text_color: soft,
        major_label_text_color: soft});
      else if (part.type === "Legend") part.label_text_color = ink;
      else if (part.axis_label !== undefined) part.setv({axis_label_text_color: soft,
        major_label_text_color: soft, axis_line_color: line, major_tick_line_color: line,
        minor_tick_line_color: null});
    }
  }
}
window.addEventListener("load", () => {
  const wait = setInterval(() => {
    if (window.Bokeh && Bokeh.documents.length) { clearInterval(wait); followPageColours(); }
  }, 30);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", followPageColours);
});
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
{library}
</head>
<body>
<header>{head}</header>
{body}
{script}
<script>{theme}</script>
</body>
</html>
"""


def write_pictures(drawings: Sequence[Drawing], folder: Path) -> list[Path]:
    """Write one picture per figure; `RecordError` without matplotlib, or if that fails."""
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
        if type(glyph).__name__ == "VSpan":
            for t, colour in zip(data["t"], data["colour"], strict=True):
                axes.axvline(t, color=colour, linestyle=":", linewidth=1.0)
            continue
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
    """Name of the source's column for a property of a glyph."""
    return str(getattr(spec, "field", spec))


def _labels(plot: Any) -> dict[str, str]:
    """Texts of the legend by renderer."""
    found = {}
    for legend in plot.legend:
        for item in legend.items:
            text = getattr(item.label, "value", item.label)
            for renderer in item.renderers:
                found[renderer.id] = _plain(text)
    return found


def _plain(text: Any) -> str:
    """Escape dollar signs, between which matplotlib would typeset text."""
    return str(text or "").replace("$", r"\$")
