"""Linear subsystems with a coupling scheme, by Haid et al. (2022), sections 3.2 and 4.

One macro step of linear subsystems, solved exactly, coupled by extrapolation and corrector is a
linear map ``z_{n+1} = Φ z_n`` of ``z = (x, ȳ_n, ȳ_{n−1}, …, δu_c)``: the reference for
`hilrt.analyze.propagation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hilrt.analyze.stability import corrector_matrices, interpolation_weights
from hilrt.coupling.jacobian import LinearSubsystem, block_diagonal, expm
from hilrt.solver import Floats


@dataclass(frozen=True)
class LinearScheme:
    """Coupling of the subsystems.

    Attributes
    ----------
    order : int
        Degree of the extrapolation, 0 (hold) to 4.
    corrected : bool
        Whether the model-based corrector is used.
    alpha : float
        Share of δu_c that is applied.
    """

    order: int = 0
    corrected: bool = False
    alpha: float = 1.0


def propagation_matrix(
    subsystems: Sequence[LinearSubsystem],
    L: Floats,
    h: float,
    scheme: LinearScheme,
    gamma: Floats | None = None,
) -> Floats:
    """Φ of one macro step.

    Parameters
    ----------
    subsystems : sequence of LinearSubsystem
        Solved exactly inside the step.
    L : ndarray, shape (nu, ny)
        Coupling matrix.
    h : float
        Macro step, s.
    scheme : LinearScheme
    gamma : ndarray, shape (order + 1, ny, nu), optional
        Interface Jacobians that the corrector uses; default: the exact ones.

    Returns
    -------
    ndarray, shape (nz, nz)
        With nz = nx + (order + 1) ny + nu, on ``z = (x, ȳ_n, …, ȳ_{n−order}, δu_c)``.
    """
    system, p, (nu, ny) = block_diagonal(subsystems), scheme.order, L.shape
    nx = len(system.A)
    A_d, B_s = system.discretize(h, p)
    identity = np.eye(nx + (p + 1) * ny + nu)
    x, past, du = identity[:nx], identity[nx : nx + (p + 1) * ny], identity[nx + (p + 1) * ny :]
    history = past.reshape(p + 1, ny, -1)
    weights = interpolation_weights({p: L}, p, (p + 1, p + 1), -np.arange(p + 1.0))
    sent = np.einsum("jmuy,jyz->muz", weights, history)
    sent[0] += du
    x_new = A_d @ x + np.einsum("mxu,muz->xz", B_s, sent)
    y_new = system.C @ x_new + system.D @ sent.sum(axis=0)
    du_new = np.zeros_like(du)
    if scheme.corrected:
        exact = system.C @ B_s + system.D
        known = exact if gamma is None else gamma
        matrices = corrector_matrices({p: L}, known, scheme.alpha, system.D != 0.0)
        y_new, du_new = matrices.correct(y_new, history, sent, du)
    return np.concatenate([x_new, y_new, past[: p * ny], du_new])


def reference_matrix(
    subsystems: Sequence[LinearSubsystem], L: Floats, h: float
) -> tuple[Floats, Floats]:
    """The coupled system solved as one (Haid et al. 2022, eqs. 34 to 36).

    Returns
    -------
    A_d : ndarray, shape (nx, nx)
        From x_n to x_{n+1}.
    C : ndarray, shape (ny, nx)
        From the states to the outputs.
    """
    system = block_diagonal(subsystems)
    C = np.asarray(np.linalg.solve(np.eye(len(system.C)) - system.D @ L, system.C))
    return expm((system.A + system.B @ L @ C) * h), C


def coupling_errors(
    subsystems: Sequence[LinearSubsystem],
    L: Floats,
    h: float,
    scheme: LinearScheme,
    x0: Floats,
    duration: float,
) -> tuple[float, float]:
    """Local and global error of the outputs (Haid et al. 2022, eqs. 31 to 33).

    Parameters
    ----------
    subsystems, L, h, scheme
        As for `propagation_matrix`.
    x0 : ndarray, shape (nx,)
        Initial states; the past outputs are those of the exact solution, continued backwards.
    duration : float
        Simulated time, s.

    Returns
    -------
    local, globally : float
        Root mean squares, over the outputs, of the errors normalised by the standard deviation
        of the reference trajectory; local with the coupled run's own start of every step.
    """
    A_d, C = reference_matrix(subsystems, L, h)
    matrix = propagation_matrix(subsystems, L, h, scheme)
    nx, (nu, ny) = len(A_d), L.shape
    steps = round(duration / h)
    backwards = trajectory(reference_matrix(subsystems, L, -h)[0], x0, scheme.order)
    z0 = np.concatenate([x0, (C @ backwards).T.ravel(), np.zeros(nu)])
    z = trajectory(matrix, z0, steps)
    exact = C @ trajectory(A_d, x0, steps)[:, 1:]
    one_step = matrix[nx : nx + ny].copy()
    one_step[:, :nx] -= C @ A_d
    errors = np.stack([one_step @ z[:, :-1], z[nx : nx + ny, 1:] - exact])
    normalised = np.sqrt((errors**2).mean(axis=2)) / exact.std(axis=1)
    local, globally = np.sqrt((normalised**2).mean(axis=1))
    return float(local), float(globally)


def trajectory(matrix: Floats, z0: Floats, steps: int) -> Floats:
    """``z_0 … z_steps`` of ``z_{n+1} = matrix z_n`` as columns, by doubling, (nz, steps + 1)."""
    z = z0[:, None]
    while z.shape[1] <= steps:
        z = np.hstack([z, (matrix @ z)[:, : steps + 1 - z.shape[1]]])
        matrix = matrix @ matrix
    return z
