"""Gauss elimination with partial pivoting, in place, for matrices of some tens of rows.

A matrix is stored by columns, shape (n, n): ``columns[j, i]`` is its element in row i, column j, so
that every inner loop goes along memory. Multipliers that are zero cost nothing: the matrices of the
corrections are sparse (Golub and Van Loan 2013, section 3.4).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hilrt.compilation.compiled import compiled
from hilrt.solver import Floats


@compiled
def factorise(columns: Floats, pivots: NDArray[np.int64]) -> bool:
    """Triangular factors into the matrix's place, and the rows exchanged; False if singular."""
    n = len(pivots)
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(columns[k, i]) > abs(columns[k, best]):
                best = i
        pivots[k] = best
        for j in range(n):
            columns[j, k], columns[j, best] = columns[j, best], columns[j, k]
        pivot = columns[k, k]
        if pivot == 0.0 or not math.isfinite(pivot):
            return False
        for i in range(k + 1, n):
            columns[k, i] /= pivot
        for j in range(k + 1, n):
            multiplier = columns[j, k]
            if multiplier != 0.0:
                for i in range(k + 1, n):
                    columns[j, i] -= columns[k, i] * multiplier
    return True


@compiled
def solve(columns: Floats, pivots: NDArray[np.int64], x: Floats) -> None:
    """Solution of the factorised system for the right side `x`, shape (n,), in its place."""
    n = len(pivots)
    for k in range(n):
        x[k], x[pivots[k]] = x[pivots[k]], x[k]
    for j in range(n):
        value = x[j]
        for i in range(j + 1, n):
            x[i] -= columns[j, i] * value
    for j in range(n - 1, -1, -1):
        x[j] /= columns[j, j]
        value = x[j]
        for i in range(j):
            x[i] -= columns[j, i] * value
