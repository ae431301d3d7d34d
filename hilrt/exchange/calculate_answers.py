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
        self._state = state
        self._registers, self._memory = state.registers.copy(), state.memory.copy()
        self._read = plan.readings["output"]
        self._outputs, self._found = plan.calculated["output"], plan.calculated["register"]
        self._evaluate = bound(
            evaluate,
            plan.operations,
            plan.lookup_points,
            self._registers,
            self._memory,
            numbers=(0.0,),
        )

    def fill(self, y: Floats, t: float) -> None:
        """Set the channels in `y`, shape (ny,), by its other values, which are of `t` [s]."""
        if not len(self._outputs):
            return
        registers = self._registers
        as_bytes(registers)[...] = as_bytes(self._state.registers)
        as_bytes(self._memory)[...] = as_bytes(self._state.memory)
        registers["value"][: len(self._read)] = y[self._read]
        registers["t"][: len(self._read)] = t
        self._evaluate(t)
        y[self._outputs] = registers["value"][self._found]
