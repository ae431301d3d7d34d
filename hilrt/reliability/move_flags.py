"""Stage: flags with hysteresis.

A flag is raised as soon as its ratio reaches 1, so that a spike shows; it clears when the ratio has
stayed below one half for `clear_time`, so that noise does not chatter.
"""

from __future__ import annotations

from hilrt.compilation.compiled import stage
from hilrt.tables.given import StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.state import State


@stage
def move_flags(plan: Plan, state: State, given: StepInput) -> None:
    """Raise and clear flags, and count how often and how long each cause was up."""
    t, clear_time = given.session[0].t, plan.session[0].clear_time
    moved = 0
    for c in range(len(plan.causes)):
        cause, group = state.causes[c], plan.causes[c]
        before, cause.active = cause.active, 0
        for i in range(group.first, group.first + group.checks):
            check = state.checks[i]
            if check.ratio >= 0.5:
                check.last_high = t
            up = check.ratio >= 1.0 or (check.active != 0 and check.last_high > t - clear_time)
            check.moved = up != (check.active != 0)
            moved += check.moved
            check.active = up
            if up:
                cause.active = 1
                check.seconds += given.session[0].elapsed
        if cause.active:
            cause.count += before == 0
            cause.seconds += given.session[0].elapsed
    state.session[0].moved = moved
