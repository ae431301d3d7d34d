"""Stage: limit the input polynomials in value, rate and jerk over their interval."""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.extrapolate import value_at
from hilrt.coupling.intervals import move_to_starts, open_intervals
from hilrt.coupling.ramp import Bounds, approach
from hilrt.solver import Floats
from hilrt.tables.given import StepInput
from hilrt.tables.plan import InputPlan, Plan
from hilrt.tables.state import CONNECTION, DEMAND_LIMITED, SOURCES_LIMITED, InputState, State

_approach = compiled(approach)


@stage
def limit(plan: Plan, state: State, given: StepInput) -> None:
    """Limit each polynomial within its subsystem's interval.

    A polynomial is unchanged if its derivative and excursion, estimated by the sum of their terms
    (exact up to degree 1), are within the bounds. Otherwise it is replaced by the straight line,
    within the rate, from the limited start towards the limited end. Coefficients that are not
    finite are never sent: the input then keeps its value.
    """
    open_intervals(plan, state, given)
    move_to_starts(plan, state, given)
    coefficients, t = plan.session[0].coefficients, given.session[0].t
    for i in range(len(state.inputs)):
        u, at = state.inputs[i], plan.inputs[i]
        subsystem = state.subsystems[at.subsystem]
        if not subsystem.dispatch:
            continue
        requested = u.polynomial[0]
        if math.isfinite(at.max_jerk):
            limited = limit_jerk(u, at, coefficients, subsystem.h, t)
        else:
            end = value_at(u.previous, coefficients, t - u.previous_t0 + at.lead)
            limited = limit_rate(u, at, coefficients, subsystem.h, t - u.last_t, end)
        driven = at.exact or at.connections == 0
        driven = driven or (at.drive >= 0 and state.drives[at.drive].source != CONNECTION)
        u.limited = limited_part(u, requested, driven) if limited else 0
        u.last, u.last_t = u.polynomial[0], t


@compiled
def limited_part(u: InputState, requested: float, driven: int) -> int:
    """Kind of a limitation, by the part of the input that was cut off.

    `DEMAND_LIMITED` if the input is driven, or if most of the cut-off part was its correction; else
    `SOURCES_LIMITED`.
    """
    correction, cut = u.correction + u.offset, requested - u.polynomial[0]
    if driven or abs(cut - correction) < abs(cut):
        return DEMAND_LIMITED
    return SOURCES_LIMITED


@compiled
def limit_rate(
    u: InputState, at: InputPlan, coefficients: int, h: float, elapsed: float, end: float
) -> bool:
    """Limit the value and the rate of an input's polynomial over an interval of `h` [s].

    Parameters
    ----------
    u, at : record
        Of the input in `State` and `Plan`.
    coefficients : int
    h, elapsed : float
        Length of the interval, and time since the input was sent before, s.
    end : float
        End value of its previous polynomial. A new value may differ from the range between it and
        the value sent before by `elapsed` at full rate.

    Returns
    -------
    bool
        Whether it was limited.
    """
    c, last, rate = u.polynomial, u.last, at.max_rate
    end = end if math.isfinite(end) else last
    reach = rate * elapsed if math.isfinite(rate) else math.inf
    before = c[0]
    start = before if math.isfinite(before) else last
    start = min(max(start, max(last, end) - reach, at.low), min(last, end) + reach, at.high)
    c[0] = start
    # Bounds over the interval: end value, sums of rising and of falling terms, and slope.
    final, up, down, steepest, factor = start, 0.0, 0.0, 0.0, 1.0
    for m in range(1, coefficients):
        steepest += abs(c[m]) * factor
        factor *= h / m
        term = c[m] * factor
        final += term
        up += max(term, 0.0)
        down += min(term, 0.0)
    finite = math.isfinite(final)
    outside = start + up > at.high or start + down < at.low
    if finite and not outside and not steepest > rate:
        return bool(start != before)
    if coefficients > 1:
        rise = min(max(final, at.low), at.high) - start if finite else 0.0
        straighten(c, coefficients, min(max(rise / h if h > 0.0 else 0.0, -rate), rate))
    return True


@compiled
def limit_jerk(u: InputState, at: InputPlan, coefficients: int, h: float, t: float) -> bool:
    """Limit value, rate and jerk of an input's polynomial over an interval of `h` [s].

    Parameters
    ----------
    u, at : record
        Of the input in `State` and `Plan`.
    coefficients : int
    h, t : float
        Length of the interval, and now, s.

    Returns
    -------
    bool
        Whether it was limited.

    Notes
    -----
    From one communication point to the next the value approaches the request as closely as
    `hilrt.coupling.ramp.approach` permits. The initial slope of the interval differs from the mean
    rate of the previous one by at most ``jerk (elapsed + h) / 2``, the change permitted between the
    middles of the two intervals; and ``|p''|``, estimated by the sum of its terms, stays within
    `jerk`. A polynomial that violates this is replaced by a straight line that does not.
    """
    c, last, elapsed = u.polynomial, u.last, t - u.last_t
    end = value_at(u.previous, coefficients, t - u.previous_t0 + at.lead)
    before, middle = c[0], t - 0.5 * elapsed
    requested = min(max(before if math.isfinite(before) else last, at.low), at.high)
    start, arrival_rate = _approach(
        last,
        u.approach_rate,
        requested,
        u.approach_asked,
        elapsed,
        middle - u.approach_t,
        Bounds(at.low, at.high, at.max_rate, at.max_jerk),
    )
    c[0] = start
    limited = limit_rate(u, at, coefficients, h, elapsed, end)
    if c[0] != start:
        arrival_rate = (c[0] - last) / elapsed
        start = c[0]
    u.approach_rate, u.approach_t, u.approach_asked = arrival_rate, middle, requested
    limited = limited or start != before
    # A held value (order 0) has no slope to limit.
    moves = False
    for m in range(1, coefficients):
        moves = moves or c[m] != 0.0
    if limited or moves:
        bent = limit_bend(c, at, coefficients, h, arrival_rate, 0.5 * at.max_jerk * (elapsed + h))
        limited = limited or bent
    return bool(limited)


@compiled
def limit_bend(
    c: Floats, at: InputPlan, coefficients: int, h: float, arrival_rate: float, change: float
) -> bool:
    """Keep the slope within `change` of `arrival_rate`, and the curvature within the jerk."""
    if coefficients == 1:
        return False
    bend, factor = 0.0, 1.0
    for m in range(2, coefficients):
        bend += abs(c[m]) * factor
        factor *= h / (m - 1)
    if bend <= at.max_jerk and abs(c[1] - arrival_rate) <= change:
        return False
    slope = min(max(c[1], arrival_rate - change), arrival_rate + change)
    if h > 0.0:
        slope = min(max(slope, (at.low - c[0]) / h), (at.high - c[0]) / h)
    straighten(c, coefficients, slope)
    return True


@compiled
def straighten(c: Floats, coefficients: int, slope: float) -> None:
    """Replace the polynomial by a straight line of that slope from the same start."""
    c[1] = slope
    for m in range(2, coefficients):
        c[m] = 0.0


# Allowed values of an input: its limits are part of the session's intent.
#
# The coupled system that a session represents has these limits, too. A difference between an input
# and its sources that is due to limits is not a coupling error, and creates no energy that a
# correction should remove.


@compiled
def allowed(at: InputPlan, value: float) -> float:
    """Value of an input within its limits; `at` is the input's record in `Plan`.

    Inputs that can have sources other than connections are not limited here.
    """
    return float(value if at.drive >= 0 else min(max(value, at.low), at.high))


@stage
def energy_of_limits(plan: Plan, state: State, i: int, e: float, f: float) -> float:
    """Power created by limits of the inputs of element `i` at effort `e` and flow `f`, W."""
    ends = plan.elements[i]
    at_flow, at_effort = state.inputs[ends.effort_input], state.inputs[ends.flow_input]
    more_e = cut_off(plan.inputs[ends.effort_input], at_flow) / ends.effort_gain
    more_f = cut_off(plan.inputs[ends.flow_input], at_effort) / ends.flow_gain
    return float(ends.watt * (more_e * f - e * more_f))


@compiled
def cut_off(at: InputPlan, u: InputState) -> float:
    """Change of an input by its limits, relative to its sources' value `u.extrapolated`."""
    return float(allowed(at, u.extrapolated[0]) - u.extrapolated[0])
