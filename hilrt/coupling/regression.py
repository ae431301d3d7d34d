"""Online identification of interface Jacobians by factorised recursive least squares.

METHODS section 5. Per subsystem, with the inputs it was actually sent,

    y_{n+1} ≈ Σ_i A_i y_{n−i} + Σ_m Γ_m a_m + Σ_{j≥1} B_j a_{0,n−j} + bias

What makes it last for hours at 1 kHz:

* all signals are scaled by their own spread (powers of two, so that changing one is exact);
* the covariance lives as a factor, P = S Sᵀ, which Potter's update keeps symmetric and positive
  semidefinite by construction; the update costs O(n²) and needs no loop;
* forgetting also forgets the prior, and without excitation the covariance would grow for ever.
  So one parameter after the other is shown its prior again as a weak observation, one per step:
  P stays bounded, and what the data do not determine goes back to the prior, Γ before all else.

Whether Γ may be used is judged in `trust.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from hilrt.compiled import compiled
from hilrt.coupling import scales, square_root
from hilrt.coupling.past import fill_regressors, follow, shift_past
from hilrt.solver import Floats

#: Scaled regressors as large as this are not learned from.
_LARGEST = 1e4
#: What became of a sample.
_USELESS, _NOTED, _LEARNED = range(3)


@dataclass(frozen=True)
class Settings:
    """How a subsystem is identified.

    Attributes
    ----------
    order : int
        Degree p of the input polynomials; Γ_0 … Γ_p are identified.
    lags_y, lags_u : int
        Past outputs (at least 1) and past inputs in the regression.
    lag_order : int
        Highest coefficient of the past inputs in the regression, default `order`. 0 is enough
        where inputs follow their own extrapolation, without dither or limits.
    memory : float, optional
        Steps after which a sample has lost most of its weight, ``1/(1 − λ)``. Default: three
        times the number of regressors, at least 60.
    warm_up : int
        Steps that only measure the signals' means and spreads.
    excitation : float
        Spread, relative to an input's own, below which independent motion of an input counts as
        none: there the prior decides on Γ.
    """

    order: int = 0
    lags_y: int = 2
    lags_u: int = 2
    lag_order: int | None = None
    memory: float | None = None
    warm_up: int = 20
    excitation: float = 1e-7

    @property
    def past_coefficients(self) -> int:
        """Coefficients of a past input in the regression."""
        return (self.order if self.lag_order is None else self.lag_order) + 1

    def size(self, ny: int, nu: int) -> int:
        """Number of regressors n."""
        past = self.lags_y * ny + self.lags_u * self.past_coefficients * nu
        return past + 1 + (self.order + 1) * nu


@dataclass
class Model:
    """A subsystem's regression; changed in place by `observe`. Signals are scaled inside.

    Attributes
    ----------
    settings : Settings
    S : ndarray, shape (n, n)
        Factor of the covariance (times noise variance 1). Regressors: past outputs (newest
        first), past inputs, bias, then the coefficients a_0 … a_p that Γ belongs to.
    theta, prior : ndarray, shape (n, ny)
        Parameters, and what they are drawn to.
    weight : ndarray, shape (n,)
        Information the prior counts for.
    keep : float
        λ, what a step leaves of the past.
    past_y : ndarray, shape (lags_y, ny), in the outputs' units, newest first
    past_u : ndarray, shape (lags_u, nu), in the inputs' units
    centre_y, scale_y, centre_u, scale_u : ndarray
        Offset and spread of every signal; scales are powers of two.
    mean_y, square_y, mean_u, square_u : ndarray
        Running mean and mean square about the centre.
    known : int
        Uninterrupted samples in the past.
    seen : int
        Samples taken in since the start.
    turn : int
        Parameter whose prior is shown next.
    """

    settings: Settings
    S: Floats
    theta: Floats
    prior: Floats
    weight: Floats
    keep: float
    past_y: Floats
    past_u: Floats
    centre_y: Floats
    scale_y: Floats
    centre_u: Floats
    scale_u: Floats
    mean_y: Floats
    square_y: Floats
    mean_u: Floats
    square_u: Floats
    known: int = 0
    seen: int = 0
    turn: int = 0

    def copy(self) -> Model:
        """Independent copy, for a snapshot."""
        arrays = {
            f.name: getattr(self, f.name).copy()
            for f in fields(self)
            if isinstance(getattr(self, f.name), np.ndarray)
        }
        return replace(self, **arrays)

    @property
    def gammas(self) -> int:
        """Number of regressors that Γ belongs to, (order + 1) nu; they come last."""
        return (self.settings.order + 1) * len(self.scale_u)

    def jacobian(self) -> Floats:
        """Γ_0 … Γ_p as identified, shape (order + 1, ny, nu), in the ports' units."""
        nu = len(self.scale_u)
        scaled = self.theta[-self.gammas :].reshape(-1, nu, len(self.scale_y)).transpose(0, 2, 1)
        gamma: Floats = scaled * (self.scale_y[:, None] / self.scale_u)
        return gamma


@dataclass
class Step:
    """What one sample said, in scaled units; input of the judgement.

    Attributes
    ----------
    error : ndarray, shape (ny,)
        Prediction error before the sample was learned.
    innovation : ndarray, shape (gammas,)
        The part of a_0 … a_p that the other regressors did not foretell.
    covariance : ndarray, shape (gammas, gammas)
        Of Γ for noise variance 1, before the update.
    """

    error: Floats
    innovation: Floats
    covariance: Floats

    @classmethod
    def empty(cls, ny: int, gammas: int) -> Step:
        """To be filled."""
        return cls(np.empty(ny), np.empty(gammas), np.empty((gammas, gammas)))


def start(settings: Settings, ny: int, nu: int, prior: Floats | None = None) -> Model:
    """A model that knows nothing yet.

    Parameters
    ----------
    settings : Settings
    ny, nu : int
        Numbers of outputs and inputs of the subsystem.
    prior : ndarray, shape (order + 1, ny, nu), optional
        Γ from the session file or a probe; held to where the data do not say otherwise.
        Default: zero, with which the corrector does nothing.
    """
    n = settings.size(ny, nu)
    gammas = (settings.order + 1) * nu
    target = np.zeros((n, ny))
    target[:ny] = np.eye(ny)  # persistence: the output stays
    if prior is not None:
        if prior.shape != (settings.order + 1, ny, nu):
            needed = (settings.order + 1, ny, nu)
            raise ValueError(f"the prior Γ has shape {prior.shape}; it must be {needed}")
        target[-gammas:] = prior.transpose(0, 2, 1).reshape(gammas, ny)
    # The other parameters give way a hundred times sooner than Γ: what both could explain,
    # they do. A given Γ is held to a hundred times more firmly still.
    relative = np.full(n, settings.excitation / 100.0)
    relative[-gammas:] = settings.excitation * (1.0 if prior is None else 100.0)
    memory = settings.memory or max(60.0, 3.0 * n)
    weight = memory * relative**2
    return Model(
        settings=settings,
        S=np.diag(1.0 / np.sqrt(weight)),
        theta=target.copy(),
        prior=target,
        weight=weight,
        keep=1.0 - 1.0 / memory,
        past_y=np.zeros((settings.lags_y, ny)),
        past_u=np.zeros((settings.lags_u, settings.past_coefficients, nu)),
        centre_y=np.zeros(ny),
        scale_y=np.ones(ny),
        centre_u=np.zeros(nu),
        scale_u=np.ones(nu),
        mean_y=np.zeros(ny),
        square_y=np.zeros(ny),
        mean_u=np.zeros(nu),
        square_u=np.zeros(nu),
    )


def observe(
    model: Model, y: Floats, sent: Floats, *, measured: bool = True, learn: bool = True
) -> Step | None:
    """Take in one macro step.

    Parameters
    ----------
    model : Model
        Changed in place.
    y : ndarray, shape (ny,)
        Outputs at the end of the step as measured: never predicted or corrected values.
    sent : ndarray, shape (m, nu)
        Inputs over the step as sent (a bench: as realised), normalised power basis,
        m at most ``order + 1``.
    measured : bool
        False where the outputs are not a sample of this communication point.
    learn : bool
        False to only note the sample as part of the past.

    Returns
    -------
    Step or None
        None where nothing was learned: warming up, after a gap, or not this one's turn.
    """
    if not measured:
        model.known = 0
        return None
    settings, n, step = model.settings, len(model.S), Step.empty(len(y), model.gammas)
    lags = max(settings.lags_y, settings.lags_u + 1)
    outcome = _take_sample(
        learn and model.seen >= settings.warm_up and model.known >= lags,
        y,
        np.ascontiguousarray(sent),
        model.S,
        model.theta,
        model.keep,
        model.prior,
        model.turn,
        model.weight[model.turn] * (1.0 - model.keep**n),
        max(1.0 / (model.seen + 1), 0.25 * (1.0 - model.keep)),
        model.past_y,
        model.past_u,
        model.centre_y,
        model.scale_y,
        model.mean_y,
        model.square_y,
        model.centre_u,
        model.scale_u,
        model.mean_u,
        model.square_u,
        step.error,
        step.innovation,
        step.covariance,
    )
    if outcome == _USELESS:
        model.known = 0
        return None
    model.known += 1
    model.seen += 1
    scales.fit(model)
    if outcome == _NOTED:
        return None
    model.turn = (model.turn + 1) % n
    return step


@compiled
def _take_sample(
    learns: bool,
    y: Floats,
    sent: Floats,
    S: Floats,
    theta: Floats,
    keep: float,
    prior: Floats,
    recalled: int,
    weight: float,
    share: float,
    past_y: Floats,
    past_u: Floats,
    centre_y: Floats,
    scale_y: Floats,
    mean_y: Floats,
    square_y: Floats,
    centre_u: Floats,
    scale_u: Floats,
    mean_u: Floats,
    square_u: Floats,
    error: Floats,
    innovation: Floats,
    covariance: Floats,
) -> int:
    """Learn from a sample, if it `learns`, and make it part of the past; what became of it.

    With it one parameter, `recalled`, is shown its prior, as an observation of that `weight`; each
    gets its turn, so that the prior weighs ``Model.weight`` in the mean.
    """
    if not (np.isfinite(y).all() and np.isfinite(sent).all()):
        return _USELESS
    outcome, phi = _NOTED, np.empty(len(S))
    if learns and (
        fill_regressors(past_y, past_u, sent, centre_y, scale_y, centre_u, scale_u, phi) < _LARGEST
    ):
        target = (y - centre_y) / scale_y
        square_root.learn(S, theta, phi, target, keep, error, innovation, covariance)
        square_root.show(S, theta, prior, recalled, weight)
        outcome = _LEARNED
    shift_past(past_y, past_u, y, sent)
    follow(y, centre_y, share, mean_y, square_y)
    follow(sent[0], centre_u, share, mean_u, square_u)
    return outcome


def regressors(model: Model, sent: Floats) -> tuple[Floats, float]:
    """Scaled regressors for the inputs `sent` after the past at hand, (n,), and their largest."""
    phi: Floats = np.empty(len(model.S))
    largest = fill_regressors(
        model.past_y,
        model.past_u,
        sent,
        model.centre_y,
        model.scale_y,
        model.centre_u,
        model.scale_u,
        phi,
    )
    return phi, largest


def predict(model: Model, sent: Floats) -> Floats:
    """Outputs after one more step under the inputs `sent` (m, nu), in the ports' units."""
    scaled: Floats = regressors(model, sent)[0] @ model.theta
    return scaled * model.scale_y + model.centre_y


def assume(model: Model, y: Floats, sent: Floats) -> None:
    """Go on over a missing sample with `y`, predicted; nothing is learned from it."""
    shift_past(model.past_y, model.past_u, y, np.ascontiguousarray(sent))
    model.seen += 1
    model.known = 0


def forget(model: Model, factor: float = 100.0) -> None:
    """Widen the covariance: the parameters have jumped, the past counts `factor`² times less.

    Samples whose past reaches back beyond the jump are not learned from: they follow neither the
    old parameters nor the new ones.
    """
    model.S *= factor
    model.known = 0
    for i, weight in enumerate(model.weight):
        square_root.show(model.S, model.theta, model.prior, i, float(weight))
