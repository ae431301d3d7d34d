"""The one loop over the operations of a program.

Every operation reads the registers of its operands and writes its own. A register also contains the
time of its newest sample, by which filters advance and new results are recognised. A NaN time means
that a signal has had no sample yet.
"""

from __future__ import annotations

import math
from typing import Final

from hilrt.compilation.compiled import compiled, stage
from hilrt.expressions import operations as do
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
    """Perform all operations at session time `t` [s]; the signals' registers are the input."""
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
    """Copy a new sample to its signal's register; an invalid measurement becomes NaN."""
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


# Operations without memory on numbers that may be unknown (NaN).
#
# `math` raises errors where compiled code gives infinity or NaN; arguments outside a function's
# domain are therefore handled before the call, and both give the same bits.

#: From this magnitude on, every number is an integer.
ALL_WHOLE: Final = 2.0**52
#: The exponential of larger numbers is infinite.
LARGEST_EXPONENT: Final = 709.782712893384


@compiled
def arithmetic(code: int, a: float, b: float, c: float, p: float, q: float) -> float:
    """Result of an operation on up to three operands and two constants."""
    if code == do.ADD:
        return a + b
    if code == do.SUBTRACT:
        return a - b
    if code == do.MULTIPLY:
        return a * b
    if code == do.DIVIDE:
        return a / b
    if code == do.LESS:
        return 1.0 if a < b else 0.0
    if code == do.LESS_EQUAL:
        return 1.0 if a <= b else 0.0
    if code == do.EQUAL:
        return 1.0 if a == b else 0.0
    if code == do.NOT_EQUAL:
        return 1.0 if a < b or a > b else 0.0
    if code == do.AND:
        return 1.0 if is_true(a) and is_true(b) else 0.0
    if code == do.OR:
        return 1.0 if is_true(a) or is_true(b) else 0.0
    if code == do.NOT:
        return 0.0 if is_true(a) else 1.0
    if code == do.NEGATE:
        return -a
    if code == do.SCALE:
        return p * a + q
    if code == do.ABS:
        return abs(a)
    if code == do.MIN or code == do.MAX or code == do.CLIP or code == do.SIGN:
        return limited(code, a, b, c)
    return function(code, a, b)


@compiled
def limited(code: int, a: float, b: float, c: float) -> float:
    """Minimum, maximum, clipped value, or sign; NaN if any operand is."""
    if a != a or b != b or c != c:
        return math.nan
    if code == do.MIN:
        return a if a <= b else b
    if code == do.MAX:
        return a if a >= b else b
    if code == do.SIGN:
        return 1.0 if a > 0.0 else (-1.0 if a < 0.0 else 0.0)
    above = a if a >= b else b
    return above if above <= c else c


@compiled
def function(code: int, a: float, b: float) -> float:
    """Functions of one or two operands; NaN outside their domain."""
    if code == do.SQRT:
        return math.sqrt(a) if a >= 0.0 else math.nan
    if code == do.EXP:
        return math.exp(a) if a <= LARGEST_EXPONENT else a * math.inf
    if code == do.LOG or code == do.LOG10:
        if a <= 0.0:
            return -math.inf if a == 0.0 else math.nan
        return math.log(a) if code == do.LOG else math.log10(a)
    if code == do.POWER:
        return float(a**b)
    if code == do.MODULO:
        return modulo(a, b)
    if code == do.FLOOR:
        return floor(a)
    if code == do.CEIL:
        return -floor(-a)
    if code == do.ROUND:
        return nearest_whole(a)
    return angle(code, a, b)


@compiled
def angle(code: int, a: float, b: float) -> float:
    """Trigonometric functions and their inverses; angles in rad."""
    if code == do.ATAN2:
        return math.atan2(a, b)
    if code == do.ATAN:
        return math.atan(a)
    if code == do.ASIN:
        return math.asin(a) if -1.0 <= a <= 1.0 else math.nan
    if code == do.ACOS:
        return math.acos(a) if -1.0 <= a <= 1.0 else math.nan
    if not abs(a) < math.inf:
        return math.nan
    if code == do.SIN:
        return math.sin(a)
    if code == do.COS:
        return math.cos(a)
    return math.tan(a)


@compiled
def floor(x: float) -> float:
    """Largest integer not above `x`."""
    if not abs(x) < ALL_WHOLE:
        return x
    return float(math.floor(x))


@compiled
def nearest_whole(x: float) -> float:
    """Nearest integer; of two equally near ones the even one."""
    below = floor(x)
    rest = x - below
    if rest > 0.5 or (rest == 0.5 and modulo(below, 2.0) != 0.0):
        below += 1.0
    return below


@compiled
def modulo(a: float, b: float) -> float:
    """Remainder of a division, with the sign of the divisor."""
    if not abs(a) < math.inf or b == 0.0 or b != b:
        return math.nan
    if not abs(b) < math.inf:
        return a if a == 0.0 or (a > 0.0) == (b > 0.0) else b
    return a % b


@compiled
def interpolate(points: Table[LookupPoint], first: int, n: int, x: float) -> float:
    """Interpolate at `x` in a table of one axis with `n` points; NaN at NaN."""
    if x != x:
        return math.nan
    i = interval(points, first, n, x)
    below = points[first + n + i].value
    if n == 1:
        return below
    w = share(points, first + i, x)
    return below + w * (points[first + n + i + 1].value - below)


@compiled
def interpolate_2d(
    points: Table[LookupPoint], first: int, n: int, m: int, x: float, y: float
) -> float:
    """Interpolate at `x`, `y` in a table of `n` rows and `m` columns; NaN at NaN."""
    if x != x or y != y:
        return math.nan
    i, j = interval(points, first, n, x), interval(points, first + n, m, y)
    corner = first + n + m + i * m + j
    v = share(points, first + n + j, y) if m > 1 else 0.0
    right = 1 if m > 1 else 0
    value = points[corner].value
    value += v * (points[corner + right].value - value)
    if n == 1:
        return value
    above = points[corner + m].value
    above += v * (points[corner + m + right].value - above)
    return value + share(points, first + i, x) * (above - value)


@compiled
def interval(points: Table[LookupPoint], first: int, n: int, x: float) -> int:
    """Number of the interval of an axis that contains `x`; the outer ones are unbounded."""
    low, high = 0, max(n - 2, 0)
    while low < high:
        middle = (low + high + 1) // 2
        if points[first + middle].value <= x:
            low = middle
        else:
            high = middle - 1
    return low


@compiled
def share(points: Table[LookupPoint], at: int, x: float) -> float:
    """Fraction of the interval between two points of an axis at `x`, from 0 to 1."""
    begin = points[at].value
    w = (x - begin) / (points[at + 1].value - begin)
    return min(max(w, 0.0), 1.0)
