"""Operations with a memory.

A filter steps when its operand has a new sample, over the time since the sample before; between two
samples an operand is taken as a straight line. A sample that is no finite number makes the result
unknown and leaves the memory as it was. Conditions are never unknown.
"""

from __future__ import annotations

import math
from typing import Final

from hilrt.compilation.compiled import compiled
from hilrt.expressions import operations as do
from hilrt.expressions.windows import delayed, window_mean
from hilrt.tables.condition import is_true
from hilrt.tables.record import Table

#: Differences of times that count as none, s.
ROUNDING_S: Final = 1e-9


@compiled
def step_filter(op: Table, a: Table, b: Table, c: Table, out: Table, memory: Table) -> None:
    """Step one filter: from its operands' registers to its own, and its memory."""
    code, m = op.code, op.first
    if code == do.HYSTERESIS:
        out.t = a.t
        if a.value > c.value:
            out.value = 1.0
        elif a.value < b.value:
            out.value = 0.0
    elif code >= do.RISING:
        step_condition(op, a, b, out, memory)
    elif code == do.INTEGRAL and is_true(b.value):
        out.value, out.t = op.p, a.t
        memory[m].value = a.t if abs(a.value) < math.inf else -math.inf
        memory[m + 1].value, memory[m + 2].value = a.value, 0.0
    elif code == do.DELAY:
        if a.t > memory[m].value:
            memory[m].value = a.t
            out.value = delayed(op, memory, a.value, a.t)
            if out.value == out.value or out.t == out.t:  # before that there was none to give
                out.t = a.t
    elif a.t > memory[m].value:
        if abs(a.value) < math.inf:
            step_signal(op, a, out, memory)
        else:
            out.value, out.t = math.nan, a.t


@compiled
def step_signal(op: Table, a: Table, out: Table, memory: Table) -> None:
    """A new finite sample into a low pass, a derivative, an integral or a window."""
    code, m, x = op.code, op.first, a.value
    first = memory[m].value == -math.inf
    dt = 0.0 if first else a.t - memory[m].value
    if code == do.DERIVATIVE:
        if not first and dt < op.p:  # too close for a slope
            return
        out.value = math.nan if first else (x - memory[m + 1].value) / dt
        out.t = math.nan if first else a.t
        memory[m].value, memory[m + 1].value = a.t, x
        return
    out.t = memory[m].value = a.t
    if code == do.LOW_PASS:
        y = x if first else low_pass(memory[m + 2].value, memory[m + 1].value, x, dt / op.p)
        memory[m + 1].value, memory[m + 2].value, out.value = x, y, y
    elif code == do.INTEGRAL:
        if not first:
            memory[m + 2].value += 0.5 * dt * (memory[m + 1].value + x)
        memory[m + 1].value = x
        out.value = op.p + memory[m + 2].value
    elif code == do.MEAN:
        out.value = window_mean(op, memory, x, dt)
    else:
        square = window_mean(op, memory, x * x, dt)
        out.value = 0.0 if square < 0.0 else math.sqrt(square)


@compiled
def low_pass(y: float, x_before: float, x: float, q: float) -> float:
    """Exact step of ``T y' = x - y`` for an input on a straight line; `q` is the step over T."""
    decay = math.exp(-q)
    mean = 1.0 - q * (0.5 - q * (1.0 / 6.0 - q / 24.0))
    if q > 1e-3:
        mean = (1.0 - decay) / q  # of a smaller one, the difference would lose digits
    return decay * y + (mean - decay) * x_before + (1.0 - mean) * x


@compiled
def step_condition(op: Table, a: Table, b: Table, out: Table, memory: Table) -> None:
    """A new sample of a condition into an edge, a counter, a debouncer or a duration."""
    code, m = op.code, op.first
    if code == do.COUNT and is_true(b.value):
        memory[m + 2].value = out.value = 0.0
    if not a.t > memory[m].value:
        return
    out.t = a.t
    first, holds = memory[m].value == -math.inf, is_true(a.value)
    memory[m].value = a.t
    if code == do.DEBOUNCE:
        if holds == (out.value != 0.0):
            memory[m + 1].value = math.inf
        elif first or memory[m + 1].value == math.inf:
            memory[m + 1].value = a.t
        if a.t - memory[m + 1].value >= op.p - ROUNDING_S:
            out.value, memory[m + 1].value = 1.0 - out.value, math.inf
        return
    if code == do.DURATION:
        if not holds:
            memory[m + 1].value = math.inf
        elif first or memory[m + 1].value == math.inf:
            memory[m + 1].value = a.t
        out.value = a.t - memory[m + 1].value if holds else 0.0
        return
    before = memory[m + 1].value != 0.0
    memory[m + 1].value = 1.0 if holds else 0.0
    if code == do.FALLING:
        out.value = 1.0 if before and not holds and not first else 0.0
        return
    rises = holds and not before and not first
    if code == do.RISING:
        out.value = 1.0 if rises else 0.0
    else:
        memory[m + 2].value += 1.0 if rises else 0.0
        out.value = memory[m + 2].value
