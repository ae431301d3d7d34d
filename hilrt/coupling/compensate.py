"""Stage: outputs at the communication point, from the samples that have arrived.

A sample valid at the communication point is used unchanged; an older one is extrapolated by the
polynomial through the newest samples, where degree 0 means hold.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.correct_model import fits, read_over_step
from hilrt.coupling.extrapolate import copy, newton_form, newton_value
from hilrt.coupling.inject_faults import carry_alterations
from hilrt.coupling.past import needed_past
from hilrt.coupling.regression import predict
from hilrt.coupling.trust import root_mean_square
from hilrt.tables.given import LARGEST, StepInput
from hilrt.tables.model import LearnedRegression, Learning, Regression
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table
from hilrt.tables.state import OutputState, State


@stage
def compensate(plan: Plan, state: State, given: StepInput) -> None:
    """Add samples to the histories; compute Newton's form of their polynomials, and outputs.

    A sample is not used, and the output counts as not arrived, if it is not finite, implausibly
    large (`LARGEST`), or withheld because of its declared range. Withheld samples and unknown
    calculated channels are replaced by the previous sample, held: a slope towards a fault is
    meaningless.
    """
    samples, now = plan.session[0].samples, given.session[0].t
    for i in range(len(state.outputs)):
        out = state.outputs[i]
        plausible = abs(out.newest) <= LARGEST  # NaN is not plausible
        out.implausible = out.fresh and not plausible
        out.arrived = out.fresh and plausible and not out.withheld
        if out.arrived:
            y = given.outputs[i].y if out.faulted else out.newest
            if abs(y) <= LARGEST:
                push(out, out.t_newest, y, plan.outputs[i].spacing, samples)
            out.sample = out.newest
    carry_alterations(plan, state)
    forget_before_jumps(plan, state, given)
    for i in range(len(state.outputs)):
        out, s = state.outputs[i], plan.outputs[i].subsystem
        newton_form(out, samples, now)
        late = plan.subsystems[s].holds_when_late and given.subsystems[s].late
        unknown = plan.outputs[i].calculated != 0 and not abs(out.newest) <= LARGEST
        held = late or out.withheld or unknown
        out.degree = 0 if held else min(samples - 1, out.count - 1)
        out.y = newton_value(out, min(out.order, out.degree))
        out.bridged = out.corrected_by = 0.0


@compiled
def push(out: OutputState, t: float, y: float, spacing: float, samples: int) -> None:
    """Add a sample to the history of an output.

    A sample no farther than `spacing` [s] from the newest one replaces it: two bench frames that
    arrive back to back would otherwise produce an arbitrary slope. A sample older than the newest
    one is dropped.
    """
    if not t >= out.t_past[0]:
        return
    if t - out.t_past[0] > spacing:
        for j in range(samples - 1, 0, -1):
            out.t_past[j] = out.t_past[j - 1]
            out.y_past[j] = out.y_past[j - 1]
        out.count = min(out.count + 1, samples)
    out.t_past[0] = t
    out.y_past[0] = y


@stage
def forget_before_jumps(plan: Plan, state: State, given: StepInput) -> None:
    """Drop all samples but the newest of outputs that have jumped, and two of those that have bent.

    No polynomial fits both sides of a discontinuity. An output that depends directly on one that
    has jumped jumps one communication point later.
    """
    for i in range(len(state.outputs)):
        out = state.outputs[i]
        if out.arrived and (given.subsystems[plan.outputs[i].subsystem].event or out.jumps == 1):
            out.count = 1
        if out.arrived and out.bends > 0:
            out.bends -= 1
            if out.bends == 0:
                out.count = min(out.count, 2)
        if out.jumps > 1:
            out.jumps -= 1
        elif out.arrived:
            out.jumps = 0
    for k in range(len(plan.passes)):
        if given.subsystems[plan.passes[k].giver].event:
            state.outputs[plan.passes[k].output].jumps = 1


# Stage: outputs of late subsystems, predicted by their identified models.
#
# A model whose Jacobian is not trusted may still predict well. It is used if its predictions have
# been better than plain extrapolation so far, and if the past samples that it needs are complete.


@stage
def predict_late(plan: Plan, state: State, given: StepInput) -> None:
    """Predict late subsystems whose policy is "predict"; their polynomials keep their slopes."""
    if not plan.model.settings[0].identifies:
        return
    learning, inputs = state.model.learning, state.model.inputs
    settings, regressions = plan.model.settings[0], plan.model.regressions
    subsystems, cut, acted = plan.subsystems, given.subsystems, learning.inputs
    for i in range(len(learning.outputs)):
        learning.outputs[i].predicted = math.nan
    if not fits(given.session[0].elapsed, settings.h):
        return
    for r in range(len(regressions)):
        at = regressions[r]
        wanted = cut[at.subsystem].late and subsystems[at.subsystem].predicts_when_late
        if wanted and is_ready(at, learning.regressions[r], settings.window):
            for u in range(at.first_input, at.first_input + at.inputs):
                left = state.inputs[u]
                read_over_step(
                    settings, given.session[0], left.previous, left.previous_t0, inputs[u].sent
                )
                copy(inputs[u].sent, at.terms, acted[u].acted)
            predict(at, learning, state.model.work.phi, r)
            use_predictions(at, learning, state.outputs)


@compiled
def is_ready(at: Regression, memory: LearnedRegression, window: int) -> bool:
    """Whether the regression has learned a window of samples, and its past is complete."""
    return memory.judged >= window and memory.unbroken >= needed_past(at)


@stage
def use_predictions(at: Regression, learning: Learning, outputs: Table[OutputState]) -> None:
    """Replace outputs by their predictions where these have been better so far."""
    learned_outputs, errors = learning.outputs, learning.errors
    for i in range(at.first_output, at.first_output + at.outputs):
        out, learned = outputs[i], learned_outputs[i]
        best = math.sqrt(learned.extrapolation_error)
        if root_mean_square(errors, i) < best and math.isfinite(learned.predicted):
            out.bridged = learned.predicted - out.y
            out.y += out.bridged
            out.differences[0] += out.bridged
