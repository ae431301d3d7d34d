"""Flags as text, from the tables of checks and causes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np

from hilrt.reliability.alarms import AlarmNames
from hilrt.reliability.checks import CheckNames
from hilrt.tables.state import State


class FlagChange(NamedTuple):
    """A flag that was raised or cleared at session time `t` [s]."""

    t: float
    cause: str
    where: str
    raised: bool


class FlagTotal(NamedTuple):
    """Totals of a cause.

    Attributes
    ----------
    raised : int
        Number of times that it was raised.
    seconds : float
        Time for which any flag of it was active, s.
    affected_s : float
        Length of the steps that it affected, s.
    worst_second : float
        Largest share of a second (or of ten steps, if these are longer) made up of such steps.
    places : tuple of str
        Places at which it was active, longest first.
    """

    raised: int
    seconds: float
    affected_s: float = 0.0
    worst_second: float = 0.0
    places: tuple[str, ...] = ()


def flag_changes(names: CheckNames, state: State, t: float) -> list[FlagChange]:
    """Flags that changed in the assessment of the point at `t` [s]."""
    return [
        FlagChange(t, names.cause_of(i), names.where[i], bool(state.checks["active"][i]))
        for i in np.flatnonzero(state.checks["moved"]).tolist()
    ]


def active_flags(names: CheckNames, state: State) -> list[tuple[str, str]]:
    """Active flags, as (cause, where)."""
    up = np.flatnonzero(state.checks["active"]).tolist()
    return [(names.cause_of(i), names.where[i]) for i in up]


def flag_totals(names: CheckNames, state: State) -> dict[str, FlagTotal]:
    """Totals of every cause, over the session so far."""
    fields = ("count", "seconds", "affected", "worst_second")
    totals = map(FlagTotal, *(state.causes[name].tolist() for name in fields))
    seconds = state.checks["seconds"]
    up = np.flatnonzero((seconds > 0.0) | (state.checks["active"] != 0))
    places: dict[int, dict[str, float]] = {}
    for i, length in zip(up.tolist(), seconds[up].tolist(), strict=True):
        places.setdefault(names.number_of(i), {})[names.where[i]] = length
    return {
        cause: total._replace(places=longest_first(places[c])) if c in places else total
        for c, (cause, total) in enumerate(zip(names.causes, totals, strict=True))
    }


def longest_first(seconds: Mapping[str, float]) -> tuple[str, ...]:
    """Locations, sorted by the time [s] for which a flag was active there, then by name."""
    return tuple(sorted(seconds, key=lambda place: (-round(seconds[place], 3), place)))


# A session is impaired while a bench sends no usable samples, or an alarm is active.

#: Time without a reason after which the session is no longer impaired.
RECOVER_NS = 1_000_000_000


class Impairment:
    """State of a session's impairment, from its flags.

    Parameters
    ----------
    benches : collection of str
        Subsystems whose late samples count.
    alarms : AlarmNames

    Attributes
    ----------
    on_change : callable, optional
        Called when the session becomes impaired or recovers, with the reason.
    """

    def __init__(self, benches: Collection[str], alarms: AlarmNames) -> None:
        self.on_change: Callable[[bool, str], None] | None = None
        self._benches, self._alarms = benches, alarms
        self._reasons: set[str] = set()
        self._impaired = False
        self._calm_since = 0

    def note(self, change: FlagChange) -> None:
        """Process a flag that was raised or cleared."""
        if change.cause == "sample_late" and change.where in self._benches:
            reason = f"samples of {change.where} are late"
        elif change.cause == "out_of_range" and change.where.partition(".")[0] in self._benches:
            reason = f"{change.where} is outside its declared range"
        elif change.cause == "alarm" and self._alarms.degrades(change.where):
            reason = f"alarm {change.where}"
        else:
            return
        if change.raised:
            self._reasons.add(reason)
        else:
            self._reasons.discard(reason)

    def update(self, t_ns: int) -> None:
        """Update the state at session time `t_ns`, ns; call it once per tick."""
        if self._reasons:
            self._calm_since = t_ns
        waiting = self._impaired and t_ns - self._calm_since < RECOVER_NS
        impaired = bool(self._reasons) or waiting
        if impaired != self._impaired and self.on_change is not None:
            self._impaired = impaired
            self.on_change(impaired, "; ".join(sorted(self._reasons)) or "all causes are over")
