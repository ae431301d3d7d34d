"""Recursive least squares on a factor of the covariance, P = S S^T.

Potter's update keeps P symmetric and positive semidefinite by construction, at O(n^2) a sample
(Bierman 1977, chapter V).
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled
from hilrt.solver import Floats
from hilrt.tables.model import Workspace


@compiled
def project(S: Floats, theta: Floats, work: Workspace, n: int, outputs: int) -> None:
    """``projected = S^T phi``, and `error`, so far the observation, less what phi predicts.

    `S`, `theta` are at least of shape (n, n) and (n, outputs).
    """
    f, phi, error = work.projected, work.phi, work.error
    for j in range(n):
        f[j] = 0.0
    for i in range(n):
        for j in range(n):
            f[j] += phi[i] * S[i, j]
        for y in range(outputs):
            error[y] -= phi[i] * theta[i, y]


@compiled
def update(S: Floats, theta: Floats, forgetting: float, work: Workspace, n: int, ny: int) -> None:
    """Potter's update of factor and parameters with an observation.

    Parameters
    ----------
    S, theta : ndarray, at least of shape (n, n), (n, ny)
        Changed in place.
    forgetting : float
        Factor by which the observation reduces the weight of the past.
    work : Workspace
        With `projected`, S^T phi with the regressors phi, and `error`, observation less prediction.
    """
    f, error, square = work.projected, work.error, 0.0
    for j in range(n):
        square += f[j] * f[j]
    beta = forgetting + square
    share, root = 1.0 / (beta + math.sqrt(forgetting * beta)), math.sqrt(forgetting)
    for i in range(n):
        gain = 0.0
        for j in range(n):
            gain += S[i, j] * f[j]
        for y in range(ny):
            theta[i, y] += gain * (error[y] / beta)
        for j in range(n):
            S[i, j] = (S[i, j] - gain * (f[j] * share)) / root


@compiled
def weigh_evidence(S: Floats, work: Workspace, n: int, g: int) -> None:
    """What a sample says of the last `g` regressors: `innovation` and `covariance`.

    The part of these that the rest does not predict is, from the covariance alone,
    ``P_gg^-1 (P phi)_g``. P_gg may span more decades than a double has digits, its factor does not:
    the rows of S that belong to the Jacobian are made orthogonal one after the other (modified
    Gram-Schmidt), and ``projected = S^T phi`` with them.
    """
    rest, q, r, singular = work.rest, work.q, work.r, False
    f, innovation = work.projected, work.innovation
    for j in range(n):
        rest[j] = f[j]
        for k in range(g):
            q[k, j] = S[n - g + k, j]
    for k in range(g):
        square = 0.0
        for j in range(n):
            square += q[k, j] * q[k, j]
        r[k, k] = math.sqrt(square)
        singular = singular or square == 0.0
        for j in range(n):
            q[k, j] /= r[k, k]
        for m in range(k + 1, g):
            r[k, m] = 0.0
            for j in range(n):
                r[k, m] += q[k, j] * q[m, j]
            for j in range(n):
                q[m, j] -= r[k, m] * q[k, j]
        along = 0.0
        for j in range(n):
            along += q[k, j] * rest[j]
        for j in range(n):
            rest[j] -= along * q[k, j]
        innovation[k] = along
    square_triangle(r, work.covariance, g)
    solve_upwards(r, innovation, singular, g)


@compiled
def square_triangle(r: Floats, product: Floats, g: int) -> None:
    """``r^T r`` of an upper triangular matrix, shape (g, g)."""
    for i in range(g):
        for j in range(g):
            product[i, j] = 0.0
            for k in range(min(i, j) + 1):
                product[i, j] += r[k, i] * r[k, j]


@compiled
def solve_upwards(r: Floats, x: Floats, singular: bool, g: int) -> None:
    """Solution of ``r z = x`` of an upper triangular matrix into `x`; zero if it is singular."""
    for k in range(g - 1, -1, -1):
        for m in range(k + 1, g):
            x[k] -= r[k, m] * x[m]
        x[k] /= r[k, k]
    if singular:
        for k in range(g):
            x[k] = 0.0
