"""`State`: the memory of the macro step, one table per kind of object."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.solver import Floats
from hilrt.tables.model import (
    CorrectedInput,
    CorrectedOutput,
    Dependency,
    ModelSession,
    ModelSettings,
    ModelState,
)
from hilrt.tables.plan import ConnectionPlan, InputPlan, SubsystemPlan
from hilrt.tables.program_tables import Register, Word
from hilrt.tables.record import (
    COEFFICIENTS,
    Coefficients,
    Integers,
    Samples,
    Table,
    TableRow,
    f8,
    i8,
)

#: Number of parts of the one-second sliding window over which affected time is counted.
PARTS: Final = 10

#: Sources of an input, by their number in `State.drives`.
SOURCES: Final = ("connection", "stimulus", "sequence", "operator")
CONNECTION, STIMULUS, SEQUENCE, OPERATOR = range(4)
#: Limited part of an input: the value of its sources, or another demand.
SOURCES_LIMITED, DEMAND_LIMITED = 1, 2
#: Phases of a stimulus.
WAITING, RUNNING, HOLDING, DONE = range(4)


class SessionStateRow(TableRow):
    """State of the session; one record."""

    h_next: f8  # macro step from this communication point, s; turn_over, choose_step
    # Level of the most severe action of an active alarm or a divergence; -1: none:
    alarm_level: i8  # guard, judge_ranges
    moved: i8  # flags that changed in the last assessment; move_flags
    turned: i8  # sources of inputs, and stimuli, that changed here; advance_stimuli, drive_inputs
    # A parameter changed: earlier probed responses are withdrawn
    reparametrised: i8  # of any subsystem; apply_changes, stimulate_parameters
    parameters_moved: i8  # by stimuli, at this point; stimulate_parameters
    parameters_turned: i8  # their stimuli that began or ended; stimulate_parameters
    faults_turned: i8  # faults that began or ended at this point; take_samples
    # For a variable step: stimuli that jumped or bent at this point, and faults that turned; time
    # until one is known to do so next
    broke: i8  # stimulate_parameters, advance_stimuli
    until_break: f8  # s; stimulate_parameters, advance_stimuli
    mus_turned: i8  # bonds whose mu changed in this step; follow_corrections
    error_lag: f8  # time by which the error's state lags the point, s; estimate_signals
    sensitivities_moved: i8  # renewed ones have differed from previous ones; apply_changes
    part: i8  # newest part of the window; count_affected
    part_seconds: Annotated[Floats, PARTS]  # duration of each part, s; count_affected
    # thresholds that an operator may change
    connection_defect: f8  # share of the signal's scale; apply_changes
    output_defect: f8  # share of the signal's scale; apply_changes
    power_residual: f8  # share of the power; apply_changes
    energy_drift: f8  # share of the energy; apply_changes
    tracking: f8  # share of the power; apply_changes
    # step control
    # The method's own step, before it is rounded:
    controlled_step: f8  # s; take_repetitions, choose_step
    step_integral: f8  # of PI: logarithm of a step; choose_step
    # Error that the control acted on; 1 (PI: the tolerance) is the limit:
    error: f8  # ratio; choose_step, control_order
    ecco_error: f8  # ratio, of the worst bond, with its sign; choose_step
    failed: i8  # the step that ended failed its error test; choose_step, control_order
    # Length of the step before the one that ended:
    previous_elapsed: f8  # s; choose_step, control_order
    degree: i8  # lowest degree of the inputs sent before, start-up included; choose_step
    # order control
    order: i8  # take_repetitions, choose_step, control_order
    order_changed: i8  # at this point; choose_step, control_order
    failures: i8  # consecutive; choose_step, control_order
    # Consecutive, at no shorter step and the same order:
    successes: i8  # take_repetitions, choose_step, control_order
    # Points at which each order was the highest in force:
    points_of_order: Annotated[Integers, COEFFICIENTS]  # count_order
    # SDN(1), SDN(2), ... of the last choice of an order:
    derivative_norms: Samples  # ratio; choose_step, control_order


class SubsystemState(TableRow):
    """State of a subsystem."""

    t_start: f8  # start of its dispatched interval, s; limit
    h: f8  # length of the interval, s; limit
    dispatch: i8  # receives its inputs at this tick; limit
    reparametrised: i8  # one of its parameters has changed; apply_changes, stimulate_parameters
    silent: f8  # time for which it has been late without a sample, s; measure_reliability
    inside: i8  # as in the plan, or by the latest trial; apply_changes
    reported: i8  # its samples have contained a middle or a mean; measure_reliability


class OutputState(TableRow):
    """State of an output; in the output's unit unless stated."""

    # The newest sample, given or calculated
    fresh: i8  # it is new in this cut; take_samples, calculate
    newest: f8  # take_samples, calculate
    t_newest: f8  # time at which it is valid, s; take_samples, calculate
    # Of a calculated channel: 1 if an output that it reads is not due, 2 if one is late
    waits: i8  # calculate
    # history: newest samples first
    t_past: Samples  # s; compensate
    y_past: Samples  # compensate, correct_outputs
    count: i8  # number of samples, up to the number kept; compensate
    sample: f8  # newest one used, without corrections; compensate
    faulted: i8  # a fault alters the newest sample; histories contain it as sent; take_samples
    # Newest sample used, altered by faults: ``kept y + added``; `added` changes at a rate
    kept: f8  # compensate
    added: f8  # compensate
    added_rate: f8  # unit/s; compensate
    added_t: f8  # s; compensate
    # The newest sample, until the next one:
    outside: i8  # it is outside the port's declared range; judge_ranges
    withheld: i8  # and therefore not used: the previous one is held; judge_ranges
    unusable: i8  # it is not used, for that reason or because it is not finite; judge_ranges
    unusable_points: i8  # consecutive due points since the last one used; judge_ranges
    outside_samples: i8  # number outside, over the session; judge_ranges
    value_fault: i8  # the sample in this cut ends the session; judge_ranges
    arrived: i8  # has a fresh sample that is used: finite, not withheld; compensate
    implausible: i8  # has a fresh sample that is not finite or too large; compensate
    # Its points until it shows a discontinuity that it depends on directly; 0: none
    jumps: i8  # stimulate_parameters, calculate, compensate, drive_inputs
    # Its points until samples before a bend are dropped; 0: none
    bends: i8  # advance_stimuli, compensate
    # Newton's form of the polynomial through the samples
    differences: Samples  # compensate, predict_late, correct_outputs
    nodes: Samples  # relative to the communication point, s; compensate, correct_outputs
    degree: i8  # allowed by the number of samples; compensate
    order: i8  # highest of its connections, in force; take_repetitions, choose_step, control_order
    # At the communication point, compensated and corrected:
    y: f8  # compensate, predict_late, correct_outputs
    corrected_by: f8  # part of it added by corrections; compensate, correct_outputs
    bridged: f8  # part added by the prediction of a late subsystem; compensate, predict_late
    reason: i8  # why its model correction is inactive (`trust.Reason`); 0: active; identify
    unexcited: i8  # the cause is that its inputs move too little compared with the noise; identify
    defect: f8  # RMS of the interval that ended; NaN where unknown; measure_defects
    defect_square: f8  # integral of its square over the run, unit^2 s; measure_defects
    defect_max: f8  # measure_defects
    defect_seconds: f8  # time for which it was known, s; measure_defects
    magnitude: f8  # measure_reliability
    scale: f8  # decaying peak; measure_reliability
    peak: f8  # highest magnitude so far; measure_reliability
    # estimated error
    # Value after its inputs have jumped, at the start of the interval:
    start: f8  # measure_disturbances
    error: f8  # propagated through the closed loops, with its sign; estimate_signals
    error_peak: f8  # decaying peak of it; estimate_signals
    estimated_error: f8  # half width of the band about the output; NaN: unknown; estimate_signals
    error_square: f8  # integral of its square over the session, unit^2 s; estimate_signals
    # Part of it that is due to the subsystems' own integration, and the same integral:
    own_error: f8  # estimate_signals
    own_square: f8  # unit^2 s; estimate_signals
    origin: f8  # first value; moments of the output less it, over time; measure_disturbances
    moment: f8  # unit s; measure_disturbances
    square_moment: f8  # unit^2 s; measure_disturbances
    moment_seconds: f8  # s; measure_disturbances
    # the same moments, weighted with the square of the time since the start
    late_moment: f8  # unit s^3; measure_disturbances
    late_square_moment: f8  # unit^2 s^3; measure_disturbances


class InputState(TableRow):
    """State of an input; in the input's unit unless stated."""

    # Taylor coefficients; each polynomial about its own time
    # Intended input in the interval that ended, through the newest samples, about now
    extrapolated: Coefficients  # extrapolate, choose_step
    # Current input polynomial, sent at this tick:
    polynomial: Coefficients  # take_repetitions, sum_inputs, limit
    t0: f8  # s; limit
    correction: f8  # of the energy, in the polynomial; correct_energy, sum_inputs, limit
    # Of the model correction (delta u_c), in the polynomial:
    offset: f8  # correct_outputs, sum_inputs
    previous: Coefficients  # previous input polynomial: of the interval that ended; turn_over
    previous_t0: f8  # s; turn_over
    previous_correction: f8  # turn_over
    # limits
    last: f8  # start value of the polynomial sent last; limit
    last_t: f8  # time of that, s; limit
    approach_rate: f8  # with limited jerk: mean rate at which it arrived there; limit
    approach_t: f8  # time in the middle of that step, s; limit
    approach_asked: f8  # requested value at that time; limit
    limited: i8  # 0, `SOURCES_LIMITED` or `DEMAND_LIMITED`; limit
    difference: Coefficients  # previous less extrapolated, scaled by its interval; measure_defects
    defect: f8  # RMS of the interval that ended; a bound while its source is late; measure_defects
    defect_square: f8  # unit^2 s; measure_defects
    defect_max: f8  # measure_defects
    defect_seconds: f8  # measure_defects
    left_behind: f8  # its error up to the next tick if this one is missed; measure_defects
    measured: i8  # the defect is measured: all its sources have sent again; measure_defects
    unmeasured: f8  # time since it was measured, s; measure_defects
    uncounted: f8  # part of it not yet counted as affected by a flag, s; measure_reliability
    expected_defect: f8  # decaying peak of measured defects; below 0: none yet; measure_defects
    error_ratio: f8  # estimated error over its tolerance; choose_step, control_order
    magnitude: f8  # measure_reliability
    scale: f8  # measure_reliability
    peak: f8  # measure_reliability
    # disturbance: the input as it acted minus its sources, within the interval
    disturbance: f8  # RMS, as resolved by its subsystem; NaN: unknown; measure_disturbances
    disturbance_mean: f8  # with its sign, likewise; measure_disturbances
    # The same, including a gap's excess over it:
    disturbance_due: f8  # measure_disturbances
    disturbance_end: f8  # with its sign; measure_disturbances
    disturbance_square: f8  # integral of its square, unit^2 s; measure_disturbances
    disturbance_max: f8  # measure_disturbances
    disturbance_seconds: f8  # measure_disturbances
    disturbance_peak: f8  # decaying peak; measure_disturbances
    true_start: f8  # value by its sources when the interval began; measure_disturbances
    true_t: f8  # time of that, s; measure_disturbances
    true_end: f8  # value by its sources at the end of the previous one; measure_disturbances
    true_end_before: f8  # measure_disturbances
    true_ends: i8  # number of known ends; with a fixed step, of equal length; measure_disturbances
    true_span: f8  # length of the previous interval, s; measure_disturbances
    change_before: f8  # of its sources, over the previous interval; measure_disturbances
    # Integral of -disturbance times its sources' rate over the session, unit^2:
    delay_work: f8  # measure_disturbances
    origin: f8  # as for outputs; measure_disturbances
    moment: f8  # unit s; measure_disturbances
    square_moment: f8  # unit^2 s; measure_disturbances
    moment_seconds: f8  # measure_disturbances


class ConnectionStateRow(TableRow):
    """State of a connection; in its source's unit unless stated."""

    # Value before the gain, about now:
    polynomial: Coefficients  # take_repetitions, extrapolate, choose_step
    order: i8  # in force; take_repetitions, choose_step, control_order
    acts: i8  # on its input; 0: another source drives it; drive_inputs
    gain: f8  # in force: the session's, altered by faults; drive_inputs
    wanted_gain: f8  # likewise, without faults of the input; drive_inputs


class DriveState(TableRow):
    """Sources of an input besides its connections; in the input's unit unless stated."""

    # Contributions besides connections, including offsets, about `t0`
    own: Coefficients  # extrapolate, choose_step, drive_inputs, limit
    t0: f8  # s; extrapolate, choose_step, drive_inputs, limit
    past: Coefficients  # likewise in the interval that ended, about its end; drive_inputs
    source: i8  # that drives the input: CONNECTION, STIMULUS, SEQUENCE or OPERATOR; drive_inputs
    turned: i8  # the source changed at this point; drive_inputs
    stimulus: f8  # value now of the stimuli that are added or drive; drive_inputs
    demanded: f8  # value of its source now, reached after blending; drive_inputs
    # Blending to another source: the difference that remains at its beginning
    difference: f8  # drive_inputs
    since: f8  # s; drive_inputs
    rate: f8  # at which it fades, unit/s; drive_inputs
    operated: i8  # an operator drives it; apply_changes
    operated_to: f8  # to this value; apply_changes
    # Effect of faults: gains of connections, the share `kept` of its own part, and an offset
    kept: f8  # drive_inputs
    added: f8  # drive_inputs
    added_rate: f8  # unit/s; drive_inputs
    added_t: f8  # s; drive_inputs
    altered: i8  # a gain in force is not the session's; drive_inputs
    regained: i8  # and a gain changed at this point; drive_inputs
    leapt: i8  # faults made it jump at this point; drive_inputs


class FaultState(TableRow):
    """State of a fault."""

    phase: i8  # by its times and conditions: WAITING, RUNNING or DONE; take_samples
    operated: i8  # 0: these apply; 1: an operator has begun it; 2: ended it; apply_changes
    active: i8  # take_samples
    turned: i8  # at this point; take_samples
    since: f8  # s; take_samples


class AlterationState(TableRow):
    """Faults up to a row, at its location: ``kept x + added``; in the unit of the location."""

    kept: f8  # take_samples, drive_inputs
    added: f8  # take_samples, drive_inputs
    added_rate: f8  # unit/s; take_samples, drive_inputs
    # Value at which it got stuck, or newest value delivered:
    held: f8  # take_samples, drive_inputs
    holds: i8  # there is one; take_samples, drive_inputs
    sent: i8  # values put into `underway` since it began; take_samples, drive_inputs
    sent_t: f8  # time of the newest of them, s; take_samples, drive_inputs


class UnderwayValue(TableRow):
    """Value that a fault delivers later, in the unit of its location.

    Each delaying alteration has a ring of rows.
    """

    arrival: f8  # s; take_samples, drive_inputs
    value: f8  # take_samples, drive_inputs


class StimulusState(TableRow):
    """State of a stimulus; in its input's unit unless stated."""

    phase: i8  # WAITING, RUNNING, HOLDING or DONE; stimulate_parameters, advance_stimuli
    turned: i8  # the phase changed at this point; stimulate_parameters, advance_stimuli
    segment: i8  # stimulate_parameters, advance_stimuli
    begun: f8  # when the segment began, s; stimulate_parameters, advance_stimuli
    begin: f8  # value that it began at; stimulate_parameters, advance_stimuli
    run: i8  # number of passes through all segments; stimulate_parameters, advance_stimuli
    # Number of the held value, for shapes that jump from value to value:
    index: i8  # stimulate_parameters, advance_stimuli
    broke: i8  # it jumped or bent at this point; stimulate_parameters, advance_stimuli
    # When it is known to jump or bend next; infinite if never:
    next_break: f8  # s; stimulate_parameters, advance_stimuli
    # Since its input was dispatched last, it
    jumped: i8  # stimulate_parameters, advance_stimuli, drive_inputs
    # ended, or began to replace:
    handed_over: i8  # stimulate_parameters, advance_stimuli, drive_inputs
    polynomial: Coefficients  # about now; stimulate_parameters, advance_stimuli, drive_inputs
    # Taylor series of the phase of an oscillating shape, and of its sine and cosine
    angle: Coefficients  # stimulate_parameters, drive_inputs
    sine: Coefficients  # stimulate_parameters, drive_inputs
    cosine: Coefficients  # stimulate_parameters, drive_inputs


class ParameterState(TableRow):
    """Value of a parameter."""

    value: f8  # in its unit; apply_changes, stimulate_parameters
    unstimulated: f8  # in its unit, without its stimuli; stimulate_parameters
    stimulated: i8  # a stimulus of it acts; stimulate_parameters
    moved: i8  # by a stimulus, at this point; stimulate_parameters


class BondState(TableRow):
    """State of a power bond."""

    cap: f8  # of the correction, share of the effort; an operator may change it; apply_changes
    cap_abs: f8  # in the effort's unit; likewise; apply_changes
    # Requested share of its correction; 0 once found harmful, until an operator changes it;
    # and the share in force, which follows it gradually
    share: f8  # apply_changes, follow_corrections
    acting_share: f8  # follow_corrections
    harmful: i8  # apply_changes, follow_corrections
    contradicted: i8  # by a trial while the session runs; apply_changes
    mu: f8  # share, in force; follow_corrections
    mu_turned: i8  # and it changed in this step; follow_corrections
    withdrawn: i8  # probed responses of its efforts are no longer valid; follow_corrections
    t: f8  # previous communication point, s; correct_energy
    due: i8  # communicates now; correct_energy
    power: f8  # transmitted, W; measure_bonds
    tracking: f8  # lost because the bench deviated from its demand, W; measure_bonds
    residual_power: f8  # at its own last communication point, W; correct_energy
    in_force: f8  # share of the correction that has been applied since then; correct_energy
    capped: i8  # correct_energy
    correction: f8  # sum over the elements, in force; in the effort's unit; correct_energy
    correction_computed: f8  # in the effort's unit; correct_energy
    budget: f8  # mu H dP at that point, J; correct_energy
    uncorrected: f8  # energy not yet corrected, up to the previous interval, J; correct_energy
    # of the interval that ended, J; 0 where it is not due
    made: f8  # H dP, J; correct_energy
    work: f8  # of the correction as computed, J; correct_energy
    applied_work: f8  # J; correct_energy
    # ledger over the session, J
    residual_energy: f8  # J; measure_bonds
    shadow_energy: f8  # removed by the correction as computed, J; measure_bonds
    corrected_energy: f8  # and as applied, J; measure_bonds
    tracking_energy: f8  # J; measure_bonds
    capped_steps: i8  # measure_bonds
    steps: i8  # measure_bonds
    unmeasured: f8  # time since all its outputs have sent again, s; measure_reliability
    mean_power: f8  # running mean of the magnitude, for ECCO, W; choose_step
    magnitude: f8  # W; measure_reliability
    scale: f8  # W; measure_reliability
    peak: f8  # W; measure_reliability
    # Energy created by the interface and not removed by a correction:
    drift: f8  # J; measure_reliability
    added_energy: f8  # by corrections of the effort, over the session, J; follow_corrections
    added_in_interval: f8  # of the interval that ended, J; follow_corrections
    # Of the interval that ended, due to the effort's error by its probed response, or by the flows:
    error_energy: f8  # J; follow_corrections
    # Energy created recently, and energy that would have been created without corrections, J
    recent_created: f8  # J; apply_changes, follow_corrections
    recent_without: f8  # J; apply_changes, follow_corrections
    recent_residual: f8  # residual energy of the same time, J; follow_corrections
    # Where mu follows the flows at both sides: values of the previous step, and recent sums
    effort_before: f8  # in the effort's unit; follow_corrections
    flow_before: f8  # in the flow's unit; follow_corrections
    side_flow_before: f8  # at the effort's side, in the flow's unit; follow_corrections
    followed: i8  # steps in a row with all three; follow_corrections
    fit_weight: f8  # of the steps, the newest with a share of 1; follow_corrections
    fit_effort: f8  # of the effort's changes squared, in its unit squared; follow_corrections
    fit_flows: f8  # of the flows' differences times H squared, unit squared; follow_corrections
    fit_both: f8  # of the products of the two, in the product of their unit; follow_corrections
    sure: i8  # the effort follows the flows' difference; follow_corrections
    trusted: f8  # time for which mu still counts without evidence, s; follow_corrections
    carried: f8  # energy transmitted, J; measure_reliability
    least_carried: f8  # J; measure_reliability
    most_carried: f8  # J; measure_reliability
    # Range of the transmitted energy:
    through: f8  # J; measure_reliability
    # Energy created by the interface, integrated over intervals:
    interface: f8  # J; measure_disturbances


class ElementState(TableRow):
    """State of an element of a bond; in the effort's or the flow's unit."""

    e: f8  # effort at the bond's previous communication point; correct_energy
    f: f8  # flow there; correct_energy
    correction: f8  # effort since then, applied or not; correct_energy
    effort: f8  # correction to add over the next interval; correct_energy
    added: f8  # sum of all corrections of the effort, in force; follow_corrections
    error: f8  # effort in force less the true one, by the probed responses; follow_corrections
    cut: i8  # one of its sides is driven from outside the bond, from now on; drive_inputs
    previous_cut: i8  # and in the interval that ended; turn_over
    # contributions of other connections to its inputs, like the inputs' polynomials
    effort_others: Coefficients  # sum_inputs, limit
    flow_others: Coefficients  # sum_inputs, limit
    previous_effort_others: Coefficients  # turn_over
    previous_flow_others: Coefficients  # turn_over


class AnswerState(TableRow):
    """Factor of one of the plan's `error_paths`, `error_answers`, `direct`, `own_paths`, in turn.

    If there are rows of the last, the states of the subsystems when they were probed follow. With a
    variable step the factors of `error_paths` over 2, 4, 8, … units follow.
    """

    factor: f8  # apply_changes
    before: f8  # previous value, before renewal; apply_changes


class ErrorState(TableRow):
    """State of the coupled system's error."""

    value: f8  # in the state's unit; estimate_signals
    next: f8  # in the state's unit; estimate_signals
    # Part of the error that is due to the subsystems' own integration, not in the above; and the
    # subsystem's state, if its integration errs
    own: f8  # in the state's unit; estimate_signals
    own_next: f8  # in the state's unit; estimate_signals
    reached: f8  # in the state's unit; estimate_signals
    reached_next: f8  # in the state's unit; estimate_signals


class CheckState(TableRow):
    """State of a check."""

    ratio: f8  # measure over threshold; measure_reliability
    before: f8  # time before the step that the measure covers as well, s; measure_reliability
    last_high: f8  # time at which it was last at or above one half, s; move_flags
    active: i8  # move_flags
    moved: i8  # in the last assessment; move_flags
    seconds: f8  # time for which it was active, s; move_flags


class CauseState(TableRow):
    """State of a cause of unreliability."""

    active: i8  # any of its flags is active; move_flags
    count: i8  # number of transitions from no active flag to at least one; move_flags
    seconds: f8  # time for which any was active, s; move_flags
    affected: f8  # time of the steps that were affected, s; count_affected
    window: Annotated[Floats, PARTS]  # the same in each part of the window, s; count_affected
    second: f8  # share of the window that was affected; count_affected
    worst_second: f8  # largest such share so far; count_affected


class AlarmState(TableRow):
    """State of an alarm; in its output's unit unless stated."""

    previous: f8  # newest value; NaN before the first; guard
    previous_t: f8  # s; guard
    since: f8  # time since which the value is outside, s; infinite while inside; guard
    active: i8  # guard


class State(NamedTuple):
    """Everything that changes in a session; see the comments of each table's fields."""

    session: Table[SessionStateRow]
    subsystems: Table[SubsystemState]
    outputs: Table[OutputState]
    inputs: Table[InputState]
    connections: Table[ConnectionStateRow]
    drives: Table[DriveState]
    stimuli: Table[StimulusState]
    faults: Table[FaultState]
    alterations: Table[AlterationState]
    underway: Table[UnderwayValue]
    parameters: Table[ParameterState]
    bonds: Table[BondState]
    elements: Table[ElementState]
    errors: Table[ErrorState]
    answers: Table[AnswerState]
    checks: Table[CheckState]
    causes: Table[CauseState]
    alarms: Table[AlarmState]
    # of expressions
    registers: Table[Register]
    memory: Table[Word]
    model: ModelState


class CorrectionTables(NamedTuple):
    """Tables of a plan and a state that the correction by Jacobians uses.

    `ports` are the inputs of the plan, `carried` the connections of the state; the others have the
    names of the plan's, the state's, the model's and the workspace's tables.
    """

    settings: Table[ModelSettings]
    subsystems: Table[SubsystemPlan]
    ports: Table[InputPlan]
    connections: Table[ConnectionPlan]
    carried: Table[ConnectionStateRow]
    dependencies: Table[Dependency]
    session: Table[ModelSession]
    outputs: Table[CorrectedOutput]
    inputs: Table[CorrectedInput]
    gamma: Floats
    triangles: Floats
    pivots: NDArray[np.int64]
    solution: Floats
