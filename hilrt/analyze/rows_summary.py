"""What `summary.json` says, from the rows of the log alone.

For a session that was killed, a part that was cut out, a log made by a replay. Every figure is
defined so that rows and master give the same one; what no row holds (time on the clock, the host's
share, answers of solvers, lost messages) is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from hilrt.analyze.log_statistics import LogStatistics, SignalStatistics
from hilrt.files.json import parse_json
from hilrt.record.reader import LogEvent
from hilrt.reliability.causes import CAUSES
from hilrt.reliability.estimates import Estimate
from hilrt.reliability.flags import FlagTotal
from hilrt.reliability.verdict import SessionCourse, verdict
from hilrt.timing.timeline import LONGEST, STAGES
from hilrt.wording import json_numbers

_NOTHING = SignalStatistics()
_CHANGE = re.compile(r"[A-Z]+ -> ([A-Z]+): (.*)", re.DOTALL)
#: Key of a bond in the summary, and its signal.
_ENERGIES = {
    f"{kind}_energy_j": f"{kind}_energy"
    for kind in ("residual", "tracking", "corrected", "shadow", "drift")
}


def summarise_rows(
    statistics: LogStatistics, metadata: Mapping[str, str], events: Iterable[LogEvent]
) -> dict[str, Any]:
    """The figures of the rows, in the layout of ``summary.json``; None for what is not finite."""
    stats, intervals = statistics.stats, statistics.intervals
    time_s = intervals.together * 1e-9 if intervals.number else statistics.duration_s
    found: dict[str, Any] = {
        "session": metadata.get("session", ""),
        "steps": intervals.number,
        "time_s": time_s,
        "step_size_s": {
            "first": intervals.first * 1e-9,
            "min": intervals.shortest * 1e-9,
            "mean": time_s / intervals.number if intervals.number else 0.0,
            "max": intervals.longest * 1e-9,
        },
        "order": _order(stats.get("master:order", _NOTHING), metadata),
        "ports": _ports(statistics),
        "bonds": _bonds(statistics, metadata),
        "flags": _flags(stats),
        **_timing(statistics, _is_real_time(stats, metadata)),
        "peers": _peers(statistics),
        **_ended(events),
    }
    if "rows_missing" in metadata:
        found["recorder"] = {"dropped_rows": int(metadata["rows_missing"])}
    if metadata.get("identifies") == "True" and (learns := stats.get("cut:learns")) is not None:
        turns = round(learns.total)
        found["identification"] = {"turns": turns, "skipped": learns.count - turns}
    clean: dict[str, Any] = json_numbers(found | _verdict(found, events, statistics))
    return clean


def _is_real_time(stats: Mapping[str, SignalStatistics], metadata: Mapping[str, str]) -> bool:
    if pace := metadata.get("pace"):
        return pace != "asap"
    return stats.get("master:lateness", _NOTHING).largest > 0.0


def _order(orders: SignalStatistics, metadata: Mapping[str, str]) -> dict[str, float] | None:
    if not orders.count or metadata.get("controls_order") != "True":
        return None
    mean = orders.total / orders.count
    return {"min": int(orders.low), "mean": mean, "max": int(orders.high)}


def _flags(stats: Mapping[str, SignalStatistics]) -> dict[str, Any]:
    """What the summary says of each cause; logs of older versions lack what it affected."""
    found: dict[str, Any] = {}
    for name, flag in stats.items():
        cause = name.removeprefix("flag:")
        if cause == name or not flag.rises:
            continue
        found[cause] = {"count": flag.rises, "seconds": flag.above}
        affected, second = (stats.get(f"flags:{cause}:{key}") for key in ("affected", "second"))
        if affected is not None and second is not None:
            found[cause] |= {"affected_s": affected.change, "worst_second": second.high}
    return found


def _timing(statistics: LogStatistics, real_time: bool) -> dict[str, Any]:
    """Where the time of the ticks went, as far as the log has it."""
    stats, times = statistics.stats, statistics.times
    found: dict[str, Any] = {"lateness_us": None, "lateness_histogram": None, "slowest_ticks": []}
    if "master:compute" in times:
        found["compute_us"] = times["master:compute"].quantiles()
    if all(f"master:{stage}" in times for stage in STAGES):
        found["timeline_us"] = {stage: times[f"master:{stage}"].quantiles() for stage in STAGES}
    if real_time and "master:lateness" in times:
        edges, counts = times["master:lateness"].histogram()
        found["lateness_us"] = times["master:lateness"].quantiles()
        found["lateness_histogram"] = {"edges_us": edges.tolist(), "counts": counts}
        found["slowest_ticks"] = _slowest(statistics)
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
            **{f"{stage}_us": _finite(values[f"master:{stage}"]) for stage in STAGES},
            "cause": LONGEST[int(values["master:longest"])],
            "late": [peer for peer, mark in marks.items() if ":" not in peer and mark],
        }
        found.append(entry)
    return found


def _peers(statistics: LogStatistics) -> dict[str, Any]:
    """What the rows mark of every subsystem; they do not count lost messages."""
    late = {peer: round(mark.total) for peer, mark in statistics.of_kind("late")}
    back = {peer: round(mark.total) for peer, mark in statistics.of_kind("rejoined")}
    return {peer: {"late": late[peer], "rejoined": back.get(peer)} for peer in late}


def _bonds(statistics: LogStatistics, metadata: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    stats, found = statistics.stats, {}
    applied = {bond["name"]: bond.get("applied") for bond in _listed(metadata)}
    for bond, energy in statistics.of_kind("residual_energy"):
        if not energy.count:
            continue
        of = {key: stats.get(f"{bond}:{kind}", _NOTHING) for key, kind in _ENERGIES.items()}
        entry: dict[str, Any] = {key: s.change for key, s in of.items() if s.count}
        if (owed := stats.get(f"{bond}:uncorrected_energy", _NOTHING)).count:
            entry["uncorrected_energy_j"] = owed.last  # a level, no sum
        if (capped := stats.get(f"{bond}:capped", _NOTHING)).count:
            points = stats.get(f"{bond}:communicates", _NOTHING).total
            entry["cap_share"] = capped.total / max(points, 1.0)
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
    found: dict[str, dict[str, Any]] = {}
    for kind in ("sent", "corrected"):  # an input and an output may share a name
        for port, value in statistics.of_kind(kind):
            entry = found.setdefault(port, {"connection_defect": None, "output_defect": None})
            entry["last"] = _finite(value.last)
    for port, entry in found.items():
        for kind in ("connection_defect", "output_defect"):
            defect = stats.get(f"{port}:{kind}", _NOTHING)
            if defect.seconds > 0.0:
                entry[kind] = {"rms": defect.rms, "max": defect.high}
            elif defect.count and kind == "connection_defect":  # before the first interval
                entry[kind] = {"rms": 0.0, "max": 0.0}
        outside = stats.get(f"{port}:out_of_range")
        entry["out_of_range"] = None if outside is None else round(outside.total)
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _ended(events: Iterable[LogEvent]) -> dict[str, Any]:
    """The state that the session ended in, if the log goes so far."""
    states = [match[1] for event in events if (match := _change(event))]
    return {"state": states[-1]} if states and states[-1] in ("STOPPED", "FAULT") else {}


def fault_of(events: Iterable[LogEvent]) -> str | None:
    """The fault that ended the session, if one did."""
    changes = (_change(event) for event in events if event.level == "error")
    return next((match[2] for match in changes if match), None)


def secured_by(events: Iterable[LogEvent]) -> str:
    """That benches were brought to their safe profile by an operator or a signal, and why."""
    told = (e.text for e in events if e.cause == "safe_profile" and e.source == "session")
    return next(told, "")


def _change(event: LogEvent) -> re.Match[str] | None:
    """A change of the session's state."""
    return _CHANGE.fullmatch(event.text) if event.source == "session" else None


def _verdict(
    found: Mapping[str, Any], events: Iterable[LogEvent], statistics: LogStatistics
) -> dict[str, Any]:
    """How far what was recorded can be trusted; nothing for a log that has no session's rows."""
    if "missed_ticks" not in found:
        return {}
    totals = {
        cause: FlagTotal(flag["count"], flag["seconds"], *_affected(flag))
        for cause, flag in found["flags"].items()
        if cause in CAUSES
    }
    lost = found.get("recorder", {}).get("dropped_rows", 0)
    course = SessionCourse(
        found["time_s"],
        fault_of(events),
        found["missed_ticks"],
        steps=found["steps"],
        unrecorded=lost,
        secured=secured_by(events),
        errors=_unknown_errors(statistics) if found["steps"] else {},
    )
    judged = verdict(totals, course)
    return {"verdict": judged.word, "reasons": judged.reasons}


def _unknown_errors(statistics: LogStatistics) -> dict[str, Estimate]:
    """Of the coupling signals: rows have the band at each point, not the error over the session."""
    unknown = Estimate("", math.nan, math.nan, math.nan, math.nan, "no row holds it")
    return {name: unknown for name, _ in statistics.of_kind("estimated_error")}


def _affected(flag: Mapping[str, float]) -> tuple[float, float]:
    """Of a log of an older version, the time that the flag was up stands for what it affected."""
    return flag.get("affected_s", flag["seconds"]), flag.get("worst_second", 0.0)
