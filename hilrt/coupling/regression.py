"""Online identification of interface Jacobians by factorised recursive least squares.

Suggested by Haid et al. (2022), section 2.1; with forgetting: Ljung (1999), section 11.2. For each
subsystem, with the inputs actually sent to it,

    y_{n+1} = sum_i A_i y_{n-i} + sum_m G_m a_m + sum_{j>=1} B_j a_{n-j} + bias

For stability over hours at 1 kHz (docs/methods.md, "Model-based correction"):

* all signals are scaled by their own spread (by powers of two, so that a change is exact);
* the covariance is stored as a factor (Potter), at O(n^2) per sample;
* forgetting also discards the prior, so that without excitation the covariance would grow without
  bound. Therefore the prior of one parameter per sample is used again as a weak observation: P
  stays bounded, and parameters that the data do not determine return to the prior, G first.

`trust.py` decides whether G is used.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.past import fill_regressors, follow_signals, needed_past, shift_past
from hilrt.solver import Floats
from hilrt.tables.model import LearnedInput, LearnedOutput, Learning, Regression, Workspace
from hilrt.tables.record import Table

#: Samples with scaled regressors above this are not used for learning.
_LARGEST = 1e4
#: Factor by which standard deviations are increased after a jump of the parameters.
_WIDER = 100.0

# Below, `at` is the record of regression `r` among the constants, and `weight`, shape (n,), the
# information content of each parameter's prior.


@stage
def observe(
    at: Regression, learning: Learning, work: Workspace, r: int, weight: Floats, learns: int
) -> bool:
    """Process the step that ended: outputs as measured, under the inputs that acted.

    Learn from it if the regression `learns` in this step, and append it to the past.

    Returns
    -------
    bool
        Whether the sample was learned: not while warming up, after a gap, or out of turn. Only then
        are the outputs' `error` and `work` those of this sample.
    """
    memory = learning.regressions[r]
    if not is_finite(at, learning.outputs, learning.inputs):
        memory.known = 0
        return False
    ready = memory.seen >= at.warm_up and memory.known >= needed_past(at)
    learned = learns != 0 and ready and learn(at, learning, work, r, weight)
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
def is_finite(at: Regression, outputs: Table[LearnedOutput], inputs: Table[LearnedInput]) -> bool:
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
def learn(at: Regression, learning: Learning, work: Workspace, r: int, weight: Floats) -> bool:
    """Learn from a sample; False if its regressors are out of range.

    Also use the prior of one parameter as an observation, weighted so that the mean weight of the
    prior over all turns is `weight`.
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
    observe_prior(at, learning, work, r, recall, weight[recall] * at.recalled)
    return True


@compiled
def observe_prior(
    at: Regression, learning: Learning, work: Workspace, r: int, i: int, weight: float
) -> None:
    """Process the prior of parameter `i` as an observation of that weight."""
    S, theta, prior = learning.factor[r], learning.parameters[r], learning.prior[r]
    f, error, root = work.projected, work.error, math.sqrt(weight)
    for j in range(at.regressors):
        f[j] = root * S[i, j]
    for y in range(at.outputs):
        error[y] = root * (prior[i, y] - theta[i, y])
    update(S, theta, 1.0, work, at.regressors, at.outputs)


@compiled
def predict(at: Regression, learning: Learning, phi: Floats, r: int) -> None:
    """Set `outputs.predicted`: the outputs after one more step under the inputs `acted`."""
    outputs, theta = learning.outputs, learning.parameters[r]
    fill_regressors(at, learning, phi)
    for y in range(at.outputs):
        out, scaled = outputs[at.first_output + y], 0.0
        for k in range(at.regressors):
            scaled += phi[k] * theta[k, y]
        out.predicted = scaled * out.scale + out.centre


@stage
def assume(at: Regression, learning: Learning, r: int) -> None:
    """Replace a missing sample by its prediction, which is not learned."""
    outputs = learning.outputs
    for i in range(at.first_output, at.first_output + at.outputs):
        outputs[i].y = outputs[i].predicted
    shift_past(at, learning)
    learning.regressions[r].seen += 1
    learning.regressions[r].known = 0


@stage
def forget(at: Regression, learning: Learning, work: Workspace, r: int, weight: Floats) -> None:
    """Increase the covariance after a jump of the parameters: the past has 1/10 000 of its weight.

    Samples whose past includes the jump are not learned, because they follow neither the old
    parameters nor the new ones.
    """
    S = learning.factor[r]
    for i in range(at.regressors):
        for j in range(at.regressors):
            S[i, j] *= _WIDER
    learning.regressions[r].known = 0
    for i in range(at.regressors):
        observe_prior(at, learning, work, r, i, weight[i])


@compiled
def jacobian_entry(at: Regression, learning: Learning, r: int, m: int, i: int, u: int) -> float:
    """G_m of output `i` and input `u` as identified, in the ports' units."""
    k = at.regressors - at.coefficients + m * at.inputs + u - at.first_input
    units = learning.outputs[i].scale / learning.inputs[u].scale
    return float(learning.parameters[r, k, i - at.first_output] * units)


# Recursive least squares on a factor of the covariance, P = S S^T.
#
# Potter's update keeps P symmetric and positive semidefinite by construction, at O(n^2) per sample
# (Bierman 1977, chapter V).


@compiled
def project(S: Floats, theta: Floats, work: Workspace, n: int, outputs: int) -> None:
    """Set ``projected = S^T phi``; subtract the prediction from the observation in `error`.

    `S`, `theta` are at least of shape (n, n) and (n, outputs).
    """
    f, phi, error = work.projected, work.phi, work.error
    for j in range(n):
        f[j] = 0.0
    for i in range(n):
        for j in range(n):
            f[j] += phi[i] * S[i, j]
        for y in range(outputs):
            error[y] -= phi[i] * theta[i, y]


@compiled
def update(S: Floats, theta: Floats, forgetting: float, work: Workspace, n: int, ny: int) -> None:
    """Potter's update of factor and parameters with an observation.

    Parameters
    ----------
    S, theta : ndarray, at least of shape (n, n), (n, ny)
        Changed in place.
    forgetting : float
        Factor by which the observation reduces the weight of the past.
    work : Workspace
        With `projected`, S^T phi with the regressors phi, and `error`, observation less prediction.
    """
    f, error, square = work.projected, work.error, 0.0
    for j in range(n):
        square += f[j] * f[j]
    beta = forgetting + square
    share, root = 1.0 / (beta + math.sqrt(forgetting * beta)), math.sqrt(forgetting)
    for i in range(n):
        gain = 0.0
        for j in range(n):
            gain += S[i, j] * f[j]
        for y in range(ny):
            theta[i, y] += gain * (error[y] / beta)
        for j in range(n):
            S[i, j] = (S[i, j] - gain * (f[j] * share)) / root


@compiled
def weigh_evidence(S: Floats, work: Workspace, n: int, g: int) -> None:
    """Compute innovation and covariance of a sample for the last `g` regressors.

    The part of these regressors that the others do not predict follows from the covariance alone,
    ``P_gg^-1 (P phi)_g``. P_gg may span more decades than a double has digits, but its factor does
    not: the rows of S for the Jacobian are orthogonalised (modified Gram-Schmidt), together with
    ``projected = S^T phi``.
    """
    rest, q, r, singular = work.rest, work.q, work.r, False
    f, innovation = work.projected, work.innovation
    for j in range(n):
        rest[j] = f[j]
        for k in range(g):
            q[k, j] = S[n - g + k, j]
    for k in range(g):
        square = 0.0
        for j in range(n):
            square += q[k, j] * q[k, j]
        r[k, k] = math.sqrt(square)
        singular = singular or square == 0.0
        for j in range(n):
            q[k, j] /= r[k, k]
        for m in range(k + 1, g):
            r[k, m] = 0.0
            for j in range(n):
                r[k, m] += q[k, j] * q[m, j]
            for j in range(n):
                q[m, j] -= r[k, m] * q[k, j]
        along = 0.0
        for j in range(n):
            along += q[k, j] * rest[j]
        for j in range(n):
            rest[j] -= along * q[k, j]
        innovation[k] = along
    square_triangle(r, work.covariance, g)
    solve_upwards(r, innovation, singular, g)


@compiled
def square_triangle(r: Floats, product: Floats, g: int) -> None:
    """``r^T r`` of an upper triangular matrix, shape (g, g)."""
    for i in range(g):
        for j in range(g):
            product[i, j] = 0.0
            for k in range(min(i, j) + 1):
                product[i, j] += r[k, i] * r[k, j]


@compiled
def solve_upwards(r: Floats, x: Floats, singular: bool, g: int) -> None:
    """Solve ``r z = x`` for an upper triangular matrix, in place of `x`; zero if singular."""
    for k in range(g - 1, -1, -1):
        for m in range(k + 1, g):
            x[k] -= r[k, m] * x[m]
        x[k] /= r[k, k]
    if singular:
        for k in range(g):
            x[k] = 0.0


# Scales of a regression's signals: powers of two near their spreads, so that a change is exact.

#: Samples between checks.
_EVERY = 8
_ROOT_2 = math.sqrt(2.0)


@stage
def fit_scales(at: Regression, learning: Learning, r: int, weight: Floats) -> None:
    """Change scales that differ from their signals' spread by more than a factor of four."""
    inputs, outputs = learning.inputs, learning.outputs
    seen = learning.regressions[r].seen
    if seen < at.warm_up or (seen > at.warm_up and seen % _EVERY != 0):
        return
    for i in range(at.first_output, at.first_output + at.outputs):
        if seen == at.warm_up:
            move_centre(outputs[i])
        rescale_output(at, learning, r, i, change_of_scale(outputs[i]))
    for i in range(at.first_input, at.first_input + at.inputs):
        if seen == at.warm_up:
            move_centre(inputs[i])
        rescale_input(at, learning, r, i, change_of_scale(inputs[i]))
    if seen == at.warm_up:  # nothing is learned yet: reset the prior to its weight in any unit
        start_factor(learning.factor[r], weight, at.regressors)


@compiled
def move_centre(signal: LearnedOutput | LearnedInput) -> None:
    """Move the centre of a signal to its mean so far."""
    signal.centre += signal.average
    signal.mean_square -= signal.average * signal.average
    signal.average = 0.0


@compiled
def change_of_scale(signal: LearnedOutput | LearnedInput) -> float:
    """Power of two by which a signal's scale should change; 1 if it is close enough."""
    least = 1e-9 * signal.centre
    spread = math.sqrt(max(signal.mean_square, least * least))
    if not (spread > 1e-30 and math.isfinite(spread)):
        return 1.0
    ratio, change = spread / signal.scale, 1.0
    if 0.25 < ratio < 4.0 or ratio == 0.0:
        return 1.0
    while change * _ROOT_2 <= ratio:
        change *= 2.0
    while change / _ROOT_2 > ratio:
        change *= 0.5
    return change


@stage
def rescale_output(at: Regression, learning: Learning, r: int, i: int, change: float) -> None:
    """Change the scale of output `i`, keeping the estimated parameters."""
    if change == 1.0:
        return
    theta, prior, column = learning.parameters[r], learning.prior[r], i - at.first_output
    for k in range(at.regressors):
        theta[k, column] /= change
        prior[k, column] /= change
    for lag in range(at.output_lags):
        scale_regressor(theta, prior, learning.factor[r], lag * at.outputs + column, change)
    learning.outputs[i].scale *= change


@stage
def rescale_input(at: Regression, learning: Learning, r: int, i: int, change: float) -> None:
    """Change the scale of input `i`, keeping the estimated parameters."""
    if change == 1.0:
        return
    theta, prior, S = learning.parameters[r], learning.prior[r], learning.factor[r]
    past = at.input_lags * at.terms
    for k in range(past + at.terms):  # the bias lies between past inputs and those of the step
        row = at.output_lags * at.outputs + k * at.inputs + i - at.first_input
        scale_regressor(theta, prior, S, row + (1 if k >= past else 0), change)
    learning.inputs[i].scale *= change


@compiled
def scale_regressor(theta: Floats, prior: Floats, S: Floats, k: int, change: float) -> None:
    """Rescale regressor `k` after its unit has grown by a factor."""
    for y in range(theta.shape[1]):
        theta[k, y] *= change
        prior[k, y] *= change
    for j in range(S.shape[1]):
        S[k, j] *= change


@compiled
def start_factor(S: Floats, weight: Floats, n: int) -> None:
    """Set the initial covariance of the parameters to that of their prior."""
    for i in range(n):
        for j in range(n):
            S[i, j] = 0.0
        S[i, i] = 1.0 / math.sqrt(weight[i])
