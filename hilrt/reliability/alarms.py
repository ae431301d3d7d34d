"""Alarms of a session: limits on measured values, their names, and their actions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from hilrt.config.structs import Alarm
from hilrt.errors import SessionFault
from hilrt.solver import Floats
from hilrt.tables.given import StepInput
from hilrt.tables.network import Network
from hilrt.tables.plan import RANGE_SAFE, RANGE_USE, AlarmPlan, Plan
from hilrt.tables.ports import Bools
from hilrt.tables.record import Table, table
from hilrt.tables.state import State

#: Actions of an alarm, mildest first; the most severe of the active ones counts.
ACTIONS: Final = ("log", "degrade", "stop", "safe")
DEGRADE, STOP, SAFE = (ACTIONS.index(action) for action in ("degrade", "stop", "safe"))
#: Samples closer together than this share of the step give no rate of change.
SPACING_SHARE = 0.5


@dataclass(frozen=True)
class AlarmNames:
    """Alarms of a session, one for every monitored channel.

    Attributes
    ----------
    names : list of str
        Shown names: the alarm's name, or its signal and limits.
    limits : table of `hilrt.tables.plan.AlarmPlan`
        In the same order.
    """

    names: list[str]
    limits: Table[AlarmPlan]

    def __len__(self) -> int:
        return len(self.names)

    def degrades(self, name: str) -> bool:
        """Whether the alarm of that name impairs the session while it is active."""
        return name in self.names and self.limits["level"][self.names.index(name)] == DEGRADE

    @staticmethod
    def end_session(level: int) -> bool:
        """Whether an alarm level ends the session; -1 is none."""
        return bool(level >= STOP)

    def ending(self, state: State) -> list[str]:
        """Names of the active alarms that end the session."""
        ends = (self.limits["level"] >= STOP) & (state.alarms["active"] != 0)
        return [name for name, end in zip(self.names, ends, strict=True) if end]

    def outside(self, values: Mapping[int, float]) -> list[str]:
        """Session-ending alarms whose value limits the outputs `values` violate.

        Used before the first tick: benches are not armed while there is any.
        """
        rows = zip(self.names, self.limits, strict=True)
        return [
            f"{name} ({values[row.output]:g})"
            for name, row in rows
            if row.level >= STOP
            and row.output in values
            and not row.low <= values[row.output] <= row.high
        ]

    def without(self, inactive: Bools) -> AlarmNames:
        """The alarms except those marked in `inactive`, shape (na,)."""
        names = [name for name, out in zip(self.names, inactive, strict=True) if not out]
        return AlarmNames(names, self.limits[~np.asarray(inactive, dtype=bool)])


@dataclass
class AlarmRecord:
    """One alarm over the course of a session, times in session time, s.

    Attributes
    ----------
    count : int
        Number of times that it was raised.
    first_t, last_t : float
        Times at which it was first and last raised.
    cleared_t : float or None
        Time at which it last cleared; None while it is active.
    active_s : float
        Time for which it was active, excluding the time since `last_t` while it is active.
    acknowledged_by : str
        Operator who acknowledged it since it was last raised; empty if nobody has.
    acknowledged_t : float or None
        Time of that.
    seen_by, seen_t : str, float or None
        The last acknowledgement before it was raised again.
    """

    count: int = 0
    first_t: float = 0.0
    last_t: float = 0.0
    cleared_t: float | None = None
    active_s: float = 0.0
    acknowledged_by: str = ""
    acknowledged_t: float | None = None
    seen_by: str = ""
    seen_t: float | None = None


class AlarmHistory:
    """History of raised alarms, from the changes of their flags."""

    def __init__(self) -> None:
        self.records: dict[str, AlarmRecord] = {}

    def note(self, name: str, t: float, *, raised: bool) -> None:
        """Record that the alarm `name` was raised or cleared at session time `t` [s]."""
        if not raised:
            if (record := self.records.get(name)) is not None and record.cleared_t is None:
                record.cleared_t = t
                record.active_s += t - record.last_t
            return
        record = self.records.setdefault(name, AlarmRecord(first_t=t))
        record.count, record.last_t, record.cleared_t = record.count + 1, t, None
        if record.acknowledged_by:
            record.seen_by, record.seen_t = record.acknowledged_by, record.acknowledged_t
        record.acknowledged_by, record.acknowledged_t = "", None

    def acknowledge(self, name: str, who: str, t: float) -> bool:
        """Record that `who` acknowledged the alarm `name` at `t` [s]; False if it is unknown."""
        record = self.records.get(name)
        if record is not None and not record.acknowledged_by:
            record.acknowledged_by, record.acknowledged_t = who, t
        return record is not None

    def as_json(self, t: float) -> list[dict[str, Any]]:
        """Alarms as in ``summary.json``, at session time `t` [s], in the order of raising."""
        return [
            {
                "name": name,
                "count": record.count,
                "first_t": record.first_t,
                "last_t": record.last_t,
                "cleared_t": record.cleared_t,
                "active_s": record.active_s
                + (t - record.last_t if record.cleared_t is None else 0),
                "acknowledged_by": record.acknowledged_by,
                "acknowledged_t": record.acknowledged_t,
                "seen_by": record.seen_by,
                "seen_t": record.seen_t,
            }
            for name, record in self.records.items()
        ]


def alarm_rows(network: Network, alarms: list[Alarm]) -> AlarmNames:
    """Alarms of the session file; a vector port has one per element."""
    watched = [
        (alarm, output)
        for alarm in alarms
        for output in _span(network.outputs.ports[alarm.signal][0])
    ]
    limits = table(AlarmPlan, len(watched))
    for row, (alarm, output) in zip(limits, watched, strict=True):
        row.output, row.delay = output, alarm.delay
        row.low = -math.inf if alarm.min is None else alarm.min
        row.high = math.inf if alarm.max is None else alarm.max
        row.max_rate = math.inf if alarm.max_rate is None else alarm.max_rate
        row.level = ACTIONS.index(alarm.action)
    names = [describe(alarm, network.outputs.names[output]) for alarm, output in watched]
    return AlarmNames(names, limits)


def _span(part: slice) -> range:
    return range(part.start, part.stop)


def fill_alarms(plan: Plan, alarms: AlarmNames, step: float) -> None:
    """Fill the table of alarms, and the shortest time between samples that gives a rate."""
    plan.alarms[:] = alarms.limits
    plan.session["sample_spacing"] = SPACING_SHARE * step


def describe(alarm: Alarm, channel: str) -> str:
    """An alarm as text: its name if it has one, the monitored signal, and the limits."""
    limits = []
    if alarm.min is not None:
        limits.append(f"below {alarm.min:g}")
    if alarm.max is not None:
        limits.append(f"above {alarm.max:g}")
    if alarm.max_rate is not None:
        limits.append(f"faster than {alarm.max_rate:g}/s")
    what = f"{channel} {' or '.join(limits)}"
    return f"{alarm.name}: {what}" if alarm.name else what


def refuse_alarms(alarms: AlarmNames, y: Floats) -> None:
    """Raise `SessionFault` if a value of `y`, shape (ny,), forbids arming the session."""
    if reasons := alarms.outside(dict(enumerate(y.tolist()))):
        raise SessionFault(f"alarm before the first tick: {', '.join(reasons)}")


# Declared ranges of the outputs as text, and their consequences between ticks.

#: Remedy for a value that is not used.
REMEDY = 'check the sensor, correct the range, or set out_of_range = "use" for it'


@dataclass(frozen=True)
class Ranges:
    """Ranges of the outputs, as used by `hilrt.reliability.guard`.

    Attributes
    ----------
    network : Network
    plan : Plan
    """

    network: Network
    plan: Plan

    def outside(self, y: Floats) -> Bools:
        """Mark values of `y`, shape (ny,), that are outside; NaN always is."""
        low, high = self.plan.outputs["low"], self.plan.outputs["high"]
        declared = np.isfinite(low) | np.isfinite(high)
        found: Bools = declared & ~((low <= y) & (y <= high))
        return found

    def withheld(self, y: Floats) -> Bools:
        """Mark values of `y`, shape (ny,), that are not used."""
        found: Bools = self.outside(y) & (self.plan.outputs["range_policy"] != RANGE_USE)
        return found

    def brings_down(self, y: Floats) -> list[str]:
        """Texts about values that trigger the safe profile at once."""
        at_once = self.outside(y) & (self.plan.outputs["range_policy"] == RANGE_SAFE)
        return [self.text(i, float(y[i])) for i in _rows(at_once)]

    def refuse(self, y: Floats) -> None:
        """Raise `SessionFault` if a value of `y`, shape (ny,), forbids arming the session.

        Before the first tick there is no earlier value to hold.
        """
        if texts := [self.text(i, float(y[i])) for i in _rows(self.withheld(y))]:
            raise SessionFault(f"before the first tick: {'; '.join(texts)}; {REMEDY}")

    def ending(self, state: State, given: StepInput) -> list[str]:
        """Texts about the samples that ended the session."""
        found = []
        for i in _rows(state.outputs["value_fault"] != 0):
            out, value = state.outputs[i], float(state.outputs["newest"][i])
            misses = self.plan.subsystems[self.plan.outputs[i].subsystem].max_misses
            if out.withheld and self.plan.outputs[i].range_policy == RANGE_SAFE:
                why = 'its out_of_range is "safe"'
            else:
                points = out.unusable_points
                why = f"no usable sample for {points} ticks, late.max_misses is {misses}"
                why += f"; {REMEDY}" if out.withheld else ""
            found.append(f"{self.text(i, value)} ({why})")
        return found

    def text(self, i: int, value: float) -> str:
        """A value of output `i` as text, with its declared range."""
        outputs = self.network.outputs
        ports = outputs.ports.values()
        low, high = next((p.min, p.max) for part, p in ports if part.start <= i < part.stop)
        text = f"{outputs.names[i]} = {value:.6g} {outputs.units[i]}".rstrip()
        bounds = [f"below {low:g}"] if value < low else []
        bounds += [f"above {high:g}"] if value > high else []
        text += f" is {bounds[0] if bounds else 'not a finite number'}"
        if np.isfinite(low) and np.isfinite(high):
            return f"{text}: its declared range is {low:g} to {high:g}"
        return text + (", a declared limit" if bounds else "")


def _rows(marked: Bools) -> list[int]:
    rows: list[int] = np.flatnonzero(marked).tolist()
    return rows
