"""A session repeated at half and a quarter of its step: what its signals tend to.

Where the error is a power of the step, ``y(H) = y + c H^p``, three steps tell all of it (L. F.
Richardson 1911, "The approximate arithmetical solution by finite differences"): with
``d1 = y(H) − y(H/2)`` and ``d2 = y(H/2) − y(H/4)`` the order is ``p = log2(|d1| / |d2|)`` and the
limit ``y(H/4) − d2 / (2^p − 1)``. What models integrate with steps that follow the session's tends
to its limit with them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hilrt.reliability.estimates import IRREGULAR, REPEATED, Estimate, make_estimate
from hilrt.solver import Floats

#: Steps relative to the session's.
FACTORS = (1, 2, 4)
#: Observed orders outside these are no power of the step: extrapolation is of order 4 at most.
LOWEST_ORDER, HIGHEST_ORDER = 0.5, 6.0
#: Least correlation of the two differences over time, which are the same course but for a factor.
LEAST_CORRELATION = 0.9
#: Largest difference, relative to what the signal varies by.
LARGEST_DIFFERENCE = 0.5
#: Differences below this share of the largest value are rounding.
ROUNDING = 1e-9


class Repeated(NamedTuple):
    """A signal at three steps.

    Attributes
    ----------
    unit : str
    order : float
        Observed; NaN where the signal does not change with the step.
    error : float
        RMS of the session's values less the limit, in `unit`; NaN outside the asymptotic range.
    relative : float
        The same relative to what the limit varies by (standard deviation, or 5 % of its RMS).
    limit : ndarray, shape (n,)
        At the session's communication points; NaN outside the asymptotic range.
    change : float
        Largest RMS difference of the session's values from those at a shorter step, in `unit`.
    spread : float
        What the values at the shortest step vary by, in `unit`.
    why_not : str
        Why it is not in the asymptotic range; empty if it is.
    """

    unit: str
    order: float
    error: float
    relative: float
    limit: Floats
    change: float
    spread: float
    why_not: str = ""

    @property
    def estimate(self) -> Estimate:
        """Estimated error of the session, for its verdict.

        Outside the asymptotic range it is the change, with an interval that begins at 0.
        """
        if self.why_not:
            return make_estimate(self.unit, self.change, self.spread, IRREGULAR)
        return make_estimate(self.unit, self.error, self.spread, REPEATED)

    def as_json(self) -> dict[str, Any]:
        """Result as JSON, without the course over time; null where unknown."""
        found = {name: getattr(self, name) for name in ("order", "error", "relative")}
        known = {name: v if math.isfinite(v) else None for name, v in found.items()}
        return {"unit": self.unit, **known, "why_not": self.why_not}


def extrapolated(whole: Floats, half: Floats, quarter: Floats, unit: str = "") -> Repeated:
    """Limit of a signal from its values at H, H/2 and H/4, shape (n,) each."""
    known = np.isfinite(whole) & np.isfinite(half) & np.isfinite(quarter)
    unknown = np.full(len(whole), np.nan)
    d1, d2 = (whole - half)[known], (half - quarter)[known]
    first, second = _rms(d1), _rms(d2)
    change, spread = max(first, _rms(d1 + d2)), _spread(quarter[known])
    if change <= ROUNDING * np.abs(quarter[known]).max(initial=0.0):
        return Repeated(unit, math.nan, 0.0, 0.0, quarter, change, spread)
    order = math.log2(first / second) if second > 0.0 else math.inf
    why_not = _why_not(order, d1, d2, quarter[known])
    if why_not:
        return Repeated(unit, order, math.nan, math.nan, unknown, change, spread, why_not)
    limit: Floats = quarter - (half - quarter) / (2.0**order - 1.0)
    error = _rms((whole - limit)[known])
    spread = _spread(limit[known])
    return Repeated(unit, order, error, error / spread, limit, change, spread)


def _why_not(order: float, d1: Floats, d2: Floats, values: Floats) -> str:
    if not LOWEST_ORDER <= order <= HIGHEST_ORDER:
        return f"its observed order is {order:.2g}"
    alike = float(np.mean(d1 * d2)) / (_rms(d1) * _rms(d2))
    if alike < LEAST_CORRELATION:
        return f"its differences are not alike: they correlate by {alike:.2f}"
    share = _rms(d1) / _spread(values)
    if share > LARGEST_DIFFERENCE:
        return f"half the step changes it by {share:.0%} of what it varies by"
    return ""


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values * values))) if len(values) else 0.0


def _spread(values: Floats) -> float:
    return max(float(np.std(values)), 0.05 * _rms(values), 1e-300)
