"""Codes of the operations of programs."""

from __future__ import annotations

from typing import Final

(
    ADD,
    SUBTRACT,
    MULTIPLY,
    DIVIDE,
    POWER,
    MODULO,
    NEGATE,
    SCALE,  # p x + q: a conversion of units
    ABS,
    SIGN,
    MIN,
    MAX,
    CLIP,
    SQRT,
    EXP,
    LOG,
    LOG10,
    SIN,
    COS,
    TAN,
    ASIN,
    ACOS,
    ATAN,
    ATAN2,
    FLOOR,
    CEIL,
    ROUND,
    LESS,
    LESS_EQUAL,
    EQUAL,
    NOT_EQUAL,
    AND,
    OR,
    NOT,
    # operations whose results have their own times
    SELECT,
    KNOWN,
    DEFAULT,
    TIME,
    AT_TICKS,  # a constant, as a new sample at every tick
    LOOKUP,
    LOOKUP_2D,
    # operations with memory
    LOW_PASS,
    DERIVATIVE,
    INTEGRAL,
    MEAN,
    RMS,
    DELAY,
    HYSTERESIS,
    RISING,
    FALLING,
    COUNT,
    DEBOUNCE,
    DURATION,
) = range(53)

FIRST_WITH_OWN_TIME: Final = SELECT
FIRST_FILTER: Final = LOW_PASS
#: Operations with results 1 or 0, never unknown.
CONDITIONS: Final = frozenset(
    (
        *(LESS, LESS_EQUAL, EQUAL, NOT_EQUAL, AND, OR, NOT, KNOWN),
        *(HYSTERESIS, RISING, FALLING, COUNT, DEBOUNCE, DURATION),
    )
)

#: Words of memory of each filter; the first is the time of the newest sample. Windows and delays
#: have two more per slot.
WORDS: Final = {
    LOW_PASS: 3,
    DERIVATIVE: 2,
    INTEGRAL: 3,
    MEAN: 8,
    RMS: 8,
    DELAY: 3,
    HYSTERESIS: 2,
    RISING: 2,
    FALLING: 2,
    COUNT: 3,
    DEBOUNCE: 3,
    DURATION: 2,
}
#: Maximum slots of a window or a delay; with more samples, several share a slot.
SLOTS: Final = {MEAN: 1000, RMS: 1000, DELAY: 10_000}
#: Slots in addition to those required by the time itself.
SPARE_SLOTS: Final = 3
