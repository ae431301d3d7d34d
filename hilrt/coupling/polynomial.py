"""Polynomials of many channels at once, as Taylor coefficients about a time of their own.

``u(t) = sum_m c[m] (t - t0)**m / m!``; `c` has shape (order + 1, n), times are in seconds.
"""

from __future__ import annotations

import math
from functools import lru_cache

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


@lru_cache(maxsize=64)
def _weights(n: int, h: float) -> Floats:
    """Matrix W, shape (n, n), with ``|W c|**2 = 1/h integral over [-h, 0] of u(t)**2 dt``.

    W is a Cholesky factor of ``integral over [-1, 0] of s**(i + j) / (i! j!)``, scaled.
    """
    i = np.arange(n)
    power = i[:, None] + i
    factorial = np.array([math.factorial(m) for m in range(n)])
    gram = (-1.0) ** power / ((power + 1.0) * np.outer(factorial, factorial))
    weights: Floats = np.linalg.cholesky(gram).T * h**i
    return weights


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
    result: Floats = np.square(_weights(len(c), h) @ c).sum(axis=0)  # never below zero
    return result
