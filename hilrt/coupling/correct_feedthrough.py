"""Feedthrough correction: an effort evaluated with an extrapolated input, put right by D.

METHODS, end of section 3. Where an output depends on inputs directly, it was evaluated with the
inputs as sent, ``ũ(t)``, and not with those now known, ``u = L ȳ + offset``. With ``D = ∂y/∂u`` the
error is known exactly to first order, and no μ is needed::

    ȳ = y + D (L ȳ + offset − ũ)      =>      ȳ = K y + K D (offset − ũ),   K = (I − D L)^{-1}
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hilrt.solver import Floats


@dataclass(frozen=True, slots=True)
class Feedthrough:
    """The correction's matrices: `K` (ny, ny) and `KD` (ny, nu)."""

    K: Floats
    KD: Floats


def build_feedthrough(D: Floats, L: Floats) -> Feedthrough:
    """Prepare the correction.

    Parameters
    ----------
    D : ndarray, shape (ny, nu)
        Rows of outputs that are not to be corrected are zero.
    L : ndarray, shape (nu, ny)
        Coupling matrix.

    Raises
    ------
    ValueError
        If ``I − D L`` is singular: the feedthrough loop has no solution.
    """
    try:
        K: Floats = np.linalg.inv(np.eye(len(D)) - D @ L).astype(np.float64)
    except np.linalg.LinAlgError:
        raise ValueError("the feedthrough loop I − D L is singular") from None
    return Feedthrough(K, K @ D)


def correct_feedthrough(correction: Feedthrough, y: Floats, base: Floats, sent: Floats) -> Floats:
    """Corrected outputs, shape (ny,).

    Parameters
    ----------
    y : ndarray, shape (ny,)
        Outputs as the subsystems returned them.
    base : ndarray, shape (nu,)
        Offsets of connected inputs, values of unconnected ones.
    sent : ndarray, shape (nu,)
        Value now of the input polynomials as sent.
    """
    corrected: Floats = correction.K @ y + correction.KD @ (base - sent)
    return corrected
