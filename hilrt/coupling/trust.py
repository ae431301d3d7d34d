"""Assessment of identified interface Jacobians: outputs for which they are used.

A linear loop without external excitation is not identifiable: a model may predict the next sample
to nine digits and have a Jacobian of the wrong sign (docs/methods.md, "Model-based correction").
The Jacobian of an output is therefore used only while all of these conditions hold:

* *excited*: along the input errors to be corrected, it is determined by data and not by the prior;
* *sure*: the standard deviation of the correction is small relative to the correction;
* *proven*: if inputs moved in a way that the rest of the model did not predict, the output's
  response was closer to the Jacobian times that motion than to zero, the assumption of plain
  extrapolation;
* *quiet*: the correction removes more than the noise of the other outputs adds.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from hilrt.compilation.compiled import compiled, stage
from hilrt.solver import Floats
from hilrt.tables.model import (
    LearnedInput,
    LearnedOutput,
    LearnedRegression,
    Learning,
    ModelSettings,
    Regression,
    Workspace,
)
from hilrt.tables.ports import Bools
from hilrt.tables.record import Table


class Reason(enum.IntEnum):
    """Reasons not to correct an output; `USED` if it is corrected."""

    USED = 0
    LEARNING = 1
    UNEXCITED = 2
    UNSURE = 3
    UNPROVEN = 4
    NOISY = 5

    @property
    def text(self) -> str:
        """Text for the log."""
        return _TEXTS[self]


_TEXTS = {
    Reason.USED: "identified Jacobian in use",
    Reason.LEARNING: "identification has too few samples",
    Reason.UNEXCITED: "inputs move too little independently to identify their effect",
    Reason.UNSURE: "identified Jacobian is too uncertain",
    Reason.UNPROVEN: "identified Jacobian does not predict the response to the inputs",
    Reason.NOISY: "noise of the coupling variables outweighs the correction",
}

# Compiled code does not support enumerations.
USED, LEARNING, UNEXCITED, UNSURE, UNPROVEN, NOISY = (int(reason) for reason in Reason)

#: Number of newest prediction errors that are tested for a jump of the parameters.
_NEWEST = 4


@dataclass(frozen=True)
class Limits:
    """Limits within which a Jacobian is trusted; fields of `tables.model.SETTINGS`.

    Attributes
    ----------
    prior_limit, variance_limit, unexplained_limit, noise_limit : float
    loosened : float
        A Jacobian in use is abandoned when it exceeds a limit by this factor.
    window : int
        Number of samples over which all means are computed.
    hold : int
        Number of consecutive samples that must pass before a Jacobian is used.
    """

    prior_limit: float = 0.02
    variance_limit: float = 0.05
    unexplained_limit: float = 0.4
    noise_limit: float = 0.4
    loosened: float = 2.0
    window: int = 50
    hold: int = 25


# Below, `at` is the record of regression `r` among the constants; `settings` apply to all.


@stage
def judge(
    settings: ModelSettings, at: Regression, learning: Learning, work: Workspace, r: int
) -> bool:
    """Process one learned sample, and decide for which outputs the Jacobian is used.

    The input errors are the inputs' `error`, their noise is `noise`.

    Returns
    -------
    bool
        Whether the parameters have jumped; if so, call `regression.forget`.
    """
    memory, inputs, outputs = learning.regressions[r], learning.inputs, learning.outputs
    mismatch, row = learning.mismatch, memory.judged % settings.window
    memory.judged += 1
    waits = 2 * settings.window if memory.given else settings.window
    for m in range(at.terms):
        for u in range(at.first_input, at.first_input + at.inputs):
            mismatch[row, m, u] = inputs[u].error[m]
    sum_motion(at, memory, inputs, mismatch, work)
    for i in range(at.first_output, at.first_output + at.outputs):
        record_errors(at, learning, work.innovation, r, i, row)
        objection = first_objection(settings, at, learning, work.products, r, i)
        if memory.judged < waits:  # the first errors are due to parameters not yet learned
            objection = USED if memory.given else LEARNING
        settle(outputs[i], objection, settings.hold)
    if memory.judged < waits or not has_jumped(at, outputs, learning.errors, row):
        return False
    memory.judged = memory.given = 0
    for i in range(at.first_output, at.first_output + at.outputs):
        outputs[i].reason = LEARNING
        outputs[i].passed = 0
    return True


@compiled
def sum_motion(
    at: Regression,
    memory: LearnedRegression,
    inputs: Table[LearnedInput],
    mismatch: Floats,
    work: Workspace,
) -> None:
    """Products of the scaled input errors, and their products with the covariance."""
    products, covariance, scaled, g = work.products, work.covariance, work.scaled, at.coefficients
    for i in range(g):
        for j in range(g):
            products[i, j] = 0.0
    for w in range(len(mismatch)):
        for i in range(g):
            u = at.first_input + i % at.inputs
            scaled[i] = mismatch[w, i // at.inputs, u] / inputs[u].scale
            for j in range(i + 1):
                products[i, j] += scaled[i] * scaled[j]
    for i in range(g):
        for j in range(i):
            products[j, i] = products[i, j]
    memory.motion = memory.spread = 0.0
    for i in range(g):
        memory.motion += products[i, i]
        for j in range(g):
            memory.spread += covariance[i, j] * products[i, j]


@compiled
def record_errors(
    at: Regression, learning: Learning, innovation: Floats, r: int, i: int, row: int
) -> None:
    """Prediction error of output `i`, with and without the response to the innovation."""
    out, theta, y = learning.outputs[i], learning.parameters[r], i - at.first_output
    without = out.error
    for k in range(at.coefficients):
        without += innovation[k] * theta[at.regressors - at.coefficients + k, y]
    learning.errors[row, i] = out.error * out.scale
    learning.errors_without[row, i] = without * out.scale


@compiled
def first_objection(
    settings: ModelSettings, at: Regression, learning: Learning, products: Floats, r: int, i: int
) -> int:
    """First reason not to use the Jacobian of output `i`."""
    out, memory = learning.outputs[i], learning.regressions[r]
    errors, errors_without = learning.errors, learning.errors_without
    # Below, mean squares are sums over the window.
    square = without = 0.0
    for w in range(settings.window):
        square += errors[w, i] * errors[w, i]
        without += errors_without[w, i] * errors_without[w, i]
    theta, y, unit = learning.parameters[r], i - at.first_output, out.scale * out.scale
    correction = unit * square_of_correction(at, theta, products, y)
    added_noise = settings.window * (unit * square_of_noise(at, theta, learning.inputs, y))
    out.variance = square / settings.window * memory.spread
    # A given Jacobian is only rejected for errors larger than those due to the prior.
    weight = 0.0 if memory.given else at.weight
    pull = 1e-6 * out.scale if memory.given else 0.0
    explained = 1.0 if memory.given else settings.unexplained_limit
    loosened = settings.loosened if out.reason == USED else 1.0
    if weight * memory.spread > settings.prior_limit * loosened * memory.motion:
        return UNEXCITED
    if out.variance > settings.variance_limit * loosened * correction:
        return UNSURE
    if square > explained * loosened * without + settings.window * (pull * pull):
        return UNPROVEN
    if added_noise > settings.noise_limit * loosened * correction:
        return NOISY
    return USED


@compiled
def square_of_correction(at: Regression, theta: Floats, products: Floats, y: int) -> float:
    """Square of the scaled correction of the subsystem's output `y`, summed over the window."""
    first, correction = at.regressors - at.coefficients, 0.0
    for j in range(at.coefficients):
        for k in range(at.coefficients):
            correction += theta[first + j, y] * products[j, k] * theta[first + k, y]
    return correction


@compiled
def square_of_noise(at: Regression, theta: Floats, inputs: Table[LearnedInput], y: int) -> float:
    """Square of the scaled noise that the correction of a step adds to the output `y`."""
    first, added_noise = at.regressors - at.inputs, 0.0
    for j in range(at.inputs):
        u = inputs[at.first_input + j]
        part = u.noise / u.scale * theta[first + j, y]
        added_noise += part * part
    return added_noise


@compiled
def settle(out: LearnedOutput, objection: int, hold: int) -> None:
    """Apply an objection at once; clear it after `hold` samples without one."""
    out.passed = out.passed + 1 if objection == USED else 0
    if objection != USED or out.reason == USED or out.passed >= hold:
        out.reason = objection


@compiled
def root_mean_square(errors: Floats, i: int) -> float:
    """Root mean square of the prediction errors (window, ny) of output `i`, in its unit."""
    square = 0.0
    for w in range(len(errors)):
        square += errors[w, i] * errors[w, i]
    return math.sqrt(square / len(errors))


@compiled
def has_jumped(at: Regression, outputs: Table[LearnedOutput], errors: Floats, row: int) -> bool:
    """Whether the newest prediction errors are ten times the others of a full window.

    `row` is that of the newest ones in the ring.
    """
    window = len(errors)
    for i in range(at.first_output, at.first_output + at.outputs):
        recent = earlier = 0.0
        for back in range(window):
            error = errors[(row - back) % window, i]
            if back < _NEWEST:
                recent += error * error / _NEWEST
            else:
                earlier += error * error / (window - _NEWEST)
        least = 1e-7 * outputs[i].scale
        if recent > 100.0 * max(earlier, least * least):
            return True
    return False


# Independent verification of a bond's correction.
#
# A given D, a solver's Jacobian and a μ are claims about a subsystem. If the subsystem can be
# probed, the effort's response to the inputs is known independently, and so is the required
# correction at every tick.

#: Permitted difference of an entry of a Jacobian from the independent one, relative to the latter;
#: and relative to the largest change of its output by any input, because trials are inexact.
TOLERANCE: Final = 0.2
SMALL: Final = 0.01


class Verification(NamedTuple):
    """Verification of all bonds, before the first tick.

    Attributes
    ----------
    states : list of int
        By bond: `UNVERIFIED`, `VERIFIED` or `WRONG` of `hilrt.tables.plan`.
    sensitivities : list of (int, int, float)
        Element, input, and the direct response of the element's effort to the input, where it was
        found independently.
    """

    states: list[int]
    sensitivities: list[tuple[int, int, float]]


def contradicts(used: Floats, found: Floats, scales: Floats | None = None) -> Bools:
    """Entries in which a Jacobian in use differs from one determined independently.

    Parameters
    ----------
    used, found : ndarray, shape (..., ny, nu)
    scales : ndarray, shape (nu,) or (n, nu), optional
        Magnitudes of the inputs, in their units: entries are compared by the change of the output
        that they cause. With several possible magnitudes, one contradiction is enough. Default: 1.

    Returns
    -------
    ndarray of bool, of that shape
    """
    wrong = np.zeros(found.shape, np.bool_)
    for weights in np.atleast_2d(1.0 if scales is None else scales):
        largest = np.abs(found * weights).max(axis=-1, keepdims=True, initial=0.0)
        beyond = np.abs(used - found) - TOLERANCE * np.abs(found)
        wrong |= beyond * weights > SMALL * largest
    return wrong
