"""`State`: what the macro step remembers, one table per kind of thing."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hilrt.tables.model import ModelState
from hilrt.tables.program_tables import MEMORY, REGISTERS
from hilrt.tables.record import COEFFICIENTS, SAMPLES, Table

#: Parts of the sliding window of a second in which affected time is counted.
PARTS: Final = 10

#: What drives an input, by its number in `State.drives`.
SOURCES: Final = ("connection", "stimulus", "sequence", "operator")
CONNECTION, STIMULUS, SEQUENCE, OPERATOR = range(4)
#: What was limited of an input: what its sources make of it, or what something else asked.
SOURCES_LIMITED, DEMAND_LIMITED = 1, 2
#: Phases of a stimulus.
WAITING, RUNNING, HOLDING, DONE = range(4)

#: One record.
SESSION: Final = np.dtype(
    [
        ("h_next", "f8"),  # macro step from this communication point, s
        ("alarm_level", "i8"),  # of the gravest active alarm's action, or of a divergence; or -1
        ("moved", "i8"),  # flags that moved in the last assessment
        ("turned", "i8"),  # sources of inputs, and stimuli, that changed at this point
        ("reparametrised", "i8"),  # a subsystem is: what was probed before is withdrawn
        ("faults_turned", "i8"),  # faults that began or ended at this point
        ("mus_turned", "i8"),  # bonds whose mu changed in this step
        ("sensitivities_moved", "i8"),  # those renewed were others than those before, once
        ("part", "i8"),  # newest part of the window
        ("part_seconds", "f8", PARTS),  # how long each part is, s
        # thresholds that an operator may change
        ("connection_defect", "f8"),
        ("output_defect", "f8"),
        ("power_residual", "f8"),
        ("energy_drift", "f8"),
        ("tracking", "f8"),
        # step control
        ("controlled_step", "f8"),  # the method's own step, before it is rounded, s
        ("step_integral", "f8"),  # of PI: logarithm of a step
        ("error", "f8"),  # what the control acted on; 1 (PI: the tolerance) is tolerated
        ("ecco_error", "f8"),  # of the worst bond, with its sign
        ("failed", "i8"),  # the step that ended failed its error test
        ("previous_elapsed", "f8"),  # length of the step before the one that ended, s
        ("degree", "i8"),  # lowest degree of a connection in what left before, start-up included
        # order control
        ("order", "i8"),
        ("order_changed", "i8"),  # at this point
        ("failures", "i8"),  # in a row
        ("successes", "i8"),  # in a row, at no shorter step and the same order
        ("points_of_order", "i8", COEFFICIENTS),  # at which it was the highest in force
        ("derivative_norms", "f8", SAMPLES),  # SDN(1), SDN(2), ... of the last choice of an order
    ]
)
SUBSYSTEMS: Final = np.dtype(
    [
        ("t_start", "f8"),  # of the interval that it is dispatched with, s
        ("h", "f8"),  # length of the interval, s
        ("dispatch", "i8"),  # gets its inputs at this tick
        ("reparametrised", "i8"),  # a parameter of it was changed while it ran
        ("silent", "f8"),  # how long it has been late without any sample, s
    ]
)
OUTPUTS: Final = np.dtype(
    [
        # The newest sample: what was given, or what was calculated
        ("fresh", "i8"),  # it is new in this cut
        ("newest", "f8"),
        ("t_newest", "f8"),  # when it is valid, s
        # history: newest samples first
        ("t_past", "f8", SAMPLES),  # s
        ("y_past", "f8", SAMPLES),
        ("count", "i8"),  # samples seen, up to the number that is kept
        ("sample", "f8"),  # the newest that was used, never corrected
        ("faulted", "i8"),  # a fault alters the newest sample; histories have it as it was sent
        # What faults make of the newest that was used: ``kept y + added``, and on at a rate
        ("kept", "f8"),
        ("added", "f8"),
        ("added_rate", "f8"),  # unit/s
        ("added_t", "f8"),  # s
        # The newest sample, until the next one:
        ("outside", "i8"),  # it is outside the port's declared range
        ("withheld", "i8"),  # and therefore not used: the last one before is held
        ("unusable", "i8"),  # it is not used, for that or because it is no finite number
        ("unusable_points", "i8"),  # due points in a row since the last one that was used
        ("outside_samples", "i8"),  # how many were outside, over the run
        ("value_fault", "i8"),  # the sample in this cut ends the session
        ("arrived", "i8"),  # has a fresh sample that is used: a finite number, not withheld
        ("implausible", "i8"),  # has a fresh sample that is none
        # Points of its own until it shows a discontinuity that it depends on directly; 0: none
        ("jumps", "i8"),
        # Newton's form of the polynomial through the samples
        ("differences", "f8", SAMPLES),
        ("nodes", "f8", SAMPLES),  # relative to the communication point, s
        ("degree", "i8"),  # that the samples suffice for
        ("order", "i8"),  # highest of its connections, in force
        ("y", "f8"),  # at the communication point, compensated and corrected
        ("corrected_by", "f8"),  # what corrections have added to that
        ("bridged", "f8"),  # what the prediction of a late subsystem added
        ("reason", "i8"),  # why its model correction is inactive; 0: it is not (`trust.Reason`)
        ("defect", "f8"),  # RMS of the interval that ended; NaN where unknown
        ("defect_square", "f8"),  # over the run: integral of the square over time
        ("defect_max", "f8"),
        ("defect_seconds", "f8"),  # how long it was known, s
        ("magnitude", "f8"),
        ("scale", "f8"),  # decaying peak
        ("peak", "f8"),  # highest magnitude so far
        # estimated error
        ("start", "f8"),  # value after its inputs have jumped, at the start of the interval
        ("error", "f8"),  # propagated through the closed loops, with its sign
        ("error_peak", "f8"),  # decaying peak of it
        ("estimated_error", "f8"),  # half width of the band about the output; NaN: unknown
        ("error_square", "f8"),  # over the run: integral of the square over time
        ("origin", "f8"),  # first value; moments of the output less it, over time
        ("moment", "f8"),
        ("square_moment", "f8"),
        ("moment_seconds", "f8"),  # s
        # the same moments, weighed with the square of the time since the start
        ("late_moment", "f8"),
        ("late_square_moment", "f8"),
    ]
)
INPUTS: Final = np.dtype(
    [
        # Taylor coefficients; each polynomial about its own time
        # What it was to be in the interval that ended, through the newest samples, about now
        ("extrapolated", "f8", COEFFICIENTS),
        ("polynomial", "f8", COEFFICIENTS),  # current input polynomial: leaves at this tick
        ("t0", "f8"),  # s
        ("correction", "f8"),  # of the energy, in the polynomial
        ("offset", "f8"),  # of the model correction (delta u_c), in the polynomial
        ("previous", "f8", COEFFICIENTS),  # previous input polynomial: of the interval that ended
        ("previous_t0", "f8"),  # s
        ("previous_correction", "f8"),
        # limits
        ("last", "f8"),  # start value of the polynomial sent last
        ("last_t", "f8"),  # when that was, s
        ("approach_rate", "f8"),  # with a bound of the jerk: mean rate at which it came there
        ("approach_t", "f8"),  # time in the middle of that step, s
        ("approach_asked", "f8"),  # what was asked then
        ("limited", "i8"),  # 0, `SOURCES_LIMITED` or `DEMAND_LIMITED`
        ("difference", "f8", COEFFICIENTS),  # previous less extrapolated, scaled by its interval
        ("defect", "f8"),  # RMS of the interval that ended; a bound while its source is late
        ("defect_square", "f8"),
        ("defect_max", "f8"),
        ("defect_seconds", "f8"),
        ("left_behind", "f8"),  # its error until the next tick, if this one is missed
        ("measured", "i8"),  # the defect is measured: all its sources have sent anew
        ("unmeasured", "f8"),  # time since it was measured, s
        ("uncounted", "f8"),  # of that, what no flag has counted as affected, s
        ("expected_defect", "f8"),  # decaying peak of those measured; below 0: none yet
        ("error_ratio", "f8"),  # estimated error over its tolerance
        ("magnitude", "f8"),
        ("scale", "f8"),
        ("peak", "f8"),
        # disturbance: the input as it acted less what its sources had inside the interval
        ("disturbance", "f8"),  # RMS, as far as its subsystem follows it; NaN: unknown
        ("disturbance_mean", "f8"),  # with its sign, likewise
        ("disturbance_due", "f8"),  # the same with what a gap turns out to have been more than that
        ("disturbance_end", "f8"),  # with its sign
        ("disturbance_square", "f8"),  # over the run
        ("disturbance_max", "f8"),
        ("disturbance_seconds", "f8"),
        ("disturbance_peak", "f8"),  # decaying peak
        ("true_start", "f8"),  # what its sources had when the interval began
        ("true_t", "f8"),  # when that was, s
        ("true_end", "f8"),  # what they had at the end of the one before
        ("true_end_before", "f8"),
        ("true_ends", "i8"),  # how many of these are known, in steps of one length
        ("change_before", "f8"),  # of its sources, over the interval before
        ("delay_work", "f8"),  # over the run: integral of -disturbance times its sources' rate
        ("origin", "f8"),  # as for outputs
        ("moment", "f8"),
        ("square_moment", "f8"),
        ("moment_seconds", "f8"),
    ]
)
CONNECTIONS: Final = np.dtype(
    [
        ("polynomial", "f8", COEFFICIENTS),  # what it carries, before its gain, about now
        ("order", "i8"),  # in force
        ("acts", "i8"),  # on its input; 0: another source drives that
        ("gain", "f8"),  # in force: the session's, but for faults
        ("wanted_gain", "f8"),  # likewise, but for faults of the input
    ]
)
DRIVES: Final = np.dtype(
    [
        # What acts beside connections, their offsets included, about a time of its own
        ("own", "f8", COEFFICIENTS),
        ("t0", "f8"),  # s
        ("past", "f8", COEFFICIENTS),  # likewise in the interval that ended, about its end
        ("source", "i8"),  # that drives the input: CONNECTION, STIMULUS, SEQUENCE or OPERATOR
        ("turned", "i8"),  # the source changed at this point
        ("stimulus", "f8"),  # what stimuli add or drive it with now
        ("demanded", "f8"),  # value of its source now, which it has once it has gone over to it
        # Going over to another source: what is left of the difference at its beginning
        ("difference", "f8"),
        ("since", "f8"),  # s
        ("rate", "f8"),  # at which it fades, unit/s
        ("operated", "i8"),  # an operator has taken it
        ("operated_to", "f8"),  # and drives it with that
        # What faults make of it: gains of connections, `kept` of its own part, and an addition
        ("kept", "f8"),
        ("added", "f8"),
        ("added_rate", "f8"),  # unit/s
        ("added_t", "f8"),  # s
        ("altered", "i8"),  # a gain in force is not the session's
        ("regained", "i8"),  # and changed at this point
        ("leapt", "i8"),  # faults made it jump at this point
    ]
)
FAULTS: Final = np.dtype(
    [
        ("phase", "i8"),  # by its times and conditions: WAITING, RUNNING or DONE
        ("operated", "i8"),  # 0: these count; 1: an operator has begun it; 2: ended it
        ("active", "i8"),
        ("turned", "i8"),  # at this point
        ("since", "f8"),  # s
    ]
)
#: Those up to a row, at its place: ``kept x + added``.
ALTERATIONS: Final = np.dtype(
    [
        ("kept", "f8"),
        ("added", "f8"),
        ("added_rate", "f8"),  # unit/s
        ("held", "f8"),  # where it got stuck, or the newest value that has come through
        ("holds", "i8"),  # there is one
        ("sent", "i8"),  # values that were put into `underway` since it began
        ("sent_t", "f8"),  # when the newest of them was, s
    ]
)
#: Values that a fault delivers later; a ring of rows for each alteration that does so.
UNDERWAY: Final = np.dtype(
    [
        ("arrival", "f8"),  # s
        ("value", "f8"),
    ]
)
STIMULI: Final = np.dtype(
    [
        ("phase", "i8"),  # WAITING, RUNNING, HOLDING or DONE
        ("turned", "i8"),  # the phase changed at this point
        ("segment", "i8"),
        ("begun", "f8"),  # when the segment began, s
        ("begin", "f8"),  # value that it began at
        ("run", "i8"),  # times that all segments have been gone through
        ("index", "i8"),  # of the value that is held now, of shapes that jump from value to value
        ("jumped", "i8"),  # since its input was dispatched last
        ("handed_over", "i8"),  # it has ended since then, or begun to replace
        ("polynomial", "f8", COEFFICIENTS),  # about now
        # Taylor series of the phase of a swinging shape, its sine and cosine
        ("angle", "f8", COEFFICIENTS),
        ("sine", "f8", COEFFICIENTS),
        ("cosine", "f8", COEFFICIENTS),
    ]
)
PARAMETERS: Final = np.dtype([("value", "f8")])
BONDS: Final = np.dtype(
    [
        ("cap", "f8"),  # of the correction, share of the effort; an operator may change it
        ("cap_abs", "f8"),  # in the effort's unit; likewise
        # Share of its correction that is to act; 0 once it was found harmful, until an operator
        # changes it; and the share that acts, which follows it gradually
        ("share", "f8"),
        ("acting_share", "f8"),
        ("harmful", "i8"),
        ("contradicted", "i8"),  # by a trial while the session runs
        ("mu", "f8"),  # in force
        ("mu_turned", "i8"),  # and changed in this step
        ("withdrawn", "i8"),  # what was tried out of its efforts holds no longer
        ("t", "f8"),  # previous communication point, s
        ("due", "i8"),  # communicates now
        ("power", "f8"),  # transmitted, W
        ("tracking", "f8"),  # lost to what a bench made of its demand, W
        ("residual_power", "f8"),  # at its own last communication point, W
        ("in_force", "f8"),  # share of the correction that has been applied since then
        ("capped", "i8"),
        ("correction", "f8"),  # sum over the elements, in force; in the effort's unit
        ("correction_computed", "f8"),
        ("budget", "f8"),  # mu H dP of then, J
        ("uncorrected", "f8"),  # energy not yet corrected, up to the interval before, J
        # of the interval that ended, J; 0 where it is not due
        ("made", "f8"),  # H dP
        ("work", "f8"),  # of the correction as computed
        ("applied_work", "f8"),
        # ledger over the run, J
        ("residual_energy", "f8"),
        ("shadow_energy", "f8"),  # taken out by the correction as computed
        ("corrected_energy", "f8"),  # and as applied
        ("tracking_energy", "f8"),
        ("capped_steps", "i8"),
        ("steps", "i8"),
        ("unmeasured", "f8"),  # time since all its outputs had sent anew, s
        ("mean_power", "f8"),  # running mean of the magnitude, for ECCO, W
        ("magnitude", "f8"),  # W
        ("scale", "f8"),  # W
        ("peak", "f8"),  # W
        ("drift", "f8"),  # energy that the interface has made and no correction took out, J
        ("added_energy", "f8"),  # by corrections of the effort, over the run, J
        ("added_lately", "f8"),  # of the interval that ended, J
        ("error_energy", "f8"),  # of the interval that ended: by the effort's error as tried out, J
        # Energy that was made lately, and would have been made without the corrections, J
        ("lately_made", "f8"),
        ("otherwise_made", "f8"),
        ("residual_lately", "f8"),  # residual energy of the same time, J
        ("carried", "f8"),  # energy that has gone through, J
        ("least_carried", "f8"),
        ("most_carried", "f8"),
        ("through", "f8"),  # what it has carried: the range of the energy that has gone through, J
        ("interface", "f8"),  # energy that the interface has made, integrated over intervals, J
    ]
)
ELEMENTS: Final = np.dtype(
    [
        ("e", "f8"),  # effort at the bond's previous communication point
        ("f", "f8"),  # flow there
        ("correction", "f8"),  # effort since then, also when it is not applied
        ("effort", "f8"),  # correction to add over the next interval
        ("added", "f8"),  # what all corrections add to the effort, in force
        ("error", "f8"),  # effort in force less the true one, by the answers as tried out
        ("cut", "i8"),  # a side of it is driven by something else than the bond, from now on
        ("previous_cut", "i8"),  # and in the interval that ended
        # contributions of other connections to its inputs, like the inputs' polynomials
        ("effort_others", "f8", COEFFICIENTS),
        ("flow_others", "f8", COEFFICIENTS),
        ("previous_effort_others", "f8", COEFFICIENTS),
        ("previous_flow_others", "f8", COEFFICIENTS),
    ]
)
#: By how much each of the plan's `error_paths` passes on, then its `error_answers`, then `direct`.
ANSWERS: Final = np.dtype([("factor", "f8")])
#: States of the coupled system's error.
ERRORS: Final = np.dtype([("value", "f8"), ("next", "f8")])
CHECKS: Final = np.dtype(
    [
        ("ratio", "f8"),  # measure over threshold
        ("before", "f8"),  # time before the step that the measure speaks for, too, s
        ("last_high", "f8"),  # when that was last at or above one half, s
        ("active", "i8"),
        ("moved", "i8"),  # in the last assessment
        ("seconds", "f8"),  # how long it was up, s
    ]
)
CAUSES: Final = np.dtype(
    [
        ("active", "i8"),  # any of its flags is up
        ("count", "i8"),  # how often it came up: from none of its flags to at least one
        ("seconds", "f8"),  # how long any was up, s
        ("affected", "f8"),  # time of the steps that were affected, s
        ("window", "f8", PARTS),  # the same in each part of the window, s
        ("second", "f8"),  # share of the window that was affected
        ("worst_second", "f8"),  # largest such share so far
    ]
)
ALARMS: Final = np.dtype(
    [
        ("previous", "f8"),  # newest value; NaN before the first
        ("previous_t", "f8"),  # s
        ("since", "f8"),  # since when the value is outside, s; infinite while it is inside
        ("active", "i8"),
    ]
)


#: Layouts that stand in another file, for what makes empty tables of all.
__all__ = ["MEMORY", "REGISTERS"]


class State(NamedTuple):
    """Everything that changes in a session; see the comments at the fields of each table."""

    session: Table
    subsystems: Table
    outputs: Table
    inputs: Table
    connections: Table
    drives: Table
    stimuli: Table
    faults: Table
    alterations: Table
    underway: Table
    parameters: Table
    bonds: Table
    elements: Table
    errors: Table
    answers: Table
    checks: Table
    causes: Table
    alarms: Table
    # of expressions
    registers: Table
    memory: Table
    model: ModelState
