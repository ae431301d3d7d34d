"""The functions available in expressions: parameters and results."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from hilrt.expressions import operations as do


@dataclass(frozen=True)
class Function:
    """A function of expressions.

    Attributes
    ----------
    code : int
        Its operation.
    operands : tuple of str
        Parameters that are expressions.
    numbers : tuple of str
        Further parameters, which are constants.
    optional : dict of str
        Default values of optional parameters.
    times : bool
        Whether the constants are times, which must be positive.
    """

    code: int
    operands: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    optional: dict[str, float] = field(default_factory=dict)
    times: bool = True

    @property
    def parameters(self) -> tuple[str, ...]:
        """Parameters in positional order."""
        return self.operands + self.numbers


#: Functions of two or more operands, combined pairwise.
FOLDED: Final = {"min": do.MIN, "max": do.MAX}
#: Forms with arguments other than expressions and numbers.
FORMS: Final = ("signal", "lookup", "convert", "unit")
#: Names that are not signals.
CONSTANTS: Final = {"pi": math.pi, "inf": math.inf, "nan": math.nan}
TIME: Final = "time"

FUNCTIONS: Final = {
    "abs": Function(do.ABS, ("x",)),
    "sign": Function(do.SIGN, ("x",)),
    "sqrt": Function(do.SQRT, ("x",)),
    "exp": Function(do.EXP, ("x",)),
    "log": Function(do.LOG, ("x",)),
    "log10": Function(do.LOG10, ("x",)),
    "sin": Function(do.SIN, ("x",)),
    "cos": Function(do.COS, ("x",)),
    "tan": Function(do.TAN, ("x",)),
    "asin": Function(do.ASIN, ("x",)),
    "acos": Function(do.ACOS, ("x",)),
    "atan": Function(do.ATAN, ("x",)),
    "atan2": Function(do.ATAN2, ("y", "x")),
    "floor": Function(do.FLOOR, ("x",)),
    "ceil": Function(do.CEIL, ("x",)),
    "round": Function(do.ROUND, ("x",)),
    "clip": Function(do.CLIP, ("x", "low", "high")),
    "known": Function(do.KNOWN, ("x",)),
    "default": Function(do.DEFAULT, ("x", "otherwise")),
    "lowpass": Function(do.LOW_PASS, ("x",), ("time",)),
    "derivative": Function(do.DERIVATIVE, ("x",)),
    "integral": Function(
        do.INTEGRAL, ("x", "reset"), ("start",), {"reset": 0.0, "start": 0.0}, times=False
    ),
    "mean": Function(do.MEAN, ("x",), ("time",)),
    "rms": Function(do.RMS, ("x",), ("time",)),
    "delay": Function(do.DELAY, ("x",), ("time",)),
    "hysteresis": Function(do.HYSTERESIS, ("x", "low", "high")),
    "rising": Function(do.RISING, ("condition",)),
    "falling": Function(do.FALLING, ("condition",)),
    "count": Function(do.COUNT, ("condition", "reset"), (), {"reset": 0.0}),
    "debounce": Function(do.DEBOUNCE, ("condition",), ("time",)),
    "duration": Function(do.DURATION, ("condition",)),
}
#: All callable names.
NAMES: Final = (*FUNCTIONS, *FOLDED, *FORMS)
#: Names that no calculated channel may have.
RESERVED: Final = frozenset((*NAMES, *CONSTANTS, TIME))
