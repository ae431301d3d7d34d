"""Stage: alarms, evaluated on measurements before they can act.

At the tick that brings a value outside its limits nothing more is sent to a bench, if the alarm
says so. A value that is not a finite number is outside every limit; one that has not arrived again
keeps its alarm as it was. A solver's value beyond every quantity comes from a loop that diverges,
and is no input for anything.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.tables.given import LARGEST, StepInput
from hilrt.tables.plan import AlarmPlan, Plan
from hilrt.tables.state import AlarmState, State

#: Delays end this share of the shortest spacing of samples early: grid points are rounded.
ROUNDING_SHARE = 0.01
#: Level of a divergence, above those of all alarms.
DIVERGED = 4


@stage
def guard(plan: Plan, state: State, given: StepInput) -> None:
    """Check the samples in the cut; afterwards `alarm_level` gives the action."""
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
