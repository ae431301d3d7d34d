"""Memory of a regression: past samples of a subsystem's signals, and running statistics.

Regressors have this order: past outputs (newest first, each lag's outputs together), past inputs
(by lag, coefficient, input), 1, and the coefficients of the step's inputs.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled
from hilrt.solver import Floats
from hilrt.tables.given import GivenInput
from hilrt.tables.model import CorrectedInput, LearnedInput, LearnedOutput, Learning, Regression
from hilrt.tables.plan import InputPlan
from hilrt.tables.record import Table
from hilrt.tables.state import OutputState


@compiled
def needed_past(at: Regression) -> int:
    """Number of consecutive past samples that a regression needs."""
    return max(at.output_lags, at.input_lags + 1)


@compiled
def fill_regressors(at: Regression, learning: Learning, phi: Floats) -> float:
    """Fill `phi` with the step's scaled regressors under the inputs `acted`; return the largest."""
    inputs, outputs, k = learning.inputs, learning.outputs, 0
    past_inputs, past_outputs = learning.past_inputs, learning.past_outputs
    for lag in range(at.output_lags):
        for i in range(at.first_output, at.first_output + at.outputs):
            out = outputs[i]
            phi[k] = (past_outputs[lag, i] - out.centre) / out.scale
            k += 1
    for lag in range(at.input_lags):
        for m in range(at.terms):
            for i in range(at.first_input, at.first_input + at.inputs):
                u = inputs[i]
                phi[k] = (past_inputs[lag, m, i] - (u.centre if m == 0 else 0.0)) / u.scale
                k += 1
    phi[k] = 1.0
    k += 1
    for m in range(at.terms):
        for i in range(at.first_input, at.first_input + at.inputs):
            u = inputs[i]
            phi[k] = (u.acted[m] - (u.centre if m == 0 else 0.0)) / u.scale
            k += 1
    largest = 0.0
    for k in range(at.regressors):
        largest = max(largest, abs(phi[k]))
    return largest


@compiled
def shift_past(at: Regression, learning: Learning) -> None:
    """Shift the newest outputs and the inputs that acted into the past."""
    inputs, outputs = learning.inputs, learning.outputs
    past_inputs, past_outputs = learning.past_inputs, learning.past_outputs
    for i in range(at.first_output, at.first_output + at.outputs):
        for lag in range(at.output_lags - 1, 0, -1):
            past_outputs[lag, i] = past_outputs[lag - 1, i]
        past_outputs[0, i] = outputs[i].y
    if at.input_lags == 0:
        return
    for i in range(at.first_input, at.first_input + at.inputs):
        for m in range(at.terms):
            for lag in range(at.input_lags - 1, 0, -1):
                past_inputs[lag, m, i] = past_inputs[lag - 1, m, i]
            past_inputs[0, m, i] = inputs[i].acted[m]


@compiled
def follow_signals(
    at: Regression, outputs: Table[LearnedOutput], inputs: Table[LearnedInput], share: float
) -> None:
    """Update the running mean and mean square of each signal about its centre."""
    for i in range(at.first_output, at.first_output + at.outputs):
        follow(outputs[i], outputs[i].y, share)
    for i in range(at.first_input, at.first_input + at.inputs):
        follow(inputs[i], inputs[i].acted[0], share)


@compiled
def follow(signal: LearnedOutput | LearnedInput, value: float, share: float) -> None:
    """Add a value to the statistics of a signal."""
    d = value - signal.centre
    signal.average += share * (d - signal.average)
    signal.mean_square += share * (d * d - signal.mean_square)


@compiled
def follow_extrapolation(
    at: Regression, outputs: Table[LearnedOutput], past: Floats, window: int
) -> None:
    """Update the mean square error of plain extrapolation, with which predictions are compared.

    The newest of the `past` outputs, shape (lags, ny), is held, or the newest two are extrapolated.
    """
    along_line, share = at.terms > 1 and at.output_lags > 1, 1.0 / window
    for i in range(at.first_output, at.first_output + at.outputs):
        out = outputs[i]
        error = out.y - past[0, i]
        if along_line:
            error -= past[0, i] - past[1, i]
        out.extrapolation_error += share * (error * error - out.extrapolation_error)


@compiled
def take_inputs(u: LearnedInput, sent: CorrectedInput, terms: int, realised: float) -> None:
    """Record an input of the step that ended as it acted: as sent, or as realised by a bench.

    A realised input is interpolated linearly between its measurements at the step's two ends,
    because a mass does not jump with its demand; with order 0 it is their mean.
    """
    before = u.realised
    u.realised = realised
    measured = math.isfinite(before) and math.isfinite(realised)
    for m in range(terms):
        u.error[m] = sent.error[m]
        u.acted[m] = 0.0 if measured else sent.sent[m]
    if measured and terms > 1:
        u.acted[0] = before
        u.acted[1] = realised - before
    elif measured:
        u.acted[0] = 0.5 * (before + realised)


@compiled
def realised_input(at: InputPlan, outputs: Table[OutputState], given: GivenInput) -> float:
    """Realised value of the bench's input `at`, in the input's unit.

    NaN if it is unknown, also while the sample that measures it is withheld.
    """
    if at.realised_by >= 0 and outputs[at.realised_by].withheld != 0:
        return math.nan
    value: float = given.realised
    return value
