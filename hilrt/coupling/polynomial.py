"""Polynomials as Taylor coefficients about a time of their own.

``u(t) = sum_m c[m] (t - t0)^m / m!``, times in seconds. Functions take the coefficients of one
channel, shape (`COEFFICIENTS`,) or more, and the number of them that counts.
"""

from __future__ import annotations

import math

import numpy as np

from hilrt.compilation.compiled import compiled
from hilrt.solver import Floats


@compiled
def value_at(c: Floats, count: int, dt: float) -> float:
    """Value of the polynomial of `count` coefficients at ``t0 + dt``."""
    value = c[count - 1]
    for m in range(count - 1, 0, -1):
        value = c[m - 1] + value * (dt / m)
    return value


@compiled
def shift(c: Floats, count: int, dt: float) -> None:
    """The same polynomial about ``t0 + dt``, in place."""
    if dt == 0.0:
        return
    for k in range(count - 1):
        value = c[count - 1]
        for m in range(count - 1 - k, 0, -1):
            value = c[k + m - 1] + value * (dt / m)
        c[k] = value


@compiled
def copy(source: Floats, count: int, target: Floats) -> None:
    """Coefficients into another polynomial."""
    for m in range(count):
        target[m] = source[m]


def gram_factor(n: int) -> Floats:
    """Upper triangular W, shape (n, n), for the mean square of a polynomial over an interval.

    ``|W c|^2 = 1/h integral over [-h, 0] of u(t)^2 dt`` where column m of W is scaled by h^m. The
    leading block of W is the factor for fewer coefficients.
    """
    i = np.arange(n)
    power = i[:, None] + i
    factorial = np.array([math.factorial(m) for m in range(n)])
    gram = (-1.0) ** power / ((power + 1.0) * np.outer(factorial, factorial))
    factor: Floats = np.ascontiguousarray(np.linalg.cholesky(gram).T)
    return factor
