"""Stage of a variable step: length, and with order control the order, of the step that begins.

The rules are in `hilrt.coupling.control_step` and `control_order`; here is what they are told and
what follows from their answer.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.control_order import choose_order, free_degree
from hilrt.coupling.control_step import ecco_step, energy_error, local_step, mean_power, pi_step
from hilrt.coupling.estimate_error import estimate_error, order_weight, tolerance
from hilrt.coupling.extrapolate import extrapolate
from hilrt.coupling.power_bond import power_residual, transmitted_power
from hilrt.tables.given import StepInput
from hilrt.tables.plan import LOCAL, PI, Plan
from hilrt.tables.record import Table
from hilrt.tables.state import State

NS = 1e9


@stage
def choose_step(plan: Plan, state: State, given: StepInput) -> None:
    """Length of the macro step that begins; inputs of another order are extrapolated again.

    No control acts on a step that was shortened to end at a discontinuity; from there the next
    step leads back to the grid.
    """
    session, now = state.session[0], given.session[0]
    session.order_changed = 0
    if now.rest > 0.0:
        session.h_next = whole_ns(min(now.rest, session.controlled_step))
        return
    if now.elapsed > 0.0:
        if plan.session[0].tests_errors:
            estimate_error(plan, state, given)
        if plan.session[0].controls_order:
            choose_order(plan, state, given)
        control_step(plan, state, given)
        session.previous_elapsed = now.elapsed
    session.degree = degree_in_force(plan, state)
    if session.order_changed:
        extrapolate(plan, state, given)


@compiled
def whole_ns(h: float) -> float:
    """The step rounded to whole nanoseconds, at least one, s."""
    return max(round(h * NS), 1) * 1e-9


@stage
def degree_in_force(plan: Plan, state: State) -> int:
    """Lowest degree of a connection in what leaves now, as far as samples suffice for it."""
    degree: int = plan.session[0].coefficients - 1
    for c in range(len(state.connections)):
        degree = min(degree, state.connections[c].order)
    for i in range(len(state.outputs)):
        degree = min(degree, state.outputs[i].degree)
    return degree


@stage
def control_step(plan: Plan, state: State, given: StepInput) -> None:
    """Step by the session's method."""
    session, settings = state.session[0], plan.session[0]
    low, high, safety = settings.minimum_step, settings.maximum_step, settings.safety
    if settings.step_method == PI:
        session.error = worst_defect(plan, state)
        pi_step(session, session.error, settings.tolerance, low, high)
    elif settings.step_method == LOCAL:
        error, degree = session.error, session.degree
        if session.order_changed:
            degree = order_in_force(plan, state)
            if free_degree(plan, state) <= session.order:  # too few samples for an expectation
                degree = session.degree
            else:
                error = expected_error(plan, state, given.session[0].elapsed)
        h = local_step(session.controlled_step, error, degree, safety, low, high)
        session.controlled_step = h
    else:
        session.error = worst_energy_error(plan, state, given)
        ecco_step(session, session.error, session.degree, safety, low, high)
    session.h_next = whole_ns(session.controlled_step)


@stage
def order_in_force(plan: Plan, state: State) -> int:
    """Lowest order of a connection."""
    order: int = plan.session[0].coefficients - 1
    for c in range(len(state.connections)):
        order = min(order, state.connections[c].order)
    return order


@stage
def worst_defect(plan: Plan, state: State) -> float:
    """Largest defect of a connected port; over ``atol + rtol |value|`` where these are given.

    Glumac and Kovačić (2023), eq. 38.
    """
    settings, worst = plan.session[0], 0.0
    for i in range(len(state.inputs)):
        port, u = plan.inputs[i], state.inputs[i]
        if port.connected:
            worst = max(worst, relative_defect(settings, u.defect, port.atol, u.extrapolated[0]))
    for i in range(len(state.outputs)):
        port, out = plan.outputs[i], state.outputs[i]
        if port.coupled and not math.isnan(out.defect):  # NaN is unknown
            worst = max(worst, relative_defect(settings, out.defect, port.atol, out.y))
    return worst


@compiled
def relative_defect(settings: Table, defect: float, atol: float, value: float) -> float:
    """A defect over its tolerance, if there are tolerances; infinite if it is no number."""
    if settings.has_tolerances:
        defect /= tolerance(settings, atol, value)
    return math.inf if math.isnan(defect) else defect


@stage
def expected_error(plan: Plan, state: State, h: float) -> float:
    """Weighted RMS of the error to expect of the new order at a step `h` [s].

    Where other connections keep their order, the error of the step that ended counts, too.
    """
    settings, order, square, count = plan.session[0], state.session[0].order, 0.0, 0
    for i in range(len(plan.inputs)):
        if plan.inputs[i].free:
            missed, first = 0.0, plan.inputs[i].first_connection
            for c in range(first, first + plan.inputs[i].connections):
                if plan.connections[c].free:
                    out = state.outputs[plan.connections[c].source]
                    missed += plan.connections[c].gain * expected_difference(out, order, h)
            weighted = missed / order_weight(settings, plan.inputs[i], state.inputs[i])
            square += weighted * weighted
            count += 1
    error = math.sqrt(square / count)
    return error if settings.all_free else max(error, state.session[0].error)


@compiled
def expected_difference(out: Table, order: int, h: float) -> float:
    """``P^{k+1} - P^k`` of an output at the end of a step `h` [s] ahead, of k = `order`.

    What extrapolation with degree k will miss, known before the step is made (Multibody Syst. Dyn.
    09817 (2022), eq. 31).
    """
    product = 1.0
    for j in range(order + 1):
        product *= h - out.nodes[j]
    return float(out.differences[order + 1] * product)


@stage
def worst_energy_error(plan: Plan, state: State, given: StepInput) -> float:
    """Energy error of the worst bond over what is tolerated, with its sign."""
    settings, now = plan.session[0], given.session[0]
    worst = 0.0
    for b in range(len(state.bonds)):
        bond = state.bonds[b]
        power = transmitted_power(plan, state, b)
        bond.mean_power = mean_power(
            bond.mean_power, power, now.elapsed, now.t, settings.scale_time
        )
        residual, h = power_residual(plan, state, now.t, b), state.session[0].controlled_step
        error = energy_error(
            residual, bond.mean_power, h, settings.energy_atol, settings.energy_rtol
        )
        if abs(error) > abs(worst) or math.isnan(error):
            worst = error
    return worst
