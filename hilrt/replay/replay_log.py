"""Replay of a recorded session: recompute and compare every decision.

The step is a function of its state and its input, and the log has every input. On the same build,
the decisions are therefore equal bit for bit. If they are not, the log is damaged, the code is
wrong, or the build is different; the first difference shows where to look.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hilrt.errors import RecordError
from hilrt.record.find_log import find_log
from hilrt.replay.decisions import (
    ELSEWHERE,
    DecisionComparison,
    FirstDifference,
    decisions,
)
from hilrt.replay.rebuild import rebuild
from hilrt.replay.recorded_steps import RecordedSteps
from hilrt.replay.walk import Gap, Walk
from hilrt.step_log.facts import build_report


@dataclass
class Outcome:
    """Result of a replay.

    Attributes
    ----------
    path : Path
    steps, skipped : int
        Steps whose decisions were as recorded, and rows that were not replayed (before the start,
        after a gap).
    begin, end : float
        Session times between which the log was replayed, s.
    snapshots : int
        Number of snapshots that equalled the state.
    gaps : list of Gap
    resumed : list of float
        Session times of the snapshots from which the replay started or resumed, s.
    difference : FirstDifference or None
    tolerance : float
        0: bit for bit.
    exact : bool
        Whether every decision was equal bit for bit, even if there was a tolerance.
    other_build : list of str
        Differences of the recording build from this one.
    damage : str
        Reason why the log ends early.
    wall_s : float
        Time the replay took, s.
    """

    path: Path
    steps: int = 0
    skipped: int = 0
    begin: float = 0.0
    end: float = 0.0
    snapshots: int = 0
    gaps: list[Gap] = field(default_factory=list)
    resumed: list[float] = field(default_factory=list)
    difference: FirstDifference | None = None
    tolerance: float = 0.0
    exact: bool = True
    other_build: list[str] = field(default_factory=list)
    damage: str = ""
    wall_s: float = 0.0

    @property
    def identical(self) -> bool:
        """Whether every step's decisions were as recorded."""
        return self.difference is None


def replay(
    path: str | Path,
    *,
    start: float = 0.0,
    until: float | None = None,
    tolerance: float | None = None,
    progress: Callable[[float], None] = lambda t: None,
) -> Outcome:
    """Recompute the decisions of a recorded session, and compare them.

    Parameters
    ----------
    path : str or Path
        ``session.mcap``, or the run's folder.
    start : float
        Begin at the first snapshot at or after this session time, s; 0: at the first step.
    until : float, optional
        End at this session time, s.
    tolerance : float, optional
        Relative to each signal's largest value so far; default: 0 on the recording build,
        `ELSEWHERE` on others. Snapshots are compared bit for bit, or not at all.
    progress : callable
        Called with the session time [s] reached.

    Raises
    ------
    RecordError
        If there is no log, or it lacks data for a replay.
    """
    begun = time.monotonic()
    steps = RecordedSteps(find_log(path))
    other = other_build(steps.recorded.build)
    if tolerance is None:
        tolerance = ELSEWHERE if other else 0.0
    numerics = rebuild(steps.recorded)
    decided = decisions(numerics)
    names = [name for name in decided if name in steps.columns]
    comparison = DecisionComparison(names, tolerance)
    walk = Walk(
        steps,
        numerics,
        comparison.names,
        start_ns=round(start * 1e9),
        until_ns=None if until is None else round(until * 1e9),
        compare_snapshots=tolerance == 0.0,
    )
    difference = _first_difference(
        walk, steps.columns, comparison, decided, causes(other), progress
    )
    outcome = Outcome(
        path=steps.stream.path,
        steps=walk.made,
        skipped=walk.skipped,
        begin=walk.begin,
        end=walk.end,
        snapshots=walk.compared,
        gaps=walk.gaps,
        resumed=walk.resumed,
        difference=difference,
        tolerance=tolerance,
        exact=difference is None and comparison.exact,
        other_build=other,
        damage=steps.damage,
        wall_s=time.monotonic() - begun,
    )
    if outcome.steps == 0 and difference is None:
        raise RecordError(f"{outcome.path}: no step could be replayed: {_nothing(start)}")
    return outcome


def _first_difference(
    walk: Walk,
    columns: dict[str, int],
    comparison: DecisionComparison,
    decided: dict[str, str],
    why: list[str],
    progress: Callable[[float], None],
) -> FirstDifference | None:
    """Walk to the first step or snapshot that differs; None if there is none."""
    theirs = np.array([columns[name] for name in comparison.names], dtype=np.intp)
    for chunk, made, values in walk.chunks(progress):
        found = comparison.first(chunk.values[made][:, theirs], values[made])
        if found is None:
            continue
        k, differing, count = found
        i = int(np.flatnonzero(made)[k])
        walk.made -= int(made.sum()) - k
        return FirstDifference(
            row=int(chunk.rows[i]),
            tick=int(chunk.values[i, columns["cut:tick"]]),
            t=float(chunk.times_ns[i]) / 1e9,
            stage=decided[differing[0].name],
            values=differing,
            count=count,
            causes=why,
        )
    if walk.strayed is None:
        return None
    row, t, fields = walk.strayed
    stage = f"memory of the state: {', '.join(fields[:6])}"
    return FirstDifference(row, row, t, stage, [], len(fields), why)


def _nothing(start: float) -> str:
    if start > 0.0:
        return f"there is no snapshot at or after {start:g} s; start earlier"
    return "the first rows are missing, and there is no snapshot after them"


def other_build(recorded: dict[str, str]) -> list[str]:
    """Differences of the recording build from this one, as text; empty if equal."""
    here = build_report()
    found = []
    for key in {**recorded, **here}:
        then, now = recorded.get(key, "none"), here.get(key, "none")
        if then != now and key == "source":
            found.append("hilrt's sources have changed since")
        elif then != now:
            found.append(f"{key}: recorded with {then}, replayed with {now}")
    return found


def causes(other: list[str]) -> list[str]:
    """Possible causes of a difference, as text."""
    if other:
        return [f"another build: {text}" for text in other]
    return [
        "the build is the same, so the log lacks an input of this step, or was changed; or the "
        "step depends on more than its inputs, which is a bug: report it with the log"
    ]


# Results of a replay as text and as JSON.


def describe(outcome: Outcome) -> list[str]:
    """Lines of text about a replay: damage of the log, if any, then the result."""
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
        f"differs: step {difference.row} at {difference.t:.6f} s is the first that differs, after "
        f"{steps} that do not",
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


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Outcome as plain types for JSON."""
    return {
        "format": "hilrt-replay-1",
        "identical": outcome.identical,
        **dataclasses.asdict(outcome),
        "path": str(outcome.path),
    }
