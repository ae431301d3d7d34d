"""Recommend a macro step from the figures of a session, with the reason.

Upper bound: the connection defect, the error of extrapolation over a step, is proportional to the
step to the power k+1 for extrapolation of order k, and so is the power residual that it causes. If
a session with step h has a defect that is a share s of the signal, a share s* is reached with
``h (s*/s)^(1/(k+1))``. Lower bound: the macro step and its subsystems must be computed in time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from hilrt.analyze.log_statistics import LogStatistics
from hilrt.wording import number

#: Target, as a share of the threshold; the rest is a margin.
MARGIN = 0.5
#: Largest factor between the step used and the step recommended.
FURTHEST = 10.0
#: Share of the step that a subsystem's computation may take in real time.
SOLVER_SHARE = 0.8
#: Quantile of the times for which a step must be long enough.
LATE = 0.99
#: A step above this share of `FURTHEST` is the longest one that was examined.
NEARLY = 0.99
#: Basis of the bound by stability.
STABLE = "beyond it the exchange lets errors grow, with the stiffest responses that trials showed"
#: Defects below this share of their signal are rounding errors.
_NOTHING = 1e-12


@dataclass(frozen=True)
class Bound:
    """A bound on the step, s, and its origin."""

    step_s: float
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
    bounds = [*_accuracy_bounds(statistics, tables, bonds, interval)]
    if named_s is not None:
        bounds.append(Bound(named_s, "the estimated error requires it, see the verdict's advice"))
    if stable_s is not None and stable_s < NEARLY * FURTHEST * used:
        bounds.append(Bound(stable_s, STABLE))
    above = min(bounds, key=lambda b: b.step_s, default=None)
    lower = [*_real_time_bounds(statistics, tables)]
    lower += [
        Bound(every, f"{name} sends new values every {in_ms(every)}")
        for name, every in sends_s.items()
    ]
    below = max(lower, key=lambda b: b.step_s, default=None)
    skipped = (
        f" ({in_ms(interval)} on average: ticks were skipped)" if interval > 1.1 * used else ""
    )
    at = f"{'Mean step' if variable else 'Step'} of the session: {in_ms(used)}{skipped}."
    return _advice(used, above, below, at, bool(bonds))


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
    recommended = _round_down(above.step_s)
    if below is not None:
        recommended = max(recommended, below.step_s)
    near = 0.5 * used <= recommended <= 2.0 * used
    verb = "the step fits" if near else "lengthen it" if recommended > used else "shorten it"
    parts.insert(1, f"Recommended: {in_ms(recommended)} ({verb}).")
    return Advice(used, above, below, recommended, " ".join(parts))


def _accuracy_bounds(
    statistics: LogStatistics,
    tables: Mapping[str, Any],
    bonds: Mapping[str, Mapping[str, str]],
    used: float,
) -> Iterable[Bound]:
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
            yield Bound(_scaled(used, share, limit, order), basis)
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
            yield Bound(_scaled(used, share, limit, default), basis)


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


def time_bounds(
    late_us: float, deadline: float, computes_us: Mapping[str, float], quantile: float = LATE
) -> Iterable[Bound]:
    """Shortest steps in real time, by the times required.

    Parameters
    ----------
    late_us : float
        Time from a tick until the inputs are sent, µs.
    deadline : float
        Limit of that time, as a share of a step.
    computes_us : mapping of str to float
        Time of each subsystem for a step: computing, and transmission if known, µs.
    quantile : float
        Quantile of these times, for the text.
    """
    p = f"p{number(100.0 * quantile, 4)}"
    yield Bound(
        late_us * 1e-6 / deadline,
        f"inputs are sent {number(late_us, 3)} µs after the tick ({p}), the deadline is "
        f"{percent(deadline)} of the step",
    )
    for peer, slow in computes_us.items():
        yield Bound(slow * 1e-6 / SOLVER_SHARE, f"{peer} needs {number(slow, 3)} µs a step ({p})")


def _scaled(used: float, share: float, limit: float, order: int) -> float:
    factor = float((MARGIN * limit / share) ** (1.0 / (order + 1)))
    return used * min(max(factor, 1.0 / FURTHEST), FURTHEST)


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


def _round_down(step: float) -> float:
    """Round down to two digits."""
    unit = 10.0 ** (math.floor(math.log10(step)) - 1)
    return float(f"{math.floor(step / unit * (1 + 1e-9)) * unit:.2g}")


def in_ms(step: float) -> str:
    """A step, s, in ms."""
    return f"{number(step * 1e3, 3)} ms"


def percent(share: float) -> str:
    """A share in %."""
    return f"{number(100.0 * share, 2)} %"
