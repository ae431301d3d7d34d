"""Step size control without rejected steps: PI on defects, local error, energy residual.

Nothing physical can repeat a step, so a step that was too long only shortens the next one. Every
controller is a function of an explicit state; steps are in seconds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hilrt.solver import Floats

EPSILON_FLOOR = 1e-16
#: Gains of the PI controller on defects (paper 003).
K_P = 0.13
K_I = 1.0 / 15.0
GROWTH_MAX = 2.0
#: Limits of one change of the step by the local error (paper 000, section 5.3).
CUT_MOST, CUT_LEAST = 0.5, 0.9
#: Gains of the controller on the energy residual, times the order of the residual in the step.
ECCO_I, ECCO_P = 0.3, 0.4


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


def weighted_rms(values: Floats, weight: Floats) -> float:
    """WRMS norm ``sqrt(mean((values / weight)**2))`` (paper 000, eq. 25); 0 for no values."""
    if not len(values):
        return 0.0
    ratio = values / weight
    return math.sqrt(float(ratio @ ratio) / len(ratio))


def local_step(h: float, error: float, order: int, safety: float, low: float, high: float) -> float:
    """Step [s] after one of `h` [s], from the local error of the inputs (paper 000, section 5.3).

    Parameters
    ----------
    error : float
        WRMS norm of the estimated error: 1 is what is tolerated.
    order : int
        Degree of the inputs' polynomials, whose error is of one order more in `h`.
    safety : float
        Factor SF on the error, 2 to 6.
    """
    r = (safety * max(error, EPSILON_FLOOR)) ** (-1.0 / (order + 1))
    if r >= GROWTH_MAX:
        h *= GROWTH_MAX
    elif r < 1.0:
        h *= min(CUT_LEAST, max(CUT_MOST, r))
    return min(max(h, low), high)


def expected_error(differences: Floats, nodes: Floats, order: int, h: float) -> Floats:
    """``P^{k+1} − P^k`` at the end of a step `h` [s] ahead, of k = `order`, shape (ny,).

    What extrapolation with degree k will miss, known before the step is made (paper 000, eq. 31).

    Parameters
    ----------
    differences, nodes : ndarray, shape (depth, ny)
        Newton's form of the outputs' polynomials, nodes relative to the step's start; the depth
        is at least ``order + 2``.
    """
    missed: Floats = differences[order + 1] * np.prod(h - nodes[: order + 1], axis=0)
    return missed


class EccoState(NamedTuple):
    """State of the energy-conservation-based control.

    Attributes
    ----------
    h : float
        Step in force, s.
    error : float
        Of the worst bond, with its sign: positive where the interface created energy. 1 is
        what is tolerated.
    power : ndarray, shape (nb,)
        Running mean of the transmitted power's magnitude, W.
    """

    h: float
    error: float
    power: Floats


def ecco_start(h0: float, n_bonds: int) -> EccoState:
    """State before the first step of size `h0` [s]."""
    return EccoState(h0, 0.0, np.zeros(n_bonds))


def mean_power(state: EccoState, power: Floats, elapsed: float, t: float, window: float) -> Floats:
    """Running mean of ``|power|`` [W], shape (nb,), after an interval of `elapsed` [s].

    The mean over the session up to `t` [s]; once that is longer than `window` [s], old values fade.
    """
    share = min(1.0, elapsed / min(max(t, elapsed), window))
    mean: Floats = state.power + share * (np.abs(power) - state.power)
    return mean


def ecco_step(
    state: EccoState,
    residual: Floats,
    power: Floats,
    order: int,
    *,
    atol: float,
    rtol: float,
    safety: float,
    low: float,
    high: float,
) -> EccoState:
    """Step after one with power residuals `residual` [W], shape (nb,) (METHODS section 7).

    Parameters
    ----------
    power : ndarray, shape (nb,)
        Running mean of the transmitted power from `mean_power`, W.
    order : int
        Degree of the inputs' polynomials. The residual is of one order more in the step, so the
        gains are divided by that: fixed gains oscillate from degree 3 on.
    atol, rtol : float
        Tolerated residual energy of a step: absolute [J] and relative to the transmitted energy.
    """
    scale = atol + rtol * power * state.h
    errors = np.divide(residual * state.h, scale, out=np.zeros_like(scale), where=scale > 0.0)
    error = float(errors[np.argmax(np.abs(errors))])
    now = max(abs(error), EPSILON_FLOOR)
    before = max(abs(state.error), EPSILON_FLOOR) if state.error else now
    p, i = ECCO_P / (order + 1), ECCO_I / (order + 1)
    factor = safety * now ** (-i - p) * before**p
    h = state.h * min(GROWTH_MAX, max(CUT_MOST, factor))
    return EccoState(min(max(h, low), high), error, power)
