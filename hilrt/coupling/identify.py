"""Stage: identify the interface Jacobians of black boxes and benches while the session runs.

Each subsystem has a regression (`regression.py`) and an assessment of it (`trust.py`). The result
is the Jacobian for the correction: rows that are not trusted are zero, so that these outputs are
not corrected. The stage runs in the slack of a step. Subsystems learn in turn, one per tick if time
permits; the others only record their samples.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.correct_model import correction_of, prepare_correction
from hilrt.coupling.past import follow_extrapolation, realised_input, take_inputs
from hilrt.coupling.regression import assume, forget, jacobian_entry, observe
from hilrt.coupling.trust import NOISY, UNEXCITED, UNSURE, USED, judge, root_mean_square
from hilrt.solver import Floats
from hilrt.tables.given import GivenOutput, Slack, StepInput
from hilrt.tables.model import (
    LearnedInput,
    LearnedOutput,
    Learning,
    ModelSettings,
    NoisePath,
    Regression,
    Workspace,
)
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table
from hilrt.tables.state import OutputState, State

#: A Jacobian in use is replaced if that changes the recent corrections by more than this share, and
#: by more than their uncertainty.
_STALE = 2e-3
#: A sample this close to the communication point, relative to the step, counts as valid at it.
_SAMPLED = 0.1


@stage
def identify(plan: Plan, state: State, given: StepInput, slack: Table[Slack]) -> None:
    """Process the step that ended; replace Jacobians that have changed enough."""
    settings, session = plan.model.settings[0], state.model.session[0]
    if not settings.identifies:
        return
    gamma, learning, work = state.model.gamma, state.model.learning, state.model.work
    regressions, weight, now = plan.model.regressions, plan.model.weight, given.session[0].t
    tolerance, changed = _SAMPLED * plan.session[0].step, False
    turns = session.regular and slack[0].learns
    take_step(plan, state, given, settings.order + 1)
    pass_noise(plan.model.noise_paths, learning.outputs, learning.inputs)
    for r in range(len(regressions)):
        at, memory = regressions[r], learning.regressions[r]
        if not session.stepped:
            memory.known = memory.unbroken = 0
        elif not sampled(at, state.outputs, given.outputs, now, tolerance):
            bridge(at, learning, r)
        else:
            learns = turns and r == session.turn
            learned = take_sample(settings, at, learning, work, r, weight[r], learns)
            if learned and matters(at, learning, gamma, r):
                adopt(at, learning, gamma, r)
                changed = True
    if turns:
        session.turn = (session.turn + 1) % len(regressions)
    write_reasons(learning.outputs, state.outputs)
    if changed:
        prepare_correction(correction_of(plan, state))


@stage
def take_step(plan: Plan, state: State, given: StepInput, terms: int) -> None:
    """Record outputs and inputs of the last step, with the realised values of benches."""
    outputs, inputs, learning = state.model.outputs, state.model.inputs, state.model.learning
    learned_outputs, learned_inputs = learning.outputs, learning.inputs
    for i in range(len(outputs)):
        learned_outputs[i].y = outputs[i].y
    for i in range(len(inputs)):
        realised = realised_input(plan.inputs[i], state.outputs, given.inputs[i])
        take_inputs(learned_inputs[i], inputs[i], terms, realised)


@compiled
def write_reasons(learned: Table[LearnedOutput], outputs: Table[OutputState]) -> None:
    """Copy the reasons why outputs are not corrected to the session's outputs."""
    for i in range(len(outputs)):
        reason = learned[i].reason
        outputs[i].reason = reason
        outputs[i].unexcited = reason in (UNEXCITED, UNSURE, NOISY)


@compiled
def sampled(
    at: Regression,
    outputs: Table[OutputState],
    given: Table[GivenOutput],
    t: float,
    tolerance: float,
) -> bool:
    """Whether all outputs of a subsystem have new samples valid at the communication point `t` [s].

    Withheld samples do not count, because their replacements were extrapolated or held.
    """
    for i in range(at.first_output, at.first_output + at.outputs):
        if not (outputs[i].arrived and abs(given[i].t_valid - t) < tolerance):
            return False
    return True


@stage
def bridge(at: Regression, learning: Learning, r: int) -> None:
    """Replace a missing sample in a regression's past by its prediction.

    Without a prediction, for example if the sample is not due, the past is interrupted.
    """
    memory, outputs = learning.regressions[r], learning.outputs
    for i in range(at.first_output, at.first_output + at.outputs):
        if not math.isfinite(outputs[i].predicted):
            memory.known = memory.unbroken = 0
            return
    assume(at, learning, r)
    memory.unbroken += 1


@compiled
def pass_noise(
    paths: Table[NoisePath], outputs: Table[LearnedOutput], inputs: Table[LearnedInput]
) -> None:
    """Compute each input's standard deviation due to the independent noise of the outputs."""
    for u in range(len(inputs)):
        inputs[u].noise = 0.0
    for k in range(len(paths)):
        noise = outputs[paths[k].output].noise
        inputs[paths[k].input].noise += paths[k].square * (noise * noise)
    for u in range(len(inputs)):
        inputs[u].noise = math.sqrt(inputs[u].noise)


@stage
def take_sample(
    settings: ModelSettings,
    at: Regression,
    learning: Learning,
    work: Workspace,
    r: int,
    weight: Floats,
    learns: int,
) -> bool:
    """Process a sample of a subsystem: learn from it, and assess the result."""
    memory, outputs, errors = learning.regressions[r], learning.outputs, learning.errors
    if learns and memory.unbroken >= at.output_lags:
        follow_extrapolation(at, outputs, learning.past_outputs, settings.window)
    learned = observe(at, learning, work, r, weight, learns)
    memory.unbroken += 1
    if not learned:
        return False
    if judge(settings, at, learning, work, r):
        forget(at, learning, work, r, weight)
    for i in range(at.first_output, at.first_output + at.outputs):
        outputs[i].noise = root_mean_square(errors, i)
    return True


@stage
def matters(at: Regression, learning: Learning, gamma: Floats, r: int) -> bool:
    """Whether the Jacobian in use, shape (p + 1, ny, nu), should be replaced."""
    for i in range(at.first_output, at.first_output + at.outputs):
        if row_matters(at, learning, gamma, r, i):
            return True
    return False


@compiled
def row_matters(at: Regression, learning: Learning, gamma: Floats, r: int, i: int) -> bool:
    """Whether the trust in output `i`, or its recent corrections, have changed."""
    out, mismatch, in_use = learning.outputs[i], learning.mismatch, False
    trusted = out.reason == USED
    for m in range(at.terms):
        for u in range(at.first_input, at.first_input + at.inputs):
            in_use = in_use or gamma[m, i, u] != 0.0
    if not trusted or not in_use:
        return trusted != in_use
    moved = size = 0.0
    for w in range(len(mismatch)):
        change = wanted = 0.0
        for m in range(at.terms):
            for u in range(at.first_input, at.first_input + at.inputs):
                new = jacobian_entry(at, learning, r, m, i, u)
                change += mismatch[w, m, u] * (new - gamma[m, i, u])
                wanted += mismatch[w, m, u] * new
        moved += change * change
        size += wanted * wanted
    # also true for NaN
    return not moved <= _STALE * _STALE * size + 0.1 * out.variance


@compiled
def adopt(at: Regression, learning: Learning, gamma: Floats, r: int) -> None:
    """Use the identified Jacobian in the trusted rows; set the others to zero."""
    outputs = learning.outputs
    for i in range(at.first_output, at.first_output + at.outputs):
        used = outputs[i].reason == USED
        for m in range(at.terms):
            for u in range(at.first_input, at.first_input + at.inputs):
                gamma[m, i, u] = jacobian_entry(at, learning, r, m, i, u) if used else 0.0
