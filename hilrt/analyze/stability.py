"""Stability of a coupled linear system under a coupling scheme.

Haid et al. (2022), sections 3.2 and 4. A macro step H of linear subsystems that are solved exactly
and coupled by extrapolation and corrector is a linear map ``z_{n+1} = Φ z_n`` of
``z = (x, ȳ_n, ȳ_{n−1}, …, δu_c)``. The scheme is stable if the spectral radius ρ of Φ is at most 1.
ρ(H) is not monotone and may cross 1 several times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from hilrt.coupling.true_inputs import lagrange_basis
from hilrt.solver import Floats
from hilrt.tables.network import Network
from hilrt.tables.ports import Bools


@dataclass(frozen=True)
class CorrectorMatrices:
    """Corrector of outputs y (corrected: y*) for inputs with coefficients a_0, ..., a_p.

    Attributes
    ----------
    outputs : tuple of ndarray, shape (ny, (p + 2) ny + (p + 1) nu)
        For 0 (no correction) to p + 1 past samples: each maps the stacked y_{n+1}, y*_n, y*_{n-1},
        ..., a_0, a_1, ... to y*_{n+1}.
    means : tuple of ndarray, shape (nu, (p + 2) ny)
        Likewise: each maps the stacked y*_{n+1}, y*_n, ... to the mean true input over the step.
    alpha : ndarray, shape (nu,)
        Share of the accumulated input error that the offset compensates; 0 if it must not act.
    """

    outputs: tuple[Floats, ...]
    means: tuple[Floats, ...]
    alpha: Floats

    def correct(
        self, y: Floats, past: Floats, sent: Floats, offset: Floats
    ) -> tuple[Floats, Floats]:
        """Apply one step of the correction to each of nz columns.

        Parameters
        ----------
        y : ndarray, shape (ny, nz)
            Uncorrected outputs at the end of the step.
        past : ndarray, shape (samples, ny, nz)
            Previous corrected outputs, newest first; at most p + 1.
        sent : ndarray, shape (p + 1, nu, nz)
            Inputs over the step, coefficients of powers of (t - start)/h.
        offset : ndarray, shape (nu, nz)
            Input offset du_c of the step.

        Returns
        -------
        corrected, offset : ndarray, shape (ny, nz), (nu, nz)
        """
        (ny, nz), terms, samples = y.shape, len(sent), len(past)
        missing = np.zeros((terms - samples, ny, nz))
        known = np.concatenate([y[None], past, missing]).reshape(-1, nz)
        corrected: Floats = self.outputs[samples] @ np.vstack([known, sent.reshape(-1, nz)])
        known[:ny] = corrected
        mean_sent = np.tensordot(1.0 / np.arange(1.0, terms + 1.0), sent, 1)
        error = self.means[samples] @ known - mean_sent
        return corrected, np.where(self.alpha[:, None] != 0.0, offset, 0.0) + (
            self.alpha[:, None] * error
        )


def coupling_by_order(network: Network) -> dict[int, Floats]:
    """Part of the coupling matrix, shape (nu, ny), by the order of its connections."""
    connections, parts = network.connections, {}
    for order in np.unique(connections.order):
        own = connections.order == order
        part = np.zeros(network.L.shape)
        index = connections.targets()[own], connections.source[own]
        np.add.at(part, index, connections.gain[own])
        parts[int(order)] = part
    return parts


def corrector_matrices(
    coupling: Mapping[int, Floats], gamma: Floats, alpha: float, feedthrough: Bools
) -> CorrectorMatrices:
    """Build the matrices of the correction.

    Parameters
    ----------
    coupling : mapping of int to ndarray, shape (nu, ny)
        Part of the coupling matrix, by the order of its connections.
    gamma : ndarray, shape (p + 1, ny, nu)
        Interface Jacobians; rows of outputs that are not to be corrected are zero.
    alpha : float
        Share of the accumulated input error that the offset compensates.
    feedthrough : ndarray of bool, shape (ny, nu)
        Which outputs depend on which inputs directly.

    Raises
    ------
    ValueError
        If the Jacobians do not have the shape required by the coupling.
    """
    L: Floats = np.sum(list(coupling.values()), axis=0)
    p, (nu, ny) = max(coupling), L.shape
    if gamma.shape != (p + 1, ny, nu):
        raise ValueError(f"Jacobians of shape {gamma.shape}; the coupling needs {(p + 1, ny, nu)}")
    gamma = np.where((L != 0.0).any(axis=1), gamma, 0.0)  # unconnected inputs have no error
    idle = np.eye(ny, (p + 2) * ny + (p + 1) * nu)
    outputs, means = [idle], [np.zeros((nu, (p + 2) * ny))]
    mean_of_power = 1.0 / np.arange(1.0, p + 3.0)
    for samples in range(1, p + 2):
        solved = _solve(gamma, interpolation_weights(coupling, samples, (p + 2, p + 1)))
        outputs.append(idle if solved is None else solved)
        higher = {order + 1: part for order, part in coupling.items()}
        weights = interpolation_weights(higher, samples, (p + 2, p + 2))
        mean = np.tensordot(mean_of_power, weights, (0, 1))
        means.append(mean.transpose(1, 0, 2).reshape(nu, -1))
    allowed = _offset_inputs(gamma, L, feedthrough)
    return CorrectorMatrices(tuple(outputs), tuple(means), np.where(allowed, alpha, 0.0))


def interpolation_weights(
    coupling: Mapping[int, Floats],
    samples: int,
    shape: tuple[int, int],
    nodes: Floats | None = None,
) -> Floats:
    """``W[j, m]`` with ``u_m = sum_j W[j, m] y_j``: polynomials through the newest outputs.

    Parameters
    ----------
    coupling : mapping of int to ndarray, shape (nu, ny)
        Part of the coupling matrix, by the degree of its polynomials.
    samples : int
        Highest degree for which there are enough samples.
    shape : (int, int)
        Number of samples and of coefficients; unused ones have weight 0.
    nodes : ndarray, optional
        Normalised times of the samples y_j; default 1, 0, -1, ...

    Returns
    -------
    ndarray, shape (*shape, nu, ny)
    """
    W = np.zeros((*shape, *next(iter(coupling.values())).shape))
    at = 1.0 - np.arange(float(shape[0])) if nodes is None else nodes
    for degree, part in coupling.items():
        n = min(degree, samples) + 1
        W[:n, :n] += lagrange_basis(at[:n])[:, :, None, None] * part
    return W


def _solve(gamma: Floats, true_inputs: Floats) -> Floats | None:
    """Matrix from the stacked values to the corrected outputs; None if it is singular."""
    depth, terms, nu, ny = true_inputs.shape
    by_input = gamma.transpose(1, 0, 2).reshape(ny, terms * nu)
    responses = by_input @ true_inputs.transpose(1, 2, 0, 3).reshape(terms * nu, depth * ny)
    try:
        K = np.linalg.inv(np.eye(ny) - responses[:, :ny]).astype(np.float64)
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(K).all():
        return None
    solved: Floats = K @ np.hstack([np.eye(ny), responses[:, ny:], -by_input])
    return solved


def _offset_inputs(gamma: Floats, L: Floats, feedthrough: Bools) -> Bools:
    """Inputs that may get an offset, shape (nu,); see `correct_model.allow_offsets`."""
    corrected = (gamma != 0.0).any(axis=(0, 2))
    sourced = ((L != 0.0) & corrected).any(axis=1)
    removable = ~(feedthrough & ~corrected[:, None]).any(axis=0)
    allowed: Bools = sourced & removable
    return allowed


def spectral_radius(matrix: Floats) -> float:
    """Largest magnitude of the eigenvalues."""
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def crossings(
    radius: Callable[[float], float],
    h_min: float,
    h_max: float,
    points: int = 400,
    tolerance: float = 1e-6,
) -> list[tuple[float, bool]]:
    """Find all macro steps at which the spectral radius crosses 1.

    Parameters
    ----------
    radius : callable
        Spectral radius as a function of the macro step [s].
    h_min, h_max : float
        Range of the macro step, s.
    points : int
        Number of points of the logarithmic grid that is searched; a pair of crossings between two
        of them is missed.
    tolerance : float
        Relative accuracy of a crossing.

    Returns
    -------
    list of (float, bool)
        Macro step [s] and whether the scheme is unstable above it, in rising order.
    """
    grid = np.geomspace(h_min, h_max, points)
    unstable = [radius(h) > 1.0 for h in grid]
    found = []
    for i in range(points - 1):
        if unstable[i] == unstable[i + 1]:
            continue
        low, high = float(grid[i]), float(grid[i + 1])
        while high / low - 1.0 > tolerance:
            middle = (low * high) ** 0.5
            if (radius(middle) > 1.0) == unstable[i]:
                low = middle
            else:
                high = middle
        found.append(((low * high) ** 0.5, unstable[i + 1]))
    return found
