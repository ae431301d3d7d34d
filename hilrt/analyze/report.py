"""``report.html``: one self-contained page about a session, readable without a network.

It is written from ``session.mcap`` and ``summary.json`` alone, so that it can be made again from a
run's folder. Every curve is reduced to its smallest and largest value per interval; the log keeps
the full resolution.
"""

from __future__ import annotations

import datetime
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hilrt.analyze.decimate import read_curves
from hilrt.errors import RecordError
from hilrt.record.reader import LogStream, find_log
from hilrt.wording import missed_ticks, number, words

FILE_NAME = "report.html"
#: Points of all curves together: what keeps the page small whatever the session's length.
POINT_BUDGET = 500_000
MIN_INTERVALS, MAX_INTERVALS = 250, 1500
MAX_EVENTS = 200


def write_report(run_dir: str | Path) -> Path:
    """Write ``report.html`` into a run's folder and return its path.

    Raises
    ------
    RecordError
        If the log cannot be read or the page cannot be written, or bokeh is missing.
    """
    try:
        from bokeh.document import Document
        from bokeh.embed import components
        from bokeh.resources import Resources

        from hilrt.analyze.figures import Material, draw_all
    except ImportError:
        raise RecordError("the report needs bokeh; install hilrt[report]") from None
    file = find_log(run_dir)
    stream = LogStream(file)
    curves = read_curves(stream, _intervals(file))
    summary = _summary(file.parent, stream)
    drawings = draw_all(Material.gather(stream, curves), summary)
    document = Document()
    with document.models.freeze():  # else every new root walks through all the models again
        for drawing in drawings:
            document.add_root(drawing.plot)
    script, divs = components([drawing.plot for drawing in drawings]) if drawings else ("", ())
    resources = Resources(mode="inline", components=["bokeh"])
    figures = "".join(
        f'<section class="figure"><h2>{_text(drawing.heading)}</h2>'
        f"<p>{_text(drawing.note)}</p>{div}</section>"
        for drawing, div in zip(drawings, divs, strict=True)
    )
    page = _PAGE.format(
        title=_text(_session(stream, summary)),
        style=_STYLE,
        library=resources.render_js(),
        head=_head(stream, summary),
        tables=_tables(summary),
        figures=figures,
        events=_events(stream),
        script=script,
        theme=_THEME,
    )
    target = file.parent / FILE_NAME
    try:
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{target}: cannot be written: {error.strerror}") from None
    return target


def _intervals(file: Path) -> int:
    probe = LogStream(file)
    next(probe.blocks(), None)
    signals = sum(len(channel.signals) for channel in probe.channels.values())
    return min(max(POINT_BUDGET // (4 * max(signals, 1)), MIN_INTERVALS), MAX_INTERVALS)


def _summary(folder: Path, stream: LogStream) -> dict[str, Any]:
    """``summary.json`` of the folder, else the one kept in the log, else nothing."""
    file = folder / "summary.json"
    try:
        data = file.read_bytes() if file.is_file() else stream.attachments.get("summary.json", b"")
        summary = json.loads(data) if data else {}
    except OSError as error:
        raise RecordError(f"{file}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise RecordError(f"{file}: is not JSON: {error}") from None
    if not isinstance(summary, dict):
        raise RecordError(f"{file}: is not a session's summary")
    return summary


# -- the page's parts ----------------------------------------------------------------------------


def _text(value: object) -> str:
    return html.escape(str(value))


def _session(stream: LogStream, summary: Mapping[str, Any]) -> str:
    return str(summary.get("session") or stream.metadata.get("session") or "session")


def _head(stream: LogStream, summary: Mapping[str, Any]) -> str:
    verdict = str(summary.get("verdict") or "unknown")
    facts = [_date(stream)]
    if summary:
        facts.append(f"{number(summary.get('time_s'))} s in {summary.get('steps') or 0:,} steps")
        facts.append(f"{number(summary.get('wall_s'))} s on the clock")
    if summary.get("state"):
        facts.append(f"ended {summary['state']}")
    reasons = list(summary.get("reasons") or [])
    if not summary:
        reasons.append("There is no summary: the session did not end in order.")
    if stream.damage:
        reasons.append(
            f"The log is not whole ({stream.damage}); what follows is its readable part."
        )
    missing = int(stream.metadata.get("rows_missing") or 0)
    if missing:
        reasons.append(f"{missing:,} rows are missing in the log (shaded in the figures).")
    items = "".join(f"<li>{_text(reason)}</li>" for reason in reasons)
    return (
        f'<h1>{_text(_session(stream, summary))} <span class="verdict {_text(verdict)}">'
        f'{_text(verdict)}</span></h1><p class="facts">{" · ".join(map(_text, facts))}</p>'
        + (f'<ul class="reasons">{items}</ul>' if items else "")
    )


def _date(stream: LogStream) -> str:
    epoch_s = int(stream.metadata.get("epoch_ns") or 0) / 1e9
    started = datetime.datetime.fromtimestamp(epoch_s, datetime.UTC)
    return f"{started:%Y-%m-%d %H:%M:%S} UTC"


def _tables(summary: Mapping[str, Any]) -> str:
    parts = [_timing_table(summary), _ledger_table(summary), _flag_table(summary)]
    parts += [_peer_table(summary), _port_table(summary), _version_table(summary)]
    return "".join(part for part in parts if part)


def _table(heading: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    if not body:
        return ""
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    return (
        f'<section class="table"><h2>{_text(heading)}</h2><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></section>"
    )


def _timing_table(summary: Mapping[str, Any]) -> str:
    rows = []
    for key, label in (("lateness_us", "lateness, µs"), ("compute_us", "computing, µs")):
        spread = summary.get(key)
        if spread:
            cells = [number(spread.get(q), 3) for q in ("p50", "p99", "p999", "max")]
            rows.append([label, *cells])
    timing = _table("Timing", ["", "median", "p99", "p99.9", "max"], rows)
    if rows and summary.get("lateness_us"):
        note = f"<p>missed ticks: {missed_ticks(summary)}</p>"
        timing = timing.replace("</table>", f"</table>{note}")
    size = summary.get("step_size_s") or {}
    sizes = [[number(size.get(key)) for key in ("first", "min", "mean", "max")]] if size else []
    return timing + _table("Step size, s", ["first", "min", "mean", "max"], sizes)


def _ledger_table(summary: Mapping[str, Any]) -> str:
    rows = []
    for name, bond in (summary.get("bonds") or {}).items():
        energies = [number(bond.get(f"{kind}_energy_j")) for kind in _LEDGER]
        share = bond.get("cap_share")
        rows.append([name, *energies, "–" if share is None else f"{100 * share:.1f} %"])
    columns = ["bond", "exchange", "tracking", "removed", "left", "at cap"]
    return _table("Energy ledger, J", columns, rows)


_LEDGER = ("residual", "tracking", "corrected", "uncorrected")


def _flag_table(summary: Mapping[str, Any]) -> str:
    flags = summary.get("flags") or {}
    rows = [
        [words(cause), f"{flag['count']:,}", number(flag.get("seconds"))]
        for cause, flag in sorted(flags.items(), key=lambda item: -(item[1].get("seconds") or 0))
        if flag.get("count")
    ]
    return _table("Flags", ["cause", "times", "seconds"], rows)


def _peer_table(summary: Mapping[str, Any]) -> str:
    rows = [
        [name, f"{peer.get('late') or 0:,}", f"{peer.get('lost') or 0:,}"]
        for name, peer in (summary.get("peers") or {}).items()
    ]
    return _table("Subsystems", ["", "late", "lost"], rows)


def _port_table(summary: Mapping[str, Any]) -> str:
    rows = []
    for name, port in (summary.get("ports") or {}).items():
        cells = []
        for kind in ("connection_defect", "output_defect"):
            defect = port.get(kind) or {}
            cells += [number(defect.get("rms"), 3), number(defect.get("max"), 3)]
        rows.append([name, *cells, number(port.get("last"))])
    columns = ["port", "connection defect, rms", "max", "output defect, rms", "max", "last value"]
    return _table("Ports", columns, rows)


def _version_table(summary: Mapping[str, Any]) -> str:
    return _table(
        "Versions", ["", ""], [[k, v] for k, v in (summary.get("versions") or {}).items()]
    )


def _events(stream: LogStream) -> str:
    flags = {  # a figure shows these
        signal.name.rpartition(":")[2]
        for channel in stream.channels.values()
        for signal in channel.signals
        if channel.topic == "flags"
    }
    events = [event for event in stream.events if event.cause not in flags]
    shown = sorted(events, key=lambda event: event.t)[:MAX_EVENTS]
    rows = [[f"{e.t:.3f}", e.level, words(e.cause), e.source, e.text] for e in shown]
    heading = (
        "Events" if len(shown) == len(events) else f"First {MAX_EVENTS} of {len(events)} events"
    )
    return _table(heading, ["t in s", "level", "cause", "from", ""], rows)


_STYLE = """
:root { --page: #fbfbfa; --ink: #1d2126; --soft: #626b75; --line: #dfe2e5; --card: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --page: #15181b; --ink: #e4e7ea; --soft: #98a2ac; --line: #31373d; --card: #1c2024; }
}
html { color-scheme: light dark; }
body { margin: 0 auto; max-width: 1180px; padding: 28px 24px 60px; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; font-weight: 650; margin: 0; }
h2 { font-size: 15px; font-weight: 650; margin: 0 0 4px; }
p { margin: 0; color: var(--soft); font-size: 13px; }
.facts { margin: 4px 0 10px; font-size: 14px; }
.reasons { margin: 0 0 18px; padding-left: 20px; }
.verdict { display: inline-block; vertical-align: 3px; margin-left: 8px; padding: 1px 12px;
  border-radius: 99px; font-size: 14px; color: #fff; background: #6b7580; }
.verdict.good { background: #23855c; } .verdict.degraded { background: #b06a12; }
.verdict.unreliable { background: #b93a32; }
.tables { display: flex; flex-wrap: wrap; gap: 16px; margin: 18px 0; }
.table, .figure { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 14px 16px; }
.figure { margin-bottom: 16px; }
.table { overflow-x: auto; max-width: 100%; box-sizing: border-box; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 500; color: var(--soft); padding: 2px 0 4px 18px; }
td { text-align: right; padding: 3px 0 3px 18px; border-top: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
.events td, .events th { text-align: left; }
@media print { body { max-width: none; } .figure, .table { break-inside: avoid; } }
"""

#: The figures are drawn on canvas, which style sheets do not reach.
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
<div class="tables">{tables}</div>
{figures}
<div class="events">{events}</div>
{script}
<script>{theme}</script>
</body>
</html>
"""
