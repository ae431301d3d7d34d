"""Limits of a session's signals for a step tending to zero, and the session's errors from them.

If the error is a power of the step, ``y(H) = y + c H^p``, runs at three steps determine it (L. F.
Richardson 1911, "The approximate arithmetical solution by finite differences"): with
``d1 = y(H) − y(H/2)`` and ``d2 = y(H/2) − y(H/4)`` the order is ``p = log2(|d1| / |d2|)`` and the
limit ``y(H/4) − d2 / (2^p − 1)``. The limit is also free of the models' own integration errors if
their internal steps follow the session's.

`extrapolated` uses exactly three steps; `compare_with_reference` halves the step until the
extrapolated limits no longer change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hilrt.config.session_file import SessionFile
from hilrt.config.structs import Session
from hilrt.errors import HilrtError
from hilrt.files.formats import json_numbers
from hilrt.reliability.estimates import IRREGULAR, REFERENCE, REPEATED, Estimate, make_estimate
from hilrt.session.result import Result
from hilrt.solver import Floats

#: Divisors of the session's step.
FACTORS = (1, 2, 4)
#: Plausible observed orders: extrapolation is of order 4 at most.
LOWEST_ORDER, HIGHEST_ORDER = 0.5, 6.0
#: Minimum correlation of the two differences over time, which should be equal up to a factor.
LEAST_CORRELATION = 0.9
#: Largest accepted difference, relative to the signal's variation.
LARGEST_DIFFERENCE = 0.5
#: Differences below this share of the largest value count as rounding errors.
ROUNDING = 1e-9
#: An error counts as known if its uncertainty is below this share of it, or below `LEAST_ERROR` of
#: the signal's variation: adaptive integrators inside the models are no more accurate.
TOLERANCE, LEAST_ERROR = 0.01, 1e-6
#: Largest number of steps in all runs together.
MOST_STEPS = 2_000_000
#: Largest ratio of a difference to the previous one at which the values tend to a limit.
LEAST_PROGRESS = 0.8
#: Settings of the runs of a repetition, which are not repeated themselves.
ALONE: Mapping[str, object] = {"reliability.repeat": "off", "reliability.reference": "off"}


class Repeated(NamedTuple):
    """A signal at three steps.

    Attributes
    ----------
    unit : str
    order : float
        Observed order; NaN if the signal does not change with the step.
    error : float
        RMS of the session's values minus the limit, in `unit`; NaN outside the asymptotic range.
    relative : float
        The same relative to the limit's variation (standard deviation, or 5 % of its RMS).
    limit : ndarray, shape (n,)
        Limit at the session's communication points; NaN outside the asymptotic range.
    change : float
        Largest RMS difference of the session's values from those at a shorter step, in `unit`; NaN
        if no time has a value at all three steps.
    spread : float
        Variation of the limit, or of the values at the shortest step without one, in `unit`; NaN
        like `change`.
    why_not : str
        Reason why it is not in the asymptotic range; empty if it is.
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

        Outside the asymptotic range it is `change`, with an interval that begins at 0. It is
        unknown if no time has a value at all three steps.
        """
        if self.why_not:
            how = f"unknown: {self.why_not}" if math.isnan(self.change) else IRREGULAR
            return make_estimate(self.unit, self.change, self.spread, how)
        found = make_estimate(self.unit, self.error, self.spread, REPEATED)
        return found._replace(order=self.order)

    def as_json(self) -> dict[str, Any]:
        """Result as JSON without time series; null where unknown."""
        known = json_numbers({name: getattr(self, name) for name in ("order", "error", "relative")})
        return {"unit": self.unit, **known, "why_not": self.why_not}


def extrapolated(
    whole: Floats,
    half: Floats,
    quarter: Floats,
    unit: str = "",
    weights: Floats | None = None,
) -> Repeated:
    """Limit of a signal from its values at H, H/2 and H/4, shape (n,) each.

    `weights` are the lengths of the steps that end with these values; default: all equal.
    """
    known = np.isfinite(whole) & np.isfinite(half) & np.isfinite(quarter)
    seconds = None if weights is None else weights[known]
    unknown = np.full(len(whole), np.nan)
    if not known.any():
        nan, why_not = math.nan, "no time has a value at all three steps"
        return Repeated(unit, nan, nan, nan, unknown, nan, nan, why_not)
    d1, d2 = (whole - half)[known], (half - quarter)[known]
    first, second = _rms(d1, seconds), _rms(d2, seconds)
    change = max(first, _rms(d1 + d2, seconds))
    spread = _spread(quarter[known], seconds)
    if change <= ROUNDING * np.abs(quarter[known]).max(initial=0.0):
        return Repeated(unit, math.nan, 0.0, 0.0, quarter, change, spread)
    order = math.log2(first / second) if second > 0.0 else math.inf
    why_not = _why_not(order, d1, d2, first / spread)
    if why_not:
        return Repeated(unit, order, math.nan, math.nan, unknown, change, spread, why_not)
    limit: Floats = quarter - (half - quarter) / (2.0**order - 1.0)
    error = _rms((whole - limit)[known], seconds)
    spread = _spread(limit[known], seconds)
    return Repeated(unit, order, error, error / spread, limit, change, spread)


def _why_not(order: float, d1: Floats, d2: Floats, share: float) -> str:
    if not LOWEST_ORDER <= order <= HIGHEST_ORDER:
        return f"its observed order is {order:.2g}"
    alike = float(np.mean(d1 * d2)) / (_rms(d1) * _rms(d2))
    if alike < LEAST_CORRELATION:
        return f"its differences are not proportional over time: they correlate by {alike:.2f}"
    if share > LARGEST_DIFFERENCE:
        return f"half the step changes it by {share:.0%} of its variation"
    return ""


class Compared(NamedTuple):
    """A signal of a session compared with the converged reference.

    Attributes
    ----------
    unit : str
    error : float
        RMS of the session's values minus the reference, in `unit`.
    relative : float
        The same relative to the reference's variation (standard deviation, or 5 % of its RMS).
    uncertainty : float
        Uncertainty of `error`, in `unit`; infinite if the runs do not converge.
    spread : float
        Variation of the reference, in `unit`.
    converged : bool
        Whether `uncertainty` is within the tolerance.
    estimate : mapping
        The session's own estimate, as in its summary.
    """

    unit: str
    error: float
    relative: float
    uncertainty: float
    spread: float
    converged: bool
    estimate: Mapping[str, Any]

    @property
    def as_estimate(self) -> Estimate:
        """Error for a verdict; unknown if the reference has not converged."""
        if self.converged:
            return make_estimate(self.unit, self.error, self.spread, REFERENCE)
        how = "unknown: the reference has not converged within the steps allowed"
        how += "; hilrt analyze reference --most-steps allows more"
        return make_estimate(self.unit, math.nan, math.nan, how)

    def line(self, name: str) -> str:
        """Format the comparison as text."""
        error = f"{self.error:.3g} {self.unit}".rstrip()
        text = f"{name}: error {error} RMS, {self.relative:.2%} of its variation"
        if not self.converged:
            return f"{text}, NOT CONVERGED: raise --most-steps, --tolerance, or both"
        value, how = self.estimate["value"], self.estimate["how"]
        if value is None:
            return f"{text}; no estimate ({how})"
        return f"{text}; estimated {value:.3g} ({how})"

    def as_json(self) -> dict[str, Any]:
        """Result as JSON; null where unknown."""
        known = json_numbers(
            {name: getattr(self, name) for name in ("error", "relative", "uncertainty")}
        )
        more = {"converged": self.converged, "estimate": dict(self.estimate)}
        return {"unit": self.unit, **known, **more}


class Reference(NamedTuple):
    """Comparison of a session with its reference: signals by name, and the steps used [s]."""

    signals: dict[str, Compared]
    steps: list[float]

    @property
    def converged(self) -> bool:
        """Whether the error of every signal is known."""
        return all(one.converged for one in self.signals.values())

    def as_json(self) -> dict[str, Any]:
        """Result as JSON."""
        signals = {name: one.as_json() for name, one in self.signals.items()}
        return {"converged": self.converged, "steps": self.steps, "signals": signals}

    def lines(self) -> list[str]:
        """Format the comparison as text, one line per signal."""
        return [one.line(name) for name, one in self.signals.items()]


def compare_with_reference(
    file: SessionFile,
    run: Callable[[Mapping[str, object]], Result],
    tolerance: float = TOLERANCE,
    most_steps: int = MOST_STEPS,
    progress: Callable[[str], None] = lambda _: None,
) -> Reference:
    """Compute the true error of a session of models by halving the step until results converge.

    Parameters
    ----------
    file : SessionFile
    run : callable
        Runs the session with changed settings, in this process, and keeps the coupling signals;
        `HilrtError` if that ends with a fault.
    tolerance : float
        Required relative accuracy of an error.
    most_steps : int
        Maximum steps of all runs together; signals not settled by then are not `converged`.
    progress : callable
        Called with a line of text before every run.

    Raises
    ------
    HilrtError
        If the session itself ends with a fault, or every run at a shorter step does.
    """
    progress("the session itself")
    tables, own = file.tables, run(ALONE)
    t, estimated = own.log.t, own.summary["estimated_error"]
    fixed = tables.master.step_control.method == "fixed"
    step = tables.master.step if fixed else float(t[-1] - t[0]) / max(1, len(t) - 1)
    seconds = np.diff(t, prepend=t[0] - step)
    signals = {
        name: _Settling(one, own.log[name], seconds, tolerance) for name, one in estimated.items()
    }
    made, steps, failed = len(t), [], ""
    for halvings in range(1, 40):
        h = round(step * 1e9 / 2**halvings) / 1e9
        coming = math.ceil(float(t[-1]) / h) if h > 0.0 else most_steps
        if made + coming > most_steps:
            break
        made += coming
        settled = sum(one.settled for one in signals.values())
        so_far = f"{settled} of {len(signals)} signals have converged"
        progress(f"step {1e3 * h:.4g} ms, {coming:,} steps; {so_far}")
        try:
            log = run(_plain(tables, float(t[-1]), h)).log
        except HilrtError as error:  # the step is too long for stability
            failed = str(error)
            for one in signals.values():
                one.skip()
            continue
        steps.append(h)
        for name, one in signals.items():
            one.add(_at(t, log.t, log[name]))
        if all(one.settled for one in signals.values()):
            break
    if failed and not steps:
        raise HilrtError(f"no shorter step of the session could be run to its end: {failed}")
    return Reference({name: one.compared() for name, one in signals.items()}, steps)


def _plain(tables: Session, end: float, h: float) -> dict[str, object]:
    """Settings of a reference at step `h` [s]: fixed step and order, no corrections.

    The energy correction divides by the flow, so that the error is not a power of the step. The
    last samples are at or after the session's `end` [s], which exceeds its duration if the step
    varies.
    The duration is extended because steps are whole nanoseconds: otherwise the last sample of a
    subsystem that reports at every n-th step might be too early.
    """
    fixed = {f"master.{name}": {"method": "fixed"} for name in ("step_control", "order_control")}
    none = {f"bonds.{bond.name}.correction.method": "none" for bond in tables.bonds}
    every = max((one.every for one in tables.subsystems.values()), default=1)
    length = {"master.step": h, "session.duration": end + every * h}
    return {**ALONE, **fixed, **none, **length}


class _Settling:
    """A signal at a sequence of shorter steps, until its extrapolated limit settles."""

    def __init__(
        self, estimate: Mapping[str, Any], own: Floats, seconds: Floats, tolerance: float
    ) -> None:
        self._estimate, self._own, self._tolerance = estimate, own, tolerance
        self._seconds = seconds
        self._courses: list[Floats] = []
        self._truth, self._uncertainty = own, math.inf

    def skip(self) -> None:
        """Discard the values at earlier steps, as a limit needs three steps in sequence."""
        self._courses = []

    def add(self, course: Floats) -> None:
        """Add the values at half the previous step, shape (n,)."""
        before, self._courses = self._truth, [*self._courses[-2:], course]
        self._truth, self._uncertainty = course, math.inf
        if len(self._courses) < len(FACTORS):
            return
        whole, half, quarter = self._courses
        limit = extrapolated(whole, half, quarter, weights=self._seconds)
        d1, d2 = self._difference(whole, half), self._difference(half, quarter)
        if not limit.why_not:
            self._truth = limit.limit
        elif not d2 <= LEAST_PROGRESS * d1:  # including unknown differences
            return
        ratio = 0.0 if not limit.why_not else d2 / d1
        self._uncertainty = self._difference(self._truth, before) * max(1.0, ratio / (1.0 - ratio))

    @property
    def settled(self) -> bool:
        """Whether the error is known."""
        known = self._truth[np.isfinite(self._truth)]
        least = max(LEAST_ERROR * self._spread(), ROUNDING * np.abs(known).max(initial=0.0))
        enough = max(self._tolerance * self._difference(self._own, self._truth), least)
        return bool(self._uncertainty <= enough)

    def compared(self) -> Compared:
        """Compare the session's own values with the limit."""
        error, spread = self._difference(self._own, self._truth), self._spread()
        return Compared(
            self._estimate["unit"],
            error,
            error / spread,
            self._uncertainty,
            spread,
            self.settled,
            self._estimate,
        )

    def _difference(self, a: Floats, b: Floats) -> float:
        """RMS difference where both are known; NaN if they never are."""
        both = np.isfinite(a) & np.isfinite(b)
        return _rms((a - b)[both], self._seconds[both])

    def _spread(self) -> float:
        """Variation of the limit."""
        known = np.isfinite(self._truth)
        return _spread(self._truth[known], self._seconds[known])


def _at(t: Floats, times: Floats, values: Floats) -> Floats:
    """Interpolate at `t`, shape (n,): exact at `times`, cubic in between; NaN outside.

    For a subsystem that reports only at every n-th step, its own samples are interpolated.
    """
    fresh = np.isfinite(values)
    times, values = times[fresh], values[fresh]
    if len(times) < 4:
        raise HilrtError(
            "a session shorter than one step of its slowest subsystem has no reference: its runs "
            "give fewer than four samples; raise session.duration"
        )
    first = np.clip(np.searchsorted(times, t) - 2, 0, len(times) - 4)
    at = first[:, None] + np.arange(4)
    nodes, distance = times[at], t[:, None] - times[at]
    weights = np.ones_like(nodes)
    for j in range(4):
        for m in set(range(4)) - {j}:
            weights[:, j] *= distance[:, m] / (nodes[:, j] - nodes[:, m])
    found = np.sum(weights * values[at], axis=1)
    nearest = np.take_along_axis(at, np.argmin(np.abs(distance), axis=1)[:, None], axis=1)[:, 0]
    found = np.where(np.abs(times[nearest] - t) < 0.5e-9, values[nearest], found)
    inside = (t >= times[0] - 0.5e-9) & (t <= times[-1] + 0.5e-9)
    return np.where(inside, found, np.nan)


def _rms(values: Floats, weights: Floats | None = None) -> float:
    return math.sqrt(np.average(values * values, weights=weights)) if len(values) else math.nan


def _spread(values: Floats, weights: Floats | None = None) -> float:
    if not len(values):
        return math.nan
    deviations = values - np.average(values, weights=weights)
    return max(_rms(deviations, weights), 0.05 * _rms(values, weights), 1e-300)
