"""Calculated channels of samples that wait: what the next cut will find, without a trace of it."""

from __future__ import annotations

from hilrt.compilation.compiled import bound
from hilrt.expressions.evaluate import evaluate
from hilrt.solver import Floats
from hilrt.tables.plan import Plan
from hilrt.tables.record import as_bytes
from hilrt.tables.state import State


class CalculatedAnswers:
    """Evaluates the session's expressions on copies of what they remember.

    Parameters
    ----------
    plan : Plan
    state : State
        At the communication point before the samples.
    """

    def __init__(self, plan: Plan, state: State) -> None:
        self._kept = state.registers, state.memory
        self._own = state.registers.copy(), state.memory.copy()
        self._read = plan.readings["output"]
        self._outputs, self._found = plan.calculated["output"], plan.calculated["register"]
        self._evaluate = bound(
            evaluate, plan.operations, plan.lookup_points, *self._own, numbers=(0.0,)
        )

    def fill(self, y: Floats, t: float) -> None:
        """Set the channels in `y`, shape (ny,), by its other values, which are of `t` [s]."""
        if not len(self._outputs):
            return
        for kept, own in zip(self._kept, self._own, strict=True):
            as_bytes(own)[...] = as_bytes(kept)
        registers = self._own[0]
        registers["value"][: len(self._read)] = y[self._read]
        registers["t"][: len(self._read)] = t
        self._evaluate(t)
        y[self._outputs] = registers["value"][self._found]
