"""The calls of FMI 3.0 for co-simulation: event mode, early return, intermediate update."""

from __future__ import annotations

import ctypes
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from fmpy.fmi3 import FMU3Slave

from hilrt.fmu.clocks import not_driven, ticks
from hilrt.fmu.description import Fmu, flows
from hilrt.fmu.instance import DISCARD, Experiment, FmuError, Inputs, Instance, SavedState
from hilrt.fmu.values import TYPES, Values
from hilrt.network import Ints
from hilrt.solver import Floats

log = logging.getLogger("hilrt.fmu")

#: Events in one step after which the FMU is taken to make no progress.
MAX_EVENTS = 1000
#: Rounds of an event iteration after which it is taken not to end.
_MAX_ROUNDS = 100


class Instance3(Instance):
    """See `Instance`.

    Parameters
    ----------
    fmu, inputs, outputs, debug
        As for `Instance`.
    events : bool
        Use event mode and early return where the FMU has them.
    intermediate : bool
        Use intermediate update where the FMU provides it.
    """

    Slave = FMU3Slave
    output_derivatives = "getOutputDerivatives"

    def __init__(
        self,
        fmu: Fmu,
        inputs: Sequence[tuple[Any, int]],
        outputs: Sequence[tuple[Any, int]],
        debug: bool,
        events: bool,
        intermediate: bool,
    ) -> None:
        self.event_mode = events and fmu.event_mode
        provided = bool(intermediate and fmu.co.providesIntermediateUpdate)
        every = provided and all(v.intermediateUpdate for v, _ in outputs)
        flowing = [v for v, _ in inputs if flows(v)]
        self._inside = [v for v in flowing if provided and v.intermediateUpdate]
        self.sets_inside = bool(flowing) and len(self._inside) == len(flowing)
        self.reads_inside = bool(outputs) and every
        if self.reads_inside:
            self._inside += [v for v, _ in outputs]
        self._u: Inputs | None = None
        self._seen: list[tuple[float, Floats]] = []
        self._raised: BaseException | None = None
        super().__init__(fmu, inputs, outputs, debug)
        self._sort_inputs(inputs)
        self._clocks = () if not_driven(fmu, events) else tuple(c for c in fmu.clocks if c.periodic)
        self._told = [clock for clock in fmu.clocks if clock.tells and self.event_mode]
        #: Ticks of the output clocks, by name.
        self.ticked = Counter[str]()

    def _sort_inputs(self, inputs: Sequence[tuple[Any, int]]) -> None:
        """Which inputs are set in step mode, in event mode only, and at the ticks of a clock."""

        def some(wanted: Callable[[Any], bool]) -> _Some:
            mask = [wanted(v) for v, size in inputs for _ in range(size)]
            chosen = [(v, size) for v, size in inputs if wanted(v)]
            values = Values(self.fmi.dll, 3, chosen, self.check, self.c)
            return _Some(np.flatnonzero(mask), values)

        self._flow = some(flows)
        self._switching = some(lambda v: not flows(v) and not v.clocks).where
        self._switched = np.empty(0)
        #: Set whatever no clock holds.
        self._write_free: Callable[[Floats], None] = self._ins.write
        self._clocked: dict[int, _Some] = {}
        for reference in {r for v, _ in inputs for r in _clocks_of(v)}:
            self._clocked[reference] = some(partial(_is_clocked_by, reference))
        if self._clocked:
            self._write_free = self.write = some(lambda v: not v.clocks).write
        if self.event_mode and len(self._switching):
            self.write = self._write_apart

    def _instantiate(self, debug: bool) -> None:
        self.fmi.instantiate(
            loggingOn=debug,
            eventModeUsed=self.event_mode,
            earlyReturnAllowed=self.event_mode,
            logMessage=lambda _env, status, category, text: self.logged(status, category, text),
            intermediateUpdate=self._intermediate_update if self._inside else None,
            requiredIntermediateVariables=[v.valueReference for v in self._inside],
        )
        self._do_step = self.fmi.dll.fmi3DoStep
        self._go_back = ctypes.c_bool(not self.can_step_back)  # our promise never to
        self._event, self._ends, self._early = (ctypes.c_bool() for _ in range(3))
        self._last = ctypes.c_double()
        self._answers = [
            ctypes.byref(answer) for answer in (self._event, self._ends, self._early, self._last)
        ]

    def set_start(self, values: dict[str, Any]) -> None:
        """See `Instance.set_start`; structural parameters first, they size the others."""
        structural = {
            name: value
            for name, value in values.items()
            if self.fmu.variables[name].causality == "structuralParameter"
        }
        if structural:
            self._guard(self.fmi.enterConfigurationMode)
            for name, value in structural.items():
                self._set(name, value)
            self._guard(self.fmi.exitConfigurationMode)
        for name, value in values.items():
            if name not in structural:
                self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        variable = self.fmu.variables[name]
        if variable.type == "String":
            self._guard(self.fmi.setString, [variable.valueReference], _list(value))
            return
        numbers = np.array(_list(value), dtype=TYPES[3][variable.type][2]).astype(np.float64)
        Values(self.fmi.dll, 3, [(variable, len(numbers))], self.check, self.c).write(numbers)

    def restore(self, saved: SavedState) -> None:
        """See `Instance.restore`; the discrete inputs are those of then, too."""
        super().restore(saved)
        self._switched = np.empty(0)

    def enter_initialization(self, experiment: Experiment) -> None:
        """See `Instance.enter_initialization`."""
        self._started = experiment.start
        self._guard(
            self.fmi.enterInitializationMode,
            experiment.tolerance,
            experiment.start,
            experiment.stop,
        )

    def exit_initialization(self) -> None:
        """See `Instance.exit_initialization`; with event mode, its first event iteration."""
        self._guard(self.fmi.exitInitializationMode)
        self._initialized = True
        if self.event_mode:
            self._settle()

    def _write_apart(self, u: Floats) -> None:
        """Set the inputs of an FMU in step mode, which takes discrete ones in event mode only."""
        switched = u[self._switching]
        if self._initialized and np.array_equal(switched, self._switched):
            self._flow.write(u)
            return
        self._switched = switched
        if self._initialized:
            self._guard(self.fmi.enterEventMode)
        self._write_free(u)
        if self._initialized:
            self._settle()

    def step(self, t: float, h: float, u: Inputs) -> list[float]:
        """See `Instance.step`; events are handled when the FMU stops at them, ticks at theirs.

        A tick inside the step is an event, too; one at its beginning has the inputs of then.
        """
        self._u = u
        self.inside = self._seen = []
        if not self._clocks:
            return self._run(t, h, u)
        events: list[float] = []
        end = t + h
        for at, references in ticks(self._clocks, self._started, t, end):
            if at > t:
                events += [*self._run(t, at - t, u), at]
            self._tick(at, references, u)
            t = at
        return events + self._run(t, end - t, u)

    def _tick(self, t: float, references: list[int], u: Inputs) -> None:
        """Let clocks tick at `t` [s], where the FMU stands, with the inputs that wait for them."""
        self._guard(self.fmi.enterEventMode)
        self._guard(self.fmi.setClock, references, [True] * len(references))
        inputs = u(t)
        self._write_free(inputs)
        for reference in references:
            if reference in self._clocked:
                self._clocked[reference].write(inputs)
        self._settle()

    def _run(self, t: float, h: float, u: Inputs) -> list[float]:
        """A step without ticks; times of the FMU's own events, s."""
        events: list[float] = []
        end = t + h
        while True:
            status = self._do_step(self.c, t, end - t, self._go_back, *self._answers)
            if self._raised is not None:
                raised, self._raised = self._raised, None
                raise raised
            if status == DISCARD and self._last.value > t and self.fmu.variable_step:
                self._early.value = True
            elif status:
                self.check("fmi3DoStep", status)
            if self._ends.value:
                raise FmuError(f"{self.fmu.path.name} ended its simulation by itself")
            reached = self._last.value if self._early.value else end
            if self._event.value and self.event_mode:
                events.append(reached)
                self._guard(self.fmi.enterEventMode)
                self._write_free(u(reached))
                self._settle(reached)
            elif self._early.value and reached <= t:
                raise FmuError(f"{self.fmu.path.name} returned at {reached:g} s without a step")
            if end - reached <= 1e-12 * max(abs(end), h):
                return events
            if len(events) > MAX_EVENTS:
                raise FmuError(f"{self.fmu.path.name}: over {MAX_EVENTS} events in one step")
            t = reached
            if not self._event.value:
                self.write(u(t))

    def _settle(self, t: float | None = None) -> None:
        """Event iteration, and back to step mode; output clocks tick in its rounds."""
        for _ in range(_MAX_ROUNDS):
            if self._told:
                self._note_ticks(t)
            again, ends, *_ = self._guard(self.fmi.updateDiscreteStates)
            if ends:
                raise FmuError(f"{self.fmu.path.name} ended its simulation by itself")
            if not again:
                self._guard(self.fmi.enterStepMode)
                return
        raise FmuError(f"{self.fmu.path.name}: its event iteration does not end")

    def _note_ticks(self, t: float | None) -> None:
        active = self._guard(self.fmi.getClock, [clock.reference for clock in self._told])
        for clock, ticks_now in zip(self._told, active, strict=True):
            if ticks_now:
                self.ticked[clock.name] += 1
                level = logging.INFO if self.ticked[clock.name] == 1 else logging.DEBUG
                when = "" if t is None else f" at {t:.9g} s"
                log.log(level, "%s: clock %s ticks%s", self.fmu.path.name, clock.name, when)

    def _intermediate_update(
        self,
        _env: Any,
        t: float,
        set_requested: bool,
        get_allowed: bool,
        _finished: bool,
        _can_return: bool,
        wants_return: Any,
        _return_time: Any,
    ) -> None:
        """Called by the FMU inside a step. What is raised here must not unwind through C."""
        try:
            wants_return[0] = False
            if get_allowed and self.reads_inside:
                self._seen.append((t, self.read()))
            if set_requested and self.sets_inside and self._u is not None:
                self._flow.write(self._u(t))
        except BaseException as error:
            self._raised = error

    def _release(self) -> None:
        for name, count in self.ticked.items():
            log.info("%s: clock %s ticked %d times", self.fmu.path.name, name, count)
        super()._release()


class _Some:
    """Some of the inputs.

    Attributes
    ----------
    where : ndarray of int
        Their places among all.
    """

    def __init__(self, where: Ints, values: Values) -> None:
        self.where, self._values = where, values

    def write(self, u: Floats) -> None:
        """Set them; `u` (n_inputs,) is of all."""
        self._values.write(u[self.where])


def _is_clocked_by(reference: int, variable: Any) -> bool:
    return reference in _clocks_of(variable)


def _clocks_of(variable: Any) -> list[int]:
    """Value references of the clocks at whose ticks a variable is active."""
    return [clock.valueReference for clock in variable.clocks or ()]


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
