"""Power bonds: effort, flow and transmitted power of their elements.

The ports of a bond are power variables: the product of effort and flow is a power. The difference
between the powers at the two ends of a bond is its power residual.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.adapt_mu import (
    FASTER,
    SOONER,
    adapt_mu,
    doubt_mu,
    follow_flows,
    forget_fit,
    remember_energies,
)
from hilrt.coupling.extrapolate import value_at
from hilrt.coupling.limit import allowed, energy_of_limits
from hilrt.coupling.past import realised_input
from hilrt.solver import Floats
from hilrt.tables.given import GivenSession, StepInput
from hilrt.tables.plan import Plan, SessionPlan
from hilrt.tables.state import BondState, InputState, SessionStateRow, State


@stage
def effort_of(plan: Plan, state: State, element: int) -> float:
    """Effort of an element now, in its output's unit: the sum at a junction."""
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
def own_part(plan: Plan, u: InputState, others: Floats, t: float) -> float:
    """Part of the previous input polynomial at `t` [s] that is due to the bond itself."""
    coefficients, age = plan.session[0].coefficients, t - u.previous_t0
    own = value_at(u.previous, coefficients, age) - u.previous_correction
    if plan.session[0].shared_inputs:
        own -= value_at(others, coefficients, age)
    return own


@stage
def power_residual(plan: Plan, state: State, t: float, b: int) -> float:
    """Power residual ``dP = e~ f - e f~`` of a bond, W; positive if the interface created energy.

    Rodríguez et al. (2022), eqs. 7 and 9. Computed from polynomials as sent, at the end `t` [s] of
    the interval in which they were used.
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

    Tracking power is due to the bench's deviation from its demand. Elements without a measured
    (finite) realised flow are assumed to be perfectly realised.
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


# Stage: change the effort so that it removes the energy created by the interface.
#
# Rodríguez et al. (2022), eqs. 11 to 17. With ``s = mu H dP`` and U the energy not yet corrected::
#
#     e_corr = -(s + nu U) / (f H'),   limited to +-cap |e| and +-cap_abs
#
# H' is the next interval, in which the correction acts; with a fixed step it equals H. For a
# vector bond the correction points along the flow: ``e_corr = -(s + nu U) f / (f.f H')``.

#: Below this flow (in its own unit) a correction cannot exchange energy.
FLOW_FLOOR = 1e-12


@stage
def correct_energy(plan: Plan, state: State, given: StepInput) -> None:
    """Compute the power residual of the interval that ended, and the effort that corrects it.

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
    """Compute the energy created in the interval and the correction's work."""
    bond, settings, t = state.bonds[b], plan.bonds[b], given.session[0].t
    residual, done = 0.0, 0.0
    for i in range(settings.first, settings.first + settings.elements):
        element, watt = state.elements[i], plan.elements[i].watt
        e, f = effort_of(plan, state, i), flow_of(plan, state, i)
        if settings.held:
            e_used, f_used = element.e, element.f
        else:
            e_used, f_used = effort_as_used(plan, state, t, i), flow_as_used(plan, state, t, i)
        if not element.previous_cut:  # a cut bond transmits nothing
            residual += watt * (e_used * f - e * f_used)
            residual -= energy_of_limits(plan, state, i, e, f)
        done += watt * element.correction * f
        element.e, element.f = e, f
    elapsed = t - bond.t
    bond.residual_power = residual
    bond.made, bond.work = elapsed * residual, done * elapsed
    bond.applied_work = bond.work * bond.in_force
    bond.uncorrected += bond.budget + bond.work
    bond.budget = bond.mu * bond.made


@stage
def choose_effort(plan: Plan, state: State, given: StepInput, b: int) -> None:
    """Choose the effort along the flow that removes the energy over the next interval."""
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


# Stage of the slack: effects of corrections on the bonds' efforts, compared with the required ones.
#
# An effort was evaluated with the inputs as sent; its direct response to their difference from the
# inputs now known is ``D du``. If D was probed, independently of the correction, the remaining
# error of the effort is ``added - D du``, which over the interval creates the energy
# ``H f (added - D du)`` (docs/reliability.md, "Corrections are verified").

#: Time over which a correction is faded out or in, s.
FADE_S = 0.2


@stage
def follow_corrections(plan: Plan, state: State, given: StepInput) -> None:
    """Update energies of the last interval, and changes of the efforts from now on."""
    elapsed = given.session[0].elapsed
    for b in range(len(state.bonds)):
        state.bonds[b].error_energy = state.bonds[b].added_in_interval = 0.0
    for i in range(len(state.elements)):
        element, bond = state.elements[i], state.bonds[plan.elements[i].bond]
        transmitted = elapsed * plan.elements[i].watt * flow_of(plan, state, i)
        bond.added_in_interval += transmitted * element.added
        bond.added_energy += transmitted * element.added
        bond.error_energy += transmitted * element.error
        out = plan.elements[i].effort
        element.added = element.effort + by_outputs(state, given, out)
        element.error = element.added
    for k in range(len(plan.summands)):
        element = state.elements[plan.summands[k].element]
        change = by_outputs(state, given, plan.summands[k].output)
        element.added += change
        element.error += change
    subtract_responses(plan, state, given)
    forget_withdrawn(plan, state, given)
    judge_bonds(plan, state, given)


@stage
def judge_bonds(plan: Plan, state: State, given: StepInput) -> None:
    """Recent energies of the bonds: whether corrections do harm, and adaptive mu."""
    elapsed = given.session[0].elapsed
    state.session[0].mus_turned = 0
    for b in range(len(state.bonds)):
        bond, settings = state.bonds[b], plan.bonds[b]
        bond.mu_turned = 0
        probed = settings.tried and not bond.withdrawn
        by_flows = settings.side_flow >= 0 and flows_known(plan, state, b)
        if by_flows:
            i, keep = settings.first, math.exp(-FASTER * elapsed / plan.session[0].scale_time)
            flow, side = flow_of(plan, state, i), state.outputs[settings.side_flow].y
            values = effort_of(plan, state, i), flow, side
            follow_flows(bond, values, plan.elements[i].watt, elapsed, keep)
        if probed or bond.sure:
            remember_energies(plan.session[0], bond, elapsed)
            judge_harm(plan.session[0], state.session[0], bond, given.session[0])
            bond.trusted = plan.session[0].scale_time / FASTER
            if settings.adapts and not bond.harmful:
                adapt_mu(settings, bond, 1.0 if probed else SOONER)
        elif settings.adapts and settings.side_flow >= 0 and not bond.harmful:
            doubt_mu(settings, bond, elapsed)
        state.session[0].mus_turned += bond.mu_turned
        if bond.harmful and not settings.keeps:
            bond.share = 0.0
        fade(bond, elapsed)


@stage
def flows_known(plan: Plan, state: State, b: int) -> bool:
    """Whether effort and both flows are samples of now; otherwise, the next step begins anew."""
    bond, at = state.bonds[b], plan.bonds[b]
    ends = plan.elements[at.first]
    known = state.outputs[ends.effort].arrived and state.outputs[ends.flow].arrived
    known = known and state.outputs[at.side_flow].arrived
    known = known and not (state.elements[at.first].cut or state.elements[at.first].previous_cut)
    if not known:
        bond.followed = bond.sure = 0
    return bool(known)


@stage
def forget_withdrawn(plan: Plan, state: State, given: StepInput) -> None:
    """Clear the energies of bonds whose efforts respond differently now, or unpredictably."""
    now = given.session[0]
    for b in range(len(state.bonds)):
        state.bonds[b].withdrawn, side = 0, plan.bonds[b].side_flow
        if side >= 0 and state.subsystems[plan.outputs[side].subsystem].reparametrised:
            forget_fit(state.bonds[b])
    for k in range(len(plan.sensitivities)):
        part = plan.sensitivities[k]
        bond = state.bonds[plan.elements[part.element].bond]
        if state.subsystems[plan.inputs[part.input].subsystem].reparametrised:
            bond.withdrawn = 1
        if bond.withdrawn or (now.answers_renewed and now.answers_moved):
            bond.recent_created = bond.recent_without = bond.recent_residual = 0.0


@compiled
def judge_harm(
    settings: SessionPlan, session: SessionStateRow, bond: BondState, now: GivenSession
) -> None:
    """Mark a correction as harmful if more energy was recently created than without it.

    The limit is the share `energy_drift` of the energy that the bond has carried. `settings`,
    `session` and `now` are the session records of plan, state and given.
    """
    if bond.harmful or now.t < settings.warm_up:
        return
    worse = abs(bond.recent_created) - abs(bond.recent_without)
    if worse > session.energy_drift * bond.through:
        bond.harmful = 1


@compiled
def fade(bond: BondState, elapsed: float) -> None:
    """Move the acting share of a correction towards its target."""
    most = elapsed / FADE_S
    bond.acting_share += max(-most, min(bond.share - bond.acting_share, most))


@stage
def by_outputs(state: State, given: StepInput, i: int) -> float:
    """Change of output `i` by the corrections of outputs; 0 without a new sample."""
    if not state.outputs[i].arrived:
        return 0.0
    return state.outputs[i].y - given.outputs[i].y


@stage
def subtract_responses(plan: Plan, state: State, given: StepInput) -> None:
    """Subtract the efforts' responses to the inputs now known from the errors."""
    count, now = plan.session[0].coefficients, given.session[0].t
    for k in range(len(plan.sensitivities)):
        part = plan.sensitivities[k]
        u = state.inputs[part.input]
        known = allowed(plan.inputs[part.input], u.extrapolated[0])
        sent = value_at(u.previous, count, now - u.previous_t0)
        factor = part.factor if part.answer < 0 else state.answers[part.answer].factor
        state.elements[part.element].error -= factor * (known - sent)
