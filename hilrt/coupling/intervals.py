"""Stages at the start and end of a macro step: previous inputs, and intervals in which inputs act.

A subsystem that is due receives the interval ``[t, t + H]`` of its own rate. A solver that was late
is behind the communication point and receives one merged interval up to the same end. A bench acts
`lead` [s] after it receives an input (its actuation delay), so that its inputs are computed for a
time later by `lead`. The reference time of a polynomial is the start of the interval in which it
acts.
"""

from __future__ import annotations

from hilrt.compilation.compiled import stage
from hilrt.coupling.extrapolate import copy, shift
from hilrt.tables.given import StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.state import State


@stage
def turn_over(plan: Plan, state: State, given: StepInput) -> None:
    """Store the polynomials sent at the previous point, and set the length of the step.

    After a communication point at a discontinuity, a fixed step returns to the grid.
    """
    coefficients, rest = plan.session[0].coefficients, given.session[0].rest
    if rest > 0.0:
        state.session[0].h_next = rest
    elif not plan.session[0].variable_step:
        state.session[0].h_next = plan.session[0].first_step
    for i in range(len(state.inputs)):
        u = state.inputs[i]
        copy(u.polynomial, coefficients, u.previous)
        u.previous_t0, u.previous_correction = u.t0, u.correction
    for i in range(len(state.elements)):
        element = state.elements[i]
        copy(element.effort_others, coefficients, element.previous_effort_others)
        copy(element.flow_others, coefficients, element.previous_flow_others)
        element.previous_cut = element.cut


@stage
def open_intervals(plan: Plan, state: State, given: StepInput) -> None:
    """Set start and length of each subsystem's interval, and whether it is dispatched now."""
    t, h_next = given.session[0].t, state.session[0].h_next
    for s in range(len(state.subsystems)):
        subsystem, cut = state.subsystems[s], given.subsystems[s]
        subsystem.t_start = cut.reached
        subsystem.h = plan.subsystems[s].every * h_next + (t - cut.reached)
        subsystem.dispatch = cut.due and not cut.busy


@stage
def move_to_starts(plan: Plan, state: State, given: StepInput) -> None:
    """Shift polynomials to the time at which they begin to act.

    Inputs of subsystems that are not dispatched keep their polynomials, including corrections.
    """
    t, coefficients = given.session[0].t, plan.session[0].coefficients
    for i in range(len(state.inputs)):
        u, at = state.inputs[i], plan.inputs[i]
        subsystem = state.subsystems[at.subsystem]
        if subsystem.dispatch:
            moved = at.lead + (subsystem.t_start - t)
            u.t0 = t + moved
            shift(u.polynomial, coefficients, moved)
            if at.drive >= 0:
                shift(state.drives[at.drive].own, coefficients, moved)
                state.drives[at.drive].t0 = u.t0
        else:
            copy(u.previous, coefficients, u.polynomial)
            u.t0, u.correction = u.previous_t0, u.previous_correction
    for i in range(len(state.elements)):
        element, ends = state.elements[i], plan.elements[i]
        at_effort, at_flow = plan.inputs[ends.effort_input], plan.inputs[ends.flow_input]
        flow_side, effort_side = (
            state.subsystems[at_effort.subsystem],
            state.subsystems[at_flow.subsystem],
        )
        if flow_side.dispatch:
            moved = at_effort.lead + (flow_side.t_start - t)
            shift(element.effort_others, coefficients, moved)
        else:
            copy(element.previous_effort_others, coefficients, element.effort_others)
        if effort_side.dispatch:
            moved = at_flow.lead + (effort_side.t_start - t)
            shift(element.flow_others, coefficients, moved)
        else:
            copy(element.previous_flow_others, coefficients, element.flow_others)
