"""Stage: changes of thresholds, bonds, inputs and faults by an operator, and sensitivities."""

from __future__ import annotations

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.inject_faults import BEGUN, ENDED
from hilrt.tables.given import BOND_SETTINGS, FAULT_SETTINGS, INPUT_SETTINGS, THRESHOLDS, StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table
from hilrt.tables.state import State

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

#: Sensitivities that pass on what differs by less than that share are the same, but for rounding.
MOVED = 0.02


@stage
def apply_changes(plan: Plan, state: State, given: StepInput) -> None:
    """Write this tick's changes, in their order, and renewed sensitivities into the state."""
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
    if given.session[0].answers_renewed:
        for k in range(len(state.answers)):
            state.answers[k].factor = given.answers[k]
        if given.session[0].answers_change > MOVED:
            state.session[0].sensitivities_moved = 1


@compiled
def set_share(bond: Table, share: float) -> None:
    """Set the share of a bond's correction; whether it does harm is judged anew."""
    bond.share = max(0.0, min(share, 1.0))
    bond.harmful = 0
    bond.lately_made = bond.otherwise_made = 0.0


@compiled
def set_threshold(session: Table, what: int, value: float) -> None:
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
