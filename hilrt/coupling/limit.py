"""Limits: input polynomials bounded in value and rate over the whole interval of their use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hilrt.network import Bools
from hilrt.solver import Floats


@dataclass(frozen=True)
class Bounds:
    """Bounds of the inputs, arrays of shape (nu,): value, and rate [unit/s]."""

    low: Floats
    high: Floats
    rate: Floats

    @cached_property
    def finite_rate(self) -> Floats:
        """`rate` where it is finite, else 0."""
        return np.where(np.isfinite(self.rate), self.rate, 0.0)

    @cached_property
    def unlimited(self) -> Floats:
        """Infinity where the rate is, else 0."""
        return np.where(np.isfinite(self.rate), 0.0, np.inf)

    def any(self) -> bool:
        """Whether there is anything to limit."""
        return bool(
            np.isfinite(self.low).any()
            or np.isfinite(self.high).any()
            or np.isfinite(self.rate).any()
        )


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
    limited start towards the limited end.
    """
    before = c[0].copy()
    reach = bounds.finite_rate * elapsed + bounds.unlimited
    low = np.maximum(np.maximum(last, end) - reach, bounds.low)
    high = np.minimum(np.minimum(last, end) + reach, bounds.high)
    np.minimum(np.maximum(before, low), high, out=c[0])
    limited: Bools = c[0] != before
    if len(c) == 1:
        return limited
    rise = c[1] * h  # excursion over the interval, and its largest part up and down
    final = c[0] + rise
    steepest, highest, lowest = np.abs(c[1]), final, final
    if len(c) > 2:
        up, down, factor = np.maximum(rise, 0.0), np.minimum(rise, 0.0), h
        for m in range(2, len(c)):
            steepest = steepest + np.abs(c[m]) * factor
            factor = factor * h / m
            term = c[m] * factor
            final = final + term
            up, down = up + np.maximum(term, 0.0), down + np.minimum(term, 0.0)
        highest, lowest = c[0] + up, c[0] + down
    bent = (steepest > bounds.rate) | (highest > bounds.high) | (lowest < bounds.low)
    if np.count_nonzero(bent):
        slope = (np.clip(final, bounds.low, bounds.high) - c[0]) / np.where(h > 0, h, np.inf)
        np.copyto(c[1], np.clip(slope, -bounds.rate, bounds.rate), where=bent)
        c[2:, bent] = 0.0
    limited |= bent
    return limited
