"""Interface Jacobians Γ_m of linear subsystems: how an output follows the input polynomial.

Over one macro step an input is written ``u(s) = Σ_m a_m s^m`` in normalised time ``s = (t−t_k)/H``
(the normalised power basis). A linear subsystem then ends the step with outputs

    y_{k+1} = C e^{AH} x_k + Σ_m Γ_m a_m,        Γ_m = (m!/H^m) C B_dm + D

(Haid et al. 2022, eqs. 13 and 38). All integrals come from one exponential of an
augmented matrix. The closed forms with A⁻¹ were rejected: they need A to be regular and cancel
badly for small steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hilrt.solver import Floats

#: Terms of the exponential series; with a norm of at most 1/2 the rest is below 1e-24.
_TERMS = 20


@dataclass(frozen=True)
class LinearSubsystem:
    """A linear time-invariant subsystem ``x' = A x + B u``, ``y = C x + D u``.

    Attributes
    ----------
    A : ndarray, shape (nx, nx), in 1/s times the states' units
    B : ndarray, shape (nx, nu)
    C : ndarray, shape (ny, nx)
    D : ndarray, shape (ny, nu)
        The direct feedthrough.
    """

    A: Floats
    B: Floats
    C: Floats
    D: Floats

    def __post_init__(self) -> None:
        nx, nu, ny = len(self.A), self.B.shape[1], len(self.C)
        expected = {"A": (nx, nx), "B": (nx, nu), "C": (ny, nx), "D": (ny, nu)}
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                found = getattr(self, name).shape
                raise ValueError(f"{name} has shape {found}; with the other matrices it is {shape}")

    def discretize(self, h: float, order: int) -> tuple[Floats, Floats]:
        """Exact step over `h` [s] under an input polynomial; see `discretize`."""
        return discretize(self.A, self.B, h, order)

    def jacobian(self, h: float, order: int) -> Floats:
        """Γ_0 … Γ_order for a macro step `h` [s], shape (order + 1, ny, nu)."""
        gamma: Floats = self.C @ self.discretize(h, order)[1] + self.D
        return gamma


def discretize(A: Floats, B: Floats, h: float, order: int) -> tuple[Floats, Floats]:
    """Exact discrete step ``x_{k+1} = A_d x_k + Σ_m B_m a_m`` for ``u(s) = Σ_m a_m s^m``.

    Parameters
    ----------
    A : ndarray, shape (nx, nx)
    B : ndarray, shape (nx, nu)
    h : float
        Macro step H, s.
    order : int
        Degree of the input polynomial, at least 0.

    Returns
    -------
    A_d : ndarray, shape (nx, nx)
        ``e^{AH}``.
    B_s : ndarray, shape (order + 1, nx, nu)
        ``(m!/H^m) B_dm`` with ``B_dm = ∫₀^H e^{A(H−τ)} B τ^m/m! dτ``.
    """
    nx, nu = B.shape
    # The input enters linearly: a large B would only make the series longer.
    scale = max(float(np.abs(B).max(initial=0.0)) * h, 1e-300)
    size = nx + nu * (order + 1)
    augmented = np.zeros((size, size))
    augmented[:nx, :nx] = A * h
    augmented[:nx, nx : nx + nu] = B * (h / scale)
    for m in range(order):  # each input derivative integrates the next one
        first = nx + nu * m
        augmented[first : first + nu, first + nu : first + 2 * nu] = np.eye(nu)
    exponential = expm(augmented)
    factorial = np.array([math.factorial(m) * scale for m in range(order + 1)])
    blocks = exponential[:nx, nx:].reshape(nx, order + 1, nu).transpose(1, 0, 2)
    return exponential[:nx, :nx], blocks * factorial[:, None, None]


def expm(M: Floats) -> Floats:
    """Matrix exponential by scaling and squaring of a Taylor series, shape as `M` (n, n).

    The squaring works on ``E = e^M − I`` (``E ← 2E + E²``): relative to E nothing is lost however
    often it is halved, so badly scaled mechanical systems (stiffness beside 1) need no balancing.
    """
    norm = float(np.abs(M).sum(axis=0).max(initial=0.0))
    if not math.isfinite(norm):
        raise ValueError("the matrix holds values that are not finite")
    halvings = max(0, math.ceil(math.log2(2.0 * norm))) if norm > 0.0 else 0
    scaled = M / 2.0**halvings
    identity = np.eye(len(M))
    E = scaled / _TERMS
    for k in range(_TERMS - 1, 0, -1):
        E = scaled @ (identity + E) / k
    for _ in range(halvings):
        E = 2.0 * E + E @ E
    return identity + E


def assemble(
    parts: Sequence[Floats | None], rows: Sequence[int], columns: Sequence[int], order: int
) -> Floats:
    """Stack the subsystems' Jacobians to the block diagonal over all coupling variables.

    Parameters
    ----------
    parts : sequence of (ndarray of shape (order + 1, ny_i, nu_i), or None)
        One entry per subsystem; None (not known) leaves zeros: nothing is corrected there.
    rows, columns : sequence of int
        Numbers of outputs ny_i and inputs nu_i of every subsystem.
    order : int
        Degree p of the input polynomials.

    Returns
    -------
    ndarray, shape (order + 1, ny, nu)
        Dense: 64 by 64 variables at order 1 are 64 KiB, which the corrector folds into one matrix.
    """
    gamma = np.zeros((order + 1, sum(rows), sum(columns)))
    row = column = 0
    for part, ny, nu in zip(parts, rows, columns, strict=True):
        if part is not None:
            if part.shape != (order + 1, ny, nu):
                raise ValueError(f"Jacobian has shape {part.shape}, needed {(order + 1, ny, nu)}")
            gamma[:, row : row + ny, column : column + nu] = part
        row, column = row + ny, column + nu
    return gamma


def block_diagonal(subsystems: Sequence[LinearSubsystem]) -> LinearSubsystem:
    """All subsystems, not yet coupled, as one (Haid et al. 2022, eq. 5)."""

    def stack(name: str) -> Floats:
        blocks = [getattr(subsystem, name) for subsystem in subsystems]
        shapes = [block.shape for block in blocks]
        rows, columns = [s[0] for s in shapes], [s[1] for s in shapes]
        whole: Floats = assemble([block[None] for block in blocks], rows, columns, order=0)[0]
        return whole

    return LinearSubsystem(stack("A"), stack("B"), stack("C"), stack("D"))
