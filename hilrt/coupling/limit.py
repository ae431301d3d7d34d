"""Limits: input polynomials bounded in value and rate over the whole interval of their use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hilrt.compiled import compiled
from hilrt.network import Bools
from hilrt.solver import Floats


@dataclass(frozen=True)
class Bounds:
    """Bounds of the inputs, arrays of shape (nu,): value, and rate [unit/s]."""

    low: Floats
    high: Floats
    rate: Floats


def limit(
    c: Floats, h: Floats, elapsed: Floats | float, last: Floats, end: Floats, bounds: Bounds
) -> Bools:
    """Limit polynomials in place over ``[t, t + h]``.

    Parameters
    ----------
    c : ndarray, shape (order + 1, nu)
        Taylor coefficients about `t`; changed where a bound would be crossed.
    h : ndarray, shape (nu,)
        Length of the interval each polynomial is used on, s.
    elapsed : float, or ndarray of shape (nu,)
        Time since each input was sent before, s.
    last, end : ndarray, shape (nu,)
        Value sent at the previous communication point, and value its polynomial has now. A new
        value may be one `elapsed` of full rate away from both.
    bounds : Bounds

    Returns
    -------
    ndarray of bool, shape (nu,)
        The inputs that were limited.

    Notes
    -----
    A polynomial whose derivative and excursion are within bounds by the sum of their terms (exact
    up to degree 1) is left as it is; another becomes the straight line, within the rate, from the
    limited start towards the limited end. A coefficient that is not a finite number never leaves:
    the input then stays where it was.
    """
    limited: Bools = np.empty(c.shape[1], dtype=bool)
    since = np.full(len(last), elapsed) if np.ndim(elapsed) == 0 else np.asarray(elapsed)
    _limit(c, h, since, last, end, bounds.low, bounds.high, bounds.rate, limited)
    return limited


@compiled
def limit_channel(
    c: Floats,
    i: int,
    h: float,
    elapsed: float,
    last: float,
    end: float,
    low: float,
    high: float,
    rate: float,
) -> bool:
    """Limit the polynomial of channel `i` of `c` as `limit` does; for use in compiled loops."""
    orders = len(c)
    end = end if np.isfinite(end) else last
    reach = rate * elapsed if np.isfinite(rate) else np.inf
    before = c[0, i]
    start = before if np.isfinite(before) else last
    start = min(max(start, max(last, end) - reach, low), min(last, end) + reach, high)
    c[0, i] = start
    # The excursion over the interval, its largest part up and down, and the steepest slope.
    final, up, down, steepest, factor = start, 0.0, 0.0, 0.0, 1.0
    for m in range(1, orders):
        steepest += abs(c[m, i]) * factor
        factor *= h / m
        term = c[m, i] * factor
        final += term
        up += max(term, 0.0)
        down += min(term, 0.0)
    finite = np.isfinite(final)
    outside = start + up > high or start + down < low
    if finite and not outside and not steepest > rate:
        return bool(start != before)
    if orders > 1:
        rise = min(max(final, low), high) - start if finite else 0.0
        c[1, i] = min(max(rise / h if h > 0.0 else 0.0, -rate), rate)
        c[2:, i] = 0.0
    return True


@compiled
def _limit(
    c: Floats,
    h: Floats,
    elapsed: Floats,
    last: Floats,
    end: Floats,
    low: Floats,
    high: Floats,
    rate: Floats,
    limited: Bools,
) -> None:
    for i in range(len(limited)):
        limited[i] = limit_channel(
            c, i, h[i], elapsed[i], last[i], end[i], low[i], high[i], rate[i]
        )
