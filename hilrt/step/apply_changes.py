"""Stage: what operators change, of bonds, inputs, faults and parameters; and sensitivities."""

from __future__ import annotations

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.inject_faults import BEGUN, ENDED
from hilrt.coupling.regression import forget
from hilrt.coupling.trust import LEARNING
from hilrt.link import SMOOTH, SWITCHES, UNSEEN
from hilrt.tables.given import (
    BOND_SETTINGS,
    FAULT_SETTINGS,
    INPUT_SETTINGS,
    THRESHOLDS,
    StepInput,
)
from hilrt.tables.plan import Plan
from hilrt.tables.state import BondState, SessionStateRow, State

CONNECTION_DEFECT = THRESHOLDS.index("connection_defect")
OUTPUT_DEFECT = THRESHOLDS.index("output_defect")
POWER_RESIDUAL = THRESHOLDS.index("power_residual")
ENERGY_DRIFT = THRESHOLDS.index("energy_drift")
TRACKING = THRESHOLDS.index("tracking")
CAP = BOND_SETTINGS.index("cap")
CAP_ABS = BOND_SETTINGS.index("cap_abs")
SHARE = BOND_SETTINGS.index("share")
CONTRADICTED = BOND_SETTINGS.index("contradicted")
TAKE = len(BOND_SETTINGS) + INPUT_SETTINGS.index("take")
GIVE_BACK = len(BOND_SETTINGS) + INPUT_SETTINGS.index("give_back")
_FAULTS = len(BOND_SETTINGS) + len(INPUT_SETTINGS)
INJECT, CLEAR, RELEASE = range(_FAULTS, _FAULTS + len(FAULT_SETTINGS))
PARAMETER = _FAULTS + len(FAULT_SETTINGS)


@stage
def apply_changes(plan: Plan, state: State, given: StepInput) -> None:
    """Write this tick's changes, in their order, and renewed sensitivities into the state."""
    withdrawn = False
    for k in range(given.session[0].changes):
        change = given.changes[k]
        if change.row < 0:
            set_threshold(state.session[0], change.what, change.value)
        elif change.what == CAP:
            state.bonds[change.row].cap = change.value
        elif change.what == CAP_ABS:
            state.bonds[change.row].cap_abs = change.value
        elif change.what == SHARE:
            set_share(state.bonds[change.row], change.value)
        elif change.what == CONTRADICTED:
            state.bonds[change.row].contradicted = change.value != 0.0
        elif change.what == TAKE:
            state.drives[change.row].operated = 1
            state.drives[change.row].operated_to = change.value
        elif change.what == GIVE_BACK:
            state.drives[change.row].operated = 0
        elif change.what == INJECT:
            state.faults[change.row].operated = BEGUN
        elif change.what == CLEAR:
            state.faults[change.row].operated = ENDED
        elif change.what == RELEASE:
            state.faults[change.row].operated = 0
        elif change.what == PARAMETER:
            state.parameters[change.row].value = change.value
            withdraw(plan, state, plan.parameters[change.row].subsystem)
            withdrawn = True
    if given.session[0].answers_renewed:
        for k in range(len(state.answers)):
            state.answers[k].before = state.answers[k].factor
            state.answers[k].factor = given.answers[k]
        for s in range(len(state.subsystems)):
            if plan.subsystems[s].inside != UNSEEN:
                state.subsystems[s].inside = SWITCHES if given.subsystems[s].switches else SMOOTH
        if given.session[0].answers_moved:
            state.session[0].sensitivities_moved = 1
        if not withdrawn:  # else they are of the model before
            state.session[0].reparametrised = 0
            for s in range(len(state.subsystems)):
                state.subsystems[s].reparametrised = 0


@stage
def withdraw(plan: Plan, state: State, s: int) -> None:
    """Use nothing more that was found out of subsystem `s` before a parameter of it changed.

    Its Jacobian is zero until it is renewed, or identified anew.
    """
    state.subsystems[s].reparametrised = 1
    state.session[0].reparametrised = 1
    own, gamma = plan.subsystems[s], state.model.gamma
    for m in range(len(gamma)):
        for i in range(own.first_output, own.first_output + own.outputs):
            for u in range(own.first_input, own.first_input + own.inputs):
                gamma[m, i, u] = 0.0
    state.model.session[0].prepared = 0
    regressions, learning = plan.model.regressions, state.model.learning
    for r in range(len(regressions)):
        at, memory = regressions[r], learning.regressions[r]
        if at.subsystem == s:
            memory.judged = memory.given = 0
            for i in range(at.first_output, at.first_output + at.outputs):
                learning.outputs[i].reason, learning.outputs[i].passed = LEARNING, 0
            forget(at, learning, state.model.work, r, plan.model.weight[r])


@compiled
def set_share(bond: BondState, share: float) -> None:
    """Set the share of a bond's correction; whether it does harm is judged anew."""
    bond.share = max(0.0, min(share, 1.0))
    bond.harmful = 0
    bond.lately_made = bond.otherwise_made = 0.0


@compiled
def set_threshold(session: SessionStateRow, what: int, value: float) -> None:
    """Set the threshold at position `what` of `THRESHOLDS`."""
    if what == CONNECTION_DEFECT:
        session.connection_defect = value
    elif what == OUTPUT_DEFECT:
        session.output_defect = value
    elif what == POWER_RESIDUAL:
        session.power_residual = value
    elif what == ENERGY_DRIFT:
        session.energy_drift = value
    elif what == TRACKING:
        session.tracking = value
