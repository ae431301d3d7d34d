"""Stage: evaluate alarms on measurements before these can act.

From the tick at which a value is outside its limits, nothing more is sent to a bench, if the
alarm's action requires that. A value that is not finite is outside every limit; without a new
value, an alarm does not change. A solver's value beyond any physical quantity comes from a
diverging loop, and must not be used.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.reliability.alarms import SAFE
from hilrt.tables.given import LARGEST, StepInput
from hilrt.tables.plan import RANGE_SAFE, RANGE_USE, AlarmPlan, OutputPlan, Plan
from hilrt.tables.state import AlarmState, OutputState, State

#: Delays end early by this share of the shortest sample spacing: grid points are rounded.
ROUNDING_SHARE = 0.01
#: Level of a divergence, above those of all alarms.
DIVERGED = 4


@stage
def guard(plan: Plan, state: State, given: StepInput) -> None:
    """Check the samples in the cut; set `alarm_level` to the resulting action."""
    t, spacing = given.session[0].t, plan.session[0].sample_spacing
    gravest = -1
    for a in range(len(plan.alarms)):
        limits, alarm = plan.alarms[a], state.alarms[a]
        out = state.outputs[limits.output]
        if out.fresh:
            if not is_outside(limits, alarm, out.newest, out.t_newest, spacing):
                alarm.since = math.inf
            elif alarm.since == math.inf:
                alarm.since = t
        alarm.active = t - alarm.since >= limits.delay - ROUNDING_SHARE * spacing
        if alarm.active and limits.level > gravest:
            gravest = limits.level
    for i in range(len(state.outputs)):
        sample = given.outputs[i]
        solver = not plan.subsystems[plan.outputs[i].subsystem].physical
        if solver and sample.fresh and LARGEST < abs(sample.y) < math.inf:
            gravest = DIVERGED
    state.session[0].alarm_level = gravest


@compiled
def is_outside(
    limits: AlarmPlan, alarm: AlarmState, value: float, t_valid: float, spacing: float
) -> bool:
    """Whether a fresh sample is outside the limits of its value or of its rate.

    Samples closer than `spacing` [s] give no rate; they do not end an alarm either.
    """
    outside = not (limits.low <= value <= limits.high)  # NaN is outside
    elapsed = t_valid - alarm.previous_t
    if elapsed < spacing:
        return outside or alarm.since < math.inf
    if limits.max_rate < math.inf and abs(value - alarm.previous) > limits.max_rate * elapsed:
        outside = True
    if math.isfinite(value):
        alarm.previous, alarm.previous_t = value, t_valid
    return outside


# Stage: check samples against the declared ranges of their ports.
#
# A value that its database rules out is not a measurement but, for example, due to a broken sensor,
# a signal marked as not available, or a foreign frame. Alarms are checked first, so that an
# overspeed beyond the declared range still raises one.


@stage
def judge_ranges(plan: Plan, state: State, given: StepInput) -> None:
    """Find samples outside their range, and those withheld; end the session if required.

    A sample that ends the session raises `alarm_level` to that of the action "safe".
    """
    for i in range(len(state.outputs)):
        at, out = plan.outputs[i], state.outputs[i]
        out.value_fault = 0
        if out.fresh:
            judge_sample(at, out, out.newest)
        if not out.unusable:
            out.unusable_points = 0
            continue
        out.unusable_points += given.subsystems[at.subsystem].due
        if out.fresh:
            too_long = out.unusable_points > plan.subsystems[at.subsystem].max_misses
            counts = out.withheld != 0 or at.coupled != 0
            at_once = out.withheld != 0 and at.range_policy == RANGE_SAFE
            out.value_fault = at_once or (counts and too_long)
        if out.value_fault and state.session[0].alarm_level < SAFE:
            state.session[0].alarm_level = SAFE


@compiled
def judge_sample(at: OutputPlan, out: OutputState, y: float) -> None:
    """Compare a fresh sample with its declared range; a value that is not finite is outside."""
    declared = at.low > -math.inf or at.high < math.inf
    out.outside = declared and not (at.low <= y <= at.high)
    out.outside_samples += out.outside
    out.withheld = out.outside != 0 and at.range_policy != RANGE_USE
    out.unusable = out.withheld != 0 or not abs(y) <= LARGEST
