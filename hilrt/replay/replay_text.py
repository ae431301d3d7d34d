"""Results of a replay as text and as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from hilrt.replay.decisions import FirstDifference
from hilrt.replay.replay_log import Outcome
from hilrt.replay.walk import Gap
from hilrt.replay.what_if import CAVEAT, WhatIf


def describe(outcome: Outcome) -> list[str]:
    """Lines of text: first that the log ends early, if it does; then the verdict."""
    lines = [f"the log ends early: {outcome.damage}"] if outcome.damage else []
    difference = outcome.difference
    if difference is None:
        how = "" if outcome.exact else f" within {outcome.tolerance:g} (relative)"
        lines.append(f"identical{how}: {outcome.steps} steps")
    else:
        lines += _difference(difference, outcome.steps)
    lines.append(_extent(outcome))
    lines += [f"not replayed: {outcome.skipped} recorded steps"] if outcome.skipped else []
    for gap in outcome.gaps:
        lines.append(
            f"gap: {gap.missing} rows between {gap.begin:.6f} s and {gap.end:.6f} s are not in the "
            f"log; {_resumed(outcome, gap)}"
        )
    if outcome.other_build and difference is None:
        lines.append("recorded by another build:")
        lines += [f"  {text}" for text in outcome.other_build]
    return lines


def _difference(difference: FirstDifference, steps: int) -> list[str]:
    lines = [
        f"differs: step {difference.row} at {difference.t:.6f} s is the first that comes out "
        f"otherwise, after {steps} that do not",
        f"  first in the stage: {difference.stage}",
    ]
    width = max((len(value.name) for value in difference.values), default=0)
    for value in difference.values:
        lines.append(
            f"  {value.name:{width}}  recorded {value.recorded!r}, recomputed {value.recomputed!r}"
        )
    more = difference.count - len(difference.values)
    if difference.values and more:
        lines.append(f"  and {more} more")
    return lines + [f"  cause: {text}" for text in difference.causes]


def _extent(outcome: Outcome) -> str:
    duration = outcome.end - outcome.begin
    text = f"session time {outcome.begin:.6f} s to {outcome.end:.6f} s in {outcome.wall_s:.2f} s"
    if outcome.wall_s > 0.0 and duration > 0.0:
        text += f" ({duration / outcome.wall_s:.1f} × real time)"
    if outcome.snapshots:
        text += f"; the state agrees with {outcome.snapshots} snapshots"
    return text


def _resumed(outcome: Outcome, gap: Gap) -> str:
    later = [t for t in outcome.resumed if t > gap.begin + 1e-9]
    if not later:
        return "no snapshot after it, so the rest is not replayed"
    return f"resumed from the snapshot at {later[0]:.6f} s"


def describe_what_if(found: WhatIf) -> list[str]:
    """Recorded against recomputed decisions, side by side."""
    lines = [CAVEAT, f"changed: {', '.join(found.changes)}"]
    if not found.signals:
        lines.append(f"no decision differs: {found.compared} steps are as recorded")
    else:
        lines += _table(
            ("signal", "steps", "largest difference", "at [s]", "recorded", "recomputed", "rms"),
            [
                (
                    f"{change.name} [{change.unit or '-'}]",
                    f"{change.steps}",
                    f"{change.largest:.6g}",
                    f"{change.t:.6f}",
                    f"{change.recorded:.9g}",
                    f"{change.recomputed:.9g}",
                    f"{change.rms:.4g}",
                )
                for change in found.signals
            ],
        )
        lines.append(f"{found.unchanged} other signals are as recorded at all steps")
    if found.flags:
        lines += _table(
            ("flag", "recorded, s up", "recomputed, s up"),
            [(f.cause, f"{f.recorded:.4f}", f"{f.recomputed:.4f}") for f in found.flags],
        )
    recorded, recomputed = found.verdicts
    of_session = found.in_summary
    own = f" (the session's own was {of_session})" if of_session not in ("", recorded) else ""
    lines.append(f"verdict: recorded {recorded or 'unknown'}{own}, recomputed {recomputed}")
    for names, where in ((found.added, "only with the changes"), (found.gone, "only in the log")):
        lines += [f"{where}: {', '.join(names)}"] if names else []
    lines += [
        f"gap: {gap.missing} rows from {gap.begin:.6f} s to {gap.end:.6f} s are not in the log; "
        "decisions after it lack what was learned there"
        for gap in found.gaps
    ]
    lines += [f"the log ends early: {found.damage}"] if found.damage else []
    lines.append(
        f"{found.steps} steps made again in {found.wall_s:.2f} s, {found.compared} compared "
        f"({found.begin:.6f} s to {found.end:.6f} s)"
    )
    lines += [f"the recomputed decisions are in {found.written}"] if found.written else []
    return lines


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Lines of a table: the first column to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [head, *rows]
    ]


def what_if_as_json(found: WhatIf) -> dict[str, Any]:
    """The comparison with plain types."""
    return {
        "format": "hilrt-what-if-1",
        "caveat": CAVEAT,
        **dataclasses.asdict(found),
        "path": str(found.path),
        "written": None if found.written is None else str(found.written),
    }


def as_json(outcome: Outcome) -> dict[str, Any]:
    """The outcome with plain types."""
    return {
        "format": "hilrt-replay-1",
        "identical": outcome.identical,
        **dataclasses.asdict(outcome),
        "path": str(outcome.path),
    }
