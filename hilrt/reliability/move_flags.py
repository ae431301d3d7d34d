"""Stage: raise and clear flags, with hysteresis.

A flag is raised as soon as its ratio reaches 1, so that a spike is visible; it clears when the
ratio has been below one half for `clear_time`, so that noise does not make it chatter.
"""

from __future__ import annotations

from hilrt.compilation.compiled import compiled, stage
from hilrt.solver import Floats
from hilrt.tables.given import StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.state import PARTS, SessionStateRow, State


@stage
def move_flags(plan: Plan, state: State, given: StepInput) -> None:
    """Raise and clear flags; count occurrences and duration of each cause."""
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


# Stage: share of the session affected by each cause, in total and in its worst second.
#
# A step is affected by a cause while a measure is at or above its threshold, and counts with its
# own length. The time for which a flag stays active afterwards, to remain visible, does not count.
# A measurement after a gap also counts for the gap.

#: Minimum length of the window, s; `PARTS` steps if these take longer.
WINDOW_S = 1.0
#: Share of its length by which a part of the window ends early, as sums of steps are rounded.
ROUNDING_SHARE = 1e-6


@stage
def count_affected(plan: Plan, state: State, given: StepInput) -> None:
    """Add the step to every cause that affects it."""
    t, elapsed = given.session[0].t, given.session[0].elapsed
    turned = turn_window(state.session[0], elapsed)
    part = state.session[0].part
    length = max(total(state.session[0].part_seconds), WINDOW_S)
    for c in range(len(plan.causes)):
        cause, group, longest = state.causes[c], plan.causes[c], 0.0
        for i in range(group.first, group.first + group.checks):
            check = state.checks[i]
            if check.ratio >= 1.0 and elapsed + check.before > longest:
                longest = elapsed + check.before
        if turned:
            cause.window[part] = 0.0
        cause.window[part] += longest
        cause.affected = min(cause.affected + longest, t)  # two gaps may overlap
        cause.second = min(total(cause.window) / length, 1.0)
        cause.worst_second = max(cause.worst_second, cause.second)


@compiled
def turn_window(session: SessionStateRow, elapsed: float) -> bool:
    """Add a step of `elapsed` [s] to the window; return whether its oldest part was dropped."""
    turned = bool(session.part_seconds[session.part] >= WINDOW_S / PARTS * (1.0 - ROUNDING_SHARE))
    if turned:
        session.part = (session.part + 1) % PARTS
        session.part_seconds[session.part] = 0.0
    session.part_seconds[session.part] += elapsed
    return turned


@compiled
def total(parts: Floats) -> float:
    """Sum of the window's parts, s."""
    found = 0.0
    for k in range(PARTS):
        found += parts[k]
    return found
