"""Clocks of an FMU of FMI 3: their ticks, and their variables.

Variables of a clock may be set and read only at its ticks, in event mode; between ticks, outputs
are held here. Triggered input clocks, and output clocks, are ports whose value counts ticks; an
input clock ticks when its count has changed.
"""

from __future__ import annotations

import copy
import ctypes
import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hilrt.fmu.clocks import FmuClock, Schedule
from hilrt.fmu.description import why_not_driven
from hilrt.fmu.instance import FmuError, Instance
from hilrt.fmu.values import ValueSubset
from hilrt.solver import Floats

log = logging.getLogger("hilrt.fmu")

Sized = Sequence[tuple[Any, int]]

#: Qualifiers of an interval returned by an FMU, apart from "not yet known".
_UNCHANGED, _CHANGED = 1, 2


@dataclass
class ClockState:
    """The clocks' part of a saved state.

    Attributes
    ----------
    schedule : Schedule
    intervals : dict
        Newest intervals of clocks whose interval changes, s.
    triggers : ndarray, shape (n triggered input clocks,)
        Their inputs at the last call.
    ticked : Counter
        Number of ticks of the FMU's output clocks, by value reference.
    held : ndarray, shape (n_outputs,)
        Outputs at the last reading.
    """

    triggers: Floats
    held: Floats
    schedule: Schedule = field(default_factory=Schedule)
    intervals: dict[int, float] = field(default_factory=dict)
    ticked: Counter[int] = field(default_factory=Counter)


class Clockwork:
    """The clocks of one instance.

    Parameters
    ----------
    instance : Instance
    part : callable
        Selects the ports' variables that fulfil a condition, for separate reading and setting.
    inputs, outputs : sequence of (variable, int)
        The ports' variables with their sizes.
    events : bool
        Whether event mode is used; without it nothing ticks.
    """

    def __init__(
        self,
        instance: Instance,
        part: Callable[[Sized, Callable[[Any], bool]], ValueSubset],
        inputs: Sized,
        outputs: Sized,
        events: bool,
    ) -> None:
        self._fmi, self._guard, self._fmu = instance.fmi, instance.guard, instance.fmu
        clocks = self._fmu.clocks
        used = events and self._fmu.event_mode
        self._timed = [c for c in clocks if c.timed and not why_not_driven(self._fmu, c, events)]
        self._output_clocks = [c for c in clocks if c.is_output and used]
        self._triggers, self._shown = _places(inputs), _places(outputs)
        self._where = np.array(list(self._triggers.values()), dtype=np.intp)
        self._ins = {r: part(inputs, _of(r)) for r in _references(inputs)}
        self._outs = {r: part(outputs, _of(r)) for r in _references(outputs)}
        self._free = part(outputs, is_free)
        n_outputs = sum(size for _, size in outputs)
        self._state = ClockState(np.zeros(len(self._where)), np.zeros(n_outputs))
        # Clocks active in this round of the event iteration, and in all of its rounds so far.
        self._active: set[int] = set()
        self._were: set[int] = set()

    @property
    def has_triggers(self) -> bool:
        """Whether other subsystems trigger clocks of it."""
        return bool(self._triggers)

    @property
    def has_times(self) -> bool:
        """Whether any clock ticks at known times."""
        return bool(self._timed)

    # -- times -------------------------------------------------------------------------------------

    def begin(self, start: float) -> None:
        """Query the first ticks in initialization mode; FMU time `start` [s]."""
        for clock in self._timed:
            if not clock.periodic:
                self._query([clock], start)
                continue
            interval, shift = clock.interval, clock.shift
            if math.isnan(interval):
                interval, shift = self._intervals([clock])[0][0], self._shift(clock)
            self._check(clock, interval, interval > 0.0)
            self._state.schedule.every(clock.reference, start + shift, interval)

    def next(self, t: float, end: float) -> tuple[float, list[int]]:
        """See `Schedule.next`; FMU time, s."""
        return self._state.schedule.next(t, end)

    def _query(self, clocks: Sequence[FmuClock], t: float) -> None:
        """Query the next ticks of `clocks`, counted from `t` [s]."""
        for clock, (interval, qualifier) in zip(clocks, self._intervals(clocks), strict=True):
            reference = clock.reference
            if qualifier == _UNCHANGED and clock.variability == "changing":
                interval = self._state.intervals.get(reference, math.nan)
            elif qualifier != _CHANGED:
                continue  # not known yet, or unchanged
            self._check(clock, interval, interval >= 0.0)
            self._state.intervals[reference] = interval
            self._state.schedule.at(reference, t + interval)

    def _intervals(self, clocks: Sequence[FmuClock]) -> list[tuple[float, int]]:
        n = len(clocks)
        if n == 0:
            return []
        references = (ctypes.c_uint * n)(*(clock.reference for clock in clocks))
        intervals, qualifiers = (ctypes.c_double * n)(), (ctypes.c_int * n)()
        self._guard(self._fmi.getIntervalDecimal, references, intervals, qualifiers)
        return list(zip(intervals, qualifiers, strict=True))

    def _shift(self, clock: FmuClock) -> float:
        shifts = (ctypes.c_double * 1)()
        self._guard(self._fmi.getShiftDecimal, (ctypes.c_uint * 1)(clock.reference), shifts)
        return float(shifts[0])

    def _check(self, clock: FmuClock, interval: float, valid: bool) -> None:
        if not (valid and math.isfinite(interval)):
            raise FmuError(
                f"{self._fmu.path.name}: its clock {clock.name!r} has an interval of {interval:g} s"
            )

    # -- in event mode -----------------------------------------------------------------------------

    def triggered(self, u: Floats) -> list[int]:
        """Clocks whose input has changed since the last call; `u` (n_inputs,)."""
        counts = np.rint(u[self._where])
        changed = counts != self._state.triggers
        self._state.triggers = counts
        return [r for r, other in zip(self._triggers, changed.tolist(), strict=True) if other]

    def tick(self, references: Sequence[int], u: Floats) -> None:
        """Tick clocks, and set their inputs from `u` (n_inputs,)."""
        self._guard(self._fmi.setClock, list(references), [True] * len(references))
        self._state.schedule.ticked(references)
        self._active.update(references)
        for reference in references:
            if reference in self._ins:
                self._ins[reference].write(u)

    def take_output_ticks(self, t: float) -> None:
        """Query the output clocks that tick at `t` [s], and read their outputs."""
        if self._output_clocks:
            active = self._guard(
                self._fmi.getClock, [clock.reference for clock in self._output_clocks]
            )
            for clock, ticks in zip(self._output_clocks, active, strict=True):
                if ticks:
                    self._note(clock, t)
        for reference in self._active & self._outs.keys():
            self._outs[reference].read(self._state.held)
        self._were |= self._active
        self._active.clear()  # as the FMU does when it updates its discrete states

    def _note(self, clock: FmuClock, t: float) -> None:
        ticked = self._state.ticked
        self._active.add(clock.reference)
        ticked[clock.reference] += 1
        if clock.reference in self._shown:
            self._state.held[self._shown[clock.reference]] = ticked[clock.reference]
        level = logging.INFO if ticked[clock.reference] == 1 else logging.DEBUG
        log.log(level, "%s: clock %s ticks at %.9g s", self._fmu.path.name, clock.name, t)

    def settled(self, t: float) -> None:
        """Query the next ticks, after the event iteration at `t` [s]."""
        were, self._were = self._were, set()
        # A countdown may start at any event; a changing interval follows a tick.
        queried = {"countdown": self._timed}
        queried["changing"] = [clock for clock in self._timed if clock.reference in were]
        self._query([c for kind, some in queried.items() for c in some if c.variability == kind], t)

    # -- outputs and state -------------------------------------------------------------------------

    def hold(self, y: Floats) -> Floats:
        """Hold the outputs of the initialization, shape (n_outputs,), until the first ticks."""
        self._state.held = y.copy()
        return y

    def read(self) -> Floats:
        """Outputs, shape (n_outputs,); clocked ones as of their clock's last tick."""
        self._free.read(self._state.held)
        return self._state.held.copy()

    def save(self) -> ClockState:
        """The clocks' part of a saved state."""
        return copy.deepcopy(self._state)

    def restore(self, state: ClockState) -> None:
        """Restore a state from `save`."""
        self._state = copy.deepcopy(state)

    def report(self) -> None:
        """Log the numbers of ticks of the FMU's clocks."""
        for clock in self._output_clocks:
            count = self._state.ticked[clock.reference]
            log.info("%s: clock %s ticked %d times", self._fmu.path.name, clock.name, count)


def is_free(variable: Any) -> bool:
    """Whether a variable neither belongs to a clock nor is one."""
    return not variable.clocks and variable.type != "Clock"


def _of(reference: int) -> Callable[[Any], bool]:
    return lambda variable: variable.type != "Clock" and reference in _clocks(variable)


def _clocks(variable: Any) -> list[int]:
    """Value references of the clocks at whose ticks a variable is active."""
    return [clock.valueReference for clock in variable.clocks or ()]


def _references(variables: Sized) -> set[int]:
    return {reference for variable, _ in variables for reference in _clocks(variable)}


def _places(variables: Sized) -> dict[int, int]:
    """Value references of the clocks among the ports, with their places."""
    places, first = {}, 0
    for variable, size in variables:
        if variable.type == "Clock":
            places[variable.valueReference] = first
        first += size
    return places
