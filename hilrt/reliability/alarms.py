"""Alarms: limits on measured values, and what the session does when one is crossed.

Evaluated on what was measured, before it can act: at the tick that brings a value outside its
limits, nothing more is sent to a bench if the alarm says so. A value that is not a finite number is
outside every limit; one that has not arrived anew keeps its alarm as it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from hilrt.compiled import compiled
from hilrt.config.structs import Alarm
from hilrt.errors import SessionFault
from hilrt.solver import Floats
from hilrt.tables.network import Bools, Ints

if TYPE_CHECKING:
    from hilrt.tables.network import Network

#: What an alarm does, from the mildest on; the highest of those that are active counts.
ACTIONS: Final = ("log", "degrade", "stop", "safe")
DEGRADE, STOP, SAFE = (ACTIONS.index(action) for action in ("degrade", "stop", "safe"))
#: Two samples closer than this share of the step give no rate of change.
SPACING_SHARE = 0.5


class Measured(Protocol):
    """What an evaluation looks at: a `StepInput` has it."""

    t: float
    y: Floats
    t_valid: Floats
    fresh: Bools


@dataclass(frozen=True)
class AlarmPlan:
    """Alarms of a session, one entry per watched channel.

    Attributes
    ----------
    names : list of str
        For people: the alarm's name, or its signal and limits.
    output : ndarray of int, shape (na,)
        The channel among the outputs.
    low, high, rate : ndarray, shape (na,)
        Limits of the value and of its rate [unit, unit, unit/s]; infinite where there is none.
    delay : ndarray, shape (na,)
        How long a value must be outside without a break, s.
    level : ndarray of int, shape (na,)
        Position of the action in `ACTIONS`.
    spacing : float
        Shortest time between two samples that gives a rate, s.
    """

    names: list[str]
    output: Ints
    low: Floats
    high: Floats
    rate: Floats
    delay: Floats
    level: Ints
    spacing: float

    def __len__(self) -> int:
        return len(self.names)

    def degrades(self, name: str) -> bool:
        """Whether the alarm of that name degrades the session while it is active."""
        return name in self.names and int(self.level[self.names.index(name)]) == DEGRADE

    def ending(self, state: AlarmState) -> list[str]:
        """Names of the active alarms that end the session."""
        return [
            name
            for name, level, active in zip(self.names, self.level, state.active, strict=True)
            if active and level >= STOP
        ]

    def outside(self, values: Mapping[int, float]) -> list[str]:
        """Alarms that end a session, whose limits of value the channels `values` are outside of.

        For the time before the first tick: benches are not armed while there is one.
        """
        return [
            f"{name} ({values[i]:g})"
            for name, i, low, high, level in zip(
                self.names, self.output.tolist(), self.low, self.high, self.level, strict=True
            )
            if level >= STOP and i in values and not low <= values[i] <= high
        ]


@dataclass(slots=True)
class AlarmState:
    """What the evaluation remembers; arrays of shape (na,), updated in place.

    Attributes
    ----------
    previous, previous_t : ndarray
        Newest value, and when it was valid [s]; NaN before the first.
    since : ndarray
        Since when the value is outside, s; infinite while it is inside.
    active : ndarray of bool
    level : int
        Position in `ACTIONS` of the gravest active alarm; -1 without one.
    """

    previous: Floats
    previous_t: Floats
    since: Floats
    active: Bools
    level: int = -1

    @classmethod
    def start(cls, count: int) -> AlarmState:
        """Nothing measured, no alarm."""
        return cls(
            previous=np.full(count, np.nan),
            previous_t=np.full(count, np.nan),
            since=np.full(count, np.inf),
            active=np.zeros(count, dtype=bool),
        )


def build_alarms(network: Network, alarms: list[Alarm], step: float) -> AlarmPlan:
    """Alarms of the session file as arrays; a vector port has one per element."""
    rows: list[tuple[str, int, Alarm]] = []
    for alarm in alarms:
        part, _ = network.outputs.ports[alarm.signal]
        for i in range(part.start, part.stop):
            rows.append((describe(alarm, network.outputs.names[i]), i, alarm))

    def column(key: str, missing: float) -> Floats:
        given = [getattr(alarm, key) for _, _, alarm in rows]
        return np.array([missing if value is None else value for value in given], dtype=float)

    return AlarmPlan(
        names=[name for name, _, _ in rows],
        output=np.array([i for _, i, _ in rows], dtype=np.intp),
        low=column("min", -math.inf),
        high=column("max", math.inf),
        rate=column("max_rate", math.inf),
        delay=column("delay", 0.0),
        level=np.array([ACTIONS.index(alarm.action) for _, _, alarm in rows], dtype=np.intp),
        spacing=SPACING_SHARE * step,
    )


def describe(alarm: Alarm, channel: str) -> str:
    """An alarm for people: its name if it has one, what is watched, and the limits."""
    limits = []
    if alarm.min is not None:
        limits.append(f"below {alarm.min:g}")
    if alarm.max is not None:
        limits.append(f"above {alarm.max:g}")
    if alarm.max_rate is not None:
        limits.append(f"faster than {alarm.max_rate:g}/s")
    what = f"{channel} {' or '.join(limits)}"
    return f"{alarm.name}: {what}" if alarm.name else what


def refuse_alarms(plan: AlarmPlan, y: Floats) -> None:
    """`SessionFault` if a value of `y`, shape (ny,), must keep the session from being armed."""
    if reasons := plan.outside(dict(enumerate(y.tolist()))):
        raise SessionFault(f"alarm before the first tick: {', '.join(reasons)}")


def evaluate(plan: AlarmPlan, state: AlarmState, given: Measured) -> None:
    """Look at the samples in the cut; afterwards `state.level` says what is to be done."""
    state.level = _evaluate(
        given.y,
        given.fresh,
        given.t_valid,
        given.t,
        plan.output,
        plan.low,
        plan.high,
        plan.rate,
        plan.delay,
        plan.level,
        plan.spacing,
        state.previous,
        state.previous_t,
        state.since,
        state.active,
    )


@compiled
def _evaluate(
    y: Floats,
    fresh: Bools,
    t_valid: Floats,
    t: float,
    output: Ints,
    low: Floats,
    high: Floats,
    rate: Floats,
    delay: Floats,
    level: Ints,
    spacing: float,
    previous: Floats,
    previous_t: Floats,
    since: Floats,
    active: Bools,
) -> int:
    gravest = -1
    for a in range(len(output)):
        i = output[a]
        if fresh[i]:
            value, elapsed = y[i], t_valid[i] - previous_t[a]
            outside = not (low[a] <= value <= high[a])  # NaN is outside
            if not elapsed < spacing:  # also for the first sample
                if rate[a] < np.inf and abs(value - previous[a]) > rate[a] * elapsed:
                    outside = True
                if np.isfinite(value):
                    previous[a], previous_t[a] = value, t_valid[i]
            elif since[a] < np.inf:
                outside = True  # too close to the one before to say that it is over
            if not outside:
                since[a] = np.inf
            elif since[a] == np.inf:
                since[a] = t
        # A hundredth of the spacing: grid points are rounded to seconds.
        active[a] = t - since[a] >= delay[a] - 0.01 * spacing
        if active[a] and level[a] > gravest:
            gravest = level[a]
    return gravest
