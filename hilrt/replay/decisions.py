"""Comparison of recorded and recomputed decisions; which signals are decisions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from hilrt.solver import Floats
from hilrt.step.macro_step import assess, macro_step
from hilrt.step.numerics import Numerics
from hilrt.step_log.signals import build_columns
from hilrt.tables.record import stages_of
from hilrt.tables.state import State

#: Tolerance of a replay on another build, relative to each signal's largest value so far.
ELSEWHERE = 1e-9
#: Most differing signals listed.
NAMED = 6

#: Signals of the state that are repeated in a row's timing.
REPEATED = {"step": ("session", "h_next"), "order": ("outputs", "order")}


def decisions(numerics: Numerics) -> dict[str, str]:
    """Signals that depend only on the step's inputs, each with the stage that computes it.

    These are a row's signals from the state, in the order of the stages in `macro_step` and
    `assess`. The state's tables say which stage writes a field last.
    """
    order, found = _order(variable_step=bool(numerics.plan.session["variable_step"][0])), []
    rows = {name: get_args(kind) for name, kind in get_type_hints(State).items()}
    for column in itertools.chain.from_iterable(build_columns(numerics).values()):
        table, _, name = column.place.table.partition(".")
        field = column.place.field
        if table == "timing" and field in REPEATED:
            table, (name, field) = "state", REPEATED[field]
        if table == "state":
            stage = max(stages_of(rows[name][0])[field], key=order.index)
            found.append((order.index(stage), column.signal.name, stage))
    return {signal: stage for _, signal, stage in sorted(found, key=lambda one: one[0])}


def _order(*, variable_step: bool) -> list[str]:
    """Names of the functions that the step calls in turn, including its stages.

    Stages that both functions call belong to the first one only if the step is variable.
    """
    stages: tuple[Any, ...] = (macro_step, assess)
    first, then = (getattr(f, "py_func", f).__code__.co_names for f in stages)
    return [*(n for n in first if variable_step or n not in then), *then]


@dataclass(frozen=True)
class DifferingValue:
    """Signal that differs, with both values."""

    name: str
    recorded: float
    recomputed: float


@dataclass(frozen=True)
class FirstDifference:
    """First step whose decisions differ.

    Attributes
    ----------
    row, tick : int
        Number of the row in the log, and of the communication point.
    t : float
        Session time, s.
    stage : str
        Name of the first stage of the step whose decision differs.
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
    """Comparison of rows, signal by signal.

    Parameters
    ----------
    names : sequence of str
        Signals in both the log and the replay, in the order of the stages.
    tolerance : float
        0: bit for bit. Otherwise relative to each signal's largest recorded value so far.

    Attributes
    ----------
    exact : bool
        Whether everything so far was equal bit for bit, even if there is a tolerance.
    """

    def __init__(self, names: Sequence[str], tolerance: float) -> None:
        self.names, self.tolerance = list(names), tolerance
        self.exact = True
        self._peak = np.zeros(len(self.names))

    def differing(self, recorded: Floats, recomputed: Floats) -> NDArray[np.bool_]:
        """Mark values that differ, all shapes (n, signals)."""
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
        """First row that differs, some of its differing signals, and their number; or None."""
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
