"""Stage: what acts on the inputs beside the extrapolated outputs, added to them."""

from __future__ import annotations

from hilrt.compilation.compiled import stage
from hilrt.coupling.excite import excite
from hilrt.coupling.extrapolate import sum_connections
from hilrt.solver import Floats
from hilrt.tables.given import StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.state import CONNECTION, State


@stage
def sum_inputs(plan: Plan, state: State, given: StepInput) -> None:
    """Corrections and dither added; contributions of other connections, for the bonds."""
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
            if state.drives[d].source != CONNECTION:  # nothing is corrected where nothing acts
                u.correction = u.offset = 0.0
        u.polynomial[0] = u.polynomial[0] + u.correction + u.offset
    if plan.model.settings[0].dithers:
        excite(plan, state, given)
    if plan.session[0].shared_inputs:
        add_contributions(plan, state, given)


@stage
def begin_others(plan: Plan, state: State, i: int, others: Floats) -> None:
    """What acts on input `i` beside its connections: a stimulus belongs to no bond."""
    d = plan.inputs[i].drive
    if d < 0:
        others[0] = plan.inputs[i].constant
    else:
        for m in range(plan.session[0].coefficients):
            others[m] = state.drives[d].own[m]


@stage
def add_contributions(plan: Plan, state: State, given: StepInput) -> None:
    """What arrives at the inputs of each bond's elements without belonging to the bond."""
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
