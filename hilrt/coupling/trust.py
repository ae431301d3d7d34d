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
    rms: Floats = np.sqrt(np.einsum("wy,wy->y", trust.error, trust.error) / len(trust.error))
    return rms


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
    gamma, window = model.theta[-model.gammas :], len(trust.error)
    scale_a = np.tile(model.scale_u, len(mismatch))
    row = trust.samples % window
    trust.error[row] = step.error * model.scale_y
    trust.without[row] = (step.error + step.innovation @ gamma) * model.scale_y
    trust.mismatch[row] = mismatch.ravel()
    trust.samples += 1
    errors = trust.mismatch / scale_a
    corrections = (errors @ gamma) * model.scale_y
    error, without, correction = (
        np.einsum("wy,wy->y", ring, ring) for ring in (trust.error, trust.without, corrections)
    )
    products = errors.T @ errors
    spread = float(np.vdot(step.covariance, products))
    by_prior = 0.0 if trust.given else float(model.weight[-1]) * spread
    put_in = (
        window * (((noise / model.scale_u) ** 2) @ gamma[-len(noise) :] ** 2) * model.scale_y**2
    )
    unexplained = 1.0 if trust.given else limits.unexplained
    # Against a given Γ only errors count that are more than the pull of the prior.
    floor = window * (1e-6 * model.scale_y) ** 2 if trust.given else 0.0
    trust.doubt = error / window * spread
    loosened = np.where(trust.used, limits.slack, 1.0)
    # the first that objects names the reason, so it is written last
    reason = np.zeros_like(trust.reason)
    reason[put_in > limits.noise * loosened * correction] = Reason.NOISY
    reason[error > unexplained * loosened * without + floor] = Reason.UNPROVEN
    reason[trust.doubt > limits.variance * loosened * correction] = Reason.UNSURE
    reason[by_prior > limits.prior * loosened * float(np.trace(products))] = Reason.UNEXCITED
    if trust.samples < (2 * window if trust.given else window):
        # the first errors say only that the rest of the model was not there yet
        reason[:] = int(Reason.USED if trust.given else Reason.LEARNING)
    trust.passed = np.where(reason == 0, trust.passed + 1, 0)
    waiting = (reason == 0) & ~trust.used & (trust.passed < limits.hold)
    trust.reason = np.where(waiting, trust.reason, reason)
    return _jumped(trust, model.scale_y)


def _jumped(trust: Trust, scale_y: Floats) -> bool:
    """The newest prediction errors are ten times the others of a full window; it starts anew."""
    window = len(trust.error)
    if trust.samples < (2 * window if trust.given else window):
        return False
    squares = trust.error**2
    newest = (trust.samples - 1 - np.arange(_NEWEST)) % window
    recent = squares[newest].mean(axis=0)
    squares[newest] = 0.0
    earlier = np.maximum(squares.sum(axis=0) / (window - _NEWEST), (1e-7 * scale_y) ** 2)
    if not (recent > 100.0 * earlier).any():
        return False
    trust.samples, trust.given = 0, False
    trust.reason[:] = int(Reason.LEARNING)
    trust.passed[:] = 0
    return True
