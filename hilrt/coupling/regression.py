"""Online identification of interface Jacobians by factorised recursive least squares.

Haid et al. (2022), section 2.1, suggest to identify them; with forgetting: Ljung (1999), section
11.2. Per subsystem, with the inputs that it was actually sent,

    y_{n+1} = sum_i A_i y_{n-i} + sum_m G_m a_m + sum_{j>=1} B_j a_{n-j} + bias

What makes it last for hours at 1 kHz (docs/methods.md, "Model-based correction"):

* all signals are scaled by their own spread (powers of two, so that changing one is exact);
* the covariance lives as a factor (`square_root.py`), at O(n^2) a sample;
* forgetting also forgets the prior, and without excitation the covariance would grow for ever.
  So one parameter after the other is shown its prior again as a weak observation, one per sample:
  P stays bounded, and what the data do not determine goes back to the prior, G before all else.

Whether G may be used is judged in `trust.py`.
"""

from __future__ import annotations

import math

import numpy as np

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.past import fill_regressors, follow_signals, needed_past, shift_past
from hilrt.coupling.scales import fit_scales
from hilrt.coupling.square_root import project, update, weigh_evidence
from hilrt.solver import Floats
from hilrt.tables.model import Learning, Workspace
from hilrt.tables.record import Table

#: Scaled regressors as large as this are not learned from.
_LARGEST = 1e4
#: By this factor a jump of the parameters widens their standard deviations.
_WIDER = 100.0

# Below, `at` is the record of regression `r` among the constants, and `weight`, shape (n,), the
# information that the prior of each of its parameters counts for.


@stage
def observe(
    at: Table, learning: Learning, work: Workspace, r: int, weight: Floats, learns: bool
) -> bool:
    """Take in the step that ended: outputs as measured, under the inputs that acted.

    Learn from it, if the regression `learns` in this step, and make it part of the past.

    Returns
    -------
    bool
        Whether anything was learned: not while warming up, after a gap, or if it is not its turn.
        Only then the outputs' `error` and `work` are those of this sample.
    """
    memory = learning.regressions[r]
    if not is_finite(at, learning.outputs, learning.inputs):
        memory.known = 0
        return False
    ready = memory.seen >= at.warm_up and memory.known >= needed_past(at)
    learned = learns and ready and learn(at, learning, work, r, weight)
    shift_past(at, learning)
    share = max(1.0 / (memory.seen + 1), 0.25 * (1.0 - at.forgetting))
    follow_signals(at, learning.outputs, learning.inputs, share)
    memory.known += 1
    memory.seen += 1
    fit_scales(at, learning, r, weight)
    if learned:
        memory.recall = (memory.recall + 1) % at.regressors
    return learned


@compiled
def is_finite(at: Table, outputs: Table, inputs: Table) -> bool:
    """Whether the outputs and the inputs that acted are finite numbers."""
    for i in range(at.first_output, at.first_output + at.outputs):
        if not math.isfinite(outputs[i].y):
            return False
    for i in range(at.first_input, at.first_input + at.inputs):
        for m in range(at.terms):
            if not math.isfinite(inputs[i].acted[m]):
                return False
    return True


@stage
def learn(at: Table, learning: Learning, work: Workspace, r: int, weight: Floats) -> bool:
    """Learn from a sample; False if its regressors are out of all proportion.

    With it one parameter is shown its prior, as an observation of such weight that the prior weighs
    `weight` in the mean of all turns.
    """
    S, theta, error = learning.factor[r], learning.parameters[r], work.error
    outputs, recall = learning.outputs, learning.regressions[r].recall
    if not fill_regressors(at, learning, work.phi) < _LARGEST:
        return False
    for y in range(at.outputs):
        out = outputs[at.first_output + y]
        error[y] = (out.y - out.centre) / out.scale
    project(S, theta, work, at.regressors, at.outputs)
    for y in range(at.outputs):
        outputs[at.first_output + y].error = error[y]
    weigh_evidence(S, work, at.regressors, at.coefficients)
    update(S, theta, at.forgetting, work, at.regressors, at.outputs)
    show_prior(at, learning, work, r, recall, weight[recall] * at.recalled)
    return True


@compiled
def show_prior(
    at: Table, learning: Learning, work: Workspace, r: int, i: int, weight: float
) -> None:
    """Take in the observation, of that weight, that parameter `i` is its prior."""
    S, theta, prior = learning.factor[r], learning.parameters[r], learning.prior[r]
    f, error, root = work.projected, work.error, math.sqrt(weight)
    for j in range(at.regressors):
        f[j] = root * S[i, j]
    for y in range(at.outputs):
        error[y] = root * (prior[i, y] - theta[i, y])
    update(S, theta, 1.0, work, at.regressors, at.outputs)


@compiled
def predict(at: Table, learning: Learning, phi: Floats, r: int) -> None:
    """`outputs.predicted`: the outputs after one more step under the inputs `acted`."""
    outputs, theta = learning.outputs, learning.parameters[r]
    fill_regressors(at, learning, phi)
    for y in range(at.outputs):
        out, scaled = outputs[at.first_output + y], 0.0
        for k in range(at.regressors):
            scaled += phi[k] * theta[k, y]
        out.predicted = scaled * out.scale + out.centre


@stage
def assume(at: Table, learning: Learning, r: int) -> None:
    """Go on over a missing sample with what was predicted; nothing is learned from it."""
    outputs = learning.outputs
    for i in range(at.first_output, at.first_output + at.outputs):
        outputs[i].y = outputs[i].predicted
    shift_past(at, learning)
    learning.regressions[r].seen += 1
    learning.regressions[r].known = 0


@stage
def forget(at: Table, learning: Learning, work: Workspace, r: int, weight: Floats) -> None:
    """Widen the covariance: the parameters have jumped, the past counts 10 000 times less.

    Samples whose past reaches back beyond the jump are not learned from: they follow neither the
    old parameters nor the new ones.
    """
    S = learning.factor[r]
    for i in range(at.regressors):
        for j in range(at.regressors):
            S[i, j] *= _WIDER
    learning.regressions[r].known = 0
    for i in range(at.regressors):
        show_prior(at, learning, work, r, i, weight[i])


@compiled
def jacobian_entry(at: Table, learning: Learning, r: int, m: int, i: int, u: int) -> float:
    """G_m of output `i` and input `u` as identified, in the ports' units."""
    k = at.regressors - at.coefficients + m * at.inputs + u - at.first_input
    units = learning.outputs[i].scale / learning.inputs[u].scale
    return float(learning.parameters[r, k, i - at.first_output] * units)


def identified_jacobian(at: Table, learning: Learning, r: int) -> Floats:
    """G_0 ... G_p as identified, shape (p + 1, outputs, inputs), in the ports' units."""
    gamma = np.empty((int(at.terms), int(at.outputs), int(at.inputs)))
    for m, y, u in np.ndindex(gamma.shape):
        i, j = y + int(at.first_output), u + int(at.first_input)
        gamma[m, y, u] = jacobian_entry(at, learning, r, m, i, j)
    return gamma
