"""The calls of FMI 2.0 for co-simulation, in the order of its section 4.2."""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from fmpy import calloc, free
from fmpy.fmi2 import (
    FMU2Slave,
    fmi2CallbackAllocateMemoryTYPE,
    fmi2CallbackFreeMemoryTYPE,
    fmi2CallbackFunctions,
    fmi2CallbackLoggerTYPE,
)

from hilrt.fmu.instance import DISCARD, MAX_PARTS, OK, Experiment, Inputs, Instance
from hilrt.solver import Floats

_LAST_SUCCESSFUL_TIME, _TERMINATED = 2, 3


# FMPy's proxy, which formats messages with variadic arguments, has one logger per process: the last
# one registered. Therefore one logger serves all instances, and finds them by their numbers.
_numbers = itertools.count(1)
_loggers: weakref.WeakValueDictionary[int, Instance2] = weakref.WeakValueDictionary()


def _log(
    number: int | None, _name: bytes, status: int, category: bytes | None, message: bytes | None
) -> None:
    instance = _loggers.get(number or 0)
    if instance is not None:
        instance.logged(status, category, message)


_LOGGER = fmi2CallbackLoggerTYPE(_log)
_proxied: list[fmi2CallbackFunctions] = []


def _callbacks() -> fmi2CallbackFunctions:
    """Callbacks for a new instance."""
    if not _proxied:
        first = fmi2CallbackFunctions()
        first.logger = _LOGGER
        first.allocateMemory = fmi2CallbackAllocateMemoryTYPE(calloc)
        first.freeMemory = fmi2CallbackFreeMemoryTYPE(free)
        try:
            from fmpy.logging import addLoggerProxy

            addLoggerProxy(ctypes.byref(first))
        except OSError:
            pass  # messages are then shown with their format strings
        _proxied.append(first)
    one = fmi2CallbackFunctions()
    ctypes.memmove(ctypes.byref(one), ctypes.byref(_proxied[0]), ctypes.sizeof(one))
    return one


class Instance2(Instance):
    """See `Instance`."""

    Slave = FMU2Slave

    def _instantiate(self, debug: bool) -> None:
        self._number = next(_numbers)
        _loggers[self._number] = self
        callbacks = _callbacks()
        callbacks.componentEnvironment = ctypes.c_void_p(self._number)
        self.fmi.instantiate(callbacks=callbacks, loggingOn=debug)
        self._do_step = self.fmi.dll.fmi2DoStep

    def set_start(self, values: dict[str, Any]) -> None:
        """See `Instance.set_start`."""
        for name, value in values.items():
            variable = self.fmu.variables[name]
            kind = "Integer" if variable.type == "Enumeration" else variable.type
            setter = getattr(self.fmi, f"set{kind}")
            self.guard(setter, [variable.valueReference], [value])

    def enter_initialization(self, experiment: Experiment) -> None:
        """See `Instance.enter_initialization`."""
        self.guard(
            self.fmi.setupExperiment, experiment.tolerance, experiment.start, experiment.stop
        )
        self.guard(self.fmi.enterInitializationMode)

    def exit_initialization(self) -> None:
        """See `Instance.exit_initialization`."""
        self.guard(self.fmi.exitInitializationMode)
        self._initialized = True
        self._prepare_derivatives()

    def _prepare_derivatives(self) -> None:
        """Create buffers for input derivatives up to the highest order that occurs."""
        self._orders: dict[int, tuple[Any, ...]] = {}
        self._where = [place for place, _, _ in self.real_inputs]

    def set_input_derivatives(self, derivatives: Floats) -> None:
        """Set derivatives 1 … n of the continuous inputs, shape (n, n_inputs)."""
        n = len(derivatives)
        if not self._where or not n:
            return
        if n not in self._orders:
            references = [r for _, r, _ in self.real_inputs] * n
            orders = np.repeat(np.arange(1, n + 1), len(self._where)).tolist()
            buffer = np.zeros((n, len(self._where)))
            self._orders[n] = (
                (ctypes.c_uint * len(references))(*references),
                len(references),
                (ctypes.c_int * len(orders))(*orders),
                buffer.ctypes.data_as(ctypes.POINTER(ctypes.c_double)),
                buffer,
            )
        *arguments, buffer = self._orders[n]
        buffer[:] = derivatives[:, self._where]
        status = self.fmi.dll.fmi2SetRealInputDerivatives(self.c, *arguments)
        if status:
            self.check("fmi2SetRealInputDerivatives", status)

    def _rates(self, references: Sequence[int], order: int, size: int) -> Any:
        return self.fmi.getRealOutputDerivatives(references, [order] * len(references))

    def step(self, t: float, h: float, u: Inputs) -> list[float]:
        """See `Instance.step`; FMI 2.0 has no events."""
        self.set_at = t
        status = self._do_step(self.c, t, h, not self.states_kept)
        if status == DISCARD:
            self._after_discard(t, h, u)
        elif status != OK:
            self.check("fmi2DoStep", status)
        return []

    def _after_discard(self, t: float, h: float, u: Inputs) -> None:
        """Continue a discarded step from its last successful time, or in smaller parts."""
        end, part, status = t + h, h, DISCARD
        for _ in range(MAX_PARTS):
            if status == DISCARD:
                reached = min(self.guard(self.fmi.getRealStatus, _LAST_SUCCESSFUL_TIME), end)
                if self.guard(self.fmi.getBooleanStatus, _TERMINATED):
                    self.ended = max(reached, t)
                    return
                if not self.fmu.variable_step:
                    self.check("fmi2DoStep", DISCARD)
                if reached > t:
                    t = reached
                else:
                    part *= 0.5
                    if part < h / MAX_PARTS:
                        self.check("fmi2DoStep", DISCARD)
            else:
                self.check("fmi2DoStep", status)
                t += part
            if end - t <= 1e-9 * h:
                return
            part = min(part, end - t)
            self.write(u(t))
            self.set_at = t
            status = self._do_step(self.c, t, part, not self.states_kept)
        raise self.stuck(t, end)
