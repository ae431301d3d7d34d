"""Stage: outputs of late subsystems as their identified models predict them.

A model may predict well whose Jacobian is not to be trusted: it is asked all the same. What it has
to be better than is plain extrapolation, which remains where it is not, or where the past that it
rests on is not complete.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.correct_model import fits, read_over_step
from hilrt.coupling.past import needed_past
from hilrt.coupling.polynomial import copy
from hilrt.coupling.regression import predict
from hilrt.coupling.trust import root_mean_square
from hilrt.tables.given import StepInput
from hilrt.tables.model import Learning
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table
from hilrt.tables.state import State


@stage
def predict_late(plan: Plan, state: State, given: StepInput) -> None:
    """Predict late subsystems with the policy "predict"; their polynomials keep their slopes."""
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
def is_ready(at: Table, memory: Table, window: int) -> bool:
    """Whether a window of samples was learned from, and the past is complete."""
    return memory.judged >= window and memory.unbroken >= needed_past(at)


@stage
def use_predictions(at: Table, learning: Learning, outputs: Table) -> None:
    """Bridge outputs of the session by their predictions, where these have been better so far."""
    learned_outputs, errors = learning.outputs, learning.errors
    for i in range(at.first_output, at.first_output + at.outputs):
        out, learned = outputs[i], learned_outputs[i]
        best = math.sqrt(learned.extrapolation_error)
        if root_mean_square(errors, i) < best and math.isfinite(learned.predicted):
            out.bridged = learned.predicted - out.y
            out.y += out.bridged
            out.differences[0] += out.bridged
