"""Order control by scaled derivative norms, and its stage for a fixed step.

While the terms ``SDN(j) = ||H^j d^j P^j/dt^j||`` of the inputs' extrapolation polynomials decrease
with j, a higher degree improves the extrapolation. If they do not, a signal is too fast for its
samples, and a lower degree is safer (Multibody Syst. Dyn. 09817 (2022), section 5.2.2, eq. 30,
Fig. 6).
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.estimate_signals import estimate_error, order_weight
from hilrt.solver import Floats
from hilrt.tables.given import StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.state import SessionStateRow, State

#: Consecutive failed steps that reduce the order to at most 1, and to 0.
FAILURES_TO_ONE, FAILURES_TO_ZERO = 3, 5
#: A step shorter than this share of the previous one counts as reduced.
REDUCED = 0.95


@stage
def control_order(plan: Plan, state: State, given: StepInput) -> None:
    """Stage of the slack with a fixed step: error test, and order from the next point on.

    A step that was shortened to end at a discontinuity is not tested.
    """
    state.session[0].order_changed = 0
    if given.session[0].rest > 0.0 or given.session[0].elapsed <= 0.0:
        return
    if plan.session[0].tests_errors:
        estimate_error(plan, state, given)
    if plan.session[0].controls_order:
        choose_order(plan, state, given)
    state.session[0].previous_elapsed = given.session[0].elapsed


@stage
def choose_order(plan: Plan, state: State, given: StepInput) -> None:
    """Choose the order of the next step; set `order_changed` if it differs."""
    session, settings, elapsed = state.session[0], plan.session[0], given.session[0].elapsed
    now = session.order
    terms = min(now + 2, free_degree(plan, state))
    for j in range(1, terms + 1):
        session.derivative_norms[j - 1] = scaled_derivative_norm(plan, state, j, elapsed)
    reduced = elapsed < REDUCED * session.previous_elapsed
    next_order(session, terms, reduced, settings.minimum_order, settings.maximum_order)
    session.order_changed = session.order != now
    if session.order_changed:
        put_order_in_force(plan, state)


@stage
def count_order(plan: Plan, state: State, given: StepInput) -> None:
    """Stage of the slack: count the points by the highest order in force, which is logged."""
    highest = 0
    for i in range(len(state.outputs)):
        highest = max(highest, state.outputs[i].order)
    state.session[0].points_of_order[highest] += 1


@stage
def free_degree(plan: Plan, state: State) -> int:
    """Highest degree that the samples permit for all outputs whose order is controlled."""
    degree: int = plan.session[0].samples - 1
    for i in range(len(state.outputs)):
        if plan.outputs[i].free:
            degree = min(degree, state.outputs[i].degree)
    return degree


@stage
def scaled_derivative_norm(plan: Plan, state: State, j: int, h: float) -> float:
    """``SDN(j)``: weighted RMS of ``h^j j! u[t_0 ... t_j]`` over the inputs with a free order.

    `h` is the macro step, s.
    """
    square, count = 0.0, 0
    for i in range(len(plan.inputs)):
        if plan.inputs[i].free:
            difference, first = 0.0, plan.inputs[i].first_connection
            for c in range(first, first + plan.inputs[i].connections):
                if plan.connections[c].free:
                    out = state.outputs[plan.connections[c].source]
                    difference += state.connections[c].gain * out.differences[j]
            weighted = difference / order_weight(plan.session[0], plan.inputs[i], state.inputs[i])
            square += weighted * weighted
            count += 1
    factor = 1.0
    for m in range(1, j + 1):
        factor *= m * h
    return factor * math.sqrt(square / count)


@stage
def put_order_in_force(plan: Plan, state: State) -> None:
    """Apply the order to the connections without fixed order, and the highest to each output."""
    for i in range(len(state.outputs)):
        state.outputs[i].order = 0
    for c in range(len(state.connections)):
        if plan.connections[c].free:
            state.connections[c].order = state.session[0].order
        out = state.outputs[plan.connections[c].source]
        out.order = max(out.order, state.connections[c].order)


@compiled
def next_order(
    session: SessionStateRow, terms: int, reduced: bool, minimum: int, maximum: int
) -> None:
    """Choose the order of the next step; count consecutive failures, and successes with it.

    Parameters
    ----------
    session : record of `hilrt.tables.state.SessionState`
        `failed` says whether the step that ended failed its error test, `derivative_norms` has
        ``SDN(1)``, ``SDN(2)`` and so on; `order`, `failures` and `successes` are updated.
    terms : int
        Number of norms available from the samples; raising the order requires ``SDN(order + 2)``.
    reduced : bool
        Whether the step that ended was shorter than the previous one.
    minimum, maximum : int
        Bounds of the order.
    """
    k = session.order
    session.failures = session.failures + 1 if session.failed else 0
    session.successes = 0 if session.failed or reduced else session.successes + 1
    new = lowered(k, session.derivative_norms, terms)
    if session.failures > FAILURES_TO_ZERO:
        new = 0
    elif session.failures > FAILURES_TO_ONE:
        new = min(new, 1)
    if session.successes > k and terms >= k + 2:
        new = reconsidered(k, session.derivative_norms, new)
    session.order = min(max(new, minimum), maximum)
    if session.order != k:
        session.successes = 0


@compiled
def lowered(k: int, norms: Floats, terms: int) -> int:
    """`k`, or one less if the terms grow."""
    if terms < k + 1:
        return k
    if k == 1 and norms[0] <= 0.5 * norms[1]:
        return 0
    if k > 1 and max(norms[k - 1], norms[k - 2]) <= norms[k]:
        return k - 1
    return k


@compiled
def reconsidered(k: int, norms: Floats, new: int) -> int:
    """Order after more than `k` successful steps: `new`, limited to one more or less than `k`."""
    if k == 0:
        return 1 if norms[1] < 0.5 * norms[0] else new
    if norms[k - 1] <= min(norms[k], norms[k + 1]):
        return k - 1
    if norms[k + 1] < norms[k]:
        return k + 1
    return new
