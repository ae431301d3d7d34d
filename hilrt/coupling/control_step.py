"""Rules of the step size without rejected steps: PI on defects, local error, energy residual.

Nothing physical can repeat a step, so a step that was too long only shortens the next one. Every
rule is a function of numbers and of the session's record, whose fields it moves on; steps are in
seconds.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled
from hilrt.tables.record import Table

EPSILON_FLOOR = 1e-16
#: A defect beyond this, or no number, counts as this: its logarithm stays finite.
EPSILON_CEILING = 1e300
#: Gains of the PI controller on defects (Glumac and Kovačić 2023, eq. 50).
K_P = 0.13
K_I = 1.0 / 15.0
GROWTH_MAX = 2.0
#: Limits of one change of the step by the local error (Multibody Syst. Dyn. 09817 (2022),
#: section 5.3).
CUT_MOST, CUT_LEAST = 0.5, 0.9
#: Gains of the controller on the energy residual, times the order of the residual in the step.
ECCO_I, ECCO_P = 0.3, 0.4


@compiled
def power(base: float, exponent: float) -> float:
    """``base^exponent`` of a positive number."""
    return math.exp(exponent * math.log(base))


@compiled
def pi_step(session: Table, defect: float, tolerance: float, low: float, high: float) -> None:
    """Step after one that had `defect`, in the unit of `tolerance`.

    Glumac and Kovačić (2023), eq. 39. Where the growth limit or the bounds `low`, `high` [s] cut
    the step, the integral follows, so that it does not wind up.
    """
    if not defect <= EPSILON_CEILING:
        defect = EPSILON_CEILING
    error = math.log(tolerance) - math.log(max(defect, EPSILON_FLOOR))
    integral = session.step_integral + K_I * error
    exponent = integral + K_P * error
    wanted = math.exp(min(exponent, math.log(high) + 1.0))  # a vanishing defect must not overflow
    h = min(max(min(wanted, GROWTH_MAX * session.controlled_step), low), high)
    session.controlled_step = h
    session.step_integral = integral + math.log(h) - exponent


@compiled
def local_step(h: float, error: float, order: int, safety: float, low: float, high: float) -> float:
    """Step [s] after one of `h` [s], from the local error of the inputs.

    Multibody Syst. Dyn. 09817 (2022), eqs. 32 to 34, section 5.3.

    Parameters
    ----------
    error : float
        Weighted RMS of the estimated error: 1 is what is tolerated.
    order : int
        Degree of the inputs' polynomials, whose error is of one order more in `h`.
    safety : float
        Factor SF on the error, 2 to 6.
    low, high : float
        Bounds of the step, s.
    """
    r = power(safety * max(error, EPSILON_FLOOR), -1.0 / (order + 1))
    if r >= GROWTH_MAX:
        h *= GROWTH_MAX
    elif r < 1.0:
        h *= min(CUT_LEAST, max(CUT_MOST, r))
    return min(max(h, low), high)


@compiled
def mean_power(mean: float, now: float, elapsed: float, t: float, window: float) -> float:
    """Running mean of a power's magnitude [W] after an interval of `elapsed` [s].

    The mean over the session up to `t` [s]; once that is longer than `window` [s], old values fade.
    """
    share = min(1.0, elapsed / min(max(t, elapsed), window))
    return mean + share * (abs(now) - mean)


@compiled
def energy_error(residual: float, mean: float, h: float, atol: float, rtol: float) -> float:
    """Energy that a bond's power residual [W] made in a step of `h` [s], over what is tolerated.

    ``atol + rtol E`` is tolerated, with E the energy [J] that the bond transmits at its `mean`
    power [W], not the residual's own (Sadjina et al. 2017, step size control). The sign stays:
    positive where the interface created energy.
    """
    tolerated = atol + rtol * mean * h
    return residual * h / tolerated if tolerated > 0.0 else 0.0


@compiled
def ecco_step(
    session: Table, error: float, order: int, safety: float, low: float, high: float
) -> None:
    """Step after one with the relative energy error `error` of the worst bond.

    Sadjina et al. (2017), step size control.

    Parameters
    ----------
    order : int
        Degree of the inputs' polynomials. The residual is of one order more in the step, so the
        gains are divided by that: fixed gains oscillate from degree 3 on.
    safety : float
        Factor on the step.
    low, high : float
        Bounds of the step, s.
    """
    now, before = max(abs(error), EPSILON_FLOOR), max(abs(session.ecco_error), EPSILON_FLOOR)
    if session.ecco_error == 0.0:
        before = now
    p, i = ECCO_P / (order + 1), ECCO_I / (order + 1)
    factor = safety * power(now, -i - p) * power(before, p)
    h = session.controlled_step * min(GROWTH_MAX, max(CUT_MOST, factor))
    session.controlled_step = min(max(h, low), high)
    session.ecco_error = error
