"""Tables of a program: what expressions of a session are translated into.

Operations stand in the order in which they are done; each one reads registers and writes one of its
own. Every number is a register: signals first, then constants and results.
"""

from __future__ import annotations

from typing import Final

import numpy as np

OPERATIONS: Final = np.dtype(
    [
        ("code", "i8"),  # of `hilrt.expressions.operations`
        ("target", "i8"),  # register
        # registers that are read; what has fewer operands repeats the first
        ("a", "i8"),
        ("b", "i8"),
        ("c", "i8"),
        ("p", "f8"),  # parameters: a factor, a time in s, ...
        ("q", "f8"),
        ("first", "i8"),  # row of `memory`, or of `points`
        ("rows", "i8"),  # slots of the memory, or points of the first axis
        ("columns", "i8"),  # points of the second axis
    ]
)
#: Support points of lookup tables: those of the axes, then the values, row by row.
LOOKUP_POINTS: Final = np.dtype([("value", "f8")])
#: Which output each of the first registers holds the newest sample of.
READINGS: Final = np.dtype([("output", "i8")])

#: Calculated channels: the output that the value of a register is a sample of.
CALCULATED: Final = np.dtype([("register", "i8"), ("output", "i8")])

REGISTERS: Final = np.dtype(
    [
        ("value", "f8"),  # NaN where it is unknown
        ("t", "f8"),  # when the newest sample behind it is valid, s; NaN: there is none yet
    ]
)
#: Words that the filters remember.
MEMORY: Final = np.dtype([("value", "f8")])
