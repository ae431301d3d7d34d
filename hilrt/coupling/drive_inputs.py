"""Stages: stimuli, source of each input, and contributions besides its connections.

One source drives an input at a time, with this priority: an operator, a sequence, a replacing
stimulus, the connections (without any, the start value). Added stimuli act while the connections
drive the input. In ``u = L y + s(t)``, the part `own` is intended and not an error of the coupling.

Faults alter the result of any source.

When the source changes, the input starts from its current value: the difference to the new source
fades at the input's rate limit, or over its blend time. Sources change at communication points of
the input's own subsystem.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.extrapolate import copy, shift, value_at
from hilrt.coupling.inject_faults import alter_input
from hilrt.coupling.stimulate import SAME_TIME, advance, begin_or_end, expand, is_active
from hilrt.tables.condition import is_true
from hilrt.tables.given import StepInput
from hilrt.tables.plan import DrivePlan, Plan, StimulusPlan
from hilrt.tables.record import Table
from hilrt.tables.state import (
    CONNECTION,
    OPERATOR,
    RUNNING,
    SEQUENCE,
    STIMULUS,
    WAITING,
    DriveState,
    State,
    StimulusState,
)


@stage
def advance_stimuli(plan: Plan, state: State, given: StepInput) -> None:
    """Advance the stimuli of the inputs.

    With a variable step: find the time until the next known jump or bend. Where a stimulus has
    jumped or bent, its subsystem's outputs bend: from the next point on, they are extrapolated from
    the samples since then.
    """
    session, t = state.session[0], given.session[0].t
    session.turned = 0
    for d in range(len(plan.drives)):
        advance_input(plan, state, given, d)
    session.broke += session.faults_turned
    for f in range(len(plan.faults)):
        at, phase = plan.faults[f], state.faults[f].phase
        if phase == RUNNING:
            session.until_break = min(session.until_break, at.end - t)
        elif phase == WAITING and t < at.start - SAME_TIME:
            session.until_break = min(session.until_break, at.start - t)


@stage
def advance_input(plan: Plan, state: State, given: StepInput, d: int) -> None:
    """Advance the stimuli of one input."""
    at, session, cut = plan.drives[d], state.session[0], given.session[0]
    port, u, broke = plan.inputs[at.input], state.inputs[at.input], 0
    now = cut.t + port.lead
    came = value_at(u.previous, plan.session[0].coefficients, now - u.previous_t0)
    came = came if math.isfinite(came) else 0.0
    for k in range(at.first_stimulus, at.first_stimulus + at.stimuli):
        stimulus, row = state.stimuli[k], plan.stimuli[k]
        begins, ends = condition_holds(state, row.start_when), condition_holds(state, row.end_when)
        begin_or_end(row, stimulus, now, begins, ends)
        value = came if row.replaces else 0.0
        advance(row, plan.segments, plan.points, stimulus, now, value, cut.tick)
        session.turned += stimulus.turned
        broke += stimulus.broke
        session.until_break = min(session.until_break, stimulus.next_break - now)
    if broke and plan.session[0].variable_step:
        session.broke += broke
        for j in range(at.first_jump, at.first_jump + at.jumps):
            if plan.jumps[j].after == 0:
                state.outputs[plan.jumps[j].output].bends = 2


@stage
def drive_inputs(plan: Plan, state: State, given: StepInput) -> None:
    """Choose the sources, and compute contributions besides connections."""
    for d in range(len(plan.drives)):
        drive_input(plan, state, given, d)
    for i in range(len(plan.elements)):
        ends = plan.elements[i]
        cut = is_cut(plan, state, ends.effort_input) or is_cut(plan, state, ends.flow_input)
        state.elements[i].cut = cut


@stage
def is_cut(plan: Plan, state: State, i: int) -> bool:
    """Whether anything but connections with the session's gains drives input `i`."""
    d = plan.inputs[i].drive
    return bool(d >= 0 and (state.drives[d].source != CONNECTION or state.drives[d].altered))


@stage
def drive_input(plan: Plan, state: State, given: StepInput, d: int) -> None:
    """Advance one input: its source, and its own part from now on."""
    at, drive = plan.drives[d], state.drives[d]
    port, u, cut = plan.inputs[at.input], state.inputs[at.input], given.session[0]
    s = port.subsystem
    now, ahead = cut.t + port.lead, plan.subsystems[s].every * state.session[0].h_next
    arrived_at = value_at(u.previous, plan.session[0].coefficients, now - u.previous_t0)
    degree = degree_of(plan, state, d)
    for k in range(at.first_stimulus, at.first_stimulus + at.stimuli):
        expand(plan.segments, plan.points, state.stimuli[k], now, ahead, cut.tick, degree)
    drive.turned = drive.regained = drive.leapt = 0
    copy(drive.own, plan.session[0].coefficients, drive.past)
    source = source_of(plan, state, d)
    drive.stimulus = stimuli_now(at, plan.stimuli, state.stimuli, source)
    dispatched, switches = given.subsystems[s].due and not given.subsystems[s].busy, False
    if dispatched:
        switches = put_in_force(plan, state, d, source)
        if at.faulted:
            alter_input(plan, state, given, d, now)
    drive.demanded = demanded_now(plan, state, d, source, now)
    if dispatched:
        add_faults(drive, degree)
        if switches:
            corrected = u.previous_correction + u.offset if source == CONNECTION else 0.0
            begin_blend(at, drive, arrived_at - drive.demanded - corrected, now)
        fade(drive, now, ahead, degree)
        shift(drive.own, plan.session[0].coefficients, -port.lead)
        drive.t0 = cut.t
        jumps = drive.leapt != 0 or (switches and drive.difference == 0.0)
        mark_jumps(plan, state, d, jumps)


@stage
def condition_holds(state: State, register: int) -> bool:
    """Whether a condition is true for the samples of this tick; false without one (-1)."""
    return bool(register >= 0 and is_true(state.registers[register].value))


@stage
def degree_of(plan: Plan, state: State, d: int) -> int:
    """Degree of the stimuli of an input: the highest of its connections."""
    at, degree = plan.drives[d], plan.drives[d].degree
    port = plan.inputs[at.input]
    for c in range(port.first_connection, port.first_connection + port.connections):
        degree = max(degree, state.connections[c].order)
    return min(max(degree, 0), plan.session[0].coefficients - 1)


@stage
def source_of(plan: Plan, state: State, d: int) -> int:
    """The source that drives an input now."""
    at, port = plan.drives[d], plan.inputs[plan.drives[d].input]
    source = CONNECTION
    for k in range(at.first_stimulus, at.first_stimulus + at.stimuli):
        if plan.stimuli[k].replaces and is_active(state.stimuli[k]):
            source = STIMULUS
    for c in range(port.first_connection, port.first_connection + port.connections):
        if is_driven(plan, state, c):
            source = SEQUENCE
    if state.drives[d].operated:
        source = OPERATOR
    return source


@stage
def is_driven(plan: Plan, state: State, c: int) -> bool:
    """Whether a sequence drives over connection `c` now."""
    driven = plan.connections[c].driven
    return bool(driven >= 0 and state.outputs[driven].y_past[0] >= 0.5)


@stage
def acts_with(plan: Plan, state: State, c: int, source: int) -> bool:
    """Whether connection `c` acts while `source` drives its input."""
    if plan.connections[c].driven >= 0:
        return source == SEQUENCE and is_driven(plan, state, c)
    return source == CONNECTION


@compiled
def stimuli_now(
    at: DrivePlan, rows: Table[StimulusPlan], stimuli: Table[StimulusState], source: int
) -> float:
    """Sum of the values of an input's stimuli that act while `source` drives it."""
    value = 0.0
    for k in range(at.first_stimulus, at.first_stimulus + at.stimuli):
        if is_active(stimuli[k]):
            if source == STIMULUS and rows[k].replaces:
                return float(stimuli[k].polynomial[0])
            if source == CONNECTION and not rows[k].replaces:
                value += stimuli[k].polynomial[0]
    return value


@stage
def demanded_now(plan: Plan, state: State, d: int, source: int, now: float) -> float:
    """Value at `now` [s] of the source that drives an input, with its faults."""
    drive, port = state.drives[d], plan.inputs[plan.drives[d].input]
    added = drive.added + drive.added_rate * (now - drive.added_t)
    if source == OPERATOR:
        return drive.kept * drive.operated_to + added
    own, lead = constant_part(plan, state, d, source) + drive.stimulus, port.lead
    value = drive.kept * own + added
    for c in range(port.first_connection, port.first_connection + port.connections):
        if acts_with(plan, state, c, source):
            p = state.connections[c].polynomial
            value += state.connections[c].gain * value_at(p, plan.session[0].coefficients, lead)
    return value


@stage
def constant_part(plan: Plan, state: State, d: int, source: int) -> float:
    """Offsets of the connections that act, or the start value without connections."""
    at, port = plan.drives[d], plan.inputs[plan.drives[d].input]
    value = at.start if source == CONNECTION and not port.connected else 0.0
    for c in range(port.first_connection, port.first_connection + port.connections):
        if acts_with(plan, state, c, source):
            value += plan.connections[c].offset
    return value


@stage
def put_in_force(plan: Plan, state: State, d: int, source: int) -> bool:
    """Activate a source's connections and its own part; return whether the input switches to it.

    It also switches when an added stimulus has ended, and when one replacing stimulus, or one
    sequence, takes over from another.
    """
    at, drive = plan.drives[d], state.drives[d]
    port = plan.inputs[at.input]
    turned = source != drive.source
    drive.turned, drive.source = turned, source
    state.session[0].turned += turned
    switches = bool(turned)
    for c in range(port.first_connection, port.first_connection + port.connections):
        acts = acts_with(plan, state, c, source)
        if acts != state.connections[c].acts:
            state.connections[c].acts, switches = acts, True
            state.model.session[0].prepared = 0
    for m in range(len(drive.own)):
        drive.own[m] = 0.0
    drive.own[0] = (
        drive.operated_to if source == OPERATOR else constant_part(plan, state, d, source)
    )
    for k in range(at.first_stimulus, at.first_stimulus + at.stimuli):
        stimulus = state.stimuli[k]
        counts = source == CONNECTION or (source == STIMULUS and plan.stimuli[k].replaces != 0)
        switches = switches or (stimulus.handed_over != 0 and counts)
        stimulus.handed_over = 0
    add_stimuli(at, plan.stimuli, state.stimuli, drive, source)
    return switches


@compiled
def add_stimuli(
    at: DrivePlan,
    rows: Table[StimulusPlan],
    stimuli: Table[StimulusState],
    drive: DriveState,
    source: int,
) -> None:
    """Add the polynomials of the stimuli that act while `source` drives the input."""
    for k in range(at.first_stimulus, at.first_stimulus + at.stimuli):
        counts = source == (STIMULUS if rows[k].replaces else CONNECTION)
        if counts and is_active(stimuli[k]):
            for m in range(len(drive.own)):
                drive.own[m] += stimuli[k].polynomial[m]
            if rows[k].replaces:
                return  # the first one in the order of the file


@compiled
def add_faults(drive: DriveState, degree: int) -> None:
    """Apply faults to an input's own part: the share that they keep, and their addition."""
    for m in range(len(drive.own)):
        drive.own[m] *= drive.kept
    drive.own[0] += drive.added
    if degree > 0:
        drive.own[1] += drive.added_rate


@compiled
def begin_blend(at: DrivePlan, drive: DriveState, difference: float, now: float) -> None:
    """Begin to blend to another source: the `difference` decays from `now` [s] on.

    Without a rate limit or a blend time, the input jumps.
    """
    drive.difference, drive.since, drive.rate = difference, now, math.inf
    if not math.isfinite(difference):
        drive.difference = 0.0
    elif math.isfinite(at.rate):
        drive.rate = at.rate
    elif at.blend > 0.0:
        drive.rate = abs(difference) / at.blend
    else:
        drive.difference = 0.0


@compiled
def fade(drive: DriveState, now: float, ahead: float, degree: int) -> None:
    """Add the remaining difference from the previous source."""
    if drive.difference == 0.0:
        return
    left = abs(drive.difference) - drive.rate * (now - drive.since)
    if left <= 0.0:
        drive.difference = 0.0
        return
    drive.own[0] += math.copysign(left, drive.difference)
    if degree > 0:
        drive.own[1] -= math.copysign(min(drive.rate, left / ahead), drive.difference)


@stage
def mark_jumps(plan: Plan, state: State, d: int, jumped: bool) -> None:
    """Restart the extrapolation of outputs that jump directly with the input.

    No polynomial fits both sides of a jump. In a loop of direct dependencies each output restarts
    only once, because the returning jump is smaller.
    """
    at = plan.drives[d]
    for k in range(at.first_stimulus, at.first_stimulus + at.stimuli):
        stimulus = state.stimuli[k]
        jumped = jumped or stimulus.jumped != 0
        stimulus.jumped = 0
    if jumped:
        for j in range(at.first_jump, at.first_jump + at.jumps):
            if plan.jumps[j].after > 0:
                state.outputs[plan.jumps[j].output].jumps = plan.jumps[j].after
