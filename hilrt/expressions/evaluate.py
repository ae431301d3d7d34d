"""The one loop over the operations of a program.

Every operation reads the registers of its operands and writes its own. A register holds the time of
its newest sample, so that filters step by the time between samples, and results are known to be new
or not. A NaN time means that a signal has had no sample yet.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.expressions import operations as do
from hilrt.expressions.arithmetic import arithmetic, interpolate, interpolate_2d
from hilrt.expressions.filters import step_filter
from hilrt.tables.condition import is_true
from hilrt.tables.given import LARGEST, StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.program_tables import LookupPoint, OperationRow, Register, Word
from hilrt.tables.record import Table
from hilrt.tables.state import OutputState, State


@compiled
def evaluate(
    operations: Table[OperationRow],
    points: Table[LookupPoint],
    registers: Table[Register],
    memory: Table[Word],
    t: float,
) -> None:
    """Perform all operations at session time `t` [s], from the registers of the signals."""
    for k in range(len(operations)):
        op = operations[k]
        code = op.code
        a, b, c = registers[op.a], registers[op.b], registers[op.c]
        out = registers[op.target]
        if code < do.FIRST_WITH_OWN_TIME:
            out.t = newest(newest(a.t, b.t), c.t)
            out.value = arithmetic(code, a.value, b.value, c.value, op.p, op.q)
        elif code >= do.FIRST_FILTER:
            step_filter(op, a, b, c, out, memory)
        elif code == do.SELECT:
            chosen = b if is_true(a.value) else c
            out.t = not_before(out.t, newest(a.t, chosen.t))
            out.value = chosen.value
        elif code == do.KNOWN:
            out.value = 1.0 if a.value == a.value else 0.0
            out.t = t
        elif code == do.DEFAULT:
            if a.value == a.value:
                out.t = not_before(out.t, a.t)
                out.value = a.value
            else:
                out.t = t
                out.value = b.value
        elif code == do.TIME or code == do.AT_TICKS:
            out.value = t if code == do.TIME else a.value
            out.t = t
        elif code == do.LOOKUP:
            out.t = a.t
            out.value = interpolate(points, op.first, op.rows, a.value)
        else:
            out.t = newest(a.t, b.t)
            out.value = interpolate_2d(points, op.first, op.rows, op.columns, a.value, b.value)


@compiled
def not_before(before: float, t: float) -> float:
    """Later of the times `t` and `before`; the known one if the other is NaN.

    If a result switches to an operand with older samples, its time does not decrease. Otherwise the
    result would count as old until that operand's samples reach the previous time.
    """
    return before if before > t or t != t else t


@compiled
def newest(t_a: float, t_b: float) -> float:
    """Later of two times; NaN if either is NaN."""
    if t_a != t_a or t_b != t_b:
        return math.nan
    return t_a if t_a > t_b else t_b


@stage
def calculate(plan: Plan, state: State, given: StepInput) -> None:
    """Evaluate the session's expressions for the samples that have arrived."""
    for k in range(len(plan.readings)):
        read(state.outputs[plan.readings[k].output], state.registers[k])
    evaluate(plan.operations, plan.lookup_points, state.registers, state.memory, given.session[0].t)
    reported = 0
    for k in range(len(plan.calculated)):
        state.outputs[plan.calculated[k].output].waits = 0
    for k in range(len(plan.channel_sources)):
        pair = plan.channel_sources[k]
        cut = given.subsystems[plan.outputs[pair.source].subsystem]
        waits = 2 if cut.late else (0 if cut.due else 1)
        state.outputs[pair.channel].waits = max(state.outputs[pair.channel].waits, waits)
    for s in range(len(given.subsystems)):
        reported |= given.subsystems[s].event
    for k in range(len(plan.calculated)):
        channel = plan.calculated[k]
        calculated_sample(
            state.registers[channel.register], state.outputs[channel.output], reported
        )


@compiled
def read(out: OutputState, register: Register) -> None:
    """Put a new sample into its signal's register; an invalid measurement is unknown."""
    if out.fresh and not out.t_newest < register.t:
        register.value = out.newest if abs(out.newest) <= LARGEST else math.nan
        register.t = out.t_newest


@compiled
def calculated_sample(register: Register, out: OutputState, reported: int) -> None:
    """Use a register's value as a sample of its channel, if it is new.

    `reported`: a subsystem has reported a discontinuity, which the channel may show.
    """
    before = out.t_newest
    unknown = register.value != register.value and out.newest != out.newest
    changed = register.value != out.newest and not unknown
    out.fresh = register.t > before or (register.t == before and changed)
    if out.fresh:
        out.jumps = reported != 0 or before == -math.inf
        out.newest, out.t_newest = register.value, register.t
