"""What a coupling says of the true inputs: polynomials through the outputs that they come from.

METHODS section 4. An input's true course over the step that ended is ``u = L y + offset`` with the
outputs on both sides of the step, here as the weights that every past output has in it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hilrt.solver import Floats

MAX_ORDER = 4


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


@dataclass(frozen=True)
class Coupling:
    """What the correction takes from the topology alone; made once by `couple`.

    Attributes
    ----------
    L, offset : ndarray, shape (nu, ny) and (nu,)
        Coupling matrix, and constant part of connected inputs.
    connected : ndarray of bool, shape (nu,)
        Inputs that have a connection.
    order : int
        Highest degree p.
    true_inputs, means : tuple of ndarray, by number of past samples at hand
        `true_input_weights` of degree p, (p + 2, p + 1, nu, ny), and of degree p + 1 in the mean
        over the step, (p + 2, nu, ny).
    feedthrough : ndarray of bool, shape (ny, nu), or None
    """

    L: Floats
    offset: Floats
    connected: NDArray[np.bool_]
    order: int
    true_inputs: tuple[Floats, ...]
    means: tuple[Floats, ...]
    feedthrough: NDArray[np.bool_] | None


def couple(
    L: Floats,
    order: ArrayLike,
    *,
    highest: int | None = None,
    offset: ArrayLike = 0.0,
    nodes: Floats | None = None,
    feedthrough: NDArray[np.bool_] | None = None,
) -> Coupling:
    """Prepare the topology.

    Parameters
    ----------
    L : ndarray, shape (nu, ny)
        Coupling matrix; rows may sum, scale, or be zero (an input without connection).
    order : int, or ndarray of int of shape (nu, ny)
        Extrapolation degree, of all or of every connection.
    highest : int, optional
        Degree p of the polynomials as sent; default: the highest order.
    offset : float, or ndarray of shape (nu,)
        Constant part of the connections.
    nodes : ndarray, shape (p + 2,), optional
        Normalised times of ȳ_{n+1}, ȳ_n, … for a variable step; default 1, 0, −1, …
    feedthrough : ndarray of bool, shape (ny, nu), optional
        Which outputs depend on which inputs directly. Without it every input might.
    """
    orders = np.broadcast_to(np.asarray(order, dtype=np.intp), L.shape)
    p = int(orders.max(initial=0)) if highest is None else highest
    if p > MAX_ORDER or orders.max(initial=0) > p or orders.min(initial=0) < 0:
        raise ValueError(f"orders {orders.min()}…{orders.max()} with Γ up to {p}; at most 0…4")
    connected = (L != 0.0).any(axis=1)
    power = 1.0 / np.arange(1.0, p + 3.0)
    true_inputs, means = [], []
    for samples in range(1, p + 2):
        degree = np.minimum(orders, samples)
        true_inputs.append(true_input_weights(L, degree, nodes, (p + 2, p + 1)))
        degree = np.minimum(orders + 1, samples)
        means.append(
            np.tensordot(power, true_input_weights(L, degree, nodes, (p + 2, p + 2)), (0, 1))
        )
    return Coupling(
        L=L,
        offset=np.where(connected, offset, 0.0),
        connected=connected,
        order=p,
        true_inputs=(np.zeros_like(true_inputs[0]), *true_inputs),
        means=(np.zeros_like(means[0]), *means),
        feedthrough=feedthrough,
    )
