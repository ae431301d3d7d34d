"""Stage of a variable step: length of the next step, and with order control its order."""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.control_order import REDUCED, choose_order, free_degree, put_order_in_force
from hilrt.coupling.estimate_signals import estimate_error, order_weight, tolerance
from hilrt.coupling.extrapolate import extrapolate, through_samples
from hilrt.coupling.power_bond import power_residual, transmitted_power
from hilrt.tables.given import StepInput
from hilrt.tables.plan import LOCAL, PI, InputPlan, OutputPlan, Plan, SessionPlan
from hilrt.tables.state import OutputState, SessionStateRow, State

NS = 1e9


@stage
def choose_step(plan: Plan, state: State, given: StepInput) -> None:
    """Choose the length of the next macro step; extrapolate again if the order has changed.

    A step that was shortened to end at a reported discontinuity is not controlled; the step after
    it returns to the grid. Known jumps and bends of stimuli end a step; the next one is no longer
    than the first of the session.
    """
    session, now = state.session[0], given.session[0]
    session.order_changed = 0
    if now.rest > 0.0:
        restart_step(plan, state)
        set_step(plan, state, given, min(now.rest, session.controlled_step))
        return
    if now.elapsed > 0.0:
        if plan.session[0].tests_errors:
            estimate_error(plan, state, given)
        elif plan.session[0].step_method == LOCAL:
            session.error = now.error  # of the states, estimated before accepting the samples
        if plan.session[0].controls_order:
            choose_order(plan, state, given)
        control_step(plan, state, given)
        session.previous_elapsed = now.elapsed
        restart_step(plan, state)
    set_step(plan, state, given, session.controlled_step)
    session.degree = degree_in_force(plan, state)
    if session.order_changed:
        extrapolate(plan, state, given)


@compiled
def whole_ns(h: float) -> float:
    """Round a step to whole nanoseconds, at least one; in s."""
    return max(round(h * NS), 1) * 1e-9


@stage
def restart_step(plan: Plan, state: State) -> None:
    """Limit the step to the session's first one where a stimulus has jumped or bent."""
    session, first = state.session[0], plan.session[0].first_step
    if session.broke and session.controlled_step > first:
        session.step_integral += math.log(first / session.controlled_step)
        session.controlled_step = first


@stage
def set_step(plan: Plan, state: State, given: StepInput, h: float) -> None:
    """Set the step to `h` [s], or to an end at the next known jump or bend of a stimulus."""
    session, settings = state.session[0], plan.session[0]
    h = step_to_break(h, session.until_break, settings.minimum_step, settings.maximum_step)
    if given.session[0].elapsed > 0.0 or h != session.h_next:  # the first step is not rounded
        session.h_next = whole_ns(h)


@compiled
def step_to_break(h: float, until: float, low: float, high: float) -> float:
    """The step `h` [s], changed so that no step crosses a break that is `until` [s] ahead.

    What remains before the break is either 0 or at least `low` [s]. Only a break closer than `low`
    is crossed, by a step of `low`; two steps to it need a distance of twice that.
    """
    if not until < h + low:  # NaN is none
        return h
    if until > h and until >= 2.0 * low:
        return until - low
    return min(max(until, low), high)


@stage
def degree_in_force(plan: Plan, state: State) -> int:
    """Lowest degree of a connection in the outgoing inputs, as far as there are enough samples."""
    degree: int = plan.session[0].coefficients - 1
    for c in range(len(state.connections)):
        degree = min(degree, state.connections[c].order)
    for i in range(len(state.outputs)):
        degree = min(degree, state.outputs[i].degree)
    return degree


@stage
def control_step(plan: Plan, state: State, given: StepInput) -> None:
    """Choose the length of the next step by the session's method."""
    session, settings = state.session[0], plan.session[0]
    low, high, safety = settings.minimum_step, settings.maximum_step, settings.safety
    shortened = given.session[0].elapsed < REDUCED * whole_ns(session.controlled_step)
    growth = 1.0 if shortened else settings.growth
    if settings.step_method == PI:
        session.error = worst_defect(plan, state)
        pi_step(session, session.error, settings.tolerance, growth, low, high)
    elif settings.step_method == LOCAL:
        r = given.session[0].scaling
        if settings.tests_errors:
            r = scaling_factor(session.error, session.degree + 1, safety)
        r = scaling_at_new_order(plan, state, given.session[0].elapsed, r)
        session.controlled_step = local_step(session.controlled_step, r, growth, low, high)
    else:
        session.error = worst_energy_error(plan, state, given)
        ecco_step(session, session.error, session.degree, safety, growth, low, high)


@stage
def worst_defect(plan: Plan, state: State) -> float:
    """Largest defect of a connected port, relative to ``atol + rtol |value|`` if these are given.

    Glumac and Kovačić (2023), eq. 38.
    """
    settings, worst = plan.session[0], 0.0
    for i in range(len(state.inputs)):
        at, u = plan.inputs[i], state.inputs[i]
        if at.connected:
            worst = max(worst, relative_defect(settings, u.defect, at, u.extrapolated[0]))
    for i in range(len(state.outputs)):
        port, out = plan.outputs[i], state.outputs[i]
        if port.coupled and not math.isnan(out.defect):  # NaN is unknown
            worst = max(worst, relative_defect(settings, out.defect, port, out.y))
    return worst


@compiled
def relative_defect(
    settings: SessionPlan, defect: float, port: InputPlan | OutputPlan, value: float
) -> float:
    """Defect relative to its tolerance, if there is one; infinite if it is NaN."""
    if settings.has_tolerances:
        defect /= tolerance(port, value)
    return math.inf if math.isnan(defect) else defect


@stage
def scaling_at_new_order(plan: Plan, state: State, h: float, r: float) -> float:
    """Scaling factor for the next step of `h` [s] (eqs. 33 and 34), from that of the error, `r`.

    After a change of the order it follows from the expected error. It is at most `r` if other
    connections keep their order, and `r` while there are too few samples for an expectation.
    """
    session, settings = state.session[0], plan.session[0]
    if not session.order_changed or free_degree(plan, state) <= session.order:
        return r
    new = scaling_factor(expected_error(plan, state, h), session.order + 1, settings.safety)
    return new if settings.all_free else min(new, r)


@stage
def expected_error(plan: Plan, state: State, h: float) -> float:
    """Weighted RMS of the error expected with the new order for a step `h` [s]."""
    settings, order, square, count = plan.session[0], state.session[0].order, 0.0, 0
    for i in range(len(plan.inputs)):
        if plan.inputs[i].free:
            missed, first = 0.0, plan.inputs[i].first_connection
            for c in range(first, first + plan.inputs[i].connections):
                if plan.connections[c].free:
                    out = state.outputs[plan.connections[c].source]
                    missed += state.connections[c].gain * expected_difference(out, order, h)
            weighted = missed / order_weight(settings, plan.inputs[i], state.inputs[i])
            square += weighted * weighted
            count += 1
    return math.sqrt(square / count)


@compiled
def expected_difference(out: OutputState, order: int, h: float) -> float:
    """``P^{k+1} - P^k`` of an output at the end of a step `h` [s] ahead, with k = `order`.

    Expected error of extrapolation with degree k, available before the step (Multibody Syst. Dyn.
    09817 (2022), eq. 31).
    """
    product = 1.0
    for j in range(order + 1):
        product *= h - out.nodes[j]
    return float(out.differences[order + 1] * product)


@stage
def worst_energy_error(plan: Plan, state: State, given: StepInput) -> float:
    """Signed energy error of the worst bond, relative to the tolerance."""
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


# Rules of the step size without rejected steps: PI on defects, local error, energy residual.
#
# A physical system cannot repeat a step, so a step that was too long only shortens the next one.
# The rules are functions of numbers and of the session's record, whose fields they update; steps
# are in seconds.

EPSILON_FLOOR = 1e-16
#: Larger or non-finite defects count as this, so that the logarithm stays finite.
EPSILON_CEILING = 1e300
#: Gains of the PI controller on defects (Glumac and Kovačić 2023, eq. 50).
K_P = 0.13
K_I = 1.0 / 15.0
#: Limits of one change of the step by the local error (Multibody Syst. Dyn. 09817 (2022),
#: section 5.3).
CUT_MOST, CUT_LEAST = 0.5, 0.9
#: Gains of the controller on the energy residual, times the order of the residual in the step.
ECCO_I, ECCO_P = 0.3, 0.4


@compiled
def power(base: float, exponent: float) -> float:
    """``base^exponent`` of a positive number."""
    return math.exp(exponent * math.log(base))


@compiled
def pi_step(
    session: SessionStateRow,
    defect: float,
    tolerance: float,
    growth: float,
    low: float,
    high: float,
) -> None:
    """Choose the step after one that had `defect`, in the unit of `tolerance`.

    Glumac and Kovačić (2023), eq. 39. If the `growth` limit or the bounds `low`, `high` [s] limit
    the step, the integral is adjusted to prevent wind-up.
    """
    if not defect <= EPSILON_CEILING:
        defect = EPSILON_CEILING
    error = math.log(tolerance) - math.log(max(defect, EPSILON_FLOOR))
    integral = session.step_integral + K_I * error
    exponent = integral + K_P * error
    wanted = math.exp(min(exponent, math.log(high) + 1.0))  # a vanishing defect must not overflow
    h = min(max(min(wanted, growth * session.controlled_step), low), high)
    session.controlled_step = h
    session.step_integral = integral + math.log(h) - exponent


@compiled
def scaling_factor(error: float, order: int, safety: float) -> float:
    """Factor on the step at which the error equals its tolerance.

    Multibody Syst. Dyn. 09817 (2022), eq. 32.

    Parameters
    ----------
    error : float
        Weighted RMS of the estimated error: 1 is the tolerance.
    order : int
        Power of the step to which the error is proportional.
    safety : float
        Factor SF on the error, 2 to 6.
    """
    return power(safety * max(error, EPSILON_FLOOR), -1.0 / order)


@compiled
def local_step(h: float, r: float, growth: float, low: float, high: float) -> float:
    """Step [s] after one of `h` [s] that passed its test, by the scaling factor `r`; NaN: none.

    Multibody Syst. Dyn. 09817 (2022), section 5.3; `growth` is its r_max, `low` and `high` [s] are
    the bounds.
    """
    if r >= growth:
        h *= growth
    elif r < 1.0:
        h *= min(CUT_LEAST, max(CUT_MOST, r))
    return min(max(h, low), high)


@compiled
def mean_power(mean: float, now: float, elapsed: float, t: float, window: float) -> float:
    """Running mean of a power's magnitude [W] after an interval of `elapsed` [s].

    The mean over the session up to `t` [s]; once that exceeds `window` [s], old values decay.
    """
    share = min(1.0, elapsed / min(max(t, elapsed), window))
    return mean + share * (abs(now) - mean)


@compiled
def energy_error(residual: float, mean: float, h: float, atol: float, rtol: float) -> float:
    """Energy created by a bond's power residual [W] in a step, relative to its tolerance.

    The tolerance is ``atol + rtol E`` with E the energy [J] that the bond transmits in a step of
    `h` [s] at its `mean` power [W], not at that of the residual (Sadjina et al. 2017, step size
    control). The sign is kept: positive where the interface created energy.
    """
    tolerated = atol + rtol * mean * h
    return residual * h / tolerated if tolerated > 0.0 else 0.0


@compiled
def ecco_step(
    session: SessionStateRow,
    error: float,
    order: int,
    safety: float,
    growth: float,
    low: float,
    high: float,
) -> None:
    """Choose the step after one in which the worst bond had the relative energy error `error`.

    Sadjina et al. (2017), step size control.

    Parameters
    ----------
    order : int
        Degree of the inputs' polynomials. The residual is one order higher in the step, so the
        gains are divided by that order: fixed gains oscillate from degree 3 on.
    safety : float
        Factor on the step.
    growth : float
        Largest factor on the step.
    low, high : float
        Bounds of the step, s.
    """
    now, before = max(abs(error), EPSILON_FLOOR), max(abs(session.ecco_error), EPSILON_FLOOR)
    if session.ecco_error == 0.0:
        before = now
    p, i = ECCO_P / (order + 1), ECCO_I / (order + 1)
    factor = safety * power(now, -i - p) * power(before, p)
    h = session.controlled_step * min(growth, max(CUT_MOST, factor))
    session.controlled_step = min(max(h, low), high)
    session.ecco_error = error


# Order and length of a repeated step, after a failed error test.
#
# Multibody Syst. Dyn. 09817 (2022), sections 5.2 and 5.3. The test precedes the acceptance of a
# step's samples (`hilrt.exchange.repeated_steps`): the macro step receives only the step that
# passed, and its order.

#: Shortest repetition, as a share of the failed step; always used from the second repetition on.
SHORTEST = 0.25
#: Share of the length that is expected to pass the error test.
CAUTION = 0.9


@stage
def shorten_step(plan: Plan, state: State, given: StepInput) -> None:
    """Choose order, inputs and length of the repetition of a step that failed its test.

    `state` is a copy at the beginning of the step; `given` holds the length of the failed step, and
    the scaling factor that follows from its error (eq. 32), or NaN if no corrector has converged.
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
    low, left = plan.session[0].minimum_step, session.until_break - session.controlled_step
    if left < low <= session.until_break - low:
        session.controlled_step = session.until_break - low
    session.h_next = whole_ns(session.controlled_step)
    extrapolate_again(plan, state)


@stage
def take_repetitions(plan: Plan, state: State, given: StepInput) -> None:
    """Use the inputs of the finished step if a repetition changed them."""
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
    """Extrapolate outgoing inputs again with the order in force; limited inputs are unchanged."""
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
