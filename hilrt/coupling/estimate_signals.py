"""Stage of the slack: estimated deviation of the outputs from those of the coupled system.

If the subsystems in the loops were probed, disturbances of the inputs are propagated by the
responses of the coupled system (`hilrt.coupling.closed_loop`), so that the error accumulates,
oscillates and decays as in the system. Otherwise the disturbances, relative to their inputs, are
multiplied by a gain known from the sessions of the calibration (`hilrt.reliability.calibrated`).

Unconnected outputs are estimated too, because tests evaluate them. Outputs of a subsystem without
connected inputs have no error.
"""

from __future__ import annotations

import math

import numpy as np

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.extrapolate import value_at
from hilrt.coupling.limit import allowed
from hilrt.tables.given import StepInput
from hilrt.tables.plan import (
    OF_CHANGE,
    OF_START,
    OF_STATE,
    InputPlan,
    OutputPlan,
    Plan,
    SessionPlan,
)
from hilrt.tables.state import InputState, State

#: Maximum number of error steps for one interval.
MOST_STEPS = 1000
#: Limit of an estimated error, as a multiple of the signal's largest value. Without it, the error
#: of a loop that is unstable about its start would overflow, and so would a disturbance relative to
#: an input that has been zero so far.
MOST_SHARE = 10.0
#: States of the error above this, in their units, are scaled down together.
LARGEST = 1e30
#: Keeps ratios of signals that have always been zero finite.
TINY = 1e-200


@stage
def estimate_signals(plan: Plan, state: State, given: StepInput) -> None:
    """Compute the half widths of the outputs' error bands at the communication point."""
    elapsed = given.session[0].elapsed
    keep = math.exp(-elapsed / plan.session[0].scale_time)
    if len(state.errors) > 0 and elapsed > 0.0:
        pass_on(plan, state, given)
    share = 0.0
    for i in range(len(state.inputs)):
        u = state.inputs[i]
        if plan.inputs[i].connected:
            unknown = not math.isfinite(u.disturbance)
            share = math.nan if unknown else max(share, u.disturbance_peak / (u.peak + TINY))
    for i in range(len(state.outputs)):
        out, high = state.outputs[i], plan.outputs[i].error_high
        out.error_peak = max(out.error_peak * keep, abs(out.error))
        out.error_square += out.error * out.error * elapsed
        out.own_square += out.own_error * out.own_error * elapsed
        if high == 0.0:
            out.estimated_error = 0.0
        elif plan.outputs[i].followed and state.session[0].reparametrised:
            out.estimated_error = math.nan  # the responses are no longer those of the system
        elif not (math.isfinite(share) and math.isfinite(out.error)):
            out.estimated_error = math.nan
        elif plan.outputs[i].followed:
            out.estimated_error = high * out.error_peak
        else:
            out.estimated_error = high * min(share, MOST_SHARE) * out.scale


@stage
def pass_on(plan: Plan, state: State, given: StepInput) -> None:
    """Propagate the states and outputs of the error over the interval that ended."""
    elapsed = given.session[0].elapsed
    paths, known = len(plan.error_paths), len(plan.error_answers) + len(plan.direct)
    if len(plan.own_paths) > 0:
        known += len(plan.own_paths) + len(state.errors)
    levels = (len(state.answers) - known) // max(paths, 1)
    left = round((state.session[0].error_lag + elapsed) / plan.session[0].error_unit)
    if levels == 1:
        left = min(max(left, 1), MOST_STEPS)
    else:  # a rest below the shortest step waits for the next interval
        state.session[0].error_lag += elapsed - left * plan.session[0].error_unit
        left = min(left, MOST_STEPS << (levels - 1))
    level = levels - 1
    while left > 0:
        if left >> level > 0:
            step_errors(plan, state, given, known + level * paths if level > 0 else 0)
            if len(plan.own_paths) > 0:
                pass_on_own(plan, state, given)
            left -= 1 << level
        else:
            level -= 1
    if len(plan.own_paths) > 0:
        add_own(plan, state, given)
    for i in range(len(state.outputs)):
        state.outputs[i].error = state.outputs[i].own_error = 0.0
    for k in range(len(plan.error_answers)):
        answer = plan.error_answers[k]
        if answer.of_input:
            part = state.inputs[answer.source].disturbance_end
        else:
            part = state.errors[answer.source].value
        factor = state.answers[len(plan.error_paths) + k].factor
        if factor != 0.0:
            state.outputs[answer.output].error += factor * part
            if not answer.of_input:
                own = factor * state.errors[answer.source].own
                state.outputs[answer.output].own_error += own
    for i in range(len(state.outputs)):
        out = state.outputs[i]
        out.error += out.own_error
        most = MOST_SHARE * out.peak
        if most > 0.0 and abs(out.error) > most:
            out.error = math.copysign(most, out.error)


@stage
def step_errors(plan: Plan, state: State, given: StepInput, first: int) -> None:
    """Advance states of the error by a step whose factors begin at row `first` of `State.answers`.

    If they were renewed at the end of the interval, means of the old and new factors are used.
    """
    renewed = given.session[0].answers_renewed
    for i in range(len(state.errors)):
        state.errors[i].next = 0.0
    for k in range(len(plan.error_paths)):
        path = plan.error_paths[k]
        if path.of_input:
            cause = state.inputs[path.source].disturbance_due
        else:
            cause = state.errors[path.source].value
        factor = mean_factor(state, first + k, renewed)
        if factor != 0.0:
            state.errors[path.to].next += factor * cause
    largest = 0.0
    for i in range(len(state.errors)):
        largest = max(largest, abs(state.errors[i].next))
    shrunk = LARGEST / largest if LARGEST < largest < math.inf else 1.0
    for i in range(len(state.errors)):
        state.errors[i].value = shrunk * state.errors[i].next


@stage
def pass_on_own(plan: Plan, state: State, given: StepInput) -> None:
    """Advance the errors by the subsystems' own integration over a step; see `step_errors`."""
    renewed = given.session[0].answers_renewed
    for i in range(len(state.errors)):
        state.errors[i].own_next = 0.0
    for k in range(len(plan.error_paths)):
        path = plan.error_paths[k]
        if not path.of_input:
            part = mean_factor(state, k, renewed) * state.errors[path.source].own
            state.errors[path.to].own_next += part
    for i in range(len(state.errors)):
        state.errors[i].own = min(max(state.errors[i].own_next, -LARGEST), LARGEST)


@stage
def add_own(plan: Plan, state: State, given: StepInput) -> None:
    """Add the errors of the steps that the subsystems have just ended, and follow their states.

    A new trial has found the states themselves.
    """
    most = 0
    for s in range(len(state.subsystems)):
        most = max(most, steps_ended(plan, state, s))
    for turn in range(most):
        follow_own(plan, state, given, turn)
    if given.session[0].answers_renewed:
        first = first_own(plan) + len(plan.own_paths)
        for i in range(len(state.errors)):
            state.errors[i].reached = state.answers[first + i].factor


@stage
def follow_own(plan: Plan, state: State, given: StepInput, turn: int) -> None:
    """Make the step number `turn` of the subsystems that have ended more than so many.

    The change of an input within a step is that between its values at the step's beginning and at
    that of the next one.
    """
    first, renewed = first_own(plan), given.session[0].answers_renewed
    for k in range(len(plan.own_paths)):
        state.errors[plan.own_paths[k].to].reached_next = 0.0
    for k in range(len(plan.own_paths)):
        path = plan.own_paths[k]
        steps = steps_ended(plan, state, path.subsystem)
        if turn >= steps:
            continue
        part = 1.0
        if path.kind == OF_STATE:
            part = state.errors[path.source].reached
        elif path.kind == OF_START:
            part = state.inputs[path.source].previous[0]
        elif path.kind == OF_CHANGE:
            u = state.inputs[path.source]
            part = (u.polynomial[0] - u.previous[0]) / steps
        part *= mean_factor(state, first + k, renewed)
        if path.erring:
            state.errors[path.to].own += part
        else:
            state.errors[path.to].reached_next += part
    for k in range(len(plan.own_paths)):
        path = plan.own_paths[k]
        if turn < steps_ended(plan, state, path.subsystem):
            error = state.errors[path.to]
            error.reached = min(max(error.reached_next, -LARGEST), LARGEST)


@compiled
def first_own(plan: Plan) -> int:
    """First row of `State.answers` that belongs to `Plan.own_paths`."""
    return len(plan.error_paths) + len(plan.error_answers) + len(plan.direct)


@stage
def steps_ended(plan: Plan, state: State, s: int) -> int:
    """Steps of a subsystem between its last inputs and those sent now; 0 if none were sent."""
    at = plan.subsystems[s]
    if at.inputs == 0 or not state.subsystems[s].dispatch:
        return 0
    u = state.inputs[at.first_input]
    return min(round((u.t0 - u.previous_t0) / (at.every * plan.session[0].step)), MOST_STEPS)


@stage
def mean_factor(state: State, k: int, renewed: int) -> float:
    """Factor of row `k` of `State.answers`; its mean over an interval at whose end it changed."""
    factor = state.answers[k].factor
    return 0.5 * (factor + state.answers[k].before) if renewed else factor


# The estimated error of the inputs relative to its tolerance (ExSLocal), and weights of its norm.
#
# It requires no repeated step, so that it is also available with a bench (Multibody Syst. Dyn.
# 09817 (2022), eqs. 21, 25 and 27).

#: A smaller scale has no weight.
SMALLEST_SCALE = float(np.finfo(np.float64).eps)


@stage
def estimate_error(plan: Plan, state: State, given: StepInput) -> None:
    """Compare previous input polynomials at the end of their interval with the extrapolated inputs.

    If the source of an input has feedthrough, it was evaluated with extrapolated inputs itself: the
    difference is then an indicator, not an estimate (Multibody Syst. Dyn. 09817 (2022), section
    4.3).
    """
    t, settings = given.session[0].t, plan.session[0]
    square, connected = 0.0, 0
    for i in range(len(state.inputs)):
        u = state.inputs[i]
        end = value_at(u.previous, settings.coefficients, t - u.previous_t0)
        u.error_ratio = abs(end - allowed(plan.inputs[i], u.extrapolated[0]))
        u.error_ratio /= tolerance(plan.inputs[i], u.extrapolated[0])
        if plan.inputs[i].exact:
            u.error_ratio = 0.0
        elif plan.inputs[i].connected:
            square += u.error_ratio * u.error_ratio
            connected += 1
    session = state.session[0]
    session.error = math.sqrt(square / connected) if connected > 0 else 0.0
    session.failed = session.error > 1.0


@compiled
def tolerance(port: InputPlan | OutputPlan, value: float) -> float:
    """``W = atol + rtol |value|`` of a port; infinite where that is zero."""
    tolerated = port.atol + port.rtol * abs(value)
    return tolerated if tolerated > 0.0 else math.inf


@compiled
def order_weight(settings: SessionPlan, port: InputPlan, u: InputState) -> float:
    """Weight of an input whose order is controlled: its tolerance, or else its scale.

    The scale is that of the previous point; a signal that has been zero so far has no weight.
    `settings`, `port`, `u` are records of the plan's session, its inputs, and the state's.
    """
    if settings.has_tolerances:
        return tolerance(port, u.extrapolated[0])
    weight = max(u.scale, abs(u.extrapolated[0]))
    return weight if weight >= SMALLEST_SCALE else math.inf
