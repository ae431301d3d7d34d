"""Recursive least squares on a factor of the covariance, P = S Sᵀ: what it is asked, and told.

METHODS section 5. Potter's update keeps P symmetric and positive
semidefinite by construction, at O(n²) a sample.
"""

from __future__ import annotations

import math

import numpy as np

from hilrt.compiled import compiled
from hilrt.solver import Floats


@compiled
def potter(S: Floats, theta: Floats, f: Floats, error: Floats, keep: float) -> None:
    """Update with an observation.

    Parameters
    ----------
    S, theta : ndarray, shape (n, n), (n, ny)
        Factor and parameters, changed in place.
    f : ndarray, shape (n,)
        Sᵀ φ with the regressors φ.
    error : ndarray, shape (ny,)
        Observation less what φ foretold.
    keep : float
        λ, what the observation leaves of the past.
    """
    n = len(f)
    square = 0.0
    for j in range(n):
        square += f[j] * f[j]
    beta = keep + square
    share, root = 1.0 / (beta + math.sqrt(keep * beta)), math.sqrt(keep)
    for i in range(n):
        gain = 0.0
        for j in range(n):
            gain += S[i, j] * f[j]
        for y in range(len(error)):
            theta[i, y] += gain * (error[y] / beta)
        for j in range(n):
            S[i, j] = (S[i, j] - gain * (f[j] * share)) / root


@compiled
def foretell(S: Floats, f: Floats, innovation: Floats, covariance: Floats) -> None:
    """The part of the last regressors that the others did not foretell, and P of theirs.

    The part of a that the rest does not foretell is, from the covariance alone, P_gg⁻¹ (P φ)_g.
    P_gg may span more decades than a double has digits, its factor does not: the rows of S that
    belong to Γ are made orthogonal one after the other (modified Gram-Schmidt), and f = Sᵀ φ (n,)
    with them.

    Parameters
    ----------
    S, f : ndarray, shape (n, n), (n,)
    innovation, covariance : ndarray, shape (gammas,), (gammas, gammas)
        Overwritten; of as many regressors as they have room for.
    """
    n, gammas = len(f), len(innovation)
    rest, q, r = f.copy(), S[n - gammas :].copy(), np.zeros((gammas, gammas))
    innovation[:], covariance[:] = 0.0, 0.0
    singular = False
    for k in range(gammas):
        square = 0.0
        for j in range(n):
            square += q[k, j] * q[k, j]
        r[k, k] = math.sqrt(square)
        singular = singular or square == 0.0
        for j in range(n):
            q[k, j] /= r[k, k]
        for m in range(k + 1, gammas):
            for j in range(n):
                r[k, m] += q[k, j] * q[m, j]
            for j in range(n):
                q[m, j] -= r[k, m] * q[k, j]
        for j in range(n):
            innovation[k] += q[k, j] * rest[j]
        for j in range(n):
            rest[j] -= innovation[k] * q[k, j]
    for i in range(gammas):
        for j in range(gammas):
            for k in range(min(i, j) + 1):
                covariance[i, j] += r[k, i] * r[k, j]
    for k in range(gammas - 1, -1, -1):
        for m in range(k + 1, gammas):
            innovation[k] -= r[k, m] * innovation[m]
        innovation[k] = 0.0 if singular else innovation[k] / r[k, k]
    if singular:
        innovation[:] = 0.0


@compiled
def learn(
    S: Floats,
    theta: Floats,
    phi: Floats,
    target: Floats,
    keep: float,
    error: Floats,
    innovation: Floats,
    covariance: Floats,
) -> None:
    """Take in a sample `target` (ny,) with the regressors `phi` (n,); the rest as for `potter`.

    Overwritten: `error`, `target` less what was foretold before the update, shape (ny,);
    `innovation` and `covariance`, as `foretell` has them before the update.
    """
    n, ny = theta.shape
    f = np.zeros(n)
    error[:] = target
    for i in range(n):
        for j in range(n):
            f[j] += phi[i] * S[i, j]
        for y in range(ny):
            error[y] -= phi[i] * theta[i, y]
    foretell(S, f, innovation, covariance)
    potter(S, theta, f, error, keep)


@compiled
def show(S: Floats, theta: Floats, prior: Floats, i: int, weight: float) -> None:
    """Take in the observation, of that weight, that parameter `i` is its prior (n, ny)."""
    root = math.sqrt(weight)
    potter(S, theta, root * S[i], root * (prior[i] - theta[i]), 1.0)
