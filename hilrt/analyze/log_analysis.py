"""All data of one log for a report; the log is read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hilrt.analyze.can_traffic import CanTraffic, read_traffic
from hilrt.analyze.curves import read_curves
from hilrt.analyze.log_statistics import LogStatistics
from hilrt.analyze.report_accumulator import intervals, read_accumulated
from hilrt.analyze.rows_summary import summarise_rows
from hilrt.analyze.step_advice import Advice, advise
from hilrt.config.parse_toml import parse_toml
from hilrt.config.session_file import apply_override
from hilrt.errors import ConfigError, RecordError
from hilrt.files.formats import parse_json
from hilrt.files.text import read_regular
from hilrt.record.decimate import Curve
from hilrt.record.find_log import find_log
from hilrt.record.messages import FILE_NAME as LOG_NAME
from hilrt.record.reader import LogStream


def changes_of(metadata: Mapping[str, str], key: str) -> list[str]:
    """``table.key=value`` texts under a key of the metadata: ``overrides``, ``what_if``."""
    try:
        return [str(item) for item in parse_json(metadata.get(key) or "[]")]
    except (ValueError, TypeError):  # from another version
        return []


def recorded_settings(
    metadata: Mapping[str, str], attachments: Mapping[str, bytes]
) -> dict[str, Any]:
    """Effective tables of the session file in a log; empty if there is none."""
    files = [name for name in attachments if name.endswith(".toml")]
    named = metadata.get("session_file", "")
    for name in [named] * (named in files) + files:
        try:
            tables = parse_toml(attachments[name].decode())
        except ValueError:  # no TOML, or no UTF-8
            continue
        for change in changes_of(metadata, "overrides") + changes_of(metadata, "what_if"):
            try:
                apply_override(tables, change)
            except ConfigError:  # from a file of another version
                continue
        return tables
    return {}


@dataclass
class LogAnalysis:
    """A log read once, with all data for a page or a comparison.

    Attributes
    ----------
    file : Path
    stream : LogStream
        The read stream, with its events, metadata and attachments.
    curves : dict of str to Curve
    statistics : LogStatistics
    summary : dict
        ``summary.json`` if it exists, otherwise the same figures from the rows.
    summarised : bool
        Whether ``summary.json`` existed.
    settings : dict
        Effective tables of its session file.
    advice : Advice or None
        Recommended step.
    """

    file: Path
    stream: LogStream
    curves: dict[str, Curve]
    statistics: LogStatistics
    summary: dict[str, Any]
    summarised: bool
    settings: dict[str, Any]
    advice: Advice | None

    @property
    def deadline_us(self) -> float | None:
        """Permitted lateness of inputs in real time, µs; None if the log lacks it."""
        master, pace = self.settings.get("master") or {}, self.stream.metadata.get("pace", "")
        try:
            factor = 1.0 if pace == "realtime" else float(pace)
            return (
                float(master.get("dispatch_deadline", 0.2)) * float(master["step"]) / factor * 1e6
            )
        except (ValueError, TypeError, KeyError, ZeroDivisionError):
            return None

    def can_traffic(self) -> CanTraffic | None:
        """Read the CAN frames of the log; None if there are none."""
        span_ns = (self.statistics.start_ns, self.statistics.end_ns)
        metadata, attachments = self.stream.metadata, self.stream.attachments
        return read_traffic(self.file, metadata, self.settings, attachments, span_ns)

    def as_json(self, traffic: CanTraffic | None = None) -> dict[str, Any]:
        """The numbers of the page, for scripts."""
        return {
            "log": self.file.name,
            "metadata": self.stream.metadata,
            "damage": self.stream.damage,
            "summary": self.summary,
            "summarised": self.summarised,
            "step_advice": None if self.advice is None else self.advice.as_json(),
            "worst_steps": [vars(step) for step in self.statistics.worst_steps()],
            "can": None if traffic is None else [m.as_json() for m in traffic.messages],
        }


def analyse_log(path: str | Path) -> LogAnalysis:
    """Read a log once.

    Raises
    ------
    RecordError
        If it cannot be read.
    """
    file = find_log(path)
    stream, curves, statistics = read_accumulated(file) or read_rows(file)
    summary = _summary(file, stream)
    settings = recorded_settings(stream.metadata, stream.attachments)
    return LogAnalysis(
        file=file,
        stream=stream,
        curves=curves,
        statistics=statistics,
        summary=summarise_rows(statistics, stream.metadata, stream.events) | summary,
        summarised=bool(summary),
        settings=settings,
        advice=advise(
            statistics,
            settings,
            bonds_of(stream),
            _named_step(summary),
            summary.get("sending_interval_s") or {},
            summary.get("stable_step_s"),
        ),
    )


def _named_step(summary: Mapping[str, Any]) -> float | None:
    """Step recommended by the advice in a summary, s."""
    steps = [
        step
        for change in summary.get("advice") or ()
        if isinstance(step := change["settings"].get("master.step"), float)
    ]
    return min(steps, default=None)


def read_rows(file: Path) -> tuple[LogStream, dict[str, Curve], LogStatistics]:
    """Read the whole log."""
    probe = LogStream(file)
    next(probe.blocks(), None)
    limit = intervals(sum(len(channel.signals) for channel in probe.channels.values()))
    stream = LogStream(file)
    statistics = LogStatistics()
    return stream, read_curves(stream, limit, also=statistics.add), statistics


def bonds_of(stream: LogStream) -> dict[str, dict[str, str]]:
    """Bond to the names of its ``effort`` and ``flow``, from the log's metadata."""
    try:
        bonds = parse_json(stream.metadata.get("bonds", "[]"))
        return {bond["name"]: bond for bond in bonds}
    except (ValueError, TypeError, KeyError):  # a log of another version: fewer figures
        return {}


def _summary(file: Path, stream: LogStream) -> dict[str, Any]:
    """The summary in the log or beside it; empty if there is none."""
    beside = file.parent / "summary.json"
    try:
        data = stream.attachments.get("summary.json", b"")
        if file.name == LOG_NAME and beside.is_file():
            data = read_regular(beside)
        summary = parse_json(data) if data else {}
    except OSError as error:
        raise RecordError(f"{beside}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise RecordError(f"{beside}: is not JSON: {error}") from None
    if not isinstance(summary, dict):
        raise RecordError(f"{beside}: is not a session's summary")
    return summary
