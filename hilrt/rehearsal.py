"""Rehearsal: the macro step once in vain, just before the tick, so that the real one is fast.

After a millisecond's sleep neither the interpreter's code nor the arrays are in the processor's
caches any more, and the step takes about twice as long. While the master waits for the tick anyway,
it runs the step on a copy of its state.
"""

from __future__ import annotations

import copy

from hilrt.clock import monotonic_ns
from hilrt.plan import Plan
from hilrt.step import macro_step
from hilrt.step_state import StepInput, StepState

#: Share of its last duration that must be left until the tick for a rehearsal to begin.
MARGIN = 1.25


class Rehearsal:
    """Runs macro steps that nothing depends on.

    Attributes
    ----------
    took_ns : int
        Running maximum of its duration, slowly forgotten, ns.
    """

    def __init__(self, plan: Plan, state: StepState, given: StepInput) -> None:
        self._plan = plan
        self._state = copy.deepcopy(state)
        self._given = copy.deepcopy(given)
        self._given.elapsed = plan.step
        self.took_ns = 0

    def run(self, until_ns: int) -> None:
        """Rehearse if it will be over by `until_ns` on the clock."""
        begun = monotonic_ns()
        if begun + MARGIN * self.took_ns >= until_ns:
            self.took_ns -= self.took_ns >> 6  # one slow rehearsal must not end them all
            return
        given = self._given
        given.fresh[:] = True
        given.t += given.elapsed
        given.t_valid[:] = given.t
        given.reached[:] = given.t
        macro_step(self._plan, self._state, given)
        took = monotonic_ns() - begun
        self.took_ns = max(took, self.took_ns - (self.took_ns >> 6))
