"""Order and length of a step that is repeated, because its error test failed.

Multibody Syst. Dyn. 09817 (2022), sections 5.2 and 5.3. The test comes before the samples of a step
are taken (`hilrt.exchange.repeated_steps`): the macro step only ever sees the step that passed, and
is told with which order that was made.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import stage
from hilrt.coupling.choose_step import CUT_LEAST, scaling_at_new_order, whole_ns
from hilrt.coupling.control_order import choose_order, put_order_in_force
from hilrt.coupling.extrapolate import through_samples
from hilrt.tables.given import StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.state import State

#: Shortest repetition, as a share of the step that failed; from the second one on all are.
SHORTEST = 0.25
#: Share of the length for which the error test is expected to be passed.
CAUTION = 0.9


@stage
def shorten_step(plan: Plan, state: State, given: StepInput) -> None:
    """After a failed test: order and inputs of the step to be repeated, and its length.

    `state` is a copy that stands at the beginning of the step; `given` has the length of the step
    that failed, and the scaling factor that follows from its error (eq. 32); NaN: no corrector has
    converged.
    """
    session, now = state.session[0], given.session[0]
    session.failed, session.order_changed = 1, 0
    r = now.scaling
    if plan.session[0].controls_order:
        choose_order(plan, state, given)  # counts the failure
        r = scaling_at_new_order(plan, state, now.elapsed, r)
    else:
        session.failures += 1
    factor = SHORTEST
    if session.failures == 1 and math.isfinite(now.scaling):
        factor = min(CUT_LEAST, max(SHORTEST, CAUTION * r))
    session.controlled_step = factor * now.elapsed
    session.h_next = whole_ns(session.controlled_step)
    extrapolate_again(plan, state)


@stage
def take_repetitions(plan: Plan, state: State, given: StepInput) -> None:
    """Inputs of a finished step, if they differ from those first sent."""
    session, now = state.session[0], given.session[0]
    if now.repetitions == 0:
        return
    session.controlled_step = now.elapsed
    session.successes = 0
    if plan.session[0].controls_order and now.order != session.order:
        session.order = now.order
        put_order_in_force(plan, state)
        extrapolate_again(plan, state)


@stage
def extrapolate_again(plan: Plan, state: State) -> None:
    """Inputs sent, had the order in force been in force; what was limited stays as it is."""
    coefficients = plan.session[0].coefficients
    for c in range(len(state.connections)):
        carried, at = state.connections[c], plan.connections[c]
        u = state.inputs[at.target]
        if at.free and carried.acts and not u.limited:
            for m in range(coefficients):
                u.polynomial[m] -= carried.polynomial[m] * carried.gain
            through_samples(carried, state.outputs[at.source], coefficients)
            for m in range(coefficients):
                u.polynomial[m] += carried.polynomial[m] * carried.gain
