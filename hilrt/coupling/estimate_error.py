"""The estimated error of the inputs over its tolerance (ExSLocal), and the weights of its norm.

It needs no step to be repeated, so that it can be estimated against a bench, too (Multibody Syst.
Dyn. 09817 (2022), eqs. 21, 25 and 27).
"""

from __future__ import annotations

import math

import numpy as np

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.allowed import allowed
from hilrt.coupling.polynomial import value_at
from hilrt.tables.given import StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table
from hilrt.tables.state import State

#: Below this a scale weighs nothing.
SMALLEST_SCALE = float(np.finfo(np.float64).eps)


@stage
def estimate_error(plan: Plan, state: State, given: StepInput) -> None:
    """Previous input polynomials at the end of their interval against the extrapolated inputs.

    Where the output behind an input has feedthrough, it was evaluated with the very inputs that
    are in question: the difference is then an indicator, not an estimate (Multibody Syst. Dyn.
    09817 (2022), section 4.3).
    """
    t, settings = given.session[0].t, plan.session[0]
    square, connected = 0.0, 0
    for i in range(len(state.inputs)):
        u = state.inputs[i]
        end = value_at(u.previous, settings.coefficients, t - u.previous_t0)
        u.error_ratio = abs(end - allowed(plan.inputs[i], u.extrapolated[0]))
        u.error_ratio /= tolerance(settings, plan.inputs[i].atol, u.extrapolated[0])
        if plan.inputs[i].exact:
            u.error_ratio = 0.0
        elif plan.inputs[i].connected:
            square += u.error_ratio * u.error_ratio
            connected += 1
    session = state.session[0]
    session.error = math.sqrt(square / connected) if connected > 0 else 0.0
    session.failed = session.error > 1.0


@compiled
def tolerance(settings: Table, atol: float, value: float) -> float:
    """``W = atol + rtol |value|``; infinite where that is zero. `settings`: the plan's session."""
    tolerated = atol + settings.rtol * abs(value)
    return tolerated if tolerated > 0.0 else math.inf


@compiled
def order_weight(settings: Table, port: Table, u: Table) -> float:
    """Weight of an input whose order is controlled: its tolerance, or else its scale.

    The scale is that of the point before; a signal that has been zero so far weighs nothing.
    `settings`, `port`, `u` are records of the plan's session, its inputs, and the state's.
    """
    if settings.has_tolerances:
        return tolerance(settings, port.atol, u.extrapolated[0])
    weight = max(u.scale, abs(u.extrapolated[0]))
    return weight if weight >= SMALLEST_SCALE else math.inf
