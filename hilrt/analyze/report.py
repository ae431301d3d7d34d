"""``report.html``: one self-contained page about a session, readable without a network.

It is written from the log alone; a ``summary.json`` beside it or inside it adds what the rows do
not tell. Every curve is reduced to its smallest and largest value per interval; the log keeps the
full resolution.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hilrt.analyze.decimate import Curve, read_curves
from hilrt.analyze.page import escape, render
from hilrt.analyze.report_tables import all_tables, event_table
from hilrt.analyze.step_advice import Advice, advise, caps_of
from hilrt.analyze.tally import Tally
from hilrt.errors import RecordError
from hilrt.record.messages import FILE_NAME as LOG_NAME
from hilrt.record.reader import LogStream, find_log
from hilrt.wording import number

FILE_NAME = "report.html"
#: Points of all curves together: what keeps the page small whatever the session's length.
POINT_BUDGET = 500_000
MIN_INTERVALS, MAX_INTERVALS = 250, 1500


@dataclass
class Digest:
    """A log read once, with everything that a page or a comparison needs.

    Attributes
    ----------
    file : Path
    stream : LogStream
        Read to its end: events, metadata, attachments.
    curves : dict of str to Curve
    tally : Tally
    summary : dict
        ``summary.json`` where there is one, with what the rows tell.
    summarised : bool
        Whether there was one.
    advice : Advice or None
        Recommended step.
    """

    file: Path
    stream: LogStream
    curves: dict[str, Curve]
    tally: Tally
    summary: dict[str, Any]
    summarised: bool
    advice: Advice | None

    def as_json(self) -> dict[str, Any]:
        """The numbers of the page, for scripts."""
        return {
            "log": self.file.name,
            "metadata": self.stream.metadata,
            "damage": self.stream.damage,
            "summary": self.summary,
            "summarised": self.summarised,
            "step_advice": None if self.advice is None else self.advice.as_json(),
            "worst_steps": [vars(step) for step in self.tally.worst_steps()],
        }


def read_digest(path: str | Path) -> Digest:
    """Read a log once.

    Raises
    ------
    RecordError
        If it cannot be read, or bokeh is missing.
    """
    file = find_log(path)
    stream = LogStream(file)
    tally = Tally(caps=lambda: caps_of(stream))
    curves = read_curves(stream, _intervals(file), also=tally.add)
    summary = _summary(file, stream)
    return Digest(
        file=file,
        stream=stream,
        curves=curves,
        tally=tally,
        summary=_completed(summary, tally.summary()),
        summarised=bool(summary),
        advice=advise(tally, stream.attachments, _bonds(stream)),
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
        Every figure as a picture too, in a folder beside the page.
    json_ : bool
        The numbers as JSON too, beside the page.

    Raises
    ------
    RecordError
        If the log cannot be read or the page cannot be written, or bokeh is missing.
    """
    try:
        from hilrt.analyze.figure_steps import draw_worst
        from hilrt.analyze.figures import Material, draw_all
    except ImportError:
        raise RecordError("the report needs bokeh; install hilrt[report]") from None
    digest = read_digest(run_dir)
    drawings = draw_all(Material.gather(digest.stream, digest.curves), digest.summary)
    drawings += draw_worst(digest.tally.worst_steps())
    page = render(
        _session(digest.stream, digest.summary),
        _head(digest) + _advice(digest.advice),
        all_tables(digest.summary, digest.tally, _bonds(digest.stream)),
        drawings,
        event_table(digest.stream),
    )
    target = out or default_target(digest.file)
    save(target, page)
    if json_:
        text = json.dumps(digest.as_json(), indent=1, ensure_ascii=False, default=str)
        save(target.with_suffix(".json"), text)
    if png:
        from hilrt.analyze.report_png import write_pictures

        write_pictures(drawings, target.with_suffix(""))
    return target


def default_target(file: Path) -> Path:
    """Where the page about a log goes."""
    return file.with_name(FILE_NAME) if file.name == LOG_NAME else file.with_suffix(".html")


def save(target: Path, text: str) -> None:
    """Write a text file; `RecordError` if the disk does not take it."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{target}: cannot be written: {error.strerror}") from None


def _intervals(file: Path) -> int:
    probe = LogStream(file)
    next(probe.blocks(), None)
    signals = sum(len(channel.signals) for channel in probe.channels.values())
    return min(max(POINT_BUDGET // (4 * max(signals, 1)), MIN_INTERVALS), MAX_INTERVALS)


def _bonds(stream: LogStream) -> dict[str, dict[str, str]]:
    from hilrt.analyze.figures import bonds_of

    return bonds_of(stream)


def _summary(file: Path, stream: LogStream) -> dict[str, Any]:
    """The one kept in the log, else ``summary.json`` beside a session's log, else nothing."""
    beside = file.parent / "summary.json"
    try:
        data = stream.attachments.get("summary.json", b"")
        if file.name == LOG_NAME and beside.is_file():
            data = beside.read_bytes()
        summary = json.loads(data) if data else {}
    except OSError as error:
        raise RecordError(f"{beside}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise RecordError(f"{beside}: is not JSON: {error}") from None
    if not isinstance(summary, dict):
        raise RecordError(f"{beside}: is not a session's summary")
    return summary


def _completed(summary: dict[str, Any], rows: dict[str, Any]) -> dict[str, Any]:
    """The summary, and of each table in it what only the rows tell."""
    found = {**rows, **summary}
    for key in ("bonds", "peers"):
        mine, theirs = rows.get(key) or {}, summary.get(key) or {}
        found[key] = {
            name: {**mine.get(name, {}), **theirs.get(name, {})} for name in mine | theirs
        }
    for bond in found["bonds"].values():
        if bond.get("cap_share") is not None and summary:  # the master counted every step
            bond["cap_hits"] = round(bond["cap_share"] * found["steps"])
    return found


# -- the page's parts ----------------------------------------------------------------------------


def _session(stream: LogStream, summary: Mapping[str, Any]) -> str:
    return str(summary.get("session") or stream.metadata.get("session") or "session")


def _head(digest: Digest) -> str:
    stream, summary = digest.stream, digest.summary
    verdict = str(summary.get("verdict") or "unknown")
    facts = [_date(stream)]
    facts.append(f"{number(summary.get('time_s'))} s in {summary.get('steps') or 0:,} steps")
    if digest.summarised:
        facts.append(f"{number(summary.get('wall_s'))} s on the clock")
    if summary.get("state"):
        facts.append(f"ended {summary['state']}")
    facts += _machine(summary)
    reasons = list(summary.get("reasons") or [])
    if "cut.of" in stream.metadata:
        reasons.append(
            f"A part of {stream.metadata['cut.of']}: {stream.metadata['cut.from_s']} s to "
            f"{stream.metadata['cut.to_s']} s; the numbers are of this part."
        )
    elif not digest.summarised:
        reasons.append(
            "There is no summary: the session did not end in order. The numbers are from the rows."
        )
    if stream.damage:
        reasons.append(
            f"The log is not whole ({stream.damage}); what follows is its readable part."
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
    items = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
    return (
        f'<h1>{escape(_session(stream, summary))} <span class="verdict {escape(verdict)}">'
        f'{escape(verdict)}</span></h1><p class="facts">{" · ".join(map(escape, facts))}</p>'
        + (f'<ul class="reasons">{items}</ul>' if items else "")
    )


def _machine(summary: Mapping[str, Any]) -> list[str]:
    """Where it ran, as far as the host report says."""
    host = summary.get("host") or {}
    keys = ("hostname", "cpu", "kernel")
    return [str(host[key]) for key in keys if isinstance(host, dict) and host.get(key)]


def _advice(advice: Advice | None) -> str:
    return "" if advice is None else f'<p class="advice">{escape(advice.text)}</p>'


def _date(stream: LogStream) -> str:
    epoch_s = int(stream.metadata.get("epoch_ns") or 0) / 1e9
    started = datetime.datetime.fromtimestamp(epoch_s, datetime.UTC)
    return f"{started:%Y-%m-%d %H:%M:%S} UTC"
