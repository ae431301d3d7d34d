"""Stage: remove the effect of extrapolated inputs from outputs before they are used.

The correction by feedthrough comes first, then that by Jacobians, as the session file requests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.correct_model import correct_by_jacobians, correction_of, prepare_correction
from hilrt.coupling.drive_inputs import is_cut
from hilrt.coupling.extrapolate import newton_form, value_at
from hilrt.solver import Floats
from hilrt.tables.given import StepInput
from hilrt.tables.model import (
    CorrectedInput,
    FeedthroughTerm,
    ModelOutput,
    ModelPlan,
)
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table, table
from hilrt.tables.state import CorrectionTables, InputState, OutputState, State


@stage
def correct_outputs(plan: Plan, state: State, given: StepInput) -> None:
    """Correct the outputs, their histories and polynomials, and offset the inputs.

    In shadow mode the correction is computed but not applied.
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
    """Smallest share of the correction among bonds that correct outputs.

    All of them use this share, because these corrections form one system of equations.
    """
    share = 1.0
    for b in range(len(plan.bonds)):
        if plan.bonds[b].corrected_elsewhere:
            share = min(share, state.bonds[b].acting_share)
    return share


@compiled
def apply_correction(out: OutputState, corrected: float, samples: int, now: float) -> None:
    """Store a corrected output as the newest sample, plus the change due to a prediction."""
    out.y_past[0] += corrected - out.y
    newton_form(out, samples, now)
    out.differences[0] += out.bridged
    out.corrected_by += corrected - out.y
    out.y = corrected


@compiled
def apply_offsets(offsets: Table[CorrectedInput], inputs: Table[InputState], share: float) -> None:
    """Apply the given share of the model's offsets to the inputs."""
    for u in range(len(offsets)):
        inputs[u].offset = offsets[u].offset * share


@compiled
def renew_jacobians(parts: CorrectionTables, rows: Table[ModelOutput], renewed: Floats) -> None:
    """Use the Jacobians that arrived at this tick, except those of identified subsystems.

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


# Correction by feedthrough: an effort computed with an extrapolated input is corrected by D.
#
# An output with direct feedthrough was evaluated with the inputs as sent, ``u_s``, not with those
# known now, ``u = L y* + offset``. With ``D = dy/du`` the error is known exactly to first order,
# and no gain is needed (docs/methods.md, "Feedthrough correction")::
#
#     y* = y + D (L y* + offset - u_s)    =>    y* = K y + K D (offset - u_s),   K = (I - D L)^-1


@dataclass(frozen=True, slots=True)
class Feedthrough:
    """The correction's matrices: `K` (ny, ny) and `KD` (ny, nu)."""

    K: Floats
    KD: Floats


def build_feedthrough(D: Floats, L: Floats) -> Feedthrough:
    """Prepare the correction.

    Parameters
    ----------
    D : ndarray, shape (ny, nu)
        Rows of outputs that are not corrected are zero.
    L : ndarray, shape (nu, ny)
        Coupling matrix.

    Raises
    ------
    ValueError
        If ``I - D L`` is singular: the feedthrough loop has no solution.
    """
    try:
        K: Floats = np.linalg.inv(np.eye(len(D)) - D @ L).astype(np.float64)
    except np.linalg.LinAlgError:
        raise ValueError("the feedthrough loop I − D L is singular") from None
    return Feedthrough(K, K @ D)


def feedthrough_table(correction: Feedthrough) -> Table[FeedthroughTerm]:
    """`ModelPlan.feedthrough`: terms added to each output by the correction."""
    corrected = np.atleast_1d(correction.KD.any(axis=1))
    change = np.where(corrected[:, None], correction.K - np.eye(len(correction.K)), 0.0)
    both = np.hstack((change, correction.KD))
    found, ny = table(FeedthroughTerm, int(np.count_nonzero(both))), len(change)
    found["output"], column = np.nonzero(both)
    found["factor"] = both[found["output"], column]
    found["of_input"] = column >= ny
    found["source"] = np.where(column >= ny, column - ny, column)
    return found


def feedthrough_matrices(plan: ModelPlan, ny: int, nu: int) -> Feedthrough | None:
    """The correction's matrices, reconstructed from a plan; None if it has none."""
    if not plan.settings["feedthrough"][0]:
        return None
    K, KD = np.eye(ny), np.zeros((ny, nu))
    for part in plan.feedthrough:
        matrix = KD if part.of_input else K
        matrix[part.output, part.source] += part.factor
    return Feedthrough(K, KD)


@stage
def own_value(plan: Plan, state: State, i: int, now: float) -> float:
    """Contribution to input `i` besides its connections, at `now` [s]."""
    d = plan.inputs[i].drive
    if d < 0:
        return plan.inputs[i].constant
    drive = state.drives[d]
    return value_at(drive.own, plan.session[0].coefficients, now - drive.t0)


@stage
def correct_by_feedthrough(plan: Plan, state: State, given: StepInput) -> None:
    """Correct the session's outputs by feedthrough, into `outputs.y` of the model's state.

    The matrices assume that all connections act: nothing is corrected while another source drives
    one of their inputs, or after a parameter of a subsystem has changed.
    """
    if state.session[0].reparametrised:
        return
    count, now = plan.session[0].coefficients, given.session[0].t
    for k in range(len(plan.model.feedthrough)):
        part = plan.model.feedthrough[k]
        if part.of_input and is_cut(plan, state, part.source):
            return
    for k in range(len(plan.model.feedthrough)):
        part = plan.model.feedthrough[k]
        if part.of_input:
            u = state.inputs[part.source]
            sent = value_at(u.previous, count, now - u.previous_t0)
            change = own_value(plan, state, part.source, now) - sent
        else:
            change = state.outputs[part.source].y
        state.model.outputs[part.output].y += part.factor * change
