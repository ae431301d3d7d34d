"""Polynomials of many channels at once, as Taylor coefficients about a time of their own.

``u(t) = sum_m c[m] (t - t0)**m / m!``; `c` has shape (order + 1, n), times are in seconds.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from hilrt.solver import Floats


def evaluate(c: Floats, dt: Floats | float) -> Floats:
    """Value at ``t0 + dt``, shape (n,); `dt` [s] is a scalar or has shape (n,)."""
    value: Floats = c[-1]
    for m in range(len(c) - 1, 0, -1):
        value = c[m - 1] + value * (dt / m)
    return value


def shift(c: Floats, dt: Floats | float) -> Floats:
    """The same polynomial about ``t0 + dt``, shape (order + 1, n); `dt` [s] scalar or (n,)."""
    moved = c.copy()
    for m in range(len(c) - 1):
        moved[m] = evaluate(c[m:], dt)
    return moved


@cache
def _gram(n: int) -> Floats:
    """``integral over [-1, 0] of s**(i + j) / (i! j!)``, shape (n, n)."""
    return np.array(
        [
            [
                (-1) ** (i + j) / ((i + j + 1) * math.factorial(i) * math.factorial(j))
                for j in range(n)
            ]
            for i in range(n)
        ]
    )


def mean_square(c: Floats, h: float) -> Floats:
    """``1/h integral over [t0 - h, t0] of u(t)**2 dt``, shape (n,), exactly.

    Parameters
    ----------
    c : ndarray, shape (order + 1, n)
        Taylor coefficients about `t0`.
    h : float
        Length of the interval before `t0`, s.
    """
    if len(c) == 1:
        square: Floats = c[0] * c[0]
        return square
    scaled = c * h ** np.arange(len(c))[:, None]
    result: Floats = (_gram(len(c)) @ scaled * scaled).sum(axis=0)
    return np.maximum(result, 0.0)  # rounding of a vanishing polynomial can fall below zero
