"""Connection and output defects of the interval that ended (METHODS section 6, paper 003)."""

from __future__ import annotations

import numpy as np

from hilrt.coupling.polynomial import mean_square
from hilrt.network import Ints
from hilrt.solver import Floats


def connection_defect(sent: Floats, measured: Floats, h: float) -> Floats:
    """RMS over ``[t - h, t]`` of the input as sent minus the input as it turned out, shape (nu,).

    Parameters
    ----------
    sent, measured : ndarray, shape (order + 1, nu)
        Taylor coefficients about `t`: of the polynomial that left the master for the interval, and
        of ``L ỹ`` through the outputs now known, of the connection's own order.
    h : float
        Length of the interval, s.
    """
    rms: Floats = np.sqrt(mean_square(sent - measured, h))
    return rms


def output_defect(middle: Floats, expected: Floats, order: Ints) -> Floats:
    """RMS over the interval of the output defect, shape (ny,); NaN where `middle` is.

    The defect is ``Δ ((t - τ) / (h/2))**(n + 1)`` with Δ the true minus the Taylor value in the
    middle of the interval; its RMS is ``|Δ| 2**(n + 1) / sqrt(2 n + 3)``.

    Parameters
    ----------
    middle : ndarray, shape (ny,)
        Outputs in the middle of the interval.
    expected : ndarray, shape (ny,)
        What the outputs' Taylor polynomials of degree `order` (ny,), about the interval's end,
        give there.
    """
    rms: Floats = np.abs(middle - expected) * 2.0 ** (order + 1) / np.sqrt(2.0 * order + 3.0)
    return rms
