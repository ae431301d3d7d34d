"""Stage: apply operators' changes of bonds, inputs, faults and parameters."""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.drive_inputs import condition_holds
from hilrt.coupling.inject_faults import BEGUN, ENDED
from hilrt.coupling.regression import forget
from hilrt.coupling.stimulate import advance, begin_or_end, expand, is_active
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
    """Write this tick's changes, in order, and renewed sensitivities into the state."""
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
            set_parameter(plan, state, change.row, change.value)
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
        if not withdrawn:  # else they belong to the previous model
            state.session[0].reparametrised = 0
            for s in range(len(state.subsystems)):
                state.subsystems[s].reparametrised = 0


@stage
def stimulate_parameters(plan: Plan, state: State, given: StepInput) -> None:
    """Set parameters to the values of their stimuli at this point, within their bounds."""
    session = state.session[0]
    session.parameters_moved = session.parameters_turned = session.broke = 0
    session.until_break = math.inf
    for p in range(len(plan.parameters)):
        at, own = plan.parameters[p], state.parameters[p]
        own.moved = 0
        if at.stimuli:
            value = min(max(stimulated(plan, state, given, p), at.low), at.high)
            if value != own.value:
                set_parameter(plan, state, p, value)
                withdraw(plan, state, at.subsystem)
                own.moved = 1
                session.parameters_moved += 1


@stage
def stimulated(plan: Plan, state: State, given: StepInput, p: int) -> float:
    """Value of parameter `p` under its stimuli; its earlier value once no stimulus acts."""
    at, own, cut = plan.parameters[p], state.parameters[p], given.session[0]
    if not own.stimulated:
        own.unstimulated = own.value
    own.stimulated = replaced = broke = 0
    value = own.unstimulated
    for k in range(at.first_stimulus, at.first_stimulus + at.stimuli):
        row, stimulus = plan.stimuli[k], state.stimuli[k]
        begins, ends = condition_holds(state, row.start_when), condition_holds(state, row.end_when)
        begin_or_end(row, stimulus, cut.t, begins, ends)
        begin = own.value if row.replaces else 0.0
        advance(row, plan.segments, plan.points, stimulus, cut.t, begin, cut.tick)
        expand(plan.segments, plan.points, stimulus, cut.t, 0.0, cut.tick, 0)
        state.session[0].parameters_turned += stimulus.turned
        broke += stimulus.broke
        until = state.session[0].until_break
        state.session[0].until_break = min(until, stimulus.next_break - cut.t)
        if is_active(stimulus):
            own.stimulated = 1
            if row.replaces:
                value, replaced = stimulus.polynomial[0], 1
            elif not replaced:
                value += stimulus.polynomial[0]
    if broke and plan.session[0].variable_step:
        state.session[0].broke += broke
        outputs = plan.subsystems[at.subsystem]
        for i in range(outputs.first_output, outputs.first_output + outputs.outputs):
            state.outputs[i].jumps = 2  # the next sample shows it
    return value


@stage
def set_parameter(plan: Plan, state: State, row: int, value: float) -> None:
    """Set the value of a parameter; for a calculated channel, set its register."""
    state.parameters[row].value = value
    if plan.parameters[row].register >= 0:
        state.registers[plan.parameters[row].register].value = value


@stage
def withdraw(plan: Plan, state: State, s: int) -> None:
    """Discard the known responses of subsystem `s` after one of its parameters changed.

    Its Jacobian is zero until it is renewed or identified again.
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
    """Set the share of a bond's correction, and restart the assessment of its harm."""
    bond.share = max(0.0, min(share, 1.0))
    bond.harmful = 0
    bond.recent_created = bond.recent_without = 0.0


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
