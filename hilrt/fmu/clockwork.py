"""Drives the clocks of an FMU of FMI 3: their ticks, and the variables set and read at them.

Variables of a clock may be set and read at its ticks only, in event mode; between ticks, outputs
are held here. Triggered input clocks, and output clocks, are ports: their value is a count of
ticks, and an input clock ticks when its count has changed.
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

#: Qualifiers of an interval that an FMU returns, apart from "not yet known".
_UNCHANGED, _CHANGED = 1, 2


@dataclass
class ClockState:
    """The clocks' part of a saved state.

    Attributes
    ----------
    schedule : Schedule
    intervals : dict
        Newest intervals of the clocks with changing ones, s.
    triggers : ndarray, shape (n triggered input clocks,)
        Their inputs, as last seen.
    ticked : Counter
        How often the FMU's output clocks ticked, by value reference.
    held : ndarray, shape (n_outputs,)
        Outputs as last read.
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
        Those of the ports' variables for which a condition holds, to be read and set apart.
    inputs, outputs : sequence of (variable, int)
        The ports' variables with their sizes.
    events : bool
        Whether event mode is to be used; without it nothing ticks.
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
        # Those active in this round of the event iteration, and all that were in any of it.
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
        """Ask the FMU, in initialization mode, for the first ticks; FMU time `start` [s]."""
        for clock in self._timed:
            if not clock.periodic:
                self._ask([clock], start)
                continue
            interval, shift = clock.interval, clock.shift
            if math.isnan(interval):
                interval, shift = self._intervals([clock])[0][0], self._shift(clock)
            self._check(clock, interval, interval > 0.0)
            self._state.schedule.every(clock.reference, start + shift, interval)

    def next(self, t: float, end: float) -> tuple[float, list[int]]:
        """See `Schedule.next`; FMU time, s."""
        return self._state.schedule.next(t, end)

    def _ask(self, clocks: Sequence[FmuClock], t: float) -> None:
        """Ask the FMU for the next ticks of `clocks`, counted from `t` [s]."""
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

    def _check(self, clock: FmuClock, interval: float, well: bool) -> None:
        if not (well and math.isfinite(interval)):
            raise FmuError(
                f"{self._fmu.path.name} says that its clock {clock.name!r} has an interval of "
                f"{interval:g} s"
            )

    # -- in event mode -----------------------------------------------------------------------------

    def triggered(self, u: Floats) -> list[int]:
        """Clocks whose input has changed since the last call; `u` (n_inputs,)."""
        counts = np.rint(u[self._where])
        changed = counts != self._state.triggers
        self._state.triggers = counts
        return [r for r, other in zip(self._triggers, changed.tolist(), strict=True) if other]

    def tick(self, references: Sequence[int], u: Floats) -> None:
        """Tick clocks, and set the inputs that belong to them; `u` (n_inputs,) are the inputs."""
        self._guard(self._fmi.setClock, list(references), [True] * len(references))
        self._state.schedule.ticked(references)
        self._active.update(references)
        for reference in references:
            if reference in self._ins:
                self._ins[reference].write(u)

    def take_output_ticks(self, t: float) -> None:
        """Get the output clocks that tick at `t` [s], and read the outputs that belong to them."""
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
        self._active.clear()  # the FMU does so, too, when it updates its discrete states

    def _note(self, clock: FmuClock, t: float) -> None:
        ticked = self._state.ticked
        self._active.add(clock.reference)
        ticked[clock.reference] += 1
        if clock.reference in self._shown:
            self._state.held[self._shown[clock.reference]] = ticked[clock.reference]
        level = logging.INFO if ticked[clock.reference] == 1 else logging.DEBUG
        log.log(level, "%s: clock %s ticks at %.9g s", self._fmu.path.name, clock.name, t)

    def settled(self, t: float) -> None:
        """Ask the FMU for the next ticks, after the event iteration at `t` [s]."""
        were, self._were = self._were, set()
        # A countdown may begin at any event; a changing interval follows a tick.
        asked = {"countdown": self._timed}
        asked["changing"] = [clock for clock in self._timed if clock.reference in were]
        self._ask([c for kind, some in asked.items() for c in some if c.variability == kind], t)

    # -- outputs and state -------------------------------------------------------------------------

    def hold(self, y: Floats) -> Floats:
        """Hold the outputs of the initialization, shape (n_outputs,), until the first ticks."""
        self._state.held = y.copy()
        return y

    def read(self) -> Floats:
        """Outputs, shape (n_outputs,); those of a clock as they were at its last tick."""
        self._free.read(self._state.held)
        return self._state.held.copy()

    def save(self) -> ClockState:
        """The clocks' part of a saved state."""
        return copy.deepcopy(self._state)

    def restore(self, state: ClockState) -> None:
        """Restore a state from `save`."""
        self._state = copy.deepcopy(state)

    def report(self) -> None:
        """Log how often clocks of the FMU ticked."""
        for clock in self._output_clocks:
            count = self._state.ticked[clock.reference]
            log.info("%s: clock %s ticked %d times", self._fmu.path.name, clock.name, count)


def is_free(variable: Any) -> bool:
    """Whether a variable belongs to no clock, and is no clock."""
    return not variable.clocks and variable.type != "Clock"


def _of(reference: int) -> Callable[[Any], bool]:
    return lambda variable: variable.type != "Clock" and reference in _clocks(variable)


def _clocks(variable: Any) -> list[int]:
    """Value references of the clocks at whose ticks a variable is active."""
    return [clock.valueReference for clock in variable.clocks or ()]


def _references(variables: Sized) -> set[int]:
    return {reference for variable, _ in variables for reference in _clocks(variable)}


def _places(variables: Sized) -> dict[int, int]:
    """Value references of the clocks among the ports, and their places."""
    places, first = {}, 0
    for variable, size in variables:
        if variable.type == "Clock":
            places[variable.valueReference] = first
        first += size
    return places
