"""Longest macro step for a given accuracy.

Haid et al. (2022), sections 3.3 and 4.2. The global error of a linear coupled system is a root mean
square over all macro steps. Sums over ``z_n = Φ^n z_0`` need no trajectory:
``S(2n) = S(n) + Φ^n S(n) Φ^nᵀ`` doubles the number of steps with one product, so that 300,000 steps
cost as much as 18.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hilrt.analyze.stability import crossings
from hilrt.coupling.jacobian import LinearSubsystem
from hilrt.solver import Floats
from tools.papers.linear_scheme import (
    LinearScheme,
    propagation_matrix,
    reference_matrix,
    trajectory,
)

#: Coupled and exact curves look the same without zooming in (Haid et al. 2022, section 4.2).
ACCURATE = 0.01


def global_error(
    subsystems: Sequence[LinearSubsystem],
    L: Floats,
    h: float,
    scheme: LinearScheme,
    x0: Floats,
    duration: float,
) -> float:
    """Normalised RMS error of the outputs against the exact solution.

    Haid et al. (2022), eqs. 32 and 33.

    Parameters
    ----------
    subsystems, L, h, scheme, x0, duration
        As for `coupling_errors` in `linear_scheme`, whose second result this is; values below about
        1e-6 are lost to cancellation in the sums of squares.

    Returns
    -------
    float
        Infinite if the coupled run overflows.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        A_d, C = reference_matrix(subsystems, L, h)
        matrix = propagation_matrix(subsystems, L, h, scheme)
        nx, nz, (nu, ny) = len(A_d), len(matrix), L.shape
        back = trajectory(reference_matrix(subsystems, L, -h)[0], x0, scheme.order)
        z0 = np.concatenate([x0, (C @ back).T.ravel(), np.zeros(nu), x0])
        both = np.zeros((nz + nx, nz + nx))
        both[:nz, :nz], both[nz:, nz:] = matrix, A_d
        steps = round(duration / h)
        squares, mean = (total / steps for total in sums(both, both @ z0, steps))
        exact = np.hstack([np.zeros((ny, nz)), C])
        wrong = exact.copy()
        wrong[:, nx : nx + ny] -= np.eye(ny)
        error = np.einsum("ij,jk,ik->i", wrong, squares, wrong)
        variance = np.einsum("ij,jk,ik->i", exact, squares, exact) - (exact @ mean) ** 2
        found = float(np.sqrt(np.maximum(error / variance, 0.0).mean()))
    return found if np.isfinite(found) else np.inf


def sums(matrix: Floats, z: Floats, n: int) -> tuple[Floats, Floats]:
    """``Σ z_k z_kᵀ`` and ``Σ z_k`` over ``z_k = matrix^k z``, k = 0 … n − 1."""
    power, squares, total = matrix, np.outer(z, z), z
    # By the binary digits of n; the most significant one stands for the single z above.
    for digit in f"{n:b}"[1:]:
        squares = squares + power @ squares @ power.T
        total = total + power @ total
        power = power @ power
        if digit == "1":  # add a term in front; the others move by one step
            squares = np.outer(z, z) + matrix @ squares @ matrix.T
            total = z + matrix @ total
            power = power @ matrix
    return squares, total


def accuracy_limits(
    subsystems: Sequence[LinearSubsystem],
    L: Floats,
    scheme: LinearScheme,
    x0: Floats,
    duration: float,
    *,
    steps: tuple[float, float] = (1e-6, 3e-3),
    points: int = 60,
    limit: float = ACCURATE,
) -> list[tuple[float, bool]]:
    """All macro steps in a range where the global error crosses `limit`.

    Parameters
    ----------
    subsystems, L, scheme, x0, duration
        As for `global_error`.
    steps : (float, float)
        Range of the macro step, s.
    points : int
        Number of points of the logarithmic search grid.
    limit : float

    Returns
    -------
    list of (float, bool)
        Macro steps [s] in ascending order, and whether longer ones are too inaccurate.
    """

    def share(h: float) -> float:
        return global_error(subsystems, L, h, scheme, x0, duration) / limit

    return crossings(share, *steps, points, tolerance=1e-3)
