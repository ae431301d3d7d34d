"""Linear interpolation in lookup tables; beyond the ends the value at the end holds."""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled
from hilrt.tables.record import Table


@compiled
def interpolate(points: Table, first: int, n: int, x: float) -> float:
    """Value at `x` of a table of one axis with `n` points; NaN at NaN."""
    if x != x:
        return math.nan
    i = interval(points, first, n, x)
    below = points[first + n + i].value
    if n == 1:
        return below
    w = share(points, first + i, x)
    return below + w * (points[first + n + i + 1].value - below)


@compiled
def interpolate_2d(points: Table, first: int, n: int, m: int, x: float, y: float) -> float:
    """Value at `x`, `y` of a table of `n` rows and `m` columns; NaN at NaN."""
    if x != x or y != y:
        return math.nan
    i, j = interval(points, first, n, x), interval(points, first + n, m, y)
    corner = first + n + m + i * m + j
    v = share(points, first + n + j, y) if m > 1 else 0.0
    right = 1 if m > 1 else 0
    value = points[corner].value
    value += v * (points[corner + right].value - value)
    if n == 1:
        return value
    above = points[corner + m].value
    above += v * (points[corner + m + right].value - above)
    return value + share(points, first + i, x) * (above - value)


@compiled
def interval(points: Table, first: int, n: int, x: float) -> int:
    """Number of the interval of an axis that `x` is in; the outer ones reach beyond the ends."""
    low, high = 0, max(n - 2, 0)
    while low < high:
        middle = (low + high + 1) // 2
        if points[first + middle].value <= x:
            low = middle
        else:
            high = middle - 1
    return low


@compiled
def share(points: Table, at: int, x: float) -> float:
    """How far `x` is from one point of an axis to the next, from 0 to 1."""
    begin = points[at].value
    w = (x - begin) / (points[at + 1].value - begin)
    return min(max(w, 0.0), 1.0)
