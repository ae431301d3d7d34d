"""Scales of a regression's signals: powers of two near their spreads, so that changing is exact."""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.solver import Floats
from hilrt.tables.model import Learning
from hilrt.tables.record import Table

#: Samples between looks.
_EVERY = 8
_ROOT_2 = math.sqrt(2.0)


@stage
def fit_scales(at: Table, learning: Learning, r: int, weight: Floats) -> None:
    """Change scales that are off by more than four from their signals' spread."""
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
    if seen == at.warm_up:  # nothing is learned yet: the prior counts the same in every unit
        start_factor(learning.factor[r], weight, at.regressors)


@compiled
def move_centre(signal: Table) -> None:
    """The mean so far becomes the centre of a signal's record."""
    signal.centre += signal.average
    signal.mean_square -= signal.average * signal.average
    signal.average = 0.0


@compiled
def change_of_scale(signal: Table) -> float:
    """Power of two by which the scale of a signal's record should change; 1 where it fits."""
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
def rescale_output(at: Table, learning: Learning, r: int, i: int, change: float) -> None:
    """Change the scale of output `i`; what is known of the parameters stays as it is."""
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
def rescale_input(at: Table, learning: Learning, r: int, i: int, change: float) -> None:
    """Change the scale of input `i`; what is known of the parameters stays as it is."""
    if change == 1.0:
        return
    theta, prior, S = learning.parameters[r], learning.prior[r], learning.factor[r]
    past = at.input_lags * at.terms
    for k in range(past + at.terms):  # between past inputs and those of the step stands the bias
        row = at.output_lags * at.outputs + k * at.inputs + i - at.first_input
        scale_regressor(theta, prior, S, row + (1 if k >= past else 0), change)
    learning.inputs[i].scale *= change


@compiled
def scale_regressor(theta: Floats, prior: Floats, S: Floats, k: int, change: float) -> None:
    """What belongs to regressor `k`, whose unit has grown by a factor."""
    for y in range(theta.shape[1]):
        theta[k, y] *= change
        prior[k, y] *= change
    for j in range(S.shape[1]):
        S[k, j] *= change


@compiled
def start_factor(S: Floats, weight: Floats, n: int) -> None:
    """Covariance of the parameters before anything is learned: that of their prior."""
    for i in range(n):
        for j in range(n):
            S[i, j] = 0.0
        S[i, i] = 1.0 / math.sqrt(weight[i])
