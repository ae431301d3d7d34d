"""One step of a set-point towards its target, limited in value, rate and jerk.

Jerk here means the change of a set-point's rate per time, unit/s². Compiled in the master, plain
Python in the gateway.
"""

from __future__ import annotations

import math
from typing import NamedTuple

#: Share of the jerk used for braking while catching up with a moving target. With all of it, none
#: would be left for the target's own acceleration: the set-point would overshoot, and a closed loop
#: would oscillate.
PLANNED = 0.5


class Bounds(NamedTuple):
    """Bounds of a value, its rate [unit/s] and the rate's change [unit/s²]; may be infinite."""

    low: float
    high: float
    rate: float
    jerk: float


def approach(
    value: float,
    rate: float,
    target: float,
    before: float,
    elapsed: float,
    between: float,
    bounds: Bounds,
) -> tuple[float, float]:
    """Move `value` towards `target` for `elapsed` [s].

    Parameters
    ----------
    value, rate : float
        Set-point and the mean rate at which it arrived there [unit, unit/s].
    target, before : float
        Desired value now, and at the beginning of the step, within the bounds.
    elapsed : float
        Duration of the step, s.
    between : float
        From the middle of the step that led to `value` to the middle of this one, s: the time over
        which the rate changes.
    bounds : Bounds

    Returns
    -------
    tuple of float
        New set-point and rate.

    Notes
    -----
    A set-point that has reached a target moving within the bounds follows it exactly: between any
    samples, a curve with ``|x''| <= jerk`` changes its mean rate by at most ``jerk between``. A
    set-point behind its target moves faster than the target, by as much as it can brake before it
    catches up. A target at rest is thus reached in the shortest time without overshoot; for a
    moving target, braking uses the share `PLANNED` of the jerk.

    The braking curve is the parabola of constant jerk: with the gap g it permits the mean rate
    ``sqrt(2 jerk g) - jerk elapsed / 2`` over this step, independent of the next steps. The bounds
    of the value are approached along it, too.
    """
    low, high, max_rate, max_jerk = bounds
    if elapsed <= 0.0:
        return value, rate
    if math.isinf(max_jerk):
        gap = target - value
        if abs(gap) <= max_rate * elapsed:
            return target, gap / elapsed
        rate = math.copysign(max_rate, gap)
        return min(max(value + rate * elapsed, low), high), rate

    def braking(gap: float, jerk: float) -> float:  # nested for the compiler
        half = 0.5 * jerk * elapsed
        if gap <= half * elapsed:
            return max(gap, 0.0) / elapsed
        return math.sqrt(2.0 * jerk * gap) - half

    moved, gap = (target - before) / elapsed, before - value
    planned = max_jerk if moved == 0.0 else PLANNED * max_jerk
    aim = moved + math.copysign(braking(abs(gap), planned), gap)
    wish = min(aim, braking(high - value, max_jerk), max_rate)
    wish = max(wish, -braking(value - low, max_jerk), -max_rate)
    change = max_jerk * between
    new_rate = min(max(wish, rate - change), rate + change)
    if new_rate == aim and abs(gap) <= 0.5 * planned * elapsed * elapsed:
        return target, new_rate
    return min(max(value + new_rate * elapsed, low), high), new_rate
