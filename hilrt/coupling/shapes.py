"""Shapes of a stimulus' segments: their values, and the polynomials that they put into inputs.

A segment is a record of `Plan.segments`, its time `tau` runs from its beginning, s.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled
from hilrt.coupling.random_numbers import normal, uniform
from hilrt.tables.plan import CHIRP, HOLD, NOISE, POINTS_SHAPE, PRBS, RAMP, SINE
from hilrt.tables.record import Table

#: Two times that differ by less are the same, s: session time is in whole nanoseconds.
SAME_TIME = 0.5e-9


@compiled
def whole(number: float) -> int:
    """The largest whole number that is not above it; 0 for what is no finite number."""
    return math.floor(number) if abs(number) < 1e15 else 0


@compiled
def first_value(segment: Table, before: float) -> float:
    """Value that a segment begins at or swings about; `before`: where the one before it ended."""
    return before if math.isnan(segment.begin) else segment.begin


@compiled
def length(segment: Table, begin: float) -> float:
    """How long a segment lasts that begins at the value `begin`, s."""
    if segment.rate > 0.0:
        return abs(segment.target - begin) / segment.rate
    return segment.duration


@compiled
def held_index(segment: Table, points: Table, tau: float, tick: int) -> int:
    """Number of the value that is held at `tau`; 0 for shapes that have no such values."""
    if segment.kind == NOISE and segment.interval == 0.0:
        return tick
    if segment.kind in (NOISE, PRBS):
        return whole(max((tau + SAME_TIME) / segment.interval, 0.0))
    if segment.kind == POINTS_SHAPE and segment.held:
        return last_point(segment, points, tau + SAME_TIME)
    return 0


@compiled
def last_point(segment: Table, points: Table, tau: float) -> int:
    """Row of the last point at or before `tau`; the first one before that."""
    low, high = segment.first_point, segment.first_point + segment.points
    while high - low > 1:
        middle = (low + high) // 2
        if points[middle].t <= tau:
            low = middle
        else:
            high = middle
    return low


@compiled
def value_in(segment: Table, points: Table, begin: float, tau: float, tick: int) -> float:
    """Value of a segment that began at `begin`."""
    shape = segment.kind
    if shape == RAMP:
        end = length(segment, begin)
        share = tau / end if tau < end else 1.0
        return begin + (segment.target - begin) * share
    if shape in (SINE, CHIRP):
        return begin + segment.amplitude * math.sin(2.0 * math.pi * cycles(segment, tau))
    if shape == PRBS:
        k = held_index(segment, points, tau, tick) % segment.points
        return begin + segment.amplitude * points[segment.first_point + k].y
    if shape == NOISE:
        k = held_index(segment, points, tau, tick)
        if segment.uniform:
            return begin + segment.amplitude * (2.0 * uniform(segment.seed, k) - 1.0)
        return begin + segment.amplitude * normal(segment.seed, k)
    if shape == POINTS_SHAPE:
        return point_value(segment, points, tau)
    return begin  # HOLD


@compiled
def point_value(segment: Table, points: Table, tau: float) -> float:
    """Value between points; before the first and after the last one it is that point's."""
    k = last_point(segment, points, tau + SAME_TIME if segment.held else tau)
    at = points[k]
    if segment.held or tau <= at.t or k == segment.first_point + segment.points - 1:
        return at.y
    after = points[k + 1]
    return at.y + (after.y - at.y) * ((tau - at.t) / (after.t - at.t))


@compiled
def cycles(segment: Table, tau: float) -> float:
    """Phase of a swinging shape, in cycles, of which the whole ones are left out."""
    turned = segment.frequency * tau
    if segment.kind == CHIRP and segment.logarithmic:
        turned = segment.frequency * (math.exp(segment.sweep * tau) - 1.0) / segment.sweep
    elif segment.kind == CHIRP:
        turned += 0.5 * segment.sweep * tau * tau
    turned += segment.phase
    return turned - whole(turned)


@compiled
def end_value(segment: Table, points: Table, begin: float) -> float:
    """Value that the next segment goes on from."""
    if segment.kind in (NOISE, PRBS, HOLD):
        return begin
    return value_in(segment, points, begin, length(segment, begin), 0)


@compiled
def fill_polynomial(
    segment: Table,
    points: Table,
    stimulus: Table,
    tau: float,
    ahead: float,
    tick: int,
    degree: int,
) -> None:
    """Taylor coefficients of a segment at `tau`, up to `degree`, into `stimulus.polynomial`.

    A segment that ends within the next `ahead` [s], and points between which lines are drawn,
    become the straight line to their value then, so that no slope leads beyond it. `stimulus` is a
    record of `State.stimuli`.
    """
    c, begin = stimulus.polynomial, stimulus.begin
    for m in range(len(c)):
        c[m] = 0.0
    c[0] = value_in(segment, points, begin, tau, tick)
    shape = segment.kind
    if degree == 0 or shape in (HOLD, PRBS, NOISE):
        return
    if shape == POINTS_SHAPE:
        if not segment.held:
            c[1] = (point_value(segment, points, tau + ahead) - c[0]) / ahead
        return
    end = length(segment, begin)
    if end - tau < ahead - SAME_TIME:
        c[1] = (value_in(segment, points, begin, end, tick) - c[0]) / ahead
    elif shape == RAMP:
        c[1] = (segment.target - begin) / end
    else:
        fill_swing(segment, stimulus, tau, degree)


@compiled
def fill_swing(segment: Table, stimulus: Table, tau: float, degree: int) -> None:
    """Derivatives of a sine or a chirp, by the recurrence of the series of sine and cosine.

    ``n s_n = sum_j j a_j c_{n-j}`` and ``n c_n = -sum_j j a_j s_{n-j}`` with the series a of the
    phase.
    """
    a, s, c = stimulus.angle, stimulus.sine, stimulus.cosine
    for n in range(len(a)):
        a[n] = 0.0
    a[1] = 2.0 * math.pi * segment.frequency
    if segment.kind == CHIRP and segment.logarithmic:
        a[1] *= math.exp(segment.sweep * tau)
        for n in range(2, degree + 1):
            a[n] = a[n - 1] * segment.sweep / n
    elif segment.kind == CHIRP:
        a[1] += 2.0 * math.pi * segment.sweep * tau
        a[2] = math.pi * segment.sweep
    angle = 2.0 * math.pi * cycles(segment, tau)
    s[0], c[0] = math.sin(angle), math.cos(angle)
    factorial = 1.0
    for n in range(1, degree + 1):
        s[n] = c[n] = 0.0
        for j in range(1, n + 1):
            s[n] += j * a[j] * c[n - j]
            c[n] -= j * a[j] * s[n - j]
        s[n] /= n
        c[n] /= n
        factorial *= n
        stimulus.polynomial[n] = segment.amplitude * s[n] * factorial
