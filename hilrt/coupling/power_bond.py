"""Power bonds: effort, flow and transmitted power of their elements.

The ports of a bond are power variables: the product of effort and flow is a power. What the two
ends of an extrapolated bond transmit differently is its power residual.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import stage
from hilrt.coupling.allowed import energy_of_limits
from hilrt.coupling.polynomial import value_at
from hilrt.coupling.realised import realised_input
from hilrt.tables.given import StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table
from hilrt.tables.state import State


@stage
def effort_of(plan: Plan, state: State, element: int) -> float:
    """Effort of an element now, in its output's unit: the sum that a junction makes."""
    e = state.outputs[plan.elements[element].effort].y
    for k in range(len(plan.summands)):
        if plan.summands[k].element == element:
            e += state.outputs[plan.summands[k].output].y
    return e


@stage
def flow_of(plan: Plan, state: State, element: int) -> float:
    """Flow of an element now, in its output's unit."""
    return state.outputs[plan.elements[element].flow].y


@stage
def effort_as_used(plan: Plan, state: State, t: float, element: int) -> float:
    """Effort that the flow side used at `t` [s], without the correction, in the output's unit."""
    ends, others = plan.elements[element], state.elements[element].previous_effort_others
    own = own_part(plan, state.inputs[ends.effort_input], others, t)
    return own / ends.effort_gain


@stage
def flow_as_used(plan: Plan, state: State, t: float, element: int) -> float:
    """Flow that the effort side used at `t` [s], in the output's unit."""
    ends, others = plan.elements[element], state.elements[element].previous_flow_others
    own = own_part(plan, state.inputs[ends.flow_input], others, t)
    return own / ends.flow_gain


@stage
def own_part(plan: Plan, u: Table, others: Table, t: float) -> float:
    """Part of the previous input polynomial at `t` [s] that comes from the bond itself."""
    coefficients, age = plan.session[0].coefficients, t - u.previous_t0
    own = value_at(u.previous, coefficients, age) - u.previous_correction
    if plan.session[0].shared_inputs:
        own -= value_at(others, coefficients, age)
    return own


@stage
def power_residual(plan: Plan, state: State, t: float, b: int) -> float:
    """``dP = e~ f - e f~`` [W] of a bond; positive where the interface created energy.

    Rodríguez et al. (2022), eqs. 7 and 9.

    Of polynomials as sent, at the end `t` [s] of the interval that they were used in.
    """
    bond, residual = plan.bonds[b], 0.0
    for i in range(bond.first, bond.first + bond.elements):
        e, f = effort_of(plan, state, i), flow_of(plan, state, i)
        e_used, f_used = effort_as_used(plan, state, t, i), flow_as_used(plan, state, t, i)
        if not state.elements[i].previous_cut:
            residual += plan.elements[i].watt * (e_used * f - e * f_used)
            residual -= energy_of_limits(plan, state, i, e, f)
    return residual


@stage
def transmitted_power(plan: Plan, state: State, b: int) -> float:
    """Power into the flow side of a bond, W."""
    bond, power = plan.bonds[b], 0.0
    for i in range(bond.first, bond.first + bond.elements):
        power += plan.elements[i].watt * effort_of(plan, state, i) * flow_of(plan, state, i)
    return power


@stage
def measure_bonds(plan: Plan, state: State, given: StepInput) -> None:
    """Stage of the slack: ledger, transmitted power, and tracking power ``e (f_realised - f~)``.

    Tracking power is lost to what a bench made of its demand. Elements whose realised flow is not
    measured (no finite number) count as perfectly realised.
    """
    t, elapsed = given.session[0].t, given.session[0].elapsed
    coefficients = plan.session[0].coefficients
    for b in range(len(state.bonds)):
        bond = state.bonds[b]
        bond.residual_energy += bond.made
        bond.shadow_energy -= bond.work
        bond.corrected_energy -= bond.applied_work
        bond.capped_steps += bond.capped
        bond.steps += bond.due
        bond.power, bond.tracking = transmitted_power(plan, state, b), 0.0
        for i in range(plan.bonds[b].first, plan.bonds[b].first + plan.bonds[b].elements):
            ends = plan.elements[i]
            k = ends.flow_input
            u = state.inputs[k]
            realised = realised_input(plan.inputs[k], state.outputs, given.inputs[k])
            if math.isfinite(realised):
                demanded = value_at(u.previous, coefficients, t - u.previous_t0)
                lost = effort_of(plan, state, i) * (realised - demanded)
                bond.tracking += ends.watt * lost / ends.flow_gain
        bond.tracking_energy += bond.tracking * elapsed
