"""Injected faults of samples, connections and inputs.

A fault changes a value x to ``kept x + added``; several faults at one location act in sequence.
Alarms, declared ranges, expressions and test sequences use the altered output. Histories contain
the unaltered one: the effect on the inputs is an effective gain of their connections and an
addition to their own part, so that coupling errors are measured relative to the intended values.
Limits of the inputs act afterwards.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.extrapolate import value_at
from hilrt.coupling.stimulate import SAME_TIME, normal, uniform
from hilrt.tables.condition import is_true
from hilrt.tables.given import StepInput
from hilrt.tables.plan import (
    CONSTANT,
    DELAY,
    DRIFT,
    DUPLICATE,
    GAIN,
    JITTER,
    LOSS,
    NOISY,
    OFFSET,
    QUANTISE,
    STUCK,
    Plan,
)
from hilrt.tables.state import DONE, RUNNING, WAITING, State

#: `State.faults.operated`.
BEGUN, ENDED = 1, 2
#: Relative deviation of an addition from a straight line that does not count as a jump.
ROUNDING = 1e-12


@stage
def move_faults(plan: Plan, state: State, given: StepInput) -> None:
    """Begin and end faults by times, by the previous point's conditions, and by commands."""
    t = given.session[0].t
    state.session[0].faults_turned = 0
    for f in range(len(plan.faults)):
        at, fault = plan.faults[f], state.faults[f]
        begins = at.start_when < 0 or is_true(state.registers[at.start_when].value)
        ends = at.end_when >= 0 and is_true(state.registers[at.end_when].value)
        if t >= at.end - SAME_TIME or (fault.phase == RUNNING and ends):
            fault.phase = DONE
        elif fault.phase == WAITING and t >= at.start - SAME_TIME and begins:
            fault.phase = RUNNING
        active = fault.operated == BEGUN or (fault.operated != ENDED and fault.phase == RUNNING)
        fault.turned = active != (fault.active != 0)
        if fault.turned:
            fault.active, fault.since = active, t
            state.session[0].faults_turned += 1
    if state.session[0].faults_turned:
        for k in range(len(plan.alterations)):
            if not state.faults[plan.alterations[k].fault].active:
                state.alterations[k].holds = state.alterations[k].sent = 0


@stage
def alter(plan: Plan, state: State, k: int, x: float, t: float, tick: int) -> None:
    """Apply alteration `k` to the result of the previous ones at its location, from `x` at `t` [s].

    Its row of the state contains that result on entry, and the altered one on return.
    """
    at, now = plan.alterations[k], state.alterations[k]
    fault = state.faults[at.fault]
    if not fault.active:
        return
    value = altered(now.kept, now.added, x)
    if at.kind == CONSTANT:
        now.kept, now.added, now.added_rate = 0.0, at.amount, 0.0
    elif at.kind == STUCK:
        if not now.holds and math.isfinite(value):
            now.held, now.holds = value, 1
        if now.holds:
            now.kept, now.added, now.added_rate = 0.0, now.held, 0.0
    elif at.kind == LOSS:
        arrives = uniform(at.seed, tick) >= at.amount
        if math.isfinite(value) and (arrives or not now.holds):
            now.held, now.holds = value, 1
        if now.holds:
            now.kept, now.added, now.added_rate = 0.0, now.held, 0.0
    elif at.kind == DUPLICATE:
        repeated = now.holds and uniform(at.seed, tick) < at.amount
        now.kept, now.added, now.added_rate = 0.0, now.held if repeated else value, 0.0
        if math.isfinite(value):
            now.held, now.holds = value, 1
    elif at.kind == DELAY or at.kind == JITTER:
        share = 1.0 if at.kind == DELAY else uniform(at.seed, tick)
        deliver(plan, state, k, value, t, share * at.amount)
        if now.holds:
            now.kept, now.added, now.added_rate = 0.0, now.held, 0.0
    elif at.kind == OFFSET:
        now.added += at.amount
    elif at.kind == GAIN:
        now.kept *= at.amount
        now.added *= at.amount
        now.added_rate *= at.amount
    elif at.kind == NOISY:
        now.added += at.amount * normal(at.seed, tick)
    elif at.kind == DRIFT:
        now.added += at.amount * max(t - fault.since, 0.0)
        now.added_rate += at.amount
    elif at.kind == QUANTISE and abs(value) < 1e15 * at.amount:
        now.added += math.floor(value / at.amount + 0.5) * at.amount - value


@stage
def deliver(plan: Plan, state: State, k: int, value: float, t: float, after: float) -> None:
    """Send `value` at `t` [s] with a delay of `after` [s]; hold the value delivered by `t`.

    That is the newest delivered value by time of sending; overtaken values are dropped. The first
    value is held until another one is delivered. If steps are so short that values would not fit
    into the ring, some are skipped.
    """
    at, now = plan.alterations[k], state.alterations[k]
    spacing = at.amount / (at.slots - 2)
    if math.isfinite(value) and (now.sent == 0 or t - now.sent_t >= spacing - SAME_TIME):
        row = state.underway[at.first_slot + now.sent % at.slots]
        row.arrival, row.value = t + after, value
        now.sent_t = t
        now.sent += 1
        if not now.holds:
            now.held, now.holds = value, 1
    for n in range(now.sent - 1, max(now.sent - at.slots, 0) - 1, -1):
        row = state.underway[at.first_slot + n % at.slots]
        if row.arrival <= t + SAME_TIME:
            now.held = row.value
            return


@compiled
def altered(kept: float, added: float, x: float) -> float:
    """Apply a fault's map to `x`, which may be NaN if it is replaced."""
    return added if kept == 0.0 else kept * x + added


@stage
def follow(plan: Plan, state: State, k: int, kept: float, added: float, rate: float) -> None:
    """Start alteration `k` from the previous one at its location, or from its source."""
    now = state.alterations[k]
    if plan.alterations[k].first:
        now.kept, now.added, now.added_rate = kept, added, rate
    else:
        before = state.alterations[k - 1]
        now.kept, now.added, now.added_rate = before.kept, before.added, before.added_rate


@stage
def take_samples(plan: Plan, state: State, given: StepInput) -> None:
    """Accept arrived samples, as altered by the faults of this point."""
    for i in range(len(state.outputs)):
        out, arrived = state.outputs[i], given.outputs[i]
        out.fresh = arrived.fresh and not plan.outputs[i].calculated
        if out.fresh:
            out.newest, out.t_newest, out.faulted = arrived.y, arrived.t_valid, 0
    move_faults(plan, state, given)
    alter_samples(plan, state, given)


@stage
def alter_samples(plan: Plan, state: State, given: StepInput) -> None:
    """Alter new samples of outputs before they are used."""
    for k in range(len(plan.alterations)):
        at, now = plan.alterations[k], state.alterations[k]
        if at.output < 0:
            return
        out, y = state.outputs[at.output], given.outputs[at.output].y
        if not out.fresh:
            continue
        follow(plan, state, k, 1.0, 0.0, 0.0)
        alter(plan, state, k, y, out.t_newest, given.session[0].tick)
        out.faulted = out.faulted or state.faults[at.fault].active
        if at.closing and out.faulted:
            out.newest = altered(now.kept, now.added, y)


@stage
def carry_alterations(plan: Plan, state: State) -> None:
    """Copy the faults' maps of the samples in use to the outputs."""
    for k in range(len(plan.alterations)):
        at, now = plan.alterations[k], state.alterations[k]
        if at.output < 0:
            return
        out = state.outputs[at.output]
        if at.closing and out.arrived:
            out.kept, out.added = now.kept, now.added
            out.added_rate, out.added_t = now.added_rate, out.t_newest


@stage
def alter_input(plan: Plan, state: State, given: StepInput, d: int, now: float) -> None:
    """Compute an input's effective gains, and the addition by faults at `now` [s].

    Its own part and active connections are already those of the next interval.
    """
    at, drive, cut = plan.drives[d], state.drives[d], given.session[0]
    port, count = plan.inputs[at.input], plan.session[0].coefficients
    total = drive.own[0]
    added = rate = 0.0
    first, after = port.first_connection, port.first_connection + port.connections
    for c in range(first, after):
        row, carried = plan.connections[c], state.connections[c]
        value = row.gain * value_at(carried.polynomial, count, port.lead)
        kept, more, slope = 1.0, 0.0, 0.0
        if not row.raw:  # its samples are altered already
            out = state.outputs[row.source]
            kept, slope = out.kept, row.gain * out.added_rate
            more = row.gain * (out.added + out.added_rate * (now - out.added_t))
        for k in range(row.first_alteration, row.first_alteration + row.alterations):
            follow(plan, state, k, kept, more, slope)
            alter(plan, state, k, value, now, cut.tick)
        if row.alterations:
            last = state.alterations[row.first_alteration + row.alterations - 1]
            kept, more, slope = last.kept, last.added, last.added_rate
        carried.wanted_gain = row.gain * kept
        if carried.acts:
            total += altered(kept, more, value)
            added += more
            rate += slope
    kept = 1.0
    for k in range(port.first_alteration, port.first_alteration + port.alterations):
        follow(plan, state, k, 1.0, 0.0, 0.0)
        alter(plan, state, k, total, now, cut.tick)
    if port.alterations:
        last = state.alterations[port.first_alteration + port.alterations - 1]
        kept = last.kept
        added, rate = kept * added + last.added, kept * rate + last.added_rate
    expected = drive.added + drive.added_rate * (now - drive.added_t)
    drive.leapt = abs(added - expected) > ROUNDING * (abs(added) + abs(expected))
    drive.kept, drive.added, drive.added_rate, drive.added_t = kept, added, rate, now
    use_gains(plan, state, d, kept)


@stage
def use_gains(plan: Plan, state: State, d: int, kept: float) -> None:
    """Set the effective gains of an input's connections; `kept` is due to faults of the input."""
    drive, port = state.drives[d], plan.inputs[plan.drives[d].input]
    drive.altered = kept != 1.0
    for c in range(port.first_connection, port.first_connection + port.connections):
        carried = state.connections[c]
        gain = kept * carried.wanted_gain
        drive.altered = drive.altered or gain != plan.connections[c].gain
        drive.regained = drive.regained or gain != carried.gain
        carried.gain = gain
    if drive.regained:
        drive.leapt = 1
        state.model.session[0].prepared = 0
