"""Stage of the slack: how far the outputs are from those of the coupled system.

Where the subsystems in the loops were tried out, the disturbances of the inputs are passed on by
the coupled system's own answers (`hilrt.coupling.closed_loop`): the error accumulates, rings and
dies out as it would. Elsewhere the disturbances, relative to their inputs, are multiplied by the
gain that sessions of the calibration had (`hilrt.reliability.calibrated`).

Outputs that nothing takes are estimated likewise: they are what a test looks at. What a subsystem
gives that takes nothing from others has no error.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import stage
from hilrt.tables.given import StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.state import State

#: Steps of the error for one interval, at most.
MOST_STEPS = 1000
#: An estimated error above this multiple of a signal's largest value says no more than that. The
#: error of a loop that its start makes unstable would grow beyond all numbers otherwise.
MOST_SHARE = 10.0
#: States of the error beyond this, in their units, are scaled down together.
LARGEST = 1e30
#: Keeps ratios of signals that were never other than zero finite.
TINY = 1e-200


@stage
def estimate_signals(plan: Plan, state: State, given: StepInput) -> None:
    """Half widths of the bands about the outputs at the communication point."""
    elapsed = given.session[0].elapsed
    keep = math.exp(-elapsed / plan.session[0].scale_time)
    if len(state.errors) > 0 and elapsed > 0.0:
        pass_on(plan, state, elapsed)
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
        if high == 0.0:
            out.estimated_error = 0.0
        elif not (math.isfinite(share) and math.isfinite(out.error)):
            out.estimated_error = math.nan
        elif plan.outputs[i].followed:
            out.estimated_error = high * out.error_peak
        else:
            out.estimated_error = high * share * out.scale


@stage
def pass_on(plan: Plan, state: State, elapsed: float) -> None:
    """States and outputs of the error after the interval of `elapsed` [s]."""
    steps = min(max(round(elapsed / plan.session[0].step), 1), MOST_STEPS)
    for _ in range(steps):
        for i in range(len(state.errors)):
            state.errors[i].next = 0.0
        for k in range(len(plan.error_paths)):
            path = plan.error_paths[k]
            if path.of_input:
                from_ = state.inputs[path.source].disturbance_due
            else:
                from_ = state.errors[path.source].value
            state.errors[path.to].next += path.factor * from_
        largest = 0.0
        for i in range(len(state.errors)):
            largest = max(largest, abs(state.errors[i].next))
        shrunk = LARGEST / largest if LARGEST < largest < math.inf else 1.0
        for i in range(len(state.errors)):
            state.errors[i].value = shrunk * state.errors[i].next
    for i in range(len(state.outputs)):
        state.outputs[i].error = 0.0
    for k in range(len(plan.error_answers)):
        answer = plan.error_answers[k]
        if answer.of_input:
            part = state.inputs[answer.source].disturbance_end
        else:
            part = state.errors[answer.source].value
        state.outputs[answer.output].error += answer.factor * part
    for i in range(len(state.outputs)):
        out = state.outputs[i]
        most = MOST_SHARE * out.peak
        if most > 0.0 and abs(out.error) > most:
            out.error = math.copysign(most, out.error)
