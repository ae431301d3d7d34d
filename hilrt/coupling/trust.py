"""Whether identified interface Jacobians may be used, output by output.

A linear loop without outside excitation is not identifiable: a model may foretell the next
sample to nine digits and have a Γ of the wrong sign (METHODS section 5). So Γ of an output is
used only where all of this holds, and given up as soon as it clearly does not:

* *excited*: along the input errors that it would correct, Γ rests on data and not on the prior;
* *sure*: the standard deviation of the correction is small against the correction;
* *proven*: where inputs moved in a way that the rest of the model did not foretell, the answer
  of the output was nearer to Γ times that motion than to nothing, which is what plain
  extrapolation takes it for;
* *quiet*: the correction takes out more than the noise of the other outputs puts in.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hilrt.compiled import compiled
from hilrt.coupling.regression import Model, Step
from hilrt.solver import Floats


class Reason(enum.IntEnum):
    """Why an output is not corrected; `USED` where it is."""

    USED = 0
    LEARNING = 1
    UNEXCITED = 2
    UNSURE = 3
    UNPROVEN = 4
    NOISY = 5

    @property
    def text(self) -> str:
        """For the log."""
        return _TEXTS[self]


_TEXTS = {
    Reason.USED: "identified Jacobian in use",
    Reason.LEARNING: "identification has too few samples",
    Reason.UNEXCITED: "inputs move too little on their own to tell what they do",
    Reason.UNSURE: "identified Jacobian is too uncertain",
    Reason.UNPROVEN: "identified Jacobian does not foretell the answer to the inputs",
    Reason.NOISY: "noise of the coupling variables outweighs the correction",
}


#: Steps whose prediction errors show a jump of the parameters.
_NEWEST = 4


@dataclass(frozen=True)
class Limits:
    """When Γ is trusted. A row in use is given up beyond `slack` times a limit.

    Attributes
    ----------
    prior : float
        Share of the input errors' energy along which the prior decides on Γ.
    variance : float
        Variance of the correction over its mean square.
    unexplained : float
        Mean square error with Γ over that without it.
    noise : float
        Noise put in over the mean square of the correction.
    slack : float
    window : int
        Steps that all means are taken over.
    hold : int
        Steps in a row that must pass before Γ is used.
    """

    prior: float = 0.02
    variance: float = 0.05
    unexplained: float = 0.4
    noise: float = 0.4
    slack: float = 2.0
    window: int = 50
    hold: int = 25


@dataclass
class Trust:
    """What the last steps of one subsystem said; rings of `window` rows, in the ports' units.

    Attributes
    ----------
    error : ndarray, shape (window, ny)
        Prediction errors.
    without : ndarray, shape (window, ny)
        The same if the answer to unforetold input motion is left out.
    mismatch : ndarray, shape (window, gammas)
        Input errors: true input less input as sent.
    doubt : ndarray, shape (ny,)
        Variance of the correction, summed over the window.
    reason : ndarray of int, shape (ny,)
        `Reason` per output.
    passed : ndarray of int, shape (ny,)
        Steps in a row without objection.
    given : bool
        Γ was given: it is used from the start, as long as the data do not speak against it.
    samples : int
        Samples judged since the start or the last jump.
    """

    error: Floats
    without: Floats
    mismatch: Floats
    doubt: Floats
    reason: NDArray[np.int64]
    passed: NDArray[np.int64]
    given: bool = False
    samples: int = 0

    def copy(self) -> Trust:
        """Independent copy, for a snapshot."""
        names = ("error", "without", "mismatch", "doubt", "reason", "passed")
        return replace(self, **{name: getattr(self, name).copy() for name in names})

    @property
    def used(self) -> NDArray[np.bool_]:
        """Outputs whose Γ may be used, shape (ny,)."""
        mask: NDArray[np.bool_] = self.reason == Reason.USED
        return mask


def start(limits: Limits, ny: int, gammas: int, *, given: bool = False) -> Trust:
    """Nothing is known yet of a subsystem with `ny` outputs and `gammas` regressors of Γ.

    With `given`, Γ came from the session file or a probe and counts as trusted.
    """
    return Trust(
        error=np.zeros((limits.window, ny)),
        without=np.zeros((limits.window, ny)),
        mismatch=np.zeros((limits.window, gammas)),
        doubt=np.zeros(ny),
        reason=np.full(ny, int(Reason.USED if given else Reason.LEARNING)),
        passed=np.zeros(ny, dtype=np.int64),
        given=given,
    )


def residual(trust: Trust) -> Floats:
    """Root mean square of the prediction errors, in the outputs' units, shape (ny,)."""
    rms = np.zeros(trust.error.shape[1])
    _rms(trust.error, rms)
    return rms


@compiled
def _rms(errors: Floats, rms: Floats) -> None:
    window, ny = errors.shape
    for w in range(window):
        for y in range(ny):
            rms[y] += errors[w, y] * errors[w, y]
    for y in range(ny):
        rms[y] = np.sqrt(rms[y] / window)


def judge(
    trust: Trust, limits: Limits, model: Model, step: Step, mismatch: Floats, noise: Floats
) -> bool:
    """Take in one learned sample and decide anew.

    Parameters
    ----------
    trust : Trust
        Changed in place.
    limits : Limits
    model : Model
        After the update.
    step : Step
        What `regression.observe` returned.
    mismatch : ndarray, shape (order + 1, nu)
        Coefficients of (true input − input as sent) over the step, in the inputs' units.
    noise : ndarray, shape (nu,)
        Standard deviation of the noise of the newest true inputs, in the inputs' units.

    Returns
    -------
    bool
        Whether the parameters have jumped: call `regression.forget`.
    """
    window = len(trust.error)
    row = trust.samples % window
    trust.samples += 1
    learning = trust.samples < (2 * window if trust.given else window)
    objection = np.empty(len(trust.reason), dtype=np.int64)
    _weigh(
        row,
        trust.error,
        trust.without,
        trust.mismatch,
        step.error,
        step.innovation,
        step.covariance,
        model.theta[-model.gammas :],
        model.scale_y,
        model.scale_u,
        np.ascontiguousarray(mismatch).ravel(),
        noise,
        0.0 if trust.given else float(model.weight[-1]),
        1.0 if trust.given else limits.unexplained,
        # Against a given Γ only errors count that are more than the pull of the prior.
        1e-6 if trust.given else 0.0,
        trust.reason,
        limits.slack,
        limits.noise,
        limits.variance,
        limits.prior,
        trust.doubt,
        objection,
    )
    if learning:  # the first errors say only that the rest of the model was not there yet
        objection[:] = int(Reason.USED if trust.given else Reason.LEARNING)
    _settle(objection, limits.hold, trust.passed, trust.reason)
    return not learning and _jumped(trust, row, model.scale_y)


_USED, _UNEXCITED, _UNSURE, _UNPROVEN, _NOISY = (
    int(reason)
    for reason in (Reason.USED, Reason.UNEXCITED, Reason.UNSURE, Reason.UNPROVEN, Reason.NOISY)
)


@compiled
def _products(mismatches: Floats, scale_u: Floats) -> Floats:
    """Products of the scaled input errors, summed over the window, shape (gammas, gammas)."""
    (window, gammas), nu = mismatches.shape, len(scale_u)
    products, scaled, scale = np.zeros((gammas, gammas)), np.empty(gammas), np.empty(gammas)
    for i in range(gammas):
        scale[i] = scale_u[i % nu]
    for w in range(window):
        for i in range(gammas):
            scaled[i] = mismatches[w, i] / scale[i]
            for j in range(i + 1):
                products[i, j] += scaled[i] * scaled[j]
    for i in range(gammas):
        for j in range(i):
            products[j, i] = products[i, j]
    return products


@compiled
def _weigh(
    row: int,
    errors: Floats,
    withouts: Floats,
    mismatches: Floats,
    error: Floats,
    innovation: Floats,
    covariance: Floats,
    gamma: Floats,
    scale_y: Floats,
    scale_u: Floats,
    mismatch: Floats,
    noise: Floats,
    prior_weight: float,
    unexplained: float,
    pull: float,
    reason: NDArray[np.int64],
    slack: float,
    noise_limit: float,
    variance_limit: float,
    prior_limit: float,
    doubt: Floats,
    objection: NDArray[np.int64],
) -> None:
    """Enter the newest sample into row `row` of the rings, and name what speaks against each Γ."""
    window, gammas, nu = len(errors), len(innovation), len(scale_u)
    mismatches[row] = mismatch
    products = _products(mismatches, scale_u)
    spread, trace = 0.0, 0.0
    for i in range(gammas):
        trace += products[i, i]
        for j in range(gammas):
            spread += covariance[i, j] * products[i, j]
    for y in range(len(error)):
        unforetold = error[y]
        for i in range(gammas):
            unforetold += innovation[i] * gamma[i, y]
        errors[row, y], withouts[row, y] = error[y] * scale_y[y], unforetold * scale_y[y]
        # From here on, mean squares are sums over the window.
        correction = 0.0
        for i in range(gammas):
            for j in range(gammas):
                correction += gamma[i, y] * products[i, j] * gamma[j, y]
        correction *= scale_y[y] ** 2
        put_in = 0.0
        for i in range(nu):
            put_in += (noise[i] / scale_u[i] * gamma[gammas - nu + i, y]) ** 2
        put_in *= window * scale_y[y] ** 2
        square, without = 0.0, 0.0
        for w in range(window):
            square += errors[w, y] ** 2
            without += withouts[w, y] ** 2
        doubt[y] = square / window * spread
        floor = window * (pull * scale_y[y]) ** 2
        loosened = slack if reason[y] == _USED else 1.0
        # The first that objects names the reason.
        if prior_weight * spread > prior_limit * loosened * trace:
            objection[y] = _UNEXCITED
        elif doubt[y] > variance_limit * loosened * correction:
            objection[y] = _UNSURE
        elif square > unexplained * loosened * without + floor:
            objection[y] = _UNPROVEN
        elif put_in > noise_limit * loosened * correction:
            objection[y] = _NOISY
        else:
            objection[y] = _USED


@compiled
def _settle(
    objection: NDArray[np.int64], hold: int, passed: NDArray[np.int64], reason: NDArray[np.int64]
) -> None:
    """An objection acts at once; that there is none any more, after `hold` steps."""
    for y in range(len(objection)):
        passed[y] = passed[y] + 1 if objection[y] == _USED else 0
        waits = objection[y] == _USED and reason[y] != _USED and passed[y] < hold
        if not waits:
            reason[y] = objection[y]


def _jumped(trust: Trust, row: int, scale_y: Floats) -> bool:
    """The newest prediction errors are ten times the others of a full window; it starts anew."""
    if not _leapt(trust.error, row, scale_y):
        return False
    trust.samples, trust.given = 0, False
    trust.reason[:] = int(Reason.LEARNING)
    trust.passed[:] = 0
    return True


@compiled
def _leapt(errors: Floats, row: int, scale_y: Floats) -> bool:
    window = len(errors)
    for y in range(len(scale_y)):
        recent, earlier = 0.0, 0.0
        for back in range(window):
            square = errors[(row - back) % window, y] ** 2
            if back < _NEWEST:
                recent += square / _NEWEST
            else:
                earlier += square / (window - _NEWEST)
        if recent > 100.0 * max(earlier, (1e-7 * scale_y[y]) ** 2):
            return True
    return False
