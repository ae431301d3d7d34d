"""Correction by feedthrough: an effort evaluated with an extrapolated input, put right by D.

Where an output depends on inputs directly, it was evaluated with the inputs as sent, ``u_s``, and
not with those now known, ``u = L y* + offset``. With ``D = dy/du`` the error is known exactly to
first order, and no gain is needed (docs/methods.md, "Feedthrough correction")::

    y* = y + D (L y* + offset - u_s)    =>    y* = K y + K D (offset - u_s),   K = (I - D L)^-1
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hilrt.compilation.compiled import stage
from hilrt.coupling.drive_inputs import is_cut
from hilrt.coupling.polynomial import value_at
from hilrt.solver import Floats
from hilrt.tables.given import StepInput
from hilrt.tables.model import FEEDTHROUGH, ModelPlan
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table, table
from hilrt.tables.state import State


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
        Rows of outputs that are not to be corrected are zero.
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


def feedthrough_table(correction: Feedthrough) -> Table:
    """`ModelPlan.feedthrough`: what the correction adds to each output."""
    corrected = np.atleast_1d(correction.KD.any(axis=1))
    change = np.where(corrected[:, None], correction.K - np.eye(len(correction.K)), 0.0)
    both = np.hstack((change, correction.KD))
    found, ny = table(FEEDTHROUGH, int(np.count_nonzero(both))), len(change)
    found["output"], column = np.nonzero(both)
    found["factor"] = both[found["output"], column]
    found["of_input"] = column >= ny
    found["source"] = np.where(column >= ny, column - ny, column)
    return found


def feedthrough_matrices(plan: ModelPlan, ny: int, nu: int) -> Feedthrough | None:
    """The correction's matrices as they stand in a plan; None where it has none."""
    if not plan.settings["feedthrough"][0]:
        return None
    K, KD = np.eye(ny), np.zeros((ny, nu))
    for part in plan.feedthrough:
        matrix = KD if part.of_input else K
        matrix[part.output, part.source] += part.factor
    return Feedthrough(K, KD)


@stage
def own_value(plan: Plan, state: State, i: int, now: float) -> float:
    """What acts on input `i` at `now` [s] beside its connections."""
    d = plan.inputs[i].drive
    if d < 0:
        return plan.inputs[i].constant
    drive = state.drives[d]
    return value_at(drive.own, plan.session[0].coefficients, now - drive.t0)


@stage
def correct_by_feedthrough(plan: Plan, state: State, given: StepInput) -> None:
    """From the session's outputs to `outputs.y` of the model's state.

    The matrices belong to all connections: while something else drives an input that they count
    with, nothing is corrected.
    """
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
