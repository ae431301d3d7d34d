"""Stage: add further contributions to the extrapolated inputs."""

from __future__ import annotations

import numpy as np

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.extrapolate import sum_connections
from hilrt.solver import Floats
from hilrt.tables.given import StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.state import CONNECTION, State


@stage
def sum_inputs(plan: Plan, state: State, given: StepInput) -> None:
    """Add corrections and dither; for the bonds, sum contributions of other connections."""
    coefficients = plan.session[0].coefficients
    for i in range(len(state.inputs)):
        u, d = state.inputs[i], plan.inputs[i].drive
        if d < 0:
            for m in range(coefficients):
                u.polynomial[m] = u.extrapolated[m]
        else:
            sum_connections(plan, state, i, u.polynomial)
            for m in range(coefficients):
                u.polynomial[m] += state.drives[d].own[m]
            # Corrections assume that the connections act with the session's gains.
            if state.drives[d].source != CONNECTION or state.drives[d].altered:
                u.correction = u.offset = 0.0
        u.polynomial[0] = u.polynomial[0] + u.correction + u.offset
    if plan.model.settings[0].dithers:
        excite(plan, state, given)
    if plan.session[0].shared_inputs:
        add_contributions(plan, state, given)


@stage
def begin_others(plan: Plan, state: State, i: int, others: Floats) -> None:
    """Start the sum of input `i` with its constant or stimulus, which are outside any bond."""
    d = plan.inputs[i].drive
    if d < 0:
        others[0] = plan.inputs[i].constant
    else:
        for m in range(plan.session[0].coefficients):
            others[m] = state.drives[d].own[m]


@stage
def add_contributions(plan: Plan, state: State, given: StepInput) -> None:
    """Sum the contributions to each bond element's inputs from outside the bond."""
    coefficients = plan.session[0].coefficients
    for i in range(len(state.elements)):
        element = state.elements[i]
        for m in range(coefficients):
            element.effort_others[m] = element.flow_others[m] = 0.0
        begin_others(plan, state, plan.elements[i].effort_input, element.effort_others)
        begin_others(plan, state, plan.elements[i].flow_input, element.flow_others)
    for k in range(len(plan.contributions)):
        part = plan.contributions[k]
        if not state.connections[part.connection].acts:
            continue
        carried = state.connections[part.connection].polynomial
        element = state.elements[part.element]
        for m in range(coefficients):
            if part.at_flow:
                element.flow_others[m] += carried[m] * part.gain
            else:
                element.effort_others[m] += carried[m] * part.gain


# Dither: small random polynomials on the inputs, which excite the identification.
#
# The signs come from splitmix64 (Steele, Lea and Flood 2014) of a counter: the same on every
# machine, without state.

_INCREMENT, _FIRST, _SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
_30, _27, _63, _ZERO = np.uint64(30), np.uint64(27), np.uint64(63), np.uint64(0)


@compiled
def random_sign(counter: int) -> float:
    """1 or -1; a pure function of the counter."""
    z = np.uint64(counter) * _INCREMENT
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return 1.0 if (z >> _63) == _ZERO else -1.0


@stage
def excite(plan: Plan, state: State, given: StepInput) -> None:
    """Add dither to the inputs about now: a pure function of the tick and the running scales.

    Each coefficient has its own random sign, because coefficients that always change together
    cannot be distinguished; over a step their sum stays within the amplitude.
    """
    terms, n = plan.model.settings[0].order + 1, len(plan.inputs)
    first = given.session[0].tick * (terms * n) + 1
    for u in range(n):
        amplitude, power = plan.model.inputs[u].dither * state.inputs[u].scale, 1.0
        if amplitude == 0.0:
            continue
        for m in range(terms):
            if m > 0:
                power *= plan.model.settings[0].h / m
            coefficient = random_sign(first + m * n + u) * amplitude / terms
            state.inputs[u].polynomial[m] += coefficient / power


def dither(tick: int, amplitude: Floats, order: int) -> Floats:
    """Coefficients of dither in the normalised power basis.

    Parameters
    ----------
    tick : int
        Number of the macro step.
    amplitude : ndarray, shape (nu,)
        Bound of the dither over the step, in the inputs' units; 0 for none.
    order : int
        Degree p of the inputs.

    Returns
    -------
    ndarray, shape (order + 1, nu)
    """
    shape = (order + 1, len(amplitude))
    first = tick * shape[0] * shape[1] + 1
    with np.errstate(over="ignore"):
        signs = [random_sign(first + k) for k in range(shape[0] * shape[1])]
    coefficients: Floats = np.reshape(signs, shape) * amplitude / shape[0]
    return coefficients
