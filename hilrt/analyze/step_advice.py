"""Recommend a macro step from the figures of a log, with the reason.

The step is chosen by the code of `hilrt advise` (`hilrt.reliability.choose_settings`). Upper bound:
the connection defect, the error of extrapolation over a step, is proportional to the step to the
power k+1 for extrapolation of order k, and so is the power residual that it causes. If a session
with step h has a defect that is a share s of the signal, a share s* is reached with
``h (s*/s)^(1/(k+1))``. Lower bound: the macro step and its subsystems must be computed in time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from hilrt.analyze.log_statistics import LogStatistics
from hilrt.reliability.choose_settings import (
    LATE,
    Bound,
    Candidate,
    Prediction,
    choose,
    in_ms,
    longest_of,
    percent,
    sending_bounds,
    time_bounds,
)

#: Target, as a share of the threshold; the rest is a margin.
MARGIN = 0.5
#: Largest factor between the step used and the step recommended.
FURTHEST = 10.0
#: A step above this share of `FURTHEST` is the longest one that was examined.
NEARLY = 0.99
#: Basis of the bound by stability.
STABLE = "beyond it the exchange lets errors grow, with the stiffest responses that trials showed"
#: Largest share of the target, with an allowance for rounding.
AIM = 1.0 + 1e-9
#: Defects below this share of their signal are rounding errors.
_NOTHING = 1e-12


class Figure(NamedTuple):
    """A figure of the session that limits the step.

    Attributes
    ----------
    share : float
        Relative to its target, with the session's step.
    power : int
        Of the step, to which it is proportional.
    basis : str
        Its origin.
    """

    share: float
    power: int
    basis: str


@dataclass(frozen=True)
class Advice:
    """A recommended macro step with its bounds.

    Attributes
    ----------
    used_s : float
        Step of the session, s.
    above, below : Bound or None
        Longest step by accuracy, shortest by time.
    recommended_s : float or None
        A step within both bounds; None if there is none.
    text : str
        The advice as text.
    """

    used_s: float
    above: Bound | None
    below: Bound | None
    recommended_s: float | None
    text: str

    def as_json(self) -> dict[str, Any]:
        """The recommendation for scripts."""
        bounds = {
            key: None if bound is None else {"step_s": bound.step_s, "basis": bound.basis}
            for key, bound in (("longest", self.above), ("shortest", self.below))
        }
        return {
            "used_s": self.used_s,
            "recommended_s": self.recommended_s,
            **bounds,
            "text": self.text,
        }


def advise(
    statistics: LogStatistics,
    tables: Mapping[str, Any],
    bonds: Mapping[str, Mapping[str, str]],
    named_s: float | None = None,
    sends_s: Mapping[str, float] = MappingProxyType({}),
    stable_s: float | None = None,
) -> Advice | None:
    """Recommend a macro step; None if the log lacks the figures for it.

    Parameters
    ----------
    statistics : LogStatistics
        Of the whole log.
    tables : mapping
        Of the log: the session file has orders and thresholds.
    bonds : mapping of str to mapping
        Bond to the names of its ``effort`` and ``flow``.
    named_s : float, optional
        Step recommended by the session's own advice for its estimated error, s.
    sends_s : mapping of str to float
        Sending interval of each bench, if known, s.
    stable_s : float, optional
        Longest step at which the exchange is stable with the stiffest responses seen, s.
    """
    steps = statistics.stats.get("master:step")
    if steps is None or not steps.count or not statistics.rows:
        return None
    variable = steps.high > steps.low * (1.0 + 1e-9)
    # Skipped ticks make intervals longer than the step, and defects are those of the intervals.
    interval = statistics.duration_s / max(statistics.rows - 1, 1)
    used = interval if variable else steps.last
    figures = [*_figures(statistics, tables, bonds)]
    if named_s is not None:
        basis = "the estimated error requires it, see the verdict's advice"
        figures.append(Figure(interval / named_s, 1, basis))
    if stable_s is not None and stable_s < NEARLY * FURTHEST * used:
        figures.append(Figure(interval / stable_s, 1, STABLE))
    below = longest_of([*_real_time_bounds(statistics, tables), *sending_bounds(sends_s)])
    skipped = (
        f" ({in_ms(interval)} on average: ticks were skipped)" if interval > 1.1 * used else ""
    )
    at = f"{'Mean step' if variable else 'Step'} of the session: {in_ms(used)}{skipped}."
    return _advice(used, _longest(interval, figures, below), below, at, bool(bonds))


def _advice(used: float, above: Bound | None, below: Bound | None, at: str, bonds: bool) -> Advice:
    if above is None:
        text = f"{at} No defect in the log limits the step."
        return Advice(used, None, below, None, text)
    parts = [at, f"Up to {in_ms(above.step_s)}: {above.basis}."]
    if below is not None:
        parts.append(f"At least {in_ms(below.step_s)}: {below.basis}.")
    if below is not None and below.step_s > above.step_s:
        correct = "correct the bond, " if bonds else ""
        parts.append(
            f"No step satisfies both: raise the order of extrapolation, {correct}or make the "
            "subsystem, or its transmission, faster."
        )
        return Advice(used, above, below, None, " ".join(parts))
    recommended = above.step_s
    near = 0.5 * used <= recommended <= 2.0 * used
    verb = "the step fits" if near else "lengthen it" if recommended > used else "shorten it"
    parts.insert(1, f"Recommended: {in_ms(recommended)} ({verb}).")
    return Advice(used, above, below, recommended, " ".join(parts))


def _longest(used: float, figures: Sequence[Figure], below: Bound | None) -> Bound | None:
    """Longest step that the figures permit, and the one that permits no longer step."""
    if not figures:
        return None

    def worst(step: float) -> Figure:
        ratio = step / used
        at = [figure._replace(share=figure.share * ratio**figure.power) for figure in figures]
        return max(at, key=lambda figure: figure.share)

    def predict(_: Candidate, step: float) -> Prediction:
        figure = worst(step)
        return Prediction(figure.share, math.inf, "", why=figure.basis)

    steps = _two_digits(used / FURTHEST, used * FURTHEST)
    if below is not None and steps[0] < below.step_s < steps[-1]:
        steps = sorted({*steps, below.step_s})
    found = choose([Candidate("", {})], steps, predict, aim=AIM, first=used, tries=len(steps))
    if found.best is None:
        return Bound(steps[0], worst(steps[0]).basis)
    return Bound(found.best.step_s, worst(found.best.step_s).basis)


def _figures(
    statistics: LogStatistics, tables: Mapping[str, Any], bonds: Mapping[str, Mapping[str, str]]
) -> Iterable[Figure]:
    limits = tables.get("reliability") or {}
    orders = _orders(tables)
    default = _default_order(tables)
    with_correction = _corrected_inputs(statistics, tables, bonds)
    for name, stats in statistics.stats.items():
        port, _, kind = name.rpartition(":")
        signal = statistics.stats.get(f"{port}:sent")
        if kind != "connection_defect" or signal is None or not stats.count or not signal.rms > 0.0:
            continue
        share = stats.rms / signal.rms
        limit = float(limits.get("connection_defect", 0.1))
        order = orders.get(port, default)
        if share > _NOTHING:
            corrected = ", the correction included" if port in with_correction else ""
            basis = (
                f"connection defect of {port} is {percent(share)} of the signal{corrected} "
                f"(limit {percent(limit)}, aimed at half), order {order}"
            )
            yield Figure(share / (MARGIN * limit), order + 1, basis)
    for bond in bonds:
        residual = statistics.stats.get(f"{bond}:residual_power")
        power = statistics.stats.get(f"{bond}:power")
        if residual is None or power is None or not residual.count or not power.rms > 0.0:
            continue
        share = residual.rms / power.rms
        limit = float(limits.get("power_residual", 0.2))
        if share > _NOTHING:
            basis = (
                f"power residual of bond {bond} is {percent(share)} of its power (limit "
                f"{percent(limit)}, aimed at half), order {default}"
            )
            yield Figure(share / (MARGIN * limit), default + 1, basis)


def _corrected_inputs(
    statistics: LogStatistics, tables: Mapping[str, Any], bonds: Mapping[str, Mapping[str, str]]
) -> set[str]:
    """Inputs that receive a corrected effort."""
    efforts = {
        effort
        for bond, ports in bonds.items()
        if (stats := statistics.stats.get(f"{bond}:correction")) is not None and stats.square > 0.0
        for effort in ports.get("effort", "").split(" + ")
    }
    return {str(c.get("to")) for c in _connections(tables) if c.get("from") in efforts}


def _connections(tables: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = tables.get("connections")
    return [c for c in found if isinstance(c, dict)] if isinstance(found, list) else []


def _real_time_bounds(statistics: LogStatistics, tables: Mapping[str, Any]) -> Iterable[Bound]:
    if (
        "master:lateness" not in statistics.stats
        or not statistics.stats["master:lateness"].largest > 0.0
    ):
        return  # not in real time
    share = float((tables.get("master") or {}).get("dispatch_deadline", 0.2))
    late = statistics.times["master:lateness"].quantile_us(LATE)
    computes = {
        peer: times.quantile_us(LATE)
        for name, times in statistics.times.items()
        for peer, _, kind in [name.rpartition(":")]
        if kind == "compute" and peer != "master" and times.max_ns > 0.0
    }
    yield from time_bounds(late, share, computes)


def _default_order(tables: Mapping[str, Any]) -> int:
    extrapolation = (tables.get("master") or {}).get("extrapolation") or {}
    order = extrapolation.get("order", 1) if isinstance(extrapolation, dict) else 1
    return order if isinstance(order, int) else 1


def _orders(tables: Mapping[str, Any]) -> dict[str, int]:
    """Order of the inputs whose connections have their own."""
    return {
        str(c["to"]): c["order"]
        for c in _connections(tables)
        if "to" in c and isinstance(c.get("order"), int)
    }


def _two_digits(shortest: float, longest: float) -> list[float]:
    """Steps with two digits between two bounds, s."""
    decades = range(math.floor(math.log10(shortest)) - 1, math.ceil(math.log10(longest)))
    steps = [float(f"{digits}e{decade}") for decade in decades for digits in range(10, 100)]
    return [
        step for step in steps if shortest <= step * (1.0 + 1e-9) and step <= longest * (1.0 + 1e-9)
    ]
