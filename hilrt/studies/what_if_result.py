"""Result of a counterfactual replay, as text and as JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hilrt.replay.walk import Gap

#: First line of every report of a counterfactual replay.
CAVEAT = (
    "The bench's reaction is not simulated: every sample is the recorded one, whatever would "
    "have been sent instead."
)


@dataclass(frozen=True)
class ChangedSignal:
    """Signal whose recomputed values differ from the recorded ones.

    Attributes
    ----------
    name, unit : str
    steps : int
        Steps at which it differs, bit for bit.
    largest, t : float
        Largest difference in magnitude, and its session time, s.
    recorded, recomputed : float
        Values at that time.
    rms : float
        RMS of the difference, over the steps at which both are known.
    """

    name: str
    unit: str
    steps: int
    largest: float
    t: float
    recorded: float
    recomputed: float
    rms: float


@dataclass(frozen=True)
class FlagTime:
    """Time for which flags of a cause were up, recorded and recomputed, s."""

    cause: str
    recorded: float
    recomputed: float


@dataclass
class WhatIf:
    """Decisions with other settings, compared with the recorded ones.

    Attributes
    ----------
    path : Path
    changes : list of str
        Settings ``table.key=value``.
    steps : int
        Steps repeated; only those between `begin` and `end` [s] are compared.
    compared : int
    signals : list of ChangedSignal
        Signals that differ, in the order of the step's stages.
    unchanged : int
        Signals that are equal at every step.
    added, gone : list of str
        Signals that only the changed session has, and those that only the recorded one has.
    flags : list of FlagTime
        Causes that were up in either of the two.
    verdicts : tuple of str
        Verdicts on the decisions as recorded and as recomputed, over the whole session, both
        computed only from the log.
    in_summary : str
        The session's own verdict, which may use more than the log; empty if unknown.
    gaps : list of Gap
    damage : str
    written : Path or None
        Log of the recomputed decisions.
    wall_s : float
    """

    path: Path
    changes: list[str]
    steps: int = 0
    compared: int = 0
    begin: float = 0.0
    end: float = 0.0
    signals: list[ChangedSignal] = field(default_factory=list)
    unchanged: int = 0
    added: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    flags: list[FlagTime] = field(default_factory=list)
    verdicts: tuple[str, str] = ("", "")
    in_summary: str = ""
    gaps: list[Gap] = field(default_factory=list)
    damage: str = ""
    written: Path | None = None
    wall_s: float = 0.0


def describe(found: WhatIf) -> list[str]:
    """Lines of text with recorded and recomputed decisions, side by side."""
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
        "decisions after it lack the data from there"
        for gap in found.gaps
    ]
    lines += [f"the log ends early: {found.damage}"] if found.damage else []
    lines.append(
        f"{found.steps} steps repeated in {found.wall_s:.2f} s, {found.compared} compared "
        f"({found.begin:.6f} s to {found.end:.6f} s)"
    )
    lines += [f"the recomputed decisions are in {found.written}"] if found.written else []
    return lines


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Lines of a table, the first column aligned left, numbers aligned right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [head, *rows]
    ]


def as_json(found: WhatIf) -> dict[str, Any]:
    """Comparison as plain types for JSON."""
    return {
        "format": "hilrt-what-if-1",
        "caveat": CAVEAT,
        **dataclasses.asdict(found),
        "path": str(found.path),
        "written": None if found.written is None else str(found.written),
    }
