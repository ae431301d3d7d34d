"""``report.html``: one self-contained page about a session, readable without a network.

It is made from the log; a ``summary.json`` beside or in the log adds values that the rows do not
contain. Every curve is reduced to its smallest and largest value per interval.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hilrt.analyze.figure_style import Drawing
from hilrt.analyze.figure_timing import can_table, draw_report
from hilrt.analyze.figures import draw_failures
from hilrt.analyze.log_analysis import LogAnalysis, analyse_log, bonds_of, changes_of
from hilrt.analyze.measured_points import draw_maps, measured_points, point_table, results_of
from hilrt.analyze.report_page import escape, render, tables_html, verdict_badge
from hilrt.analyze.report_tables import (
    alarm_table,
    event_table,
    long_tables,
    result_table,
    short_tables,
)
from hilrt.analyze.step_advice import Advice
from hilrt.documentation import in_documentation
from hilrt.errors import RecordError
from hilrt.files.text import write_whole
from hilrt.record.messages import FILE_NAME as LOG_NAME
from hilrt.record.reader import LogStream
from hilrt.wording import number, reason_text

FILE_NAME = "report.html"
#: Pages of the documentation that explain a report.
EXPLAINED = (
    f"Verdict and flags are explained in {in_documentation('docs/reliability.md')}, the numbers in "
    f"{in_documentation('docs/summary.md')}, and the signals in "
    f"{in_documentation('docs/recording.md')}."
)


def write_report(
    run_dir: str | Path, out: Path | None = None, *, png: bool = False, json_: bool = False
) -> Path:
    """Write the page about a log and return its path.

    Parameters
    ----------
    run_dir : str or Path
        A run's folder, or a log.
    out : Path, optional
        Default: ``report.html`` beside a ``session.mcap``, else the log's name with ``.html``.
    png : bool
        Also write every figure as a picture, in a folder beside the page.
    json_ : bool
        Also write the numbers as JSON, beside the page.

    Raises
    ------
    RecordError
        If the log cannot be read or the page cannot be written.
    """
    return write_page(analyse_log(run_dir), out, png=png, json_=json_)


def write_page(
    analysis: LogAnalysis, out: Path | None = None, *, png: bool = False, json_: bool = False
) -> Path:
    """Write the page about a log that has been read; see `write_report`."""
    summary, statistics = analysis.summary, analysis.statistics
    traffic = analysis.can_traffic()
    points = measured_points(results_of(analysis))
    failures, maps = draw_failures(analysis), draw_maps(points)
    figures = draw_report(analysis, traffic)
    events = event_table(analysis.stream)
    bonds = bonds_of(analysis.stream)
    long = [can_table(traffic)] if traffic is not None else []
    parts: dict[str, list[str | Drawing]] = {
        "Signals": [*figures.physical],
        "Numbers and events": [
            tables_html(short_tables(summary, statistics, bonds)),
            f'<div class="events">{events}</div>' if events else "",
        ],
        "Diagnostics": [
            *figures.diagnostic,
            tables_html([*long, *long_tables(summary, statistics)]),
        ],
    }
    page = render(
        _session(analysis.stream, summary),
        _head(analysis) + _advice(analysis.advice) + _links(parts),
        [
            tables_html([alarm_table(summary), result_table(summary)]),
            *failures,
            tables_html([point_table(one) for one in points]),
            *maps,
            *(one for heading, contents in parts.items() for one in _part(heading, contents)),
        ],
    )
    target = out or default_target(analysis.file)
    save(target, page)
    if json_:
        numbers = analysis.as_json(traffic)
        text = json.dumps(numbers, indent=1, ensure_ascii=False, default=str)
        save(target.with_suffix(".json"), text)
    if png:
        from hilrt.analyze.report_page import write_pictures

        drawings = [*failures, *maps, *figures.physical, *figures.diagnostic]
        write_pictures(drawings, target.with_suffix(""))
    return target


def default_target(file: Path) -> Path:
    """Default path of the page about a log."""
    return file.with_name(FILE_NAME) if file.name == LOG_NAME else file.with_suffix(".html")


def save(target: Path, text: str) -> None:
    """Write a text file; `RecordError` if it cannot be written."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, text)
    except OSError as error:
        raise RecordError(f"{target}: cannot be written: {error.strerror}") from None


def _part(heading: str, contents: Sequence[str | Drawing]) -> list[str | Drawing]:
    """Part of the page under a heading with an anchor; empty without contents."""
    if not any(contents):
        return []
    return [f'<h2 class="part" id="{_anchor(heading)}">{heading}</h2>', *contents]


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _links(parts: Mapping[str, Sequence[str | Drawing]]) -> str:
    """Links to the parts that have contents."""
    headings = [heading for heading, contents in parts.items() if any(contents)]
    return "<nav>" + " ".join(f'<a href="#{_anchor(h)}">{h}</a>' for h in headings) + "</nav>"


# -- the page's parts ----------------------------------------------------------------------------


def _session(stream: LogStream, summary: Mapping[str, Any]) -> str:
    return str(summary.get("session") or stream.metadata.get("session") or "session")


def _head(analysis: LogAnalysis) -> str:
    stream, summary = analysis.stream, analysis.summary
    facts = [_date(stream)]
    facts.append(f"{number(summary.get('time_s'))} s in {summary.get('steps') or 0:,} steps")
    if analysis.summarised:
        facts.append(f"{number(summary.get('wall_s'))} s on the clock")
    if summary.get("state"):
        facts.append(f"ended {summary['state']}")
    facts += _machine(summary)
    reasons = [*map(reason_text, summary.get("reasons") or ()), *notes_of(analysis)]
    items = "".join(f"<li>{escape(reason)}</li>" for reason in dict.fromkeys(reasons))
    return (
        f"<h1>{escape(_session(stream, summary))} {verdict_badge(summary)}</h1>"
        f'<p class="facts">{" · ".join(map(escape, facts))}</p>'
        + (f'<ul class="reasons">{items}</ul>' if items else "")
        + f'<p class="facts">{EXPLAINED}</p>'
    )


def notes_of(analysis: LogAnalysis) -> list[str]:
    """Notes on a log's figures: their origin, and what is missing."""
    stream, reasons = analysis.stream, []
    if "cut.of" in stream.metadata:
        reasons.append(
            f"A part of {stream.metadata['cut.of']}: {stream.metadata['cut.from_s']} s to "
            f"{stream.metadata['cut.to_s']} s; the numbers are for this part only."
        )
    elif not analysis.summarised:
        lost = any(event.cause == "master_lost" for event in stream.events)
        why = ": the session did not end normally" if lost or stream.damage else " in this log"
        reasons.append(f"There is no summary{why}. Figures and verdict are computed from the rows.")
    if stream.damage:
        reasons.append(
            f"The log is incomplete ({stream.damage}); this page shows its readable part."
        )
    missing = int(stream.metadata.get("rows_missing") or 0)
    if missing:
        reasons.append(f"{missing:,} rows are missing in the log (shaded in the figures).")
    left_out = int(stream.metadata.get("rows_left_out") or 0)
    if left_out:
        reasons.append(f"{left_out:,} rows without a trigger are left out (shaded, too).")
    frames = int(stream.metadata.get("frames_missing") or 0)
    if frames:
        reasons.append(f"{frames:,} CAN frames are missing in the log.")
    if caveat := stream.metadata.get("what_if_caveat"):
        changes = ", ".join(changes_of(stream.metadata, "what_if"))
        reasons.append(f"Decisions repeated with {changes}. {caveat}")
    return reasons


def _machine(summary: Mapping[str, Any]) -> list[str]:
    """Name, processor and kernel of the machine, as far as the host report has them."""
    host = summary.get("host") or {}
    keys = ("hostname", "cpu", "kernel")
    return [str(host[key]) for key in keys if isinstance(host, dict) and host.get(key)]


def _advice(advice: Advice | None) -> str:
    return "" if advice is None else f'<p class="advice">{escape(advice.text)}</p>'


def _date(stream: LogStream) -> str:
    epoch_s = int(stream.metadata.get("epoch_ns") or 0) / 1e9
    started = datetime.datetime.fromtimestamp(epoch_s, datetime.UTC)
    return f"{started:%Y-%m-%d %H:%M:%S} UTC"
