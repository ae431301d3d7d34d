"""Stimuli between communication points: active segment, and value.

A stimulus waits, runs through its segments, holds its last value if configured to, and ends. It
depends only on the plan, the state and the tick, so that a replay reproduces it.
"""

from __future__ import annotations

import math

import numpy as np

from hilrt.compilation.compiled import compiled
from hilrt.tables.plan import (
    CHIRP,
    HOLD,
    NOISE,
    POINTS_SHAPE,
    PRBS,
    RAMP,
    SINE,
    SegmentPlan,
    StimulusPlan,
    StimulusPoint,
)
from hilrt.tables.record import Table
from hilrt.tables.state import DONE, HOLDING, RUNNING, WAITING, StimulusState

#: Maximum segments that end within one step, or during missed ticks: ramps by a rate may have zero
#: duration.
MOST_SEGMENTS = 1000


@compiled
def begin_or_end(
    at: StimulusPlan, stimulus: StimulusState, now: float, begins: bool, ends: bool
) -> None:
    """Begin a waiting stimulus; end it at its time or by its condition.

    Parameters
    ----------
    at, stimulus : record
        Of `Plan.stimuli` and `State.stimuli`.
    now : float
        Time at which the value sent now acts, s.
    begins, ends : bool
        Values of its conditions, if any.
    """
    running = stimulus.phase == RUNNING or stimulus.phase == HOLDING
    stimulus.broke, stimulus.turned = running and now >= stimulus.next_break - SAME_TIME, 0
    over = now >= at.end - SAME_TIME or (at.end_when >= 0 and ends)
    if stimulus.phase == WAITING and now >= at.start - SAME_TIME and not now >= at.end - SAME_TIME:
        if at.start_when < 0:
            start(at, stimulus, at.start)
        elif begins:
            start(at, stimulus, now)
    elif running and over:
        finish(stimulus)
    stimulus.broke = stimulus.broke or stimulus.turned


@compiled
def start(at: StimulusPlan, stimulus: StimulusState, t: float) -> None:
    """Begin the first segment at `t` [s]."""
    stimulus.phase, stimulus.turned = RUNNING, 1
    stimulus.handed_over = stimulus.handed_over or at.replaces
    stimulus.segment, stimulus.run, stimulus.begun = at.first_segment, 0, t
    stimulus.begin = math.nan  # `enter` sets the input's value


@compiled
def finish(stimulus: StimulusState) -> None:
    """Release the input."""
    stimulus.phase, stimulus.turned, stimulus.handed_over = DONE, 1, 1
    for m in range(len(stimulus.polynomial)):
        stimulus.polynomial[m] = 0.0


@compiled
def enter(
    segment: SegmentPlan,
    points: Table[StimulusPoint],
    stimulus: StimulusState,
    before: float,
    tick: int,
) -> None:
    """Begin a segment after one that ended at the value `before`."""
    stimulus.begin = first_value(segment, before)
    tau = 0.0
    stimulus.index = held_index(segment, points, tau, tick)
    if value_in(segment, points, stimulus.begin, tau, tick) != before:
        stimulus.jumped = 1


@compiled
def advance(
    at: StimulusPlan,
    segments: Table[SegmentPlan],
    points: Table[StimulusPoint],
    stimulus: StimulusState,
    now: float,
    value: float,
    tick: int,
) -> None:
    """Skip the segments that have ended by `now` [s], and find the next jump or bend.

    `value` is the start value of a stimulus that has just begun.
    """
    pass_segments(at, segments, points, stimulus, now, value, tick)
    stimulus.next_break = next_break(at, segments, points, stimulus, now)


@compiled
def pass_segments(
    at: StimulusPlan,
    segments: Table[SegmentPlan],
    points: Table[StimulusPoint],
    stimulus: StimulusState,
    now: float,
    value: float,
    tick: int,
) -> None:
    """See `advance`."""
    if stimulus.phase == RUNNING and math.isnan(stimulus.begin):
        enter(segments[stimulus.segment], points, stimulus, value, tick)
    for _ in range(MOST_SEGMENTS):
        if stimulus.phase != RUNNING:
            return
        segment = segments[stimulus.segment]
        took = length(segment, stimulus.begin)
        if not now >= stimulus.begun + took - SAME_TIME:
            break
        ended = end_value(segment, points, stimulus.begin)
        stimulus.begun += took
        stimulus.segment += 1
        if stimulus.segment == at.first_segment + at.segments:
            stimulus.run += 1
            stimulus.segment = at.first_segment
            if stimulus.run >= at.runs:
                stop(at, stimulus, ended)
                return
        enter(segments[stimulus.segment], points, stimulus, ended, tick)
    index = held_index(segments[stimulus.segment], points, now - stimulus.begun, tick)
    if index != stimulus.index:
        stimulus.index, stimulus.jumped = index, 1


@compiled
def stop(at: StimulusPlan, stimulus: StimulusState, ended: float) -> None:
    """Hold the final value after the last segment, or release the input."""
    if at.holds:
        stimulus.phase, stimulus.turned, stimulus.begin = HOLDING, 1, ended
    else:
        finish(stimulus)


@compiled
def next_break(
    at: StimulusPlan,
    segments: Table[SegmentPlan],
    points: Table[StimulusPoint],
    stimulus: StimulusState,
    now: float,
) -> float:
    """Time of the next known jump or bend of a stimulus after `now`, s; infinite if there is none.

    Before it begins, that is its start, at which a condition may still keep it waiting.
    """
    if stimulus.phase == WAITING:
        return at.start if now < at.start - SAME_TIME else math.inf
    if stimulus.phase == DONE:
        return math.inf
    found = at.end
    if stimulus.phase == RUNNING:
        segment, begun = segments[stimulus.segment], stimulus.begun
        found = min(found, begun + length(segment, stimulus.begin))
        if segment.kind in (NOISE, PRBS) and segment.interval > 0.0:
            found = min(found, begun + (stimulus.index + 1) * segment.interval)
        elif segment.kind == POINTS_SHAPE:
            k = last_point(segment, points, now - begun + SAME_TIME)
            early = now - begun < points[k].t - SAME_TIME  # before the first point
            found = min(found, begun + (points[k].t if early else points[k].next_break))
    return found


@compiled
def expand(
    segments: Table[SegmentPlan],
    points: Table[StimulusPoint],
    stimulus: StimulusState,
    now: float,
    ahead: float,
    tick: int,
    degree: int,
) -> None:
    """Expand a stimulus about `now` [s] into its polynomial, for a step of `ahead` [s]."""
    if stimulus.phase == RUNNING:
        tau = max(now - stimulus.begun, 0.0)
        segment = segments[stimulus.segment]
        fill_polynomial(segment, points, stimulus, tau, ahead, tick, degree)
    elif stimulus.phase == HOLDING:
        for m in range(len(stimulus.polynomial)):
            stimulus.polynomial[m] = 0.0
        stimulus.polynomial[0] = stimulus.begin


@compiled
def is_active(stimulus: StimulusState) -> bool:
    """Whether the stimulus is added to its input, or drives it."""
    return bool(stimulus.phase == RUNNING or stimulus.phase == HOLDING)


# Shapes of a stimulus's segments: their values, and their polynomials for the inputs.
#
# A segment is a record of `Plan.segments`; its time `tau` counts from its beginning, s.

#: Times that differ by less count as equal, s: session time is in whole nanoseconds.
SAME_TIME = 0.5e-9


@compiled
def whole(number: float) -> int:
    """Largest integer not above `number`; 0 if not finite."""
    return math.floor(number) if abs(number) < 1e15 else 0


@compiled
def first_value(segment: SegmentPlan, before: float) -> float:
    """Start value of a segment, or mean of its oscillation; `before`: end of the previous one."""
    return before if math.isnan(segment.begin) else segment.begin


@compiled
def length(segment: SegmentPlan, begin: float) -> float:
    """Duration of a segment that begins at the value `begin`, s."""
    if segment.rate > 0.0:
        return abs(segment.target - begin) / segment.rate
    return segment.duration


@compiled
def held_index(segment: SegmentPlan, points: Table[StimulusPoint], tau: float, tick: int) -> int:
    """Number of the value held at `tau`; 0 for shapes without held values."""
    if segment.kind == NOISE and segment.interval == 0.0:
        return tick
    if segment.kind in (NOISE, PRBS):
        return whole(max((tau + SAME_TIME) / segment.interval, 0.0))
    if segment.kind == POINTS_SHAPE and segment.held:
        return last_point(segment, points, tau + SAME_TIME)
    return 0


@compiled
def last_point(segment: SegmentPlan, points: Table[StimulusPoint], tau: float) -> int:
    """Row of the last point at or before `tau`; the first row before all points."""
    low, high = segment.first_point, segment.first_point + segment.points
    while high - low > 1:
        middle = (low + high) // 2
        if points[middle].t <= tau:
            low = middle
        else:
            high = middle
    return low


@compiled
def value_in(
    segment: SegmentPlan, points: Table[StimulusPoint], begin: float, tau: float, tick: int
) -> float:
    """Value of a segment that began at the value `begin`."""
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
def point_value(segment: SegmentPlan, points: Table[StimulusPoint], tau: float) -> float:
    """Interpolated value; before the first and after the last point that point's value."""
    k = last_point(segment, points, tau + SAME_TIME if segment.held else tau)
    at = points[k]
    if segment.held or tau <= at.t or k == segment.first_point + segment.points - 1:
        return at.y
    after = points[k + 1]
    return at.y + (after.y - at.y) * ((tau - at.t) / (after.t - at.t))


@compiled
def cycles(segment: SegmentPlan, tau: float) -> float:
    """Phase of an oscillating shape, as a fraction of a cycle."""
    turned = segment.frequency * tau
    if segment.kind == CHIRP and segment.logarithmic:
        turned = segment.frequency * (math.exp(segment.sweep * tau) - 1.0) / segment.sweep
    elif segment.kind == CHIRP:
        turned += 0.5 * segment.sweep * tau * tau
    turned += segment.phase
    return turned - whole(turned)


@compiled
def end_value(segment: SegmentPlan, points: Table[StimulusPoint], begin: float) -> float:
    """Value from which the next segment continues."""
    if segment.kind in (NOISE, PRBS, HOLD):
        return begin
    return value_in(segment, points, begin, length(segment, begin), 0)


@compiled
def fill_polynomial(
    segment: SegmentPlan,
    points: Table[StimulusPoint],
    stimulus: StimulusState,
    tau: float,
    ahead: float,
    tick: int,
    degree: int,
) -> None:
    """Taylor coefficients of a segment at `tau`, up to `degree`, into `stimulus.polynomial`.

    A segment that ends within the next `ahead` [s], or that interpolates between points, becomes
    the straight line to its value then, which it does not exceed. `stimulus` is a record of
    `State.stimuli`.
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
        fill_oscillation(segment, stimulus, tau, degree)


@compiled
def fill_oscillation(
    segment: SegmentPlan, stimulus: StimulusState, tau: float, degree: int
) -> None:
    """Fill derivatives of a sine or a chirp, by the recurrence of the series of sine and cosine.

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


# Random numbers as functions of a counter: the same on every machine, without state.
#
# splitmix64 (Steele, Lea and Flood 2014), whose n-th number follows from n alone.

_INCREMENT, _FIRST, _SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
_11, _27, _30, _31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)
_UNIT = 2.0**-53


@compiled
def mix(z: np.uint64) -> np.uint64:
    """The output function of splitmix64."""
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


@compiled
def uniform(seed: int, n: int) -> float:
    """Number `n` of the sequence of `seed`, in ``[0, 1)``."""
    start = mix(np.uint64(seed) + _INCREMENT)
    z = mix(start + np.uint64(n + 1) * _INCREMENT)
    return float(np.float64(z >> _11) * _UNIT)


@compiled
def normal(seed: int, n: int) -> float:
    """Number `n` of a sequence of standard normal numbers (Box and Muller 1958)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(seed, 2 * n)))
    return radius * math.sin(2.0 * math.pi * uniform(seed, 2 * n + 1))
