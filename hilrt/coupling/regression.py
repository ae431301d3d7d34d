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

import math
from dataclasses import dataclass, fields, replace

import numpy as np

from hilrt.compiled import compiled
from hilrt.coupling import square_root
from hilrt.coupling.past import fill_regressors, shift_past, take_in
from hilrt.solver import Floats

#: Steps between looks at the scales.
_SCALES_EVERY = 8


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
    settings, sent = model.settings, np.ascontiguousarray(sent)
    if not (measured and _finite(y, sent)):
        model.known = 0
        return None
    step = None
    lags = max(settings.lags_y, settings.lags_u + 1)
    if learn and model.seen >= settings.warm_up and model.known >= lags:
        phi, largest = regressors(model, sent)
        if largest < 1e4:
            target = (y - model.centre_y) / model.scale_y
            step = Step.empty(len(y), model.gammas)
            square_root.learn(
                model.S,
                model.theta,
                phi,
                target,
                model.keep,
                step.error,
                step.innovation,
                step.covariance,
            )
            _recall_prior(model)
    model.known += 1
    model.seen += 1
    take_in(
        model.past_y,
        model.past_u,
        y,
        sent,
        max(1.0 / model.seen, 0.25 * (1.0 - model.keep)),
        model.centre_y,
        model.mean_y,
        model.square_y,
        model.centre_u,
        model.mean_u,
        model.square_u,
    )
    _fit_scales(model)
    return step


@compiled
def _finite(y: Floats, sent: Floats) -> bool:
    return bool(np.isfinite(y).all() and np.isfinite(sent).all())


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


def _recall_prior(model: Model) -> None:
    """Show one parameter its prior; each gets its turn, so that it weighs `weight` in the mean."""
    i, n = model.turn, len(model.S)
    model.turn = (i + 1) % n
    weight = float(model.weight[i]) * (1.0 - model.keep**n)
    square_root.show(model.S, model.theta, model.prior, i, weight)


def _fit_scales(model: Model) -> None:
    """Change a scale that is off by more than four from its signal's spread."""
    warm_up = model.settings.warm_up
    if model.seen < warm_up or (model.seen > warm_up and model.seen % _SCALES_EVERY):
        return
    if model.seen == warm_up:
        for centre, mean, square in (
            (model.centre_y, model.mean_y, model.square_y),
            (model.centre_u, model.mean_u, model.square_u),
        ):
            centre += mean
            square -= mean * mean
            mean[:] = 0.0
    ratio_y, ratio_u = np.ones_like(model.scale_y), np.ones_like(model.scale_u)
    _change(model.square_y, model.scale_y, model.centre_y, ratio_y)
    _change(model.square_u, model.scale_u, model.centre_u, ratio_u)
    if (ratio_y != 1.0).any() or (ratio_u != 1.0).any():
        _rescale(model, ratio_y, ratio_u)
    if model.seen == warm_up:  # nothing learned yet: the prior counts the same in every unit
        model.S = np.diag(1.0 / np.sqrt(model.weight))


@compiled
def _change(square: Floats, scale: Floats, centre: Floats, factor: Floats) -> None:
    """Factor (a power of two) by which each scale should change; as it is where that fits."""
    for i in range(len(scale)):
        spread = math.sqrt(max(square[i], (1e-9 * centre[i]) ** 2))
        if spread > 1e-30:
            ratio = spread / scale[i]
            if not 0.25 < ratio < 4.0:
                factor[i] = 2.0 ** np.round(np.log2(ratio))


def _rescale(model: Model, ratio_y: Floats, ratio_u: Floats) -> None:
    """Change scales; what is known of the parameters stays as it is."""
    s = model.settings
    past_u, now = np.tile(ratio_u, s.lags_u * s.past_coefficients), np.tile(ratio_u, s.order + 1)
    ratio = np.concatenate([np.tile(ratio_y, s.lags_y), past_u, [1.0], now])
    for parameters in (model.theta, model.prior):
        parameters *= ratio[:, None]
        parameters /= ratio_y
    model.S *= ratio[:, None]
    model.scale_y *= ratio_y
    model.scale_u *= ratio_u
