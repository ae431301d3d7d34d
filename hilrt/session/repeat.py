"""A session repeated at half and a quarter of its step: what its signals tend to.

Where the error is a power of the step, ``y(H) = y + c H^p``, three steps tell all of it (L. F.
Richardson 1911, "The approximate arithmetical solution by finite differences"): with
``d1 = y(H) − y(H/2)`` and ``d2 = y(H/2) − y(H/4)`` the order is ``p = log2(|d1| / |d2|)`` and the
limit ``y(H/4) − d2 / (2^p − 1)``. What models integrate with steps that follow the session's tends
to its limit with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hilrt.config.session_file import SessionFile, load_session
from hilrt.errors import ConfigError, HilrtError
from hilrt.session.result import Result
from hilrt.session.simulate import simulate
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
    why_not : str
        Why it is not in the asymptotic range; empty if it is.
    """

    unit: str
    order: float
    error: float
    relative: float
    limit: Floats
    why_not: str = ""

    def as_json(self) -> dict[str, Any]:
        """Result as JSON, without the course over time; null where unknown."""
        found = {name: getattr(self, name) for name in ("order", "error", "relative")}
        known = {name: v if math.isfinite(v) else None for name, v in found.items()}
        return {"unit": self.unit, **known, "why_not": self.why_not}


def repeat(
    session: str | Path | SessionFile, overrides: Mapping[str, object] | None = None
) -> dict[str, Repeated]:
    """Run a session of models at H, H/2 and H/4, and extrapolate every coupling signal.

    Parameters
    ----------
    session, overrides
        As for `simulate`.

    Raises
    ------
    ConfigError
        For a session that `simulate` refuses, and for one with a variable step.
    HilrtError
        If a run ends by a fault, or not at the same time as the others.
    """
    file = session if isinstance(session, SessionFile) else load_session(session, overrides or {})
    master = file.tables.master
    if master.step_control.method != "fixed":
        raise ConfigError(
            ["[master.step_control]: a variable step cannot be halved; set method = 'fixed'"]
        )
    changes = dict(overrides or {})
    runs = [_run(session, changes, master.step / factor) for factor in FACTORS]
    names = runs[0].summary["estimated_error"]
    found = {}
    for name, estimate in names.items():
        whole, half, quarter = _course(runs, name)
        found[name] = extrapolated(whole, half, quarter, estimate["unit"])
    return found


def _run(session: str | Path | SessionFile, changes: Mapping[str, object], step: float) -> Result:
    found = simulate(session, {**changes, "master.step": step})
    if found.fault:
        raise HilrtError(f"with a step of {step:g} s the session ended by a fault: {found.fault}")
    return found


def _course(runs: list[Result], name: str) -> list[Floats]:
    """A signal at the communication points of the longest step, by run."""
    times = [run.log.t[::factor] for run, factor in zip(runs, FACTORS, strict=True)]
    for t in times[1:]:
        if len(t) != len(times[0]) or not np.allclose(t, times[0], rtol=0.0, atol=1e-9):
            raise HilrtError(
                "the runs do not end at the same time; give the session a duration of whole steps"
            )
    pairs = zip(runs, FACTORS, strict=True)
    return [run.log.held(name)[::factor] for run, factor in pairs]


def extrapolated(whole: Floats, half: Floats, quarter: Floats, unit: str = "") -> Repeated:
    """Limit of a signal from its values at H, H/2 and H/4, shape (n,) each."""
    known = np.isfinite(whole) & np.isfinite(half) & np.isfinite(quarter)
    unknown = np.full(len(whole), np.nan)
    d1, d2 = (whole - half)[known], (half - quarter)[known]
    first, second = _rms(d1), _rms(d2)
    if first <= ROUNDING * np.abs(quarter[known]).max(initial=0.0):
        return Repeated(unit, math.nan, 0.0, 0.0, quarter)
    order = math.log2(first / second) if second > 0.0 else math.inf
    why_not = _why_not(order, d1, d2, quarter[known])
    if why_not:
        return Repeated(unit, order, math.nan, math.nan, unknown, why_not)
    limit: Floats = quarter - (half - quarter) / (2.0**order - 1.0)
    error = _rms((whole - limit)[known])
    return Repeated(unit, order, error, error / _spread(limit[known]), limit)


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
