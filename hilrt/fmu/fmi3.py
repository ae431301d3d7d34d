"""The calls of FMI 3.0 for co-simulation: event mode, early return, intermediate update."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fmpy.fmi3 import FMU3Slave

from hilrt.fmu.clockwork import Clockwork, is_free
from hilrt.fmu.description import Fmu
from hilrt.fmu.instance import (
    DISCARD,
    MAX_PARTS,
    Experiment,
    FmuError,
    Inputs,
    Instance,
    SavedState,
)
from hilrt.fmu.values import Values, ValueSubset
from hilrt.fmu.variables import TYPES, flows
from hilrt.solver import Floats

#: Maximum events and ticks in one step; with more, the step fails.
MAX_EVENTS = 1000
#: Maximum rounds of an event iteration; with more, it fails.
_MAX_ROUNDS = 100


class Instance3(Instance):
    """See `Instance`.

    Parameters
    ----------
    fmu, inputs, outputs, debug
        As for `Instance`.
    events : bool
        Use event mode and early return if the FMU supports them.
    intermediate : bool
        Use intermediate update if the FMU supports it.
    """

    Slave = FMU3Slave

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
        provided = bool(intermediate and fmu.interface.providesIntermediateUpdate)
        readable = [v for v, _ in outputs if is_free(v)]
        every = provided and all(v.intermediateUpdate for v in readable)
        flowing = [v for v, _ in inputs if flows(v)]
        self._inside = [v for v in flowing if provided and v.intermediateUpdate]
        self.sets_inside = bool(flowing) and len(self._inside) == len(flowing)
        self.reads_inside = bool(readable) and every
        if self.reads_inside:
            self._inside += readable
        self._u: Inputs | None = None
        self._seen: list[tuple[float, Floats]] = []
        self._raised: BaseException | None = None
        super().__init__(fmu, inputs, outputs, debug)
        self._now = 0.0  # FMU time, s
        self._clockwork = (
            Clockwork(self, self.part, inputs, outputs, events) if fmu.clocks else None
        )
        self._sort_inputs(inputs)
        if self._clockwork is not None:
            self.read = self._read_apart

    def part(
        self, variables: Sequence[tuple[Any, int]], wanted: Callable[[Any], bool]
    ) -> ValueSubset:
        """Select the ports' `variables` for which `wanted` is true."""
        mask = [wanted(v) for v, size in variables for _ in range(size)]
        chosen = [(v, size) for v, size in variables if wanted(v)]
        values = Values(self.fmi.dll, 3, chosen, self.check, self.c)
        return ValueSubset(np.flatnonzero(mask), values)

    def _sort_inputs(self, inputs: Sequence[tuple[Any, int]]) -> None:
        """Sort inputs: set in step mode, only in event mode, or at a clock's ticks."""
        self._flow = self.part(inputs, flows)
        self._switching = self.part(inputs, lambda v: is_free(v) and not flows(v)).where
        self._switched = np.empty(0)
        #: Inputs that belong to no clock.
        self._write_free: Callable[[Floats], None] = self._ins.write
        triggers = False
        if self._clockwork is not None:
            self._write_free = self.write = self.part(inputs, is_free).write
            triggers = self._clockwork.has_triggers
        if self.event_mode and (len(self._switching) or triggers):
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
        self._event, self._ends, self._early = (ctypes.c_bool() for _ in range(3))
        self._last = ctypes.c_double()
        self._answers = [
            ctypes.byref(answer) for answer in (self._event, self._ends, self._early, self._last)
        ]

    def set_start(self, values: dict[str, Any]) -> None:
        """See `Instance.set_start`; structural parameters first, as they determine sizes."""
        structural = {
            name: value
            for name, value in values.items()
            if self.fmu.variables[name].causality == "structuralParameter"
        }
        if structural:
            self.guard(self.fmi.enterConfigurationMode)
            for name, value in structural.items():
                self._set(name, value)
            self.guard(self.fmi.exitConfigurationMode)
        for name, value in values.items():
            if name not in structural:
                self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        variable = self.fmu.variables[name]
        if variable.type == "String":
            self.guard(self.fmi.setString, [variable.valueReference], _list(value))
            return
        numbers = np.array(_list(value), dtype=TYPES[3][variable.type][2]).astype(np.float64)
        if not len(numbers):  # an array that a structural parameter has made empty
            return
        Values(self.fmi.dll, 3, [(variable, len(numbers))], self.check, self.c).write(numbers)

    def save(self) -> SavedState:
        """See `Instance.save`; with the state of the clocks."""
        saved = super().save()
        saved.beside = self._now, None if self._clockwork is None else self._clockwork.save()
        return saved

    def restore(self, saved: SavedState) -> None:
        """See `Instance.restore`; with the discrete inputs of the saved state."""
        super().restore(saved)
        self._switched = np.empty(0)
        self._now, clocks = saved.beside
        if self._clockwork is not None:
            self._clockwork.restore(clocks)

    def enter_initialization(self, experiment: Experiment) -> None:
        """See `Instance.enter_initialization`."""
        self._now = experiment.start
        self.guard(
            self.fmi.enterInitializationMode,
            experiment.tolerance,
            experiment.start,
            experiment.stop,
        )

    def exit_initialization(self) -> None:
        """See `Instance.exit_initialization`; with event mode, its first event iteration."""
        if self._clockwork is not None:
            self._clockwork.begin(self._now)
        self.guard(self.fmi.exitInitializationMode)
        self._initialized = True
        if self.event_mode:
            self._settle()

    def _read_apart(self) -> Floats:
        """Outputs of an FMU with clocks: clocked ones are only read at ticks."""
        assert self._clockwork is not None
        if self._initialized:
            return self._clockwork.read()
        return self._clockwork.hold(self._outs.read())

    def _write_apart(self, u: Floats) -> None:
        """Set the inputs of an FMU in step mode; discrete inputs are set in event mode.

        Triggered clocks also tick there.
        """
        ticking = [] if self._clockwork is None else self._clockwork.triggered(u)
        switched = u[self._switching]
        if self._initialized and not ticking and np.array_equal(switched, self._switched):
            self._flow.write(u)
            return
        self._switched = switched
        if not self._initialized:
            self._write_free(u)
            return
        self._to_event(u, ticking)

    def _to_event(self, u: Floats, ticking: Sequence[int] = ()) -> None:
        """Enter event mode at the present time, with inputs `u` (n_inputs,) and ticks of clocks."""
        self._guard_event(self.fmi.enterEventMode)
        if self._clockwork is not None and ticking:
            self._clockwork.tick(ticking, u)
        self._write_free(u)
        self._settle()

    def _rates(self, references: Sequence[int], order: int, size: int) -> Any:
        n = len(references)  # FMPy's own method supports only scalars
        values = (ctypes.c_double * size)()
        self.fmi.fmi3GetOutputDerivatives(
            self.fmi.component,
            (ctypes.c_uint32 * n)(*references),
            n,
            (ctypes.c_int32 * n)(*[order] * n),
            values,
            size,
        )
        return values

    def step(self, t: float, h: float, u: Inputs) -> list[float]:
        """See `Instance.step`; events are handled when the FMU stops at them, ticks at their times.

        A tick inside the step counts as an event; one at its beginning uses the inputs of that
        time.
        """
        if self.ended is not None:  # it ended in event mode, while its inputs were set
            return []
        self._u = u
        self.inside = self._seen = []
        self._now, end = t, t + h
        self.set_at = t
        if self._clockwork is None or not self._clockwork.has_times:
            return self._run(t, end, u)
        events: list[float] = []
        for _ in range(MAX_EVENTS):
            at, ticking = self._clockwork.next(self._now, end)
            if at > self._now:
                found = self._run(self._now, at, u, to_event=True)
                events += found
                if self.ended is not None:
                    return events
                if found:
                    continue  # the FMU may have rescheduled its clocks
            if not ticking:
                return events
            self._to_event(u(at), ticking)
            self.set_at = at
            if at > t:
                events.append(at)
            if self.ended is not None:
                return events
        raise FmuError(f"{self.fmu.path.name}: over {MAX_EVENTS} events and ticks in one step")

    def _run(self, t: float, end: float, u: Inputs, to_event: bool = False) -> list[float]:
        """Step from `t` to `end`, or to the first event, without ticks; return event times, s."""
        events: list[float] = []
        near = 1e-12 * max(abs(end), end - t)
        parts = 0  # parts of the step that ended early without an event
        while True:
            no_return = ctypes.c_bool(not self.states_kept)
            status = self._do_step(self.c, t, end - t, no_return, *self._answers)
            if self._raised is not None:
                raised, self._raised = self._raised, None
                raise raised
            if status == DISCARD and self._last.value > t and self.fmu.variable_step:
                self._early.value = True
            elif status:
                self.check("fmi3DoStep", status)
            reached = self._last.value if self._early.value else end
            if self._ends.value:  # at its last successful time, with or without an early return
                self.ended = self._now = min(max(self._last.value, t), end)
                return events
            self._now = end if end - reached <= near else reached
            is_event = self._event.value and self.event_mode
            if is_event:
                events.append(reached)
                self._to_event(u(reached))
                self.set_at = reached
            elif self._early.value and reached <= t:
                raise FmuError(f"{self.fmu.path.name} returned at {reached:g} s without a step")
            if self._now == end or self.ended is not None or (events and to_event):
                return events
            if len(events) > MAX_EVENTS:
                raise FmuError(f"{self.fmu.path.name}: over {MAX_EVENTS} events in one step")
            t = reached
            if not is_event:
                parts += 1
                if parts >= MAX_PARTS:
                    raise self.stuck(t, end)
                self.write(u(t))
                self.set_at = t

    def _settle(self) -> None:
        """Perform the event iteration, and return to step mode."""
        for _ in range(_MAX_ROUNDS):
            if self._clockwork is not None:
                self._clockwork.take_output_ticks(self._now)
            again, ends, *_ = self._guard_event(self.fmi.updateDiscreteStates)
            if ends:
                self.ended = self._now
                return
            if not again:
                if self._clockwork is not None:
                    self._clockwork.settled(self._now)
                self._guard_event(self.fmi.enterStepMode)
                return
        raise FmuError(f"{self.fmu.path.name}: its event iteration does not end")

    def _guard_event(self, call: Callable[[], Any]) -> Any:
        """Make a call of event mode; on failure, mention that a session can run without it."""
        try:
            return self.guard(call)
        except FmuError as error:
            remedy = "with events = false the FMU does not use event mode"
            raise FmuError(f"{error}; {remedy}") from None

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
        """Handle the FMU's callback inside a step; an exception must not unwind through C."""
        try:
            wants_return[0] = False
            # Inputs before outputs, for outputs with feedthrough.
            if set_requested and self.sets_inside and self._u is not None:
                self._flow.write(self._u(t))
            if get_allowed and self.reads_inside:
                self._seen.append((t, self.read()))
        except BaseException as error:
            self._raised = error

    def _release(self) -> None:
        if self._clockwork is not None:
            self._clockwork.report()
        super()._release()


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
