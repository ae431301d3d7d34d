"""Limits: input polynomials bounded in value, rate and jerk over the interval of their use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hilrt.compiled import compiled
from hilrt.coupling.ramp import approach
from hilrt.solver import Floats
from hilrt.tables.network import Bools

_approach = compiled(approach)


@dataclass(frozen=True)
class Bounds:
    """Bounds of the inputs, arrays of shape (nu,): value, rate [unit/s] and jerk [unit/s²]."""

    low: Floats
    high: Floats
    rate: Floats
    jerk: Floats


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
def limit_jerk(
    c: Floats,
    i: int,
    h: float,
    t: float,
    elapsed: float,
    last: float,
    end: float,
    motion: Floats,
    low: float,
    high: float,
    rate: float,
    jerk: float,
) -> bool:
    """Limit the polynomial of channel `i` of `c` in value, rate and jerk; for compiled loops.

    Parameters
    ----------
    c, i
        Polynomials and channel.
    h : float
        Length of the interval, s.
    t, elapsed : float
        Now, and time since the input was sent before, s.
    last, end : float
        What was sent before, and where its polynomial has come to.
    motion : ndarray, shape (3, nu)
        Of each input: mean rate at which it came to `last` [unit/s], the time in the middle of that
        step [s], and what was asked then; brought up to date.
    low, high, rate, jerk : float
        The bounds: of the value, its rate [unit/s], and the change of that [unit/s²].

    Returns
    -------
    bool
        Whether it was limited.

    Notes
    -----
    From one communication point to the next the value comes as near to what is asked as
    `hilrt.coupling.ramp.approach` allows. On the interval the slope begins within ``jerk (elapsed
    + h) / 2`` of the rate at which the value came there, which is the change allowed from the
    middle of the interval before to that of this one; and ``|p''|``, by the sum of its terms,
    stays within `jerk`. What does not becomes a straight line that does.
    """
    before = c[0, i]
    asked = min(max(before if np.isfinite(before) else last, low), high)
    middle = t - 0.5 * elapsed
    start, came = _approach(
        last, motion[0, i], asked, motion[2, i], elapsed, middle - motion[1, i], low, high, rate,
        jerk,
    )  # fmt: skip
    c[0, i] = start
    limited = limit_channel(c, i, h, elapsed, start, end, low, high, rate)
    if c[0, i] != start:
        came = (c[0, i] - last) / elapsed
        start = c[0, i]
    motion[0, i], motion[1, i], motion[2, i] = came, middle, asked
    limited |= bool(start != before)
    # What is held (order 0) stays so: it has no slope that could be right or wrong.
    if limited or np.any(c[1:, i] != 0.0):
        limited |= _limit_bend(c, i, h, came, 0.5 * jerk * (elapsed + h), low, high, jerk)
    return limited


@compiled
def _limit_bend(
    c: Floats,
    i: int,
    h: float,
    came: float,
    change: float,
    low: float,
    high: float,
    jerk: float,
) -> bool:
    """Keep the slope within `change` of the rate `came`, and the curvature within `jerk`."""
    if len(c) == 1:
        return False
    bend, factor = 0.0, 1.0
    for m in range(2, len(c)):
        bend += abs(c[m, i]) * factor
        factor *= h / (m - 1)
    if bend <= jerk and abs(c[1, i] - came) <= change:
        return False
    slope = min(max(c[1, i], came - change), came + change)
    if h > 0.0:
        slope = min(max(slope, (low - c[0, i]) / h), (high - c[0, i]) / h)
    c[1, i] = slope
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
