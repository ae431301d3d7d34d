"""Interface Jacobians Γ_m of linear subsystems: response of an output to the input polynomial.

Over one macro step an input is written ``u(s) = Σ_m a_m s^m`` in normalised time ``s = (t−t_k)/H``
(the normalised power basis). A linear subsystem then ends the step with outputs

    y_{k+1} = C e^{AH} x_k + Σ_m Γ_m a_m,        Γ_m = (m!/H^m) C B_dm + D

(Haid et al. 2022, eqs. 13 and 38). All integrals come from one exponential of an
augmented matrix. The closed forms with A⁻¹ were rejected: they need a regular A and suffer from
cancellation for small steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hilrt.solver import Floats, Solver

#: Terms of the exponential series; with a norm of at most 1/2 the remainder is below 1e-24.
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
        """Exact step over `h` [s] with an input polynomial; see the function `discretize`."""
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
    # The input enters linearly; unscaled, a large B would only lengthen the series.
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

    The squaring works on ``E = e^M − I`` (``E ← 2E + E²``), which loses no digits relative to E for
    any number of halvings, so that badly scaled mechanical systems (stiffness beside 1) need no
    balancing.
    """
    norm = float(np.abs(M).sum(axis=0).max(initial=0.0))
    if not math.isfinite(norm):
        raise ValueError("the matrix contains values that are not finite")
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
    """Stack the subsystems' Jacobians as the block diagonal over all coupling variables.

    Parameters
    ----------
    parts : sequence of (ndarray of shape (order + 1, ny_i, nu_i), or None)
        One entry per subsystem; None (unknown) gives zeros, so that nothing is corrected.
    rows, columns : sequence of int
        Numbers of outputs ny_i and inputs nu_i of every subsystem.
    order : int
        Degree p of the input polynomials.

    Returns
    -------
    ndarray, shape (order + 1, ny, nu)
        Dense: 64 by 64 variables at order 1 are 64 KiB.
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


# Probed interface Jacobians: save the state, perturb the inputs, step, restore.
#
# For solvers that can go back but provide no Jacobian (Haid et al. 2022, eq. 14: Γ_m is the
# response of the outputs at the end of a step to coefficient m of the input polynomial).

#: Size of the perturbation relative to the input, or absolute for inputs below 1.
PERTURBATION = 1e-4

#: A step [s] so short that mechanical and thermal systems show only their direct feedthrough.
INSTANT_S = 1e-7

#: Number of trials of a solver whose results differ for the same step, because a random generator
#: is not part of its saved state.
REPEATS = 5

#: Permitted difference of entries between these trials, as a share of each entry and of the largest
#: change of its output; far below an error that would make a correction wrong
#: (`hilrt.coupling.trust`).
REPEATABLE, NEGLIGIBLE = 0.05, 0.0025

Advance = Callable[[float, float, Floats], Floats]


def probe_jacobian(
    solver: Solver, advance: Advance, t: float, h: float, u: Floats, order: int
) -> Floats | None:
    """Γ_0 … Γ_order about the solver's present state.

    Parameters
    ----------
    solver : Solver
        A solver that can restore its state; the state is left unchanged.
    advance : callable
        ``(t, h, coefficients) -> y``: steps the solver, Taylor coefficients (order + 1, n_inputs).
    t, h : float
        Start and length of the macro step, s.
    u : ndarray, shape (n_inputs,)
        Inputs held over the step, to which perturbations are added.
    order : int
        Highest coefficient that is perturbed.

    Returns
    -------
    ndarray, shape (order + 1, n_outputs, n_inputs), or None
        Central differences: exact for a linear solver except for rounding. None if the solver has a
        constant step and an instantaneous one is requested, or if repeated trials differ by more
        than permitted. Otherwise their mean is returned.
    """
    if h < INSTANT_S and not solver.any_step:
        return None
    first, second = (_step(solver, advance, t, h, u) for _ in range(2))
    if np.array_equal(first, second, equal_nan=True):
        return _probed_once(solver, advance, t, h, u, order)
    found = np.array([_probed_once(solver, advance, t, h, u, order) for _ in range(REPEATS)])
    mean, differ = found.mean(axis=0), np.ptp(found, axis=0)
    largest = np.abs(mean).max(axis=-1, keepdims=True, initial=0.0)
    # If an output does not respond to an input, its entry is noise, small relative to the output.
    beside = np.abs(first)[:, None] / np.maximum(1.0, np.abs(u))
    small = NEGLIGIBLE * np.maximum(largest, beside)
    if not (differ <= REPEATABLE * np.abs(mean) + small).all():
        return None
    clear: Floats = np.where(np.abs(mean) > differ, mean, 0.0)
    return clear


def _step(solver: Solver, advance: Advance, t: float, h: float, u: Floats) -> Floats:
    saved = solver.save_state()
    try:
        return advance(t, h, u[None])
    finally:
        solver.restore_state(saved)


def _probed_once(
    solver: Solver, advance: Advance, t: float, h: float, u: Floats, order: int
) -> Floats:
    columns = []
    for m in range(order + 1):
        for i, value in enumerate(u):
            change = PERTURBATION * max(1.0, abs(float(value)))
            direction = np.zeros((order + 1, len(u)))
            direction[m, i] = change
            columns.append(probe_response(solver, advance, t, h, u, direction) / change)
    gamma: Floats = np.array(columns).reshape(order + 1, len(u), -1).transpose(0, 2, 1)
    return gamma


def probe_response(
    solver: Solver, advance: Advance, t: float, h: float, u: Floats, direction: Floats
) -> Floats:
    """Change of the outputs when the inputs change by `direction`, shape (n_outputs,).

    Parameters as for `probe_jacobian`; `direction`, shape (order + 1, n_inputs), holds the change
    of the coefficients a_m in the normalised power basis. One central difference: two steps.
    """
    saved = solver.save_state()
    taylor = [math.factorial(m) / h**m for m in range(len(direction))]  # a_m s^m about t
    change = direction * np.array(taylor)[:, None]
    outputs = []
    for sign in (1.0, -1.0):
        coefficients = sign * change
        coefficients[0] += u
        try:
            outputs.append(advance(t, h, coefficients))
        finally:
            solver.restore_state(saved)
    return 0.5 * (outputs[0] - outputs[1])
