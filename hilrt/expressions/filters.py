"""Operations with memory.

A filter steps when its operand has a new sample, over the time since the previous one; between two
samples an operand is interpolated linearly. A sample that is not finite makes the result unknown
and leaves the memory unchanged. Conditions are never unknown.
"""

from __future__ import annotations

import math
from typing import Final

from hilrt.compilation.compiled import compiled
from hilrt.expressions import operations as do
from hilrt.tables.condition import is_true
from hilrt.tables.program_tables import OperationRow, Register, Word
from hilrt.tables.record import Table

#: Words of a window's memory after the time of its newest sample.
FIRST, COUNT, SUMMED, NEW_TIME, NEW_AREA, OPEN_TIME, OPEN_AREA, RING = range(1, 9)
#: Words of a delay's memory, likewise.
OLDEST, STORED, SAMPLES = range(1, 4)
#: Share of its duration from which a slot counts as full, to allow for rounded times.
FULL = 1.0 - 1e-6


@compiled
def window_mean(op: OperationRow, memory: Table[Word], x: float, dt: float) -> float:
    """Add a sample that counts for `dt` [s]; return the mean over the last `op.p` seconds."""
    m, slots = op.first, op.rows + do.SPARE_SLOTS
    memory[m + OPEN_TIME].value += dt
    memory[m + OPEN_AREA].value += x * dt
    if memory[m + OPEN_TIME].value >= FULL * op.p / op.rows:
        if int(memory[m + COUNT].value) == slots:
            drop_oldest(m, slots, memory)
        close_slot(m, slots, memory)
    total = total_time(m, memory)
    while int(memory[m + COUNT].value) > 0:
        total = total_time(m, memory)
        if int(memory[m + SUMMED].value) == 0:
            sum_slots(m, slots, memory)
        if total - oldest(m, slots, memory, 0) < op.p:
            break
        drop_oldest(m, slots, memory)
        total = total_time(m, memory)
    if not total > 0.0:
        return x
    area = memory[m + NEW_AREA].value + memory[m + OPEN_AREA].value
    if int(memory[m + SUMMED].value) > 0:
        area += memory[m + RING + 2 * int(memory[m + FIRST].value) + 1].value
    if total > op.p:  # part of the oldest slot is too old
        excess = (total - op.p) / oldest(m, slots, memory, 0)
        area -= oldest(m, slots, memory, 1) * excess
        total = op.p
    return area / total


@compiled
def total_time(m: int, memory: Table[Word]) -> float:
    """Length of all slots, s."""
    total = memory[m + NEW_TIME].value + memory[m + OPEN_TIME].value
    if int(memory[m + SUMMED].value) > 0:
        total += memory[m + RING + 2 * int(memory[m + FIRST].value)].value
    return total


@compiled
def oldest(m: int, slots: int, memory: Table[Word], word: int) -> float:
    """Time (word 0) or area (1) of the oldest slot, one of the summed ones."""
    first = int(memory[m + FIRST].value)
    value = memory[m + RING + 2 * first + word].value
    if int(memory[m + SUMMED].value) > 1:
        value -= memory[m + RING + 2 * ((first + 1) % slots) + word].value
    return value


@compiled
def close_slot(m: int, slots: int, memory: Table[Word]) -> None:
    """Move the open slot, which is full, to the ring as its newest one."""
    count = int(memory[m + COUNT].value)
    at = m + RING + 2 * ((int(memory[m + FIRST].value) + count) % slots)
    memory[at].value = memory[m + OPEN_TIME].value
    memory[at + 1].value = memory[m + OPEN_AREA].value
    memory[m + NEW_TIME].value += memory[m + OPEN_TIME].value
    memory[m + NEW_AREA].value += memory[m + OPEN_AREA].value
    memory[m + OPEN_TIME].value = memory[m + OPEN_AREA].value = 0.0
    memory[m + COUNT].value = count + 1


@compiled
def drop_oldest(m: int, slots: int, memory: Table[Word]) -> None:
    """Drop the oldest slot, one of the summed ones."""
    if int(memory[m + SUMMED].value) == 0:
        sum_slots(m, slots, memory)
    memory[m + FIRST].value = (int(memory[m + FIRST].value) + 1) % slots
    memory[m + COUNT].value -= 1.0
    memory[m + SUMMED].value -= 1.0


@compiled
def sum_slots(m: int, slots: int, memory: Table[Word]) -> None:
    """Replace every slot in the ring by the sum of itself and all newer ones."""
    first, count = int(memory[m + FIRST].value), int(memory[m + COUNT].value)
    time = area = 0.0
    for i in range(count - 1, -1, -1):
        at = m + RING + 2 * ((first + i) % slots)
        time += memory[at].value
        area += memory[at + 1].value
        memory[at].value, memory[at + 1].value = time, area
    memory[m + SUMMED].value = count
    memory[m + NEW_TIME].value = memory[m + NEW_AREA].value = 0.0


@compiled
def delayed(op: OperationRow, memory: Table[Word], x: float, t: float) -> float:
    """Add a sample; return the value `op.p` seconds ago, interpolated linearly.

    NaN until there is one of that age.
    """
    m, slots = op.first, op.rows + do.SPARE_SLOTS
    first, count = int(memory[m + OLDEST].value), int(memory[m + STORED].value)
    spacing = op.p / op.rows
    newest = m + SAMPLES + 2 * ((first + count - 1) % slots)
    if count == 0 or t - memory[newest].value >= FULL * spacing or count == 1:
        if count == slots:
            first, count = (first + 1) % slots, count - 1
        at = m + SAMPLES + 2 * ((first + count) % slots)
        memory[at].value, memory[at + 1].value = t, x
        count += 1
    wanted, rounding = t - op.p, (1.0 - FULL) * spacing
    while count > 1 and memory[m + SAMPLES + 2 * ((first + 1) % slots)].value <= wanted + rounding:
        first, count = (first + 1) % slots, count - 1
    memory[m + OLDEST].value, memory[m + STORED].value = first, count
    at = m + SAMPLES + 2 * first
    t_0, x_0 = memory[at].value, memory[at + 1].value
    if t_0 > wanted + rounding:
        return math.nan
    if count == 1 or wanted - t_0 <= rounding:
        return x_0
    at = m + SAMPLES + 2 * ((first + 1) % slots)
    return x_0 + (wanted - t_0) / (memory[at].value - t_0) * (memory[at + 1].value - x_0)


#: Smaller differences of times count as zero, s.
ROUNDING_S: Final = 1e-9


@compiled
def step_filter(
    op: OperationRow, a: Register, b: Register, c: Register, out: Register, memory: Table[Word]
) -> None:
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
            if out.value == out.value or out.t == out.t:  # before that there is no result
                out.t = a.t
    elif a.t > memory[m].value:
        if abs(a.value) < math.inf:
            step_signal(op, a, out, memory)
        else:
            out.value, out.t = math.nan, a.t


@compiled
def step_signal(op: OperationRow, a: Register, out: Register, memory: Table[Word]) -> None:
    """Process a new finite sample in a low pass, a derivative, an integral or a window."""
    code, m, x = op.code, op.first, a.value
    first = memory[m].value == -math.inf
    dt = 0.0 if first else a.t - memory[m].value
    if code == do.DERIVATIVE:
        if not first and dt < op.p:  # too close together for a slope
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
    """Exact step of ``T y' = x - y`` for a linearly interpolated input; `q` is the step over T."""
    decay = math.exp(-q)
    mean = 1.0 - q * (0.5 - q * (1.0 / 6.0 - q / 24.0))
    if q > 1e-3:
        mean = (1.0 - decay) / q  # for smaller q, the difference would lose digits
    return decay * y + (mean - decay) * x_before + (1.0 - mean) * x


@compiled
def step_condition(
    op: OperationRow, a: Register, b: Register, out: Register, memory: Table[Word]
) -> None:
    """Process a new sample of a condition in an edge, a counter, a debouncer or a duration."""
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
