"""Model-based corrector: what the extrapolated inputs did wrong, taken out of the outputs.

METHODS section 4; paper 002, eq. 14-25, here for any order, with every connection at its own
order, and against the inputs *as sent* (limits, dither, energy correction and late policy
included), so that it stays right when other stages touched them.

With the interface Jacobians Γ_m, the coupling ``u = L y + offset``, the polynomial as sent
``ũ(s) = Σ_m ã_m s^m`` and the Lagrange basis ℓ_j on the nodes s = 1, 0, −1, … carrying
ȳ_{n+1}, ȳ_n, ȳ_{n−1}, …::

    ȳ_{n+1} = y_{n+1} + Σ_m Γ_m (ū_m − ã_m)          ū: degree p through ȳ_{n+1}, ȳ_n, …
    δu_c   ← δu_c + α · mean over s of (ū − ũ)         ū: degree p + 1

ȳ_{n+1} stands on both sides of the first line; solving for it and gathering all terms leaves one
matrix per number of samples at hand (`Plan`), made when Γ changes and not in the step: the step
is two matrix-vector products over all coupling variables.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hilrt.solver import Floats

MAX_ORDER = 4


@dataclass(frozen=True)
class Plan:
    """Everything about the correction that depends only on Γ, L, the orders and α.

    Attributes
    ----------
    outputs : tuple of ndarray, shape (ny, (depth + 1) ny + (order + 1) nu)
        By number of past samples at hand (none: nothing is corrected), from the stacked
        (y_{n+1}, ȳ_n, ȳ_{n−1}, …, ã_0, ã_1, …) to ȳ_{n+1}.
    constant : tuple of ndarray, shape (ny,)
        What the connections' offsets add to that.
    means : tuple of ndarray, shape (nu, (depth + 1) ny)
        From the stacked (ȳ_{n+1}, ȳ_n, …) to α times the mean true input over the step.
    mean_offset, alpha, keep : ndarray, shape (nu,)
        α times the offset; α, 0 where no δu_c acts; 1 where one acts.
    mean_power : ndarray, shape (order + 1,)
        Mean of s^m over the step.
    order : int
        Degree p of the input polynomials.
    depth : int
        Past samples that the full formula uses, ``order + 1``.
    singular : bool
        ``I − G L`` cannot be inverted: the plan corrects nothing.
    """

    outputs: tuple[Floats, ...]
    constant: tuple[Floats, ...]
    means: tuple[Floats, ...]
    mean_offset: Floats
    alpha: Floats
    keep: Floats
    mean_power: Floats
    order: int
    depth: int
    singular: bool


@dataclass
class State:
    """What the corrector carries from step to step; changed in place by `correct`.

    Attributes
    ----------
    stack : ndarray, shape ((depth + 1) ny + (order + 1) nu,)
        Newest output, then the corrected past outputs (newest first), then the sent coefficients.
    du : ndarray, shape (nu,)
        Correction offset δu_c, added to the next inputs; in the inputs' units.
    samples : int
        Past samples at hand, at most `depth`.
    """

    stack: Floats
    du: Floats
    samples: int

    def copy(self) -> State:
        """Independent copy, for a snapshot."""
        return State(self.stack.copy(), self.du.copy(), self.samples)


@functools.cache
def _equidistant_basis(n: int) -> Floats:
    basis = lagrange_basis(1.0 - np.arange(n, dtype=np.float64))
    basis.setflags(write=False)
    return basis


def lagrange_basis(nodes: Floats) -> Floats:
    """Power coefficients of the Lagrange basis: ``ℓ_j(s) = Σ_m out[j, m] s^m``.

    Parameters
    ----------
    nodes : ndarray, shape (n,)
        Distinct normalised times s.

    Returns
    -------
    ndarray, shape (n, n)
    """
    n = len(nodes)
    basis = np.empty((n, n))
    for j in range(n):
        others = np.delete(nodes, j)
        polynomial = np.poly(others) if n > 1 else np.ones(1)
        basis[j] = polynomial[::-1] / np.prod(nodes[j] - others)
    return basis


def true_input_weights(
    L: Floats, degree: NDArray[np.intp], nodes: Floats | None, shape: tuple[int, int]
) -> Floats:
    """``W[j, m]`` with ``ū_m = Σ_j W[j, m] ȳ_{n+1−j}``: Lagrange through the newest outputs.

    Parameters
    ----------
    L : ndarray, shape (nu, ny)
        The coupling matrix.
    degree : ndarray of int, shape (nu, ny)
        Of the polynomial of every connection.
    nodes : ndarray, optional
        Normalised times of ȳ_{n+1}, ȳ_n, …; default 1, 0, −1, … (constant step).
    shape : (int, int)
        Largest number of samples and of coefficients.

    Returns
    -------
    ndarray, shape (*shape, nu, ny)
    """
    W = np.zeros((*shape, *L.shape))
    for p in np.unique(degree):
        basis = _equidistant_basis(p + 1) if nodes is None else lagrange_basis(nodes[: p + 1])
        part = np.where(degree == p, L, 0.0)
        W[: p + 1, : p + 1] += basis[:, :, None, None] * part
    return W


def build_plan(
    gamma: Floats,
    L: Floats,
    order: ArrayLike,
    alpha: ArrayLike = 1.0,
    offset: ArrayLike = 0.0,
    nodes: Floats | None = None,
) -> Plan:
    """Prepare the correction; to be repeated when Γ changes.

    Parameters
    ----------
    gamma : ndarray, shape (p + 1, ny, nu)
        Interface Jacobians, p the highest order in use; zero where not known: an output with
        zero rows is left as it is, an input with zero columns gets no δu_c.
    L : ndarray, shape (nu, ny)
        Coupling matrix; rows may sum, scale, or be zero (an input without connection).
    order : int, or ndarray of int of shape (nu, ny)
        Extrapolation degree, of all or of every connection, at most p.
    alpha : float, or ndarray of shape (nu,)
        Share of the accumulated input error that δu_c makes up in the next step. 0 for
        subsystems that take one explicit integration step per macro step.
    offset : float, or ndarray of shape (nu,)
        Constant part of the connections.
    nodes : ndarray, shape (p + 2,), optional
        Normalised times of ȳ_{n+1}, ȳ_n, … for a variable step; default 1, 0, −1, …
    """
    p, (nu, ny) = len(gamma) - 1, L.shape
    if gamma.shape[1:] != (ny, nu):
        raise ValueError(f"Γ has shape {gamma.shape[1:]}; the coupling matrix needs {(ny, nu)}")
    orders = np.broadcast_to(np.asarray(order, dtype=np.intp), L.shape)
    if p > MAX_ORDER or orders.max(initial=0) > p or orders.min(initial=0) < 0:
        raise ValueError(f"orders {orders.min()}…{orders.max()} need Γ up to them; at most 4")
    connected = (L != 0.0).any(axis=1)
    gamma = np.where(connected, gamma, 0.0)  # an unconnected input was what it should be
    shift = np.where(connected, offset, 0.0)
    active = (gamma != 0.0).any(axis=(0, 1)) & (np.broadcast_to(alpha, (nu,)) != 0.0)
    alphas = np.where(active, alpha, 0.0).astype(np.float64)
    power = 1.0 / np.arange(1.0, p + 3.0)
    outputs, constants, means = [np.eye(ny, (p + 2) * ny + (p + 1) * nu)], [np.zeros(ny)], []
    means.append(np.zeros((nu, (p + 2) * ny)))
    singular = False
    for samples in range(1, p + 2):
        W = true_input_weights(L, np.minimum(orders, samples), nodes, (p + 2, p + 1))
        K = _inverse(np.eye(ny) - np.tensordot(gamma, W[0], ([0, 2], [0, 1])))
        if K is None:
            singular = True
            outputs.append(outputs[0])
            constants.append(constants[0])
        else:
            past = [K @ np.tensordot(gamma, W[j], ([0, 2], [0, 1])) for j in range(1, p + 2)]
            outputs.append(np.hstack([K, *past, *(-(K @ g) for g in gamma)]))
            constants.append(K @ (gamma[0] @ shift))
        U = true_input_weights(L, np.minimum(orders + 1, samples), nodes, (p + 2, p + 2))
        mean = np.tensordot(power, U, (0, 1))
        means.append(np.hstack(list(alphas[:, None] * mean)))
    return Plan(
        outputs=tuple(outputs),
        constant=tuple(constants),
        means=tuple(means),
        mean_offset=alphas * shift,
        alpha=alphas,
        keep=active.astype(np.float64),
        mean_power=power[: p + 1].copy(),
        order=p,
        depth=p + 1,
        singular=singular,
    )


def _inverse(matrix: Floats) -> Floats | None:
    try:
        inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    return inverse if np.isfinite(inverse).all() else None


def start(plan: Plan, y0: Floats) -> State:
    """State at the first communication point, with the initial outputs `y0` (ny,) as past."""
    ny, nu = len(y0), len(plan.alpha)
    stack = np.zeros((plan.depth + 1) * ny + (plan.order + 1) * nu)
    stack[ny : 2 * ny] = y0
    return State(stack, np.zeros(nu), samples=1)


def correct(state: State, plan: Plan, y: Floats, sent: Floats) -> tuple[Floats, Floats]:
    """Correct the outputs of a macro step, and advance the state.

    Parameters
    ----------
    state : State
        Changed in place.
    plan : Plan
    y : ndarray, shape (ny,)
        Outputs at the end of the step as the subsystems returned them.
    sent : ndarray, shape (m, nu)
        Coefficients ã of the inputs over the step as sent, in the normalised power basis;
        m at most ``plan.order + 1``.

    Returns
    -------
    y_corrected : ndarray, shape (ny,)
    du : ndarray, shape (nu,)
        δu_c, to be added to the inputs of the next step.

    Notes
    -----
    Values that are not finite are passed on uncorrected, and the history starts anew: one bad
    sample must not reach the outputs of other subsystems through the coupled correction.
    """
    ny, nu = len(y), sent.shape[1]
    stack, past = state.stack, (plan.depth + 1) * len(y)
    stack[:ny] = y
    stack[past : past + len(sent) * nu] = sent.ravel()
    stack[past + len(sent) * nu :] = 0.0
    corrected = plan.outputs[state.samples] @ stack
    corrected += plan.constant[state.samples]
    if not np.isfinite(corrected).all():
        stack[:] = 0.0
        state.samples, state.du = 0, np.zeros(nu)
        return y.copy(), state.du.copy()
    stack[:ny] = corrected
    if state.samples:
        mean_sent = plan.mean_power[: len(sent)] @ sent
        gained = plan.means[state.samples] @ stack[:past] + plan.mean_offset
        state.du = plan.keep * state.du + gained - plan.alpha * mean_sent
    stack[ny:past] = stack[: past - ny].copy()
    state.samples = min(state.samples + 1, plan.depth)
    return corrected, state.du.copy()
