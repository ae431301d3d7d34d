"""Trial of an FMU: whether its steps may be repeated, and whether it responds to its inputs.

Some FMUs fail in steps made without the promise not to go back before them
(`noSetFMUStatePriorToCurrentPoint`): they stand still, or repeat their first step. Others do not
return to a state that they saved. The steps of neither may be repeated. The trial uses separate
instances before a session begins: the first saves its state, makes steps without the promise, goes
back and repeats them; the second makes the same steps with the promise.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.errors import HilrtError
from hilrt.fmu.description import Fmu
from hilrt.fmu.instance import Instance
from hilrt.solver import Floats, Port

log = logging.getLogger("hilrt.fmu")

#: Number of steps of a trial, and their length if the FMU's description has none, s.
STEPS: Final = 4
STEP: Final = 1e-3
#: Steps within which an output may respond to an input, for instance at a controller's next sample.
MORE_STEPS: Final = 100
#: Time limit of the trial, s; a slower FMU is used as its description states.
PATIENCE: Final = 2.0
#: Change of real inputs, relative to the larger of their magnitude and 1.
MOVED: Final = 0.1
#: Differences due to inexact integration, per range of an output; due to rounding, per value.
ALIKE: Final = 0.05
ROUNDING: Final = 1e-9


class FmuTrial(NamedTuple):
    """Result of the trial of an FMU.

    Attributes
    ----------
    steps_final : str
        Reason why its steps must not be repeated; empty if they may be.
    inputs_ignored : bool
        Whether no output responds to any input.
    """

    steps_final: str = ""
    inputs_ignored: bool = False

    def remarks(self) -> list[str]:
        """The result as text."""
        found = [f"{self.steps_final}: its steps are not repeated"] if self.steps_final else []
        ignored = ["its outputs did not respond to its inputs in a trial"]
        return found + ignored if self.inputs_ignored else found


class _TooSlow(Exception):
    pass


#: Function that creates an instance and initializes it with given inputs.
Make = Callable[[Floats], Instance]


class _Stepper:
    """Steps of instances, all from the same start time [s] and with one length [s]."""

    def __init__(self, start: float, h: float) -> None:
        self.start, self.h, self.end = start, h, time.monotonic() + PATIENCE

    def outputs(self, instance: Instance, u: Floats, steps: int = STEPS, first: int = 0) -> Floats:
        """Outputs after each step with held inputs, shape (steps, n_outputs)."""
        y = []
        for i in range(first, first + steps):
            if time.monotonic() > self.end:
                raise _TooSlow
            instance.write(u)
            instance.step(self.start + i * self.h, self.h, lambda _t: u)
            y.append(instance.read())
        return np.array(y)


def run_trial(
    fmu: Fmu,
    initializing: Callable[[], Instance],
    ports: Sequence[Port],
    real: NDArray[np.bool_],
    start: float,
) -> FmuTrial:
    """Step instances with and without the promise; if that fails, trust the FMU's description.

    Parameters
    ----------
    fmu : Fmu
        It is tried only if it can save its state and may be instantiated twice.
    initializing : callable
        Creates an instance in initialization mode.
    ports : sequence of Port
        Input ports.
    real : ndarray, shape (n_inputs,)
        Inputs of a real type, which are changed.
    start : float
        FMU time of the start, s.
    """
    if not fmu.interface.canGetAndSetFMUstate or fmu.needs:
        return FmuTrial()
    with contextlib.ExitStack() as made, _unlogged():

        def fresh(inputs: Floats) -> Instance:
            instance = initializing()
            made.callback(instance.close)
            instance.write(inputs)
            instance.read()
            instance.exit_initialization()
            return instance

        u = np.array([port.start for port in ports for _ in range(port.size)])
        stepper = _Stepper(start, _usual_step(fmu))
        try:
            return _compare_instances(fresh, u, _moved(u, ports, real), stepper)
        except (_TooSlow, HilrtError):
            return FmuTrial()


def _usual_step(fmu: Fmu) -> float:
    """Step of the FMU's default experiment, s."""
    default = fmu.model.defaultExperiment
    with contextlib.suppress(TypeError, ValueError):
        step = float(default.stepSize) if default is not None else 0.0
        if 0.0 < step < math.inf:
            return step
    return STEP


def _compare_instances(fresh: Make, u: Floats, moved: Floats, stepper: _Stepper) -> FmuTrial:
    going_back = fresh(moved)
    saved = going_back.save()
    repeatable = stepper.outputs(going_back, moved)
    going_back.restore(saved)
    again = stepper.outputs(going_back, moved)
    going_back.restore(saved)
    others = stepper.outputs(going_back, u)
    del saved
    going_on = fresh(moved)
    final = stepper.outputs(going_on, moved)
    if _apart(final, repeatable):
        if _apart(final, stepper.outputs(fresh(moved), moved)):
            return FmuTrial()  # it is not reproducible
        return FmuTrial("its results change if its steps may be repeated")
    further = stepper.outputs(going_on, moved, STEPS, STEPS)
    if _apart(repeatable, again):  # not restored, or due to a noise generator
        not_restored = not _apart(further, again)
        return FmuTrial("it does not return to a state that it has saved" if not_restored else "")
    first, ignored = STEPS, not np.array_equal(u, moved) and final.shape[1] > 0
    if ignored and np.array_equal(final, others):
        final, others = further, stepper.outputs(going_back, u, STEPS, STEPS)
        first += STEPS
    while ignored and np.array_equal(final, others) and first < MORE_STEPS:
        final = stepper.outputs(going_on, moved, STEPS, first)
        others = stepper.outputs(going_back, u, STEPS, first)
        first += STEPS
    return FmuTrial(inputs_ignored=ignored and np.array_equal(final, others))


def _apart(one: Floats, other: Floats) -> bool:
    """Whether outputs over the same steps differ by more than inexact integration explains."""
    range_ = np.maximum(np.ptp(one, axis=0), np.ptp(other, axis=0))
    most = np.maximum(np.abs(one), np.abs(other)).max(axis=0)
    return bool((np.abs(one - other).max(axis=0) > ALIKE * range_ + ROUNDING * most).any())


def _moved(u: Floats, ports: Sequence[Port], real: NDArray[np.bool_]) -> Floats:
    """Inputs `u`, changed within their ranges where `real`, shape (n_inputs,)."""
    low = np.array([port.min for port in ports for _ in range(port.size)])
    high = np.array([port.max for port in ports for _ in range(port.size)])
    by = np.where(real, MOVED * np.maximum(1.0, np.abs(u)), 0.0)
    up = np.clip(u + by, low, high)
    return np.where(up != u, up, np.clip(u - by, low, high))


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Keep the instances' messages out of the log, as the session's instance will repeat them."""
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
