"""Step size control (METHODS section 6): a PI controller on the defect, without rejected steps."""

from __future__ import annotations

import math
from typing import NamedTuple

EPSILON_FLOOR = 1e-16
K_P = 0.13
K_I = 1.0 / 15.0
GROWTH_MAX = 2.0


class PIState(NamedTuple):
    """`integral` is the logarithm of a step [s]; `h` the step in force, s."""

    integral: float
    h: float


def pi_start(h0: float) -> PIState:
    """State before the first step of size `h0` [s]."""
    return PIState(math.log(h0), h0)


def pi_step(state: PIState, defect: float, tolerance: float, low: float, high: float) -> PIState:
    """Step after one that had `defect`, both in the unit of `tolerance` (paper 003, section 3).

    Where the growth limit or the bounds `low`, `high` [s] cut the step, the integral follows, so
    that it does not wind up.
    """
    error = math.log(tolerance) - math.log(max(defect, EPSILON_FLOOR))
    integral = state.integral + K_I * error
    exponent = integral + K_P * error
    wanted = math.exp(min(exponent, math.log(high) + 1.0))  # a vanishing defect must not overflow
    h = min(max(min(wanted, GROWTH_MAX * state.h), low), high)
    return PIState(integral + math.log(h) - exponent, h)
