"""Mean over a sliding window, and delay: rings of slots in the memory of a program.

A window's slots hold areas. Its oldest ones are kept as sums over themselves and all newer ones of
that part, so that a window of any length costs the same: the sum over all is the oldest one's sum
and that of the slots since. A plain running sum would keep the rounding of every large value that
has ever passed through. A window with more samples than slots takes several samples into a slot,
and counts of the oldest slot the share that is within the window.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled
from hilrt.expressions import operations as do
from hilrt.tables.record import Table

#: Words of a window's memory behind the time of its newest sample.
FIRST, COUNT, SUMMED, NEW_TIME, NEW_AREA, OPEN_TIME, OPEN_AREA, RING = range(1, 9)
#: Words of a delay's, likewise.
OLDEST, STORED, SAMPLES = range(1, 4)
#: A slot is full a little early: times are rounded.
FULL = 1.0 - 1e-6


@compiled
def window_mean(op: Table, memory: Table, x: float, dt: float) -> float:
    """Take in a sample that counts for `dt` [s]; the mean over the last `op.p` seconds."""
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
    if total > op.p:  # the oldest slot is partly too old
        excess = (total - op.p) / oldest(m, slots, memory, 0)
        area -= oldest(m, slots, memory, 1) * excess
        total = op.p
    return area / total


@compiled
def total_time(m: int, memory: Table) -> float:
    """Length of all slots, s."""
    total = memory[m + NEW_TIME].value + memory[m + OPEN_TIME].value
    if int(memory[m + SUMMED].value) > 0:
        total += memory[m + RING + 2 * int(memory[m + FIRST].value)].value
    return total


@compiled
def oldest(m: int, slots: int, memory: Table, word: int) -> float:
    """Time (word 0) or area (1) of the oldest slot, which is among those that are summed."""
    first = int(memory[m + FIRST].value)
    value = memory[m + RING + 2 * first + word].value
    if int(memory[m + SUMMED].value) > 1:
        value -= memory[m + RING + 2 * ((first + 1) % slots) + word].value
    return value


@compiled
def close_slot(m: int, slots: int, memory: Table) -> None:
    """The open slot is full: it becomes the newest one in the ring."""
    count = int(memory[m + COUNT].value)
    at = m + RING + 2 * ((int(memory[m + FIRST].value) + count) % slots)
    memory[at].value = memory[m + OPEN_TIME].value
    memory[at + 1].value = memory[m + OPEN_AREA].value
    memory[m + NEW_TIME].value += memory[m + OPEN_TIME].value
    memory[m + NEW_AREA].value += memory[m + OPEN_AREA].value
    memory[m + OPEN_TIME].value = memory[m + OPEN_AREA].value = 0.0
    memory[m + COUNT].value = count + 1


@compiled
def drop_oldest(m: int, slots: int, memory: Table) -> None:
    """Leave the oldest slot, which is among those that are summed."""
    if int(memory[m + SUMMED].value) == 0:
        sum_slots(m, slots, memory)
    memory[m + FIRST].value = (int(memory[m + FIRST].value) + 1) % slots
    memory[m + COUNT].value -= 1.0
    memory[m + SUMMED].value -= 1.0


@compiled
def sum_slots(m: int, slots: int, memory: Table) -> None:
    """Replace every slot in the ring by the sum over itself and the newer ones."""
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
def delayed(op: Table, memory: Table, x: float, t: float) -> float:
    """Take in a sample; the value `op.p` seconds before, on straight lines between samples.

    NaN before there is one of that age.
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
