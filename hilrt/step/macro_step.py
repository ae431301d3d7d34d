"""The macro step: the order of the stages, defined only here.

`macro_step` and `assess` are functions of tables alone: no clock, no socket, no await. The same
input from the same state gives the same decisions, bit for bit, compiled and interpreted. With a
variable step, defects are measured on the critical path, because the step about to be dispatched
depends on them; on a bench, where the step is fixed, all of `assess` runs in the slack.
"""

from __future__ import annotations

from hilrt.compilation.compiled import compiled
from hilrt.coupling.choose_step import choose_step, take_repetitions
from hilrt.coupling.compensate import compensate, predict_late
from hilrt.coupling.control_order import control_order, count_order
from hilrt.coupling.correct_outputs import correct_outputs
from hilrt.coupling.drive_inputs import advance_stimuli, drive_inputs
from hilrt.coupling.estimate_signals import estimate_signals
from hilrt.coupling.extrapolate import extrapolate
from hilrt.coupling.identify import identify
from hilrt.coupling.inject_faults import take_samples
from hilrt.coupling.intervals import turn_over
from hilrt.coupling.limit import limit
from hilrt.coupling.measure_defects import measure_defects
from hilrt.coupling.measure_disturbances import measure_disturbances
from hilrt.coupling.power_bond import correct_energy, follow_corrections, measure_bonds
from hilrt.coupling.sum_inputs import sum_inputs
from hilrt.expressions.evaluate import calculate
from hilrt.reliability.guard import guard, judge_ranges
from hilrt.reliability.measure import measure_reliability
from hilrt.reliability.move_flags import count_affected, move_flags
from hilrt.step.apply_changes import apply_changes, stimulate_parameters
from hilrt.tables.given import Slack, StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table
from hilrt.tables.state import State


@compiled
def macro_step(plan: Plan, state: State, given: StepInput) -> None:
    """The critical path: from the samples at a communication point to the inputs to send."""
    take_repetitions(plan, state, given)
    apply_changes(plan, state, given)
    stimulate_parameters(plan, state, given)
    take_samples(plan, state, given)
    calculate(plan, state, given)
    guard(plan, state, given)
    judge_ranges(plan, state, given)
    turn_over(plan, state, given)
    advance_stimuli(plan, state, given)
    compensate(plan, state, given)
    predict_late(plan, state, given)
    correct_outputs(plan, state, given)
    extrapolate(plan, state, given)
    if plan.session[0].variable_step:
        measure_defects(plan, state, given)
        choose_step(plan, state, given)  # extrapolates again if the order has changed
    drive_inputs(plan, state, given)
    correct_energy(plan, state, given)
    sum_inputs(plan, state, given)
    limit(plan, state, given)


@compiled
def assess(plan: Plan, state: State, given: StepInput, slack: Table[Slack]) -> None:
    """The slack: quality of the last interval, and messages about it."""
    if not plan.session[0].variable_step:
        measure_defects(plan, state, given)
        control_order(plan, state, given)
    if plan.session[0].controls_order:
        count_order(plan, state, given)
    measure_disturbances(plan, state, given)
    estimate_signals(plan, state, given)
    measure_bonds(plan, state, given)
    follow_corrections(plan, state, given)
    identify(plan, state, given, slack)
    measure_reliability(plan, state, given, slack)
    move_flags(plan, state, given)
    count_affected(plan, state, given)
