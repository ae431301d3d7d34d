"""Stage: the effort is changed so that it takes back what the interface created.

Rodríguez et al. (2022), eqs. 11 to 17. With ``s = mu H dP`` and U the energy not yet corrected::

    e_corr = -(s + nu U) / (f H'),   limited to +-cap |e| and +-cap_abs

H' is the interval that the correction acts in, the next one; with a fixed step it is H. For a
vector bond the correction points along the flow: ``e_corr = -(s + nu U) f / (f.f H')``.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import stage
from hilrt.coupling.allowed import energy_of_limits
from hilrt.coupling.power_bond import effort_as_used, effort_of, flow_as_used, flow_of
from hilrt.tables.given import StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.state import State

#: Below this flow (in its own unit) the correction has nothing to push against.
FLOW_FLOOR = 1e-12


@stage
def correct_energy(plan: Plan, state: State, given: StepInput) -> None:
    """Power residual of the interval that ended, and the effort that answers it.

    Bonds whose slower side does not communicate now keep their correction.
    """
    for i in range(len(state.inputs)):
        state.inputs[i].correction = 0.0
    now = given.session[0]
    if now.elapsed <= 0.0:
        return
    for b in range(len(state.bonds)):
        bond, settings = state.bonds[b], plan.bonds[b]
        acts = settings.active and now.apply
        bond.due = now.rest == 0.0 and now.tick % settings.every == 0
        if bond.due:
            close_interval(plan, state, given, b)
            choose_effort(plan, state, given, b)
            bond.t = now.t
        else:
            bond.made = bond.work = bond.applied_work = 0.0
            bond.capped = 0
        bond.in_force = bond.acting_share if acts else 0.0
        bond.correction = bond.correction_computed = 0.0
        for i in range(settings.first, settings.first + settings.elements):
            element, ends = state.elements[i], plan.elements[i]
            element.effort = 0.0 if element.cut else element.correction * bond.in_force
            bond.correction += element.effort
            bond.correction_computed += element.correction
            state.inputs[ends.effort_input].correction += element.effort * ends.effort_gain


@stage
def close_interval(plan: Plan, state: State, given: StepInput, b: int) -> None:
    """Energy that the interval made, and what its correction did with the flow now known."""
    bond, settings, t = state.bonds[b], plan.bonds[b], given.session[0].t
    residual, done = 0.0, 0.0
    for i in range(settings.first, settings.first + settings.elements):
        element, watt = state.elements[i], plan.elements[i].watt
        e, f = effort_of(plan, state, i), flow_of(plan, state, i)
        if settings.held:
            e_used, f_used = element.e, element.f
        else:
            e_used, f_used = effort_as_used(plan, state, t, i), flow_as_used(plan, state, t, i)
        if not element.previous_cut:  # a bond that is cut transmits nothing
            residual += watt * (e_used * f - e * f_used)
            residual -= energy_of_limits(plan, state, i, e, f)
        done += watt * element.correction * f
        element.e, element.f = e, f
    elapsed = t - bond.t
    bond.residual_power = residual
    bond.made, bond.work = elapsed * residual, done * elapsed
    bond.applied_work = bond.work * bond.in_force
    bond.uncorrected += bond.budget + bond.work
    bond.budget = settings.mu * bond.made


@stage
def choose_effort(plan: Plan, state: State, given: StepInput, b: int) -> None:
    """Energy to take out over the next interval, and the effort along the flow for it."""
    bond, settings = state.bonds[b], plan.bonds[b]
    square_e, square_f = 0.0, 0.0
    for i in range(settings.first, settings.first + settings.elements):
        square_e += state.elements[i].e * state.elements[i].e
        square_f += state.elements[i].f * state.elements[i].f
    flow, size = math.sqrt(square_f), math.sqrt(square_e)
    ahead = settings.every * state.session[0].h_next
    target, wanted = bond.budget + settings.nu * bond.uncorrected, 0.0
    if flow > FLOW_FLOOR:
        wanted = -target / (plan.elements[settings.first].watt * flow * ahead)
    bound = bond.cap_abs if math.isinf(bond.cap) else min(bond.cap * size, bond.cap_abs)
    allowed = max(min(wanted, bound), -bound)
    bond.capped = allowed != wanted
    for i in range(settings.first, settings.first + settings.elements):
        element = state.elements[i]
        element.correction = allowed * (element.f / flow) if flow > FLOW_FLOOR else 0.0
        if element.cut:
            element.correction = 0.0
