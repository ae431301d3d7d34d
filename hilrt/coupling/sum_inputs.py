"""Stage: what acts on the inputs beside the extrapolated outputs, added to them."""

from __future__ import annotations

from hilrt.compiled import stage
from hilrt.coupling.excite import excite
from hilrt.tables.given import StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.state import State


@stage
def sum_inputs(plan: Plan, state: State, given: StepInput) -> None:
    """Corrections and dither added; contributions of other connections, for the bonds."""
    coefficients = plan.session[0].coefficients
    for i in range(len(state.inputs)):
        u = state.inputs[i]
        u.polynomial[0] = u.extrapolated[0] + u.correction
        for m in range(1, coefficients):
            u.polynomial[m] = u.extrapolated[m]
        u.polynomial[0] += u.offset
    if plan.model.settings[0].dithers:
        excite(plan, state, given)
    if plan.session[0].shared_inputs:
        add_contributions(plan, state, given)


@stage
def add_contributions(plan: Plan, state: State, given: StepInput) -> None:
    """What arrives at the inputs of each bond's elements without belonging to the bond."""
    coefficients = plan.session[0].coefficients
    for i in range(len(state.elements)):
        element = state.elements[i]
        for m in range(coefficients):
            element.effort_others[m] = element.flow_others[m] = 0.0
        element.effort_others[0] = plan.inputs[plan.elements[i].effort_input].constant
        element.flow_others[0] = plan.inputs[plan.elements[i].flow_input].constant
    for k in range(len(plan.contributions)):
        part = plan.contributions[k]
        carried = state.connections[part.connection].polynomial
        element = state.elements[part.element]
        for m in range(coefficients):
            if part.at_flow:
                element.flow_others[m] += carried[m] * part.gain
            else:
                element.effort_others[m] += carried[m] * part.gain
