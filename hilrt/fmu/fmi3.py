"""The calls of FMI 3.0 for co-simulation: event mode, early return, intermediate update."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fmpy.fmi3 import FMU3Slave

from hilrt.fmu.description import Fmu, flows
from hilrt.fmu.instance import DISCARD, Experiment, FmuError, Inputs, Instance, SavedState
from hilrt.fmu.values import TYPES, Values
from hilrt.solver import Floats

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
        mask = [flows(v) for v, size in inputs for _ in range(size)]
        self._flowing = np.flatnonzero(mask)
        self._switching = np.flatnonzero(np.logical_not(mask))
        self._switched = np.empty(0)
        some = [(v, size) for v, size in inputs if flows(v)]
        self._flow = Values(self.fmi.dll, 3, some, self.check, self.c)
        if self.event_mode and len(self._switching):
            self.write = self._write_apart

    def _load(self, folder: Path) -> Any:
        return FMU3Slave(
            guid=self.fmu.model.guid,
            modelIdentifier=self.fmu.co.modelIdentifier,
            unzipDirectory=str(folder),
            instanceName=self.fmu.model.modelName,
        )

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
            self._flow.write(u[self._flowing])
            return
        self._switched = switched
        if self._initialized:
            self._guard(self.fmi.enterEventMode)
        self._ins.write(u)
        if self._initialized:
            self._settle()

    def step(self, t: float, h: float, u: Inputs) -> list[float]:
        """See `Instance.step`; events are handled when the FMU stops at them."""
        self._u = u
        self.inside = self._seen = []
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
                self._ins.write(u(reached))
                self._settle()
            elif self._early.value and reached <= t:
                raise FmuError(f"{self.fmu.path.name} returned at {reached:g} s without a step")
            if end - reached <= 1e-12 * max(abs(end), h):
                return events
            if len(events) > MAX_EVENTS:
                raise FmuError(f"{self.fmu.path.name}: over {MAX_EVENTS} events in one step")
            t = reached
            if not self._event.value:
                self.write(u(t))

    def _settle(self) -> None:
        """Event iteration, and back to step mode."""
        for _ in range(_MAX_ROUNDS):
            again, ends, *_ = self._guard(self.fmi.updateDiscreteStates)
            if ends:
                raise FmuError(f"{self.fmu.path.name} ended its simulation by itself")
            if not again:
                self._guard(self.fmi.enterStepMode)
                return
        raise FmuError(f"{self.fmu.path.name}: its event iteration does not end")

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
                self._flow.write(self._u(t)[self._flowing])
        except BaseException as error:
            self._raised = error

    def derivatives(self, order: int) -> Floats:
        """See `Instance.derivatives`."""
        dy = np.zeros((order, self._outs.size))
        if self.real_outputs:
            references = [reference for _, reference in self.real_outputs]
            places = [place for place, _ in self.real_outputs]
            for n in range(order):
                dy[n, places] = self._guard(
                    self.fmi.getOutputDerivatives, references, [n + 1] * len(references)
                )
        return dy

    def _release(self) -> None:
        if self._initialized:
            self._guard(self.fmi.terminate)
        self.fmi.fmi3FreeInstance(self.fmi.component)
        self._unload()


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
