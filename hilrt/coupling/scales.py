"""Scales of a regression's signals: powers of two near their spreads, so that changing is exact."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hilrt.compiled import compiled
from hilrt.solver import Floats

if TYPE_CHECKING:
    from hilrt.coupling.regression import Model

#: Steps between looks.
_EVERY = 8


def fit(model: Model) -> None:
    """Change a scale that is off by more than four from its signal's spread."""
    warm_up = model.settings.warm_up
    if model.seen < warm_up or (model.seen > warm_up and model.seen % _EVERY):
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
        rescale(model, ratio_y, ratio_u)
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


def rescale(model: Model, ratio_y: Floats, ratio_u: Floats) -> None:
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
