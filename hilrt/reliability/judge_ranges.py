"""Stage: samples against the declared ranges of their ports, before anything is computed of them.

A value that a database says cannot be is no measurement, whatever brought it: a broken sensor, a
signal that is marked as not available, a frame of a stranger. Alarms have judged it by then
(`hilrt.reliability.guard`), so that an overspeed beyond the declared range is one all the same.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.reliability.alarms import SAFE
from hilrt.tables.given import LARGEST, StepInput
from hilrt.tables.plan import RANGE_SAFE, RANGE_USE, OutputPlan, Plan
from hilrt.tables.state import OutputState, State


@stage
def judge_ranges(plan: Plan, state: State, given: StepInput) -> None:
    """Which newest samples are outside, which are withheld, and whether one ends the session.

    One that does raises `alarm_level` to that of an alarm with the action "safe".
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
    """Compare a fresh sample with the declared range; a value that is not a number is always
    outside.
    """
    declared = at.low > -math.inf or at.high < math.inf
    out.outside = declared and not (at.low <= y <= at.high)
    out.outside_samples += out.outside
    out.withheld = out.outside != 0 and at.range_policy != RANGE_USE
    out.unusable = out.withheld != 0 or not abs(y) <= LARGEST
