"""The tables of a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hilrt.analyze.log_statistics import LogStatistics, WorstStep
from hilrt.analyze.report_page import table
from hilrt.record.reader import LogStream
from hilrt.wording import (
    ALARM_COLUMNS,
    ERROR_COLUMNS,
    FLAG_COLUMNS,
    MISSED_BECAUSE,
    PEER_TIMES,
    RESULT_COLUMNS,
    Told,
    about_errors,
    alarm_rows,
    error_rows,
    flag_rows,
    gather_repeated,
    missed_ticks,
    number,
    processors,
    result_rows,
    stolen,
    words,
)

MAX_EVENTS = 200
#: Counts of each subsystem, with their headings; the last one only if there are any.
_PEER_COUNTS = {"late": "late", "lost": "lost", "rejoined": "came back", "dropped": "dropped"}
_LEDGER = ("residual", "tracking", "corrected", "uncorrected")


def short_tables(
    summary: Mapping[str, Any], statistics: LogStatistics, bonds: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """Tables of a session's results, in reading order; without rows they are empty."""
    parts = [_error_table(summary), _flag_table(summary), peer_table(summary)]
    parts += [_ledger_table(summary, statistics, bonds)]
    return [*parts, _step_table(summary), _timing_table(summary), _missed_table(summary)]


def alarm_table(summary: Mapping[str, Any]) -> str:
    """Table of the alarms that were raised; those still active are marked."""
    rows = alarm_rows(summary)
    marked = [(i, 3) for i, row in enumerate(rows) if row[3] == "still up"]
    return table("Alarms", ALARM_COLUMNS, rows, text=(0,), marked=marked)


def result_table(summary: Mapping[str, Any]) -> str:
    """Table of the tests' results; those that have not passed come first and are marked."""
    rows = result_rows(summary)
    marked = [(i, 0) for i, row in enumerate(rows) if row[0] != "passed"]
    return table("Results of tests", RESULT_COLUMNS, rows, text=(0, 1, 5), marked=marked)


def long_tables(summary: Mapping[str, Any], statistics: LogStatistics) -> list[str]:
    """Tables with a row for every port, subsystem or tick."""
    parts = [_port_table(summary), _worst_table(statistics.worst_steps())]
    versions = [list(item) for item in (summary.get("versions") or {}).items()]
    return [*parts, _peer_times(summary), table("Versions", ["", ""], versions)]


def _timing_table(summary: Mapping[str, Any]) -> str:
    rows = []
    for key, label in (("lateness_us", "lateness, µs"), ("compute_us", "computing, µs")):
        spread = summary.get(key)
        if spread:
            cells = [number(spread.get(q), 3) for q in ("p50", "p99", "p999", "max")]
            rows.append([label, *cells])
    real_time = rows and summary.get("lateness_us")
    note = f"missed ticks: {missed_ticks(summary)}" if real_time else ""
    if real_time and (text := stolen(summary)):
        note += f"; {text}"
    if real_time and (text := processors(summary)):
        note += f"; share of one processor: {text}"
    learning = summary.get("identification") or {}
    if learning.get("skipped"):
        note += f"; turns of the identification: {learning['turns']:,}, and "
        note += f"{learning['skipped']:,} skipped for lack of time"
    heading = "Lateness of inputs, and duration of ticks"
    return table(heading, ["", "median", "p99", "p99.9", "max"], rows, note=note)


def _missed_table(summary: Mapping[str, Any]) -> str:
    causes = summary.get("missed_because") or {}
    rows = [
        [MISSED_BECAUSE.get(cause, words(cause)), f"{count:,}"]
        for cause, count in sorted(causes.items(), key=lambda item: -item[1])
    ]
    return table("Why ticks were missed", ["", "ticks"], rows)


def _step_table(summary: Mapping[str, Any]) -> str:
    size, order = summary.get("step_size_s") or {}, summary.get("order") or {}
    rows = [["size, s", *(number(size.get(k)) for k in ("first", "min", "mean", "max"))]]
    if order:
        rows.append(["order", "–", *(number(order.get(k), 3) for k in ("min", "mean", "max"))])
    return table(
        "Macro steps: length and order", ["", "first", "min", "mean", "max"], rows if size else []
    )


def _ledger_table(
    summary: Mapping[str, Any], statistics: LogStatistics, bonds: Mapping[str, Mapping[str, str]]
) -> str:
    rows = []
    for name, bond in (summary.get("bonds") or {}).items():
        energies = [number(bond.get(f"{kind}_energy_j")) for kind in _LEDGER]
        share = bond.get("cap_share")
        at_cap = "–" if share is None else f"{100 * share:.1f} %"
        corrected = correction_share(statistics, name, bonds.get(name, {}).get("effort", ""))
        cells = ["–" if corrected is None else f"{100 * corrected:.2f} %", at_cap]
        rows.append([name, *energies, *cells])
    columns = ["bond", "exchange", "tracking", "removed", "left"]
    columns += ["correction / effort", "at cap"]
    note = (
        "Exchange: created by the coupling (negative: lost). Tracking: created by a bench that "
        "did not follow its demand. Removed: by the correction. Left: not yet corrected."
    )
    return table("Energy at the power bonds, J", columns, rows, note=note)


def correction_share(statistics: LogStatistics, bond: str, effort: str) -> float | None:
    """RMS of the bond's correction over that of its effort; None if the log lacks either."""
    correction = statistics.stats.get(f"{bond}:correction")
    efforts = [statistics.stats.get(f"{name}:corrected") for name in effort.split(" + ")]
    squares = [stats.rms**2 for stats in efforts if stats is not None and stats.count]
    total = math.sqrt(sum(squares))
    if correction is None or not correction.count or not total > 0.0:
        return None
    return correction.rms / total


def _error_table(summary: Mapping[str, Any]) -> str:
    """Estimated error of every coupling signal, and advice to reduce it."""
    changes = [str(change["text"]) for change in summary.get("advice") or ()]
    rejected = [str(reason) for reason in summary.get("rejected") or ()]
    note = f"What would help: {'; '.join(changes)}." if changes else ""
    note += f" Rejected: {'; '.join(rejected)}." if rejected else ""
    note = f"{note} {about_errors(summary)}".strip()
    heading = "Estimated error of the coupling signals over the session (RMS, 95 %)"
    columns = ["signal", *ERROR_COLUMNS]
    return table(heading, columns, error_rows(summary), note=note, text=(0, 3))


def _flag_table(summary: Mapping[str, Any]) -> str:
    heading = "Flags: how often each cause was raised, and the share of steps that it affected"
    return table(heading, ["cause", *FLAG_COLUMNS], flag_rows(summary))


def peer_table(summary: Mapping[str, Any]) -> str:
    """Table of how often each subsystem was late, was lost and came back."""
    peers = summary.get("peers") or {}
    counts = dict(_PEER_COUNTS)
    if not any(peer.get("dropped") for peer in peers.values()):
        del counts["dropped"]
    rows = [
        [name, *("–" if peer.get(key) is None else f"{peer[key]:,}" for key in counts)]
        for name, peer in peers.items()
    ]
    heading = "Subsystems: ticks without their sample, messages lost"
    return table(heading, ["", *counts.values()], rows)


def _peer_times(summary: Mapping[str, Any]) -> str:
    """Breakdown of the subsystems' response times."""
    rows = [
        [
            name,
            label,
            *(number(peer[key].get(q), 3) for q in ("p50", "p99", "p999", "p9999", "max")),
        ]
        for name, peer in (summary.get("peers") or {}).items()
        for key, label in PEER_TIMES.items()
        if peer.get(key)
    ]
    columns = ["", "", "median", "p99", "p99.9", "p99.99", "max"]
    heading = "Response times of subsystems, µs"
    return table(heading, columns, rows, text=(1,))


def _worst_table(steps: Sequence[WorstStep]) -> str:
    if not steps:
        return ""
    key = steps[0].key
    rows = []
    for step in steps:
        compute = step.values.get("master:compute", 0.0)
        peers = {n.partition(":")[0] for n, v in step.values.items() if n.endswith(":late") and v}
        late = step.values.get("master:lateness", 0.0)
        causes = ", ".join(words(cause) for cause in step.causes)
        rows.append(
            [
                f"{step.t:.4f}",
                number(late, 3) if late else "–",
                number(max(late - compute, 0.0), 3) if late else "–",
                number(compute, 3),
                ", ".join(sorted(peers)) or "–",
                causes or "–",
            ]
        )
    what = "sent latest" if key == "master:lateness" else "longest computing"
    columns = ["t in s", "lateness, µs", "woken late by", "computing, µs", "late", "flags up"]
    return table(f"The ten worst ticks: {what}", columns, rows, text=(4, 5))


def _port_table(summary: Mapping[str, Any]) -> str:
    rows = []
    for name, port in (summary.get("ports") or {}).items():
        cells = []
        for kind in ("connection_defect", "output_defect"):
            defect = port.get(kind) or {}
            cells += [number(defect.get("rms"), 3), number(defect.get("max"), 3)]
        rows.append([name, *cells, number(port.get("last"))])
    columns = ["port", "connection defect, rms", "max", "output defect, rms", "max", "last value"]
    return table("Ports: coupling defects, and the last value", columns, rows)


def event_table(stream: LogStream) -> str:
    """Events, one line per kind; without flags other than alarms, which a figure shows."""
    flags = {
        signal.name.rpartition(":")[2]
        for channel in stream.channels.values()
        for signal in channel.signals
        if channel.topic == "flags"
    } - {"alarm"}
    events = [event for event in stream.events if event.cause not in flags]
    events.sort(key=lambda event: event.t)
    kinds = gather_repeated(Told(e.t, e.level, e.cause, e.source, e.text, e.value) for e in events)
    kinds.sort(key=lambda kind: kind.first_t)
    shown = kinds[:MAX_EVENTS]
    rows = [
        [
            f"{one.first_t:.3f}",
            f"{one.last_t:.3f}" if one.times > 1 else "",
            f"{one.times:,}",
            one.level,
            words(one.cause),
            one.source,
            one.text,
        ]
        for one in shown
    ]
    heading = "Events" if shown == kinds else f"First {MAX_EVENTS} of {len(kinds)} kinds of events"
    note = "For repeated events, the text is that of the worst, otherwise of the newest one."
    columns = ["t in s", "last at s", "times", "level", "cause", "from", ""]
    return table(heading, columns, rows, note=note if len(events) > len(kinds) else "")
