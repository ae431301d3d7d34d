"""Stimuli from one communication point to the next: which segment, and its value.

A stimulus waits, runs through its segments, holds its last value if it is to, and is done. It is a
function of the plan, the state and the tick, so that a replay makes it again.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled
from hilrt.coupling.shapes import (
    SAME_TIME,
    end_value,
    fill_polynomial,
    first_value,
    held_index,
    length,
    value_in,
)
from hilrt.tables.record import Table
from hilrt.tables.state import DONE, HOLDING, RUNNING, WAITING

#: Segments that may end within one step, or in the time of ticks that were missed: ramps by a rate
#: may take no time at all.
MOST_SEGMENTS = 1000


@compiled
def begin_or_end(at: Table, stimulus: Table, now: float, begins: bool, ends: bool) -> None:
    """Let a stimulus begin that waits, and end at its time or by its condition.

    Parameters
    ----------
    at, stimulus : record
        Of `Plan.stimuli` and `State.stimuli`.
    now : float
        When the value that leaves now acts, s.
    begins, ends : bool
        Its conditions, where it has any.
    """
    stimulus.turned = 0
    over = now >= at.end - SAME_TIME or (at.end_when >= 0 and ends)
    if stimulus.phase == WAITING and now >= at.start - SAME_TIME and not now >= at.end - SAME_TIME:
        if at.start_when < 0:
            start(at, stimulus, at.start)
        elif begins:
            start(at, stimulus, now)
    elif (stimulus.phase == RUNNING or stimulus.phase == HOLDING) and over:
        finish(stimulus)


@compiled
def start(at: Table, stimulus: Table, t: float) -> None:
    """Begin the first segment at `t` [s]."""
    stimulus.phase, stimulus.turned = RUNNING, 1
    stimulus.handed_over = stimulus.handed_over or at.replaces
    stimulus.segment, stimulus.run, stimulus.begun = at.first_segment, 0, t
    stimulus.begin = math.nan  # the value that its input has is put in by `enter`


@compiled
def finish(stimulus: Table) -> None:
    """Give the input back."""
    stimulus.phase, stimulus.turned, stimulus.handed_over = DONE, 1, 1
    for m in range(len(stimulus.polynomial)):
        stimulus.polynomial[m] = 0.0


@compiled
def enter(segment: Table, points: Table, stimulus: Table, before: float, tick: int) -> None:
    """Begin a segment after one that ended at the value `before`."""
    stimulus.begin = first_value(segment, before)
    tau = 0.0
    stimulus.index = held_index(segment, points, tau, tick)
    if value_in(segment, points, stimulus.begin, tau, tick) != before:
        stimulus.jumped = 1


@compiled
def advance(
    at: Table, segments: Table, points: Table, stimulus: Table, now: float, value: float, tick: int
) -> None:
    """Leave the segments that have ended by `now` [s] behind.

    `value` is where a stimulus that has just begun starts from.
    """
    if stimulus.phase == RUNNING and math.isnan(stimulus.begin):
        enter(segments[stimulus.segment], points, stimulus, value, tick)
    for _ in range(MOST_SEGMENTS):
        if stimulus.phase != RUNNING:
            return
        segment = segments[stimulus.segment]
        took = length(segment, stimulus.begin)
        if not now >= stimulus.begun + took - SAME_TIME:
            break
        ended = end_value(segment, points, stimulus.begin)
        stimulus.begun += took
        stimulus.segment += 1
        if stimulus.segment == at.first_segment + at.segments:
            stimulus.run += 1
            stimulus.segment = at.first_segment
            if stimulus.run >= at.runs:
                stop(at, stimulus, ended)
                return
        enter(segments[stimulus.segment], points, stimulus, ended, tick)
    index = held_index(segments[stimulus.segment], points, now - stimulus.begun, tick)
    if index != stimulus.index:
        stimulus.index, stimulus.jumped = index, 1


@compiled
def stop(at: Table, stimulus: Table, ended: float) -> None:
    """After the last segment: hold the value that it ended at, or give the input back."""
    if at.holds:
        stimulus.phase, stimulus.turned, stimulus.begin = HOLDING, 1, ended
    else:
        finish(stimulus)


@compiled
def expand(
    segments: Table,
    points: Table,
    stimulus: Table,
    now: float,
    ahead: float,
    tick: int,
    degree: int,
) -> None:
    """Expand a stimulus about `now` [s] into its polynomial, for a step of `ahead` [s]."""
    if stimulus.phase == RUNNING:
        tau = max(now - stimulus.begun, 0.0)
        segment = segments[stimulus.segment]
        fill_polynomial(segment, points, stimulus, tau, ahead, tick, degree)
    elif stimulus.phase == HOLDING:
        for m in range(len(stimulus.polynomial)):
            stimulus.polynomial[m] = 0.0
        stimulus.polynomial[0] = stimulus.begin


@compiled
def is_active(stimulus: Table) -> bool:
    """Whether it adds to its input, or drives it."""
    return bool(stimulus.phase == RUNNING or stimulus.phase == HOLDING)
