"""Stage: what extrapolated inputs did to the outputs, taken out before the outputs are used.

First by feedthrough, then by Jacobians: each where the session file asks for it.
"""

from __future__ import annotations

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.correct_feedthrough import correct_by_feedthrough
from hilrt.coupling.correct_model import correct_by_jacobians, correction_of, prepare_correction
from hilrt.coupling.extrapolate import newton_form
from hilrt.solver import Floats
from hilrt.tables.given import StepInput
from hilrt.tables.model import CorrectionTables
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table
from hilrt.tables.state import State


@stage
def correct_outputs(plan: Plan, state: State, given: StepInput) -> None:
    """Corrected outputs into the histories and their polynomials, offsets at the inputs.

    The correction is computed in shadow, too, but nothing of it is applied.
    """
    settings, now, session = plan.model.settings[0], given.session[0], plan.session[0]
    if not (settings.feedthrough or settings.corrects):
        return
    outputs, corrected, parts = state.outputs, state.model.outputs, correction_of(plan, state)
    if settings.corrects:
        if now.renewed:
            renew_jacobians(parts, plan.model.outputs, given.gamma)
        if not state.model.session[0].prepared:
            prepare_correction(parts)
    if now.elapsed <= 0.0:
        return
    for i in range(len(outputs)):
        corrected[i].y = outputs[i].y
    if settings.feedthrough:
        correct_by_feedthrough(plan, state, given)
    for i in range(len(outputs)):
        corrected[i].corrected = corrected[i].y
    if settings.corrects:
        correct_by_jacobians(parts, state.inputs, state.drives, now)
    share = acting_share(plan, state) if now.apply and not session.shadow else 0.0
    if share > 0.0:
        for i in range(len(outputs)):
            wanted = corrected[i].corrected - outputs[i].y
            apply_correction(outputs[i], outputs[i].y + share * wanted, session.samples, now.t)
    apply_offsets(state.model.inputs, state.inputs, share)


@stage
def acting_share(plan: Plan, state: State) -> float:
    """Share of the corrections of outputs that acts: the least of their bonds.

    They are one system of equations, and do not act one by one.
    """
    share = 1.0
    for b in range(len(plan.bonds)):
        if plan.bonds[b].corrected_elsewhere:
            share = min(share, state.bonds[b].acting_share)
    return share


@compiled
def apply_correction(out: Table, corrected: float, samples: int, now: float) -> None:
    """A corrected output becomes the newest sample, on top of what a prediction has added."""
    out.y_past[0] += corrected - out.y
    newton_form(out, samples, now)
    out.differences[0] += out.bridged
    out.corrected_by += corrected - out.y
    out.y = corrected


@compiled
def apply_offsets(offsets: Table, inputs: Table, share: float) -> None:
    """The share of the offsets of the model's state that is applied to the inputs."""
    for u in range(len(offsets)):
        inputs[u].offset = offsets[u].offset * share


@compiled
def renew_jacobians(parts: CorrectionTables, rows: Table, renewed: Floats) -> None:
    """Use the Jacobians given at this tick, of subsystems that are not identified.

    `rows` are the outputs among the model's constants; `renewed` has the shape of `gamma`.
    """
    subsystems, gamma = parts.subsystems, parts.gamma
    for s in range(len(subsystems)):
        own = subsystems[s]
        for i in range(own.first_output, own.first_output + own.outputs):
            if rows[i].correctable and not rows[i].identified:
                for m in range(len(gamma)):
                    for u in range(own.first_input, own.first_input + own.inputs):
                        gamma[m, i, u] = renewed[m, i, u]
    parts.session[0].prepared = 0
