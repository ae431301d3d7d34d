"""What a regression remembers of a subsystem's signals: last samples, and running statistics."""

from __future__ import annotations

import numpy as np

from hilrt.compiled import compiled
from hilrt.solver import Floats


@compiled
def lay_realised(before: Floats, after: Floats, acted: Floats) -> None:
    """Inputs of a step, (m, nu), as a line between what was realised before and after it, (nu,).

    With m = 1 its mean; as they are where one of the two is not a finite number.
    """
    for i in range(len(before)):
        if not (np.isfinite(before[i]) and np.isfinite(after[i])):
            continue
        acted[:, i] = 0.0
        if len(acted) > 1:
            acted[0, i], acted[1, i] = before[i], after[i] - before[i]
        else:
            acted[0, i] = 0.5 * (before[i] + after[i])


@compiled
def fill_regressors(
    past_y: Floats,
    past_u: Floats,
    sent: Floats,
    centre_y: Floats,
    scale_y: Floats,
    centre_u: Floats,
    scale_u: Floats,
    phi: Floats,
) -> float:
    """Scaled regressors: past outputs, past inputs, 1, and the inputs of the step.

    Parameters
    ----------
    past_y, past_u : ndarray, shape (lags_y, ny), (lags_u, coefficients, nu)
        Newest first.
    sent : ndarray, shape (m, nu)
        Inputs over the step, normalised power basis; coefficients beyond m count as zero.
    centre_y, scale_y, centre_u, scale_u : ndarray, shape (ny,), (ny,), (nu,), (nu,)
    phi : ndarray, shape (n,)
        Overwritten.

    Returns
    -------
    float
        The largest magnitude in `phi`.
    """
    k = 0
    for lag in range(len(past_y)):
        for i in range(len(scale_y)):
            phi[k] = (past_y[lag, i] - centre_y[i]) / scale_y[i]
            k += 1
    for lag in range(len(past_u)):
        for m in range(past_u.shape[1]):
            for i in range(len(scale_u)):
                centre = centre_u[i] if m == 0 else 0.0
                phi[k] = (past_u[lag, m, i] - centre) / scale_u[i]
                k += 1
    phi[k] = 1.0
    k += 1
    m = 0
    while k < len(phi):
        for i in range(len(scale_u)):
            value = sent[m, i] if m < len(sent) else 0.0
            phi[k] = (value - (centre_u[i] if m == 0 else 0.0)) / scale_u[i]
            k += 1
        m += 1
    largest = 0.0
    for k in range(len(phi)):
        largest = max(largest, abs(phi[k]))
    return largest


@compiled
def shift_past(past_y: Floats, past_u: Floats, y: Floats, sent: Floats) -> None:
    """Make outputs `y` (ny,) and inputs `sent` (m, nu) the newest of the past, in place."""
    for lag in range(len(past_y) - 1, 0, -1):
        past_y[lag] = past_y[lag - 1]
    past_y[0] = y
    for lag in range(len(past_u) - 1, 0, -1):
        past_u[lag] = past_u[lag - 1]
    if len(past_u):
        past_u[0] = 0.0
        for m in range(min(past_u.shape[1], len(sent))):
            past_u[0, m] = sent[m]


@compiled
def follow(x: Floats, centre: Floats, share: float, mean: Floats, square: Floats) -> None:
    """Running mean and mean square of a signal about its centre."""
    for i in range(len(x)):
        d = x[i] - centre[i]
        mean[i] += share * (d - mean[i])
        square[i] += share * (d * d - square[i])


@compiled
def follow_error(y: Floats, past: Floats, follows_line: bool, share: float, square: Floats) -> None:
    """Running mean `square` (ny,) of what the outputs `y` differ by from their extrapolation.

    From the newest of the `past` (lags_y, ny), or along the line through the newest two.
    """
    for i in range(len(y)):
        error = y[i] - past[0, i]
        if follows_line:
            error -= past[0, i] - past[1, i]
        square[i] += share * (error * error - square[i])
