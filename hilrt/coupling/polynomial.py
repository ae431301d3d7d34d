"""Polynomials of many channels at once, as Taylor coefficients about a time of their own.

``u(t) = sum_m c[m] (t - t0)**m / m!``; `c` has shape (order + 1, n), times are in seconds.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from hilrt.compiled import compiled
from hilrt.solver import Floats


def evaluate(c: Floats, dt: Floats | float) -> Floats:
    """Value at ``t0 + dt``, shape (n,); `dt` [s] is a scalar or has shape (n,)."""
    value: Floats = np.empty_like(c[0])
    _evaluate(c, _each(dt, c), value)
    return value


def shift(c: Floats, dt: Floats | float) -> Floats:
    """The same polynomial about ``t0 + dt``, shape (order + 1, n); `dt` [s] scalar or (n,)."""
    moved = c.copy()
    _shift(moved, _each(dt, c))
    return moved


@compiled
def raise_by(c: Floats, added: Floats, raised: Floats) -> None:
    """The polynomials `c`, (order + 1, n), with the constants `added` (n,) added, into `raised`."""
    orders, n = c.shape
    for i in range(n):
        raised[0, i] = c[0, i] + added[i]
        for m in range(1, orders):
            raised[m, i] = c[m, i]


def shift_in_place(c: Floats, dt: Floats) -> None:
    """As `shift`, for `dt` of shape (n,), leaving the result in `c`."""
    _shift(c, dt)


def _each(dt: Floats | float, c: Floats) -> Floats:
    return np.full(c.shape[1], dt) if np.ndim(dt) == 0 else np.asarray(dt)


@compiled
def _evaluate(c: Floats, dt: Floats, value: Floats) -> None:
    orders, n = c.shape
    for i in range(n):
        v = c[orders - 1, i]
        for m in range(orders - 1, 0, -1):
            v = c[m - 1, i] + v * (dt[i] / m)
        value[i] = v


@compiled
def _shift(c: Floats, dt: Floats) -> None:
    orders, n = c.shape
    for i in range(n):
        for k in range(orders - 1):
            v = c[orders - 1, i]
            for m in range(orders - 1 - k, 0, -1):
                v = c[k + m - 1, i] + v * (dt[i] / m)
            c[k, i] = v


@lru_cache(maxsize=64)
def weights(n: int, h: float) -> Floats:
    """Matrix W, shape (n, n), with ``|W c|**2 = 1/h integral over [-h, 0] of u(t)**2 dt``.

    W is a Cholesky factor of ``integral over [-1, 0] of s**(i + j) / (i! j!)``, scaled.
    """
    i = np.arange(n)
    power = i[:, None] + i
    factorial = np.array([math.factorial(m) for m in range(n)])
    gram = (-1.0) ** power / ((power + 1.0) * np.outer(factorial, factorial))
    weights: Floats = np.ascontiguousarray(np.linalg.cholesky(gram).T * h**i)
    return weights


def rms_difference(a: Floats, t0: Floats, b: Floats, t: float, h: float, rms: Floats) -> None:
    """RMS over ``[t - h, t]`` of the difference of two polynomials, shape (n,), into `rms`.

    Parameters
    ----------
    a, b : ndarray, shape (order + 1, n)
        Taylor coefficients about `t0`, shape (n,), and about `t`, s.
    h : float
        Length of the interval, s.
    """
    weighted_difference(a, t0, b, t, weights(len(a), h), rms)


@compiled
def weighted_difference(
    a: Floats, t0: Floats, b: Floats, t: float, weights: Floats, rms: Floats
) -> None:
    """As `rms_difference`, with the `weights` of the interval."""
    orders, n = a.shape
    c = np.empty(orders)
    for i in range(n):
        since = t - t0[i]
        for k in range(orders):
            v = a[orders - 1, i]
            for m in range(orders - 1 - k, 0, -1):
                v = a[k + m - 1, i] + v * (since / m)
            c[k] = v - b[k, i]
        square = 0.0
        for k in range(orders):  # the weights are upper triangular
            part = 0.0
            for m in range(k, orders):
                part += weights[k, m] * c[m]
            square += part * part  # never below zero
        rms[i] = np.sqrt(square)
