"""Stage of the slack: what corrections add to the bonds' efforts, and what they should add.

An effort was evaluated with the inputs as sent; with those now known it answers ``D du`` to the
difference, at once. Where D was tried out, independently of what the correction uses, the effort's
error in force is ``added - D du``, and over the interval it makes the energy ``H f (added - D du)``
(docs/reliability.md, "Corrections are verified").
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.allowed import allowed
from hilrt.coupling.polynomial import value_at
from hilrt.coupling.power_bond import flow_of
from hilrt.tables.given import StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table
from hilrt.tables.state import State

#: Time in which a correction is faded out or in, s.
FADE_S = 0.2


@stage
def follow_corrections(plan: Plan, state: State, given: StepInput) -> None:
    """Energies of the interval that ended; what is added to the efforts from now on."""
    elapsed = given.session[0].elapsed
    for b in range(len(state.bonds)):
        state.bonds[b].error_energy = state.bonds[b].added_lately = 0.0
    for i in range(len(state.elements)):
        element, bond = state.elements[i], state.bonds[plan.elements[i].bond]
        transmitted = elapsed * plan.elements[i].watt * flow_of(plan, state, i)
        bond.added_lately += transmitted * element.added
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
    answer_to_inputs(plan, state, given)
    for b in range(len(state.bonds)):
        if plan.bonds[b].tried:
            judge_harm(plan.session[0], state.session[0], state.bonds[b], given.session[0])
        if state.bonds[b].harmful and not plan.bonds[b].keeps:
            state.bonds[b].share = 0.0
        fade(state.bonds[b], elapsed)


@compiled
def judge_harm(settings: Table, session: Table, bond: Table, now: Table) -> None:
    """Find a correction harmful that has lately made more energy than none would have made.

    More by `energy_drift` of what the bond has carried. `settings` and `session` are the records of
    the plan's session and of the state's, `now` that of the given one.
    """
    keep = math.exp(-now.elapsed / settings.scale_time)
    bond.lately_made = bond.lately_made * keep + bond.error_energy
    bond.otherwise_made = bond.otherwise_made * keep + bond.error_energy - bond.added_lately
    if bond.harmful or now.t < settings.warm_up:
        return
    worse = abs(bond.lately_made) - abs(bond.otherwise_made)
    if worse > session.energy_drift * bond.through:
        bond.harmful = 1


@compiled
def fade(bond: Table, elapsed: float) -> None:
    """Let the share of a correction that acts follow the one that is to act."""
    most = elapsed / FADE_S
    bond.acting_share += max(-most, min(bond.share - bond.acting_share, most))


@stage
def by_outputs(state: State, given: StepInput, i: int) -> float:
    """What the corrections of outputs add to output `i`; nothing where it has no new sample."""
    if not state.outputs[i].arrived:
        return 0.0
    return state.outputs[i].y - given.outputs[i].y


@stage
def answer_to_inputs(plan: Plan, state: State, given: StepInput) -> None:
    """Take from the errors what the efforts would have answered to the inputs now known."""
    count, now = plan.session[0].coefficients, given.session[0].t
    for k in range(len(plan.sensitivities)):
        part = plan.sensitivities[k]
        u = state.inputs[part.input]
        asked = allowed(plan.inputs[part.input], u.extrapolated[0])
        sent = value_at(u.previous, count, now - u.previous_t0)
        state.elements[part.element].error -= part.factor * (asked - sent)
