"""Content of `summary.json`, computed from the rows of the log alone.

Used for a session that was killed, a part that was cut out, or a log of a replay. Every figure is
defined so that rows and master give the same value; figures that rows do not contain (time on the
clock, the host's share, response times of solvers, lost messages) are left out.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from hilrt.analyze.log_statistics import LogStatistics, SignalStatistics
from hilrt.files.formats import json_numbers, parse_json
from hilrt.monitor.operator_commands import ALL_BEFORE
from hilrt.record.reader import LogEvent
from hilrt.reliability.alarms import AlarmHistory
from hilrt.reliability.causes import CAUSES
from hilrt.reliability.estimates import Estimate
from hilrt.reliability.flags import FlagTotal, longest_first
from hilrt.reliability.summary_figures import (
    StepLengths,
    bond_figures,
    judged,
    order_figures,
    peer_figures,
    port_figures,
    session_figures,
    timing_figures,
)
from hilrt.reliability.verdict import SessionCourse
from hilrt.timing.timeline import LONGEST, STAGES

_NOTHING = SignalStatistics()
_CHANGE = re.compile(r"[A-Z]+ -> ([A-Z]+): (.*)", re.DOTALL)
#: Energies of a bond, each with a signal that is its sum.
_ENERGIES = ("residual", "tracking", "corrected", "shadow", "drift")


def summarise_rows(
    statistics: LogStatistics, metadata: Mapping[str, str], events: Iterable[LogEvent]
) -> dict[str, Any]:
    """Compute the figures of ``summary.json`` from rows; those that are not finite are None."""
    stats, intervals = statistics.stats, statistics.intervals
    time_s = intervals.together * 1e-9 if intervals.number else statistics.duration_s
    timing = _timing(statistics, _is_real_time(stats, metadata))
    course = SessionCourse(
        time_s,
        fault_of(events),
        timing.get("missed_ticks", 0),
        steps=intervals.number,
        unrecorded=int(metadata.get("rows_missing", 0)),
        secured=secured_by(events),
        errors=_unknown_errors(statistics) if intervals.number else {},
    )
    histories = {cause: one.as_json(time_s) for cause, one in _histories(events).items()}
    totals = _flags(stats, histories)
    lengths = StepLengths(intervals.first, intervals.shortest, intervals.longest)
    found: dict[str, Any] = {
        **session_figures(metadata.get("session", ""), course, lengths, totals),
        **_origin(metadata),
        "order": _order(stats.get("master:order", _NOTHING), metadata),
        "ports": _ports(statistics),
        "bonds": _bonds(statistics, metadata),
        **timing,
        "alarms": histories["alarm"],
        "peers": _peers(statistics),
        **_ended(events),
    }
    if "rows_missing" in metadata:
        found["recorder"] = {"dropped_rows": int(metadata["rows_missing"])}
    if metadata.get("identifies") == "True" and (learns := stats.get("cut:learns")) is not None:
        turns = round(learns.total)
        found["identification"] = {"turns": turns, "skipped": learns.count - turns}
    if "missed_ticks" in timing:  # else a log that has no session's rows
        found |= judged(course, _judgeable(totals))
    clean: dict[str, Any] = json_numbers(found)
    return clean


def _origin(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Session file and overrides, if the log names them."""
    if "session_file" not in metadata:
        return {}
    found: dict[str, Any] = {"session_file": metadata["session_file"]}
    with contextlib.suppress(ValueError):
        found["overrides"] = parse_json(metadata.get("overrides", "[]"))
    return found


def _is_real_time(stats: Mapping[str, SignalStatistics], metadata: Mapping[str, str]) -> bool:
    if pace := metadata.get("pace"):
        return pace != "asap"
    return stats.get("master:lateness", _NOTHING).largest > 0.0


def _order(orders: SignalStatistics, metadata: Mapping[str, str]) -> dict[str, float] | None:
    if not orders.count or metadata.get("controls_order") != "True":
        return None
    mean = orders.total / orders.count
    return order_figures(int(orders.low), mean, int(orders.high))


def _flags(
    stats: Mapping[str, SignalStatistics], histories: Mapping[str, list[dict[str, Any]]]
) -> dict[str, FlagTotal]:
    """Total of each cause; NaN for affected steps in logs of older versions."""
    found: dict[str, FlagTotal] = {}
    for name, flag in stats.items():
        cause = name.removeprefix("flag:")
        if cause == name or not flag.rises:
            continue
        affected, second = (stats.get(f"flags:{cause}:{key}") for key in ("affected", "second"))
        known = (math.nan, math.nan)
        if affected is not None and second is not None:
            known = (affected.change, second.high)
        seconds = {one["name"]: one["active_s"] for one in histories.get(cause, ())}
        found[cause] = FlagTotal(flag.rises, flag.above, *known, longest_first(seconds))
    return found


def _judgeable(totals: Mapping[str, FlagTotal]) -> dict[str, FlagTotal]:
    """Totals of known causes; the time that a flag was up replaces unknown values."""
    return {
        cause: total._replace(affected_s=total.seconds, worst_second=0.0)
        if math.isnan(total.worst_second)
        else total
        for cause, total in totals.items()
        if cause in CAUSES
    }


def _timing(statistics: LogStatistics, real_time: bool) -> dict[str, Any]:
    """Breakdown of the ticks' time, as far as the log contains it."""
    stats, times = statistics.stats, statistics.times
    late = None
    if real_time and "master:lateness" in times:
        lateness = times["master:lateness"]
        late = (lateness.quantiles(), lateness.histogram())
    found = timing_figures(late, [] if late is None else _slowest(statistics))
    if "master:compute" in times:
        found["compute_us"] = times["master:compute"].quantiles()
    if all(f"master:{stage}" in times for stage in STAGES):
        found["timeline_us"] = {stage: times[f"master:{stage}"].quantiles() for stage in STAGES}
    if "master:overdue" in stats:
        skipped = round(stats["master:skipped"].total)
        causes = dict(zip(LONGEST, statistics.overdue_parts, strict=False)) | {"skipped": skipped}
        found["missed_because"] = {cause: count for cause, count in causes.items() if count}
        found["missed_ticks"] = round(stats["master:overdue"].total) + skipped
    return found


def _slowest(statistics: LogStatistics) -> list[dict[str, Any]]:
    found = []
    for step in statistics.worst_steps():
        values = step.values
        if step.key != "master:lateness" or "master:longest" not in values:
            return []
        marks = {name.removesuffix(":late"): mark for name, mark in values.items()}
        entry = {
            "tick": step.tick,
            "t": step.t,
            "lateness_us": values["master:lateness"],
            **{f"{stage}_us": values[f"master:{stage}"] for stage in STAGES},
            "cause": LONGEST[int(values["master:longest"])],
            "late": [peer for peer, mark in marks.items() if ":" not in peer and mark],
        }
        found.append(entry)
    return found


def _peers(statistics: LogStatistics) -> dict[str, Any]:
    """Figures of every subsystem, as far as rows contain them; without lost messages."""
    back = {peer: mark.total for peer, mark in statistics.of_kind("rejoined")}
    late = statistics.of_kind("late")
    return {peer: peer_figures(mark.total, back.get(peer)) for peer, mark in late}


def _bonds(statistics: LogStatistics, metadata: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    stats, found = statistics.stats, {}
    applied = {bond["name"]: bond.get("applied") for bond in _listed(metadata)}
    for bond, energy in statistics.of_kind("residual_energy"):
        if not energy.count:
            continue
        of = {kind: stats.get(f"{bond}:{kind}_energy", _NOTHING) for kind in _ENERGIES}
        energies = {kind: s.change for kind, s in of.items() if s.count}
        if (left := stats.get(f"{bond}:uncorrected_energy", _NOTHING)).count:
            energies["uncorrected"] = left.last  # a level, not a sum
        capped = stats.get(f"{bond}:capped", _NOTHING)
        points = stats.get(f"{bond}:communicates", _NOTHING).total
        entry = bond_figures(energies, capped.total if capped.count else math.nan, points)
        if applied.get(bond) is not None:
            entry["applied"] = applied[bond]
        found[bond] = entry
    return found


def _listed(metadata: Mapping[str, str]) -> list[dict[str, Any]]:
    try:
        return [bond for bond in parse_json(metadata.get("bonds", "[]")) if "name" in bond]
    except (ValueError, TypeError):  # of another version
        return []


def _ports(statistics: LogStatistics) -> dict[str, dict[str, Any]]:
    stats = statistics.stats
    last = {  # an input and an output may share a name; then the output's value is used
        port: value.last
        for kind in ("sent", "corrected")
        for port, value in statistics.of_kind(kind)
    }
    found: dict[str, dict[str, Any]] = {}
    for port, value in last.items():
        outside = stats.get(f"{port}:out_of_range")
        found[port] = port_figures(
            value,
            _defect(stats.get(f"{port}:connection_defect"), (0.0, 0.0)),
            _defect(stats.get(f"{port}:output_defect"), None),
            None if outside is None else outside.total,
        )
    return found


def _defect(
    defect: SignalStatistics | None, at_first: tuple[float, float] | None
) -> tuple[float, float] | None:
    """RMS and largest value; `at_first` before the first interval has ended."""
    if defect is None or not defect.count:
        return None
    return (defect.rms, defect.high) if defect.seconds > 0.0 else at_first


def _ended(events: Iterable[LogEvent]) -> dict[str, Any]:
    """The state in which the session ended, if the log contains it."""
    states = [match[1] for event in events if (match := _change(event))]
    return {"state": states[-1]} if states and states[-1] in ("STOPPED", "FAULT") else {}


def _histories(events: Iterable[LogEvent]) -> dict[str, AlarmHistory]:
    """History of each cause's flags, by their events, and who acknowledged alarms."""
    found = {cause: AlarmHistory() for cause in CAUSES}
    for event in events:
        raised = event.text.startswith(f"{event.cause} raised:")
        if event.cause in found and (raised or event.text.startswith(f"{event.cause} cleared:")):
            found[event.cause].note(event.source, event.t, raised=raised)
        elif event.cause == "acknowledge":
            who, named, name = event.text.partition(": acknowledged alarm ")
            everything = event.text.endswith(f": {ALL_BEFORE}")
            alarms = found["alarm"]
            for known in list(alarms.records) if everything else [name] * bool(named):
                alarms.acknowledge(known, who.partition(": acknowledged event")[0], event.t)
    return found


def fault_of(events: Iterable[LogEvent]) -> str | None:
    """The fault that ended the session, if one did."""
    changes = (_change(event) for event in events if event.level == "error")
    return next((match[2] for match in changes if match), None)


def secured_by(events: Iterable[LogEvent]) -> str:
    """Reason why an operator or a signal started the safe profile; empty if none did."""
    texts = (e.text for e in events if e.cause == "safe_profile" and e.source == "session")
    return next(texts, "")


def _change(event: LogEvent) -> re.Match[str] | None:
    """A change of the session's state."""
    return _CHANGE.fullmatch(event.text) if event.source == "session" else None


def _unknown_errors(statistics: LogStatistics) -> dict[str, Estimate]:
    """Unknown errors of the coupling signals: rows only contain the band at each point."""
    unknown = Estimate("", math.nan, math.nan, math.nan, math.nan, "no row contains it")
    return {name: unknown for name, _ in statistics.of_kind("estimated_error")}
