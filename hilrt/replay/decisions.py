"""Recorded against recomputed decisions: which signals are decisions, and where they differ."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hilrt.solver import Floats
from hilrt.step_log.signals import CIRCUMSTANCES

#: Tolerance of a replay on another build, relative to each signal's largest value so far.
ELSEWHERE = 1e-9
#: Most differing signals that are listed.
NAMED = 6

#: Stages of the macro step in their order, and what each one decides.
STAGES = (
    (
        "faults, and which values are outside their declared range",
        (":faulted", ":out_of_range"),
    ),
    (
        "outputs at the tick (extrapolation to it, feedthrough and model correction)",
        (":corrected",),
    ),
    ("step and order control", ("master:step", "master:order", "master:error")),
    (
        "energy correction",
        (":residual_power", ":correction_computed", ":correction", ":residual_energy"),
    ),
    ("inputs as sent (extrapolation, corrections, limits)", (":sent",)),
    ("defects of the interval that ended", ("_defect",)),
    ("ledger of the bonds", (":power", "_power", "_energy", ":communicates", ":capped")),
    ("flags", ("flag:", "flags:")),
)


def decisions(names: Sequence[str]) -> list[str]:
    """The names that are decisions of the step, in the order of its stages."""
    return sorted((name for name in names if is_decision(name)), key=stage_of)


def shared(mine: Sequence[str], theirs: Container[str]) -> list[str]:
    """Decisions that both sides have, in the order of the stages."""
    return [name for name in decisions(mine) if name in theirs]


def is_decision(name: str) -> bool:
    """Whether a signal follows from the step's inputs alone: no sample, and no measured time."""
    if ":" not in name:  # a sample, as it arrived
        return False
    _, _, key = name.rpartition(":")
    owner = name.partition(":")[0]
    if owner == "master":
        return key not in CIRCUMSTANCES
    return stage_of(name) < len(STAGES)


def stage_of(name: str) -> int:
    """Number of the stage that decides a signal; the number of stages if none does."""
    if name.startswith(STAGES[-1][1]):
        return len(STAGES) - 1
    if name.startswith(("fault:", "parameter:")):
        return 0
    for number, (_, marks) in enumerate(STAGES[:-1]):
        for mark in marks:
            if name == mark or name.endswith(mark) or f"{mark}_d" in name:
                return number
    return len(STAGES)


@dataclass(frozen=True)
class DifferingValue:
    """A signal that differs, with both values."""

    name: str
    recorded: float
    recomputed: float


@dataclass(frozen=True)
class FirstDifference:
    """The first step whose decisions differ.

    Attributes
    ----------
    row, tick : int
        Number of the row in the log, and of the communication point.
    t : float
        Session time, s.
    stage : str
        The first stage of the step whose decision differs.
    values : list of DifferingValue
        Signals that differ, in the order of the stages; at most `NAMED`.
    count : int
        Number of signals that differ.
    causes : list of str
        Possible causes, as text.
    """

    row: int
    tick: int
    t: float
    stage: str
    values: list[DifferingValue]
    count: int
    causes: list[str] = field(default_factory=list)


class DecisionComparison:
    """Compares rows signal by signal.

    Parameters
    ----------
    names : sequence of str
        Signals that both sides have, in the order of the stages.
    tolerance : float
        0: bit for bit. Else relative to each signal's largest recorded value so far.

    Attributes
    ----------
    exact : bool
        Whether everything so far was the same bit for bit, whatever the tolerance.
    """

    def __init__(self, names: Sequence[str], tolerance: float) -> None:
        self.names, self.tolerance = list(names), tolerance
        self.exact = True
        self._peak = np.zeros(len(self.names))

    def differing(self, recorded: Floats, recomputed: Floats) -> NDArray[np.bool_]:
        """Mark where the rows differ, shapes (n, signals)."""
        same: NDArray[np.bool_] = recorded.view(np.int64) == recomputed.view(np.int64)
        same |= np.isnan(recorded) & np.isnan(recomputed)
        if self.tolerance > 0.0 and not same.all():
            self.exact = False
        if self.tolerance > 0.0:
            size = np.abs(recorded)
            size[~np.isfinite(size)] = 0.0
            peak = np.maximum(np.maximum.accumulate(size, axis=0), self._peak)
            self._peak = peak[-1] if len(peak) else self._peak
            same |= np.abs(recorded - recomputed) <= self.tolerance * peak
        differs: NDArray[np.bool_] = ~same
        return differs

    def first(
        self, recorded: Floats, recomputed: Floats
    ) -> tuple[int, list[DifferingValue], int] | None:
        """First row that differs, the signals that do (some of them), and how many; or None."""
        differing = self.differing(recorded, recomputed)
        if not differing.any():
            return None
        i = int(differing.any(axis=1).argmax())
        found = np.flatnonzero(differing[i])
        values = [
            DifferingValue(self.names[j], float(recorded[i, j]), float(recomputed[i, j]))
            for j in found[:NAMED]
        ]
        return i, values, len(found)


def stage_name(signal: str) -> str:
    """The stage that decides a signal, as text."""
    return STAGES[stage_of(signal)][0]
