"""One step of a set-point towards its target, limited in rate and jerk."""

from __future__ import annotations

import math


def approach(
    value: float,
    rate: float,
    target: float,
    target_rate: float,
    elapsed: float,
    max_rate: float,
    max_jerk: float,
) -> tuple[float, float]:
    """Move `value` towards `target` for `elapsed` [s].

    Parameters
    ----------
    value, rate : float
        Set-point and its rate of change [unit, unit/s].
    target, target_rate : float
        Where it should be, and how fast that moves.
    elapsed : float
        Time to move over, s.
    max_rate, max_jerk : float
        Bounds of the rate [unit/s] and of its change [unit/s²]; `max_jerk` may be infinite.

    Returns
    -------
    tuple of float
        New set-point and rate.

    Notes
    -----
    The rate is the fastest from which the set-point can come to rest at the target, relative to the
    target's own motion. With steps of `elapsed` that is exact: m steps, each slower than the one
    before by ``max_jerk elapsed``, cover the gap when the first is at ``gap / (m elapsed) +
    (m - 1) max_jerk elapsed / 2``. So a target at rest is reached without overshoot, and one that
    moves steadily is followed without lag.
    """
    if elapsed <= 0.0:
        return value, rate
    gap = target - value
    if math.isinf(max_jerk):
        if abs(gap) <= max_rate * elapsed:
            return target, gap / elapsed
        rate = math.copysign(max_rate, gap)
        return value + rate * elapsed, rate
    gap -= target_rate * elapsed  # to where the target was when the step began
    change = max_jerk * elapsed
    n = math.sqrt(0.25 + 2.0 * abs(gap) / (change * elapsed)) - 0.5
    steps = max(1, math.ceil(n - 1e-9))
    closing = abs(gap) / (steps * elapsed) + 0.5 * (steps - 1) * change
    aim = target_rate + math.copysign(closing, gap)
    wish = min(max(aim, -max_rate), max_rate)
    new_rate = min(max(wish, rate - change), rate + change)
    if target_rate == 0.0 and new_rate == aim and steps == 1:
        return target, new_rate
    return value + new_rate * elapsed, new_rate
