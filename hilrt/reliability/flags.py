"""Flags in words, from the tables of checks and causes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hilrt.reliability.checks import CheckNames
from hilrt.tables.state import State


class FlagChange(NamedTuple):
    """A flag that was raised or cleared at session time `t` [s]."""

    t: float
    cause: str
    where: str
    raised: bool


class FlagTotal(NamedTuple):
    """How often a cause came up, and how long any flag of it was up, s."""

    raised: int
    seconds: float


def flag_changes(names: CheckNames, state: State, t: float) -> list[FlagChange]:
    """Flags that moved in the assessment of the point at `t` [s]."""
    return [
        FlagChange(t, names.cause_of(i), names.where[i], bool(state.checks["active"][i]))
        for i in np.flatnonzero(state.checks["moved"]).tolist()
    ]


def active_flags(names: CheckNames, state: State) -> list[tuple[str, str]]:
    """Flags that are up, as (cause, where)."""
    up = np.flatnonzero(state.checks["active"]).tolist()
    return [(names.cause_of(i), names.where[i]) for i in up]


def flag_totals(names: CheckNames, state: State) -> dict[str, FlagTotal]:
    """Of every cause, over the session so far."""
    counts, seconds = state.causes["count"].tolist(), state.causes["seconds"].tolist()
    totals = map(FlagTotal, counts, seconds)
    return dict(zip(names.causes, totals, strict=True))
