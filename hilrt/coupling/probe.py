"""Interface Jacobians by trying: save the state, perturb the inputs, step, restore.

For solvers that can go back but know no Jacobian (Haid et al. 2022, eq. 14: the Γ_m are how the
outputs at the end of a step answer to the coefficients of the input polynomial).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hilrt.solver import Floats, Solver

#: Size of the perturbation relative to the input, or absolute for inputs below 1.
PERTURBATION = 1e-4

#: A step [s] that leaves nothing but the direct feedthrough of any mechanical or thermal system.
INSTANT_S = 1e-7

#: Trials of a solver whose same step does not come out the same: noise, from a generator that its
#: saved state does not hold.
REPEATS = 5

#: How far entries may differ between these, as a share of each and of the largest change of its
#: output: well within what a correction is called wrong by (`hilrt.coupling.verification`).
REPEATABLE, NEGLIGIBLE = 0.05, 0.0025

Advance = Callable[[float, float, Floats], Floats]


def probe_jacobian(
    solver: Solver, advance: Advance, t: float, h: float, u: Floats, order: int
) -> Floats | None:
    """Γ_0 … Γ_order about the solver's present state.

    Parameters
    ----------
    solver : Solver
        One that can restore its state; it is left as it was.
    advance : callable
        ``(t, h, coefficients) -> y``: steps the solver, Taylor coefficients (order + 1, n_inputs).
    t, h : float
        Start and length of the macro step, s.
    u : ndarray, shape (n_inputs,)
        Inputs held over the step that the perturbations are added to.
    order : int
        Highest coefficient that is perturbed.

    Returns
    -------
    ndarray, shape (order + 1, n_outputs, n_inputs), or None
        Central differences: exact for a linear solver but for rounding. None where the step is an
        instant, which a solver of constant steps cannot take, and where repeated trials differ. The
        mean of these where they differ little.
    """
    if h < INSTANT_S and not solver.any_step:
        return None
    first, second = (_step(solver, advance, t, h, u) for _ in range(2))
    if np.array_equal(first, second, equal_nan=True):
        return _probed_once(solver, advance, t, h, u, order)
    found = np.array([_probed_once(solver, advance, t, h, u, order) for _ in range(REPEATS)])
    mean, differ = found.mean(axis=0), np.ptp(found, axis=0)
    largest = np.abs(mean).max(axis=-1, keepdims=True, initial=0.0)
    # What an output does not answer to shows noise alone, which is little beside the output.
    beside = np.abs(first)[:, None] / np.maximum(1.0, np.abs(u))
    small = NEGLIGIBLE * np.maximum(largest, beside)
    if not (differ <= REPEATABLE * np.abs(mean) + small).all():
        return None
    clear: Floats = np.where(np.abs(mean) > differ, mean, 0.0)
    return clear


def _step(solver: Solver, advance: Advance, t: float, h: float, u: Floats) -> Floats:
    saved = solver.save_state()
    try:
        return advance(t, h, u[None])
    finally:
        solver.restore_state(saved)


def _probed_once(
    solver: Solver, advance: Advance, t: float, h: float, u: Floats, order: int
) -> Floats:
    columns = []
    for m in range(order + 1):
        for i, value in enumerate(u):
            change = PERTURBATION * max(1.0, abs(float(value)))
            direction = np.zeros((order + 1, len(u)))
            direction[m, i] = change
            columns.append(probe_response(solver, advance, t, h, u, direction) / change)
    gamma: Floats = np.array(columns).reshape(order + 1, len(u), -1).transpose(0, 2, 1)
    return gamma


def probe_response(
    solver: Solver, advance: Advance, t: float, h: float, u: Floats, direction: Floats
) -> Floats:
    """Change of the outputs when the inputs change by `direction`, shape (n_outputs,).

    Parameters as for `probe_jacobian`; `direction`, shape (order + 1, n_inputs), holds the change
    of the coefficients a_m in the normalised power basis. One central difference: two steps.
    """
    saved = solver.save_state()
    taylor = [math.factorial(m) / h**m for m in range(len(direction))]  # a_m s^m about t
    change = direction * np.array(taylor)[:, None]
    outputs = []
    for sign in (1.0, -1.0):
        coefficients = sign * change
        coefficients[0] += u
        try:
            outputs.append(advance(t, h, coefficients))
        finally:
            solver.restore_state(saved)
    return 0.5 * (outputs[0] - outputs[1])
