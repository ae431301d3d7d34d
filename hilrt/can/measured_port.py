"""Outputs that are measured on a bus: what the database says of their signals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from cantools.database.can import Signal

from hilrt.can.database import SignalRef
from hilrt.solver import Port

#: Types of signals that are IEEE numbers, by their bits.
_FLOATS: dict[int, type[np.floating[Any]]] = {16: np.float16, 32: np.float32}


def measured_port(name: str, ref: SignalRef) -> Port:
    """Output port of a signal, with the database's unit, range and comment."""
    low, high = declared_range(ref.signal)
    return Port(name, ref.unit, min=low, max=high, description=ref.signal.comment or "")


def declared_range(signal: Signal) -> tuple[float, float]:
    """Range that the database declares for a signal; infinite where it does not.

    Many databases say [0|0] where no limits were chosen: that is none, nor is an empty range. A
    decoded value is a multiple of a raw step, which a bound need not be: one within half a step of
    a bound is still inside.
    """
    low = -math.inf if signal.minimum is None else float(signal.minimum)
    high = math.inf if signal.maximum is None else float(signal.maximum)
    if not low < high:
        return -math.inf, math.inf
    return min(low, _carried(signal, low)), max(high, _carried(signal, high))


def _carried(signal: Signal, value: float) -> float:
    """What the signal makes of a value: that of the nearest raw step."""
    if math.isinf(value):
        return value
    if signal.is_float:
        with np.errstate(over="ignore"):
            return float(_FLOATS.get(signal.length, np.float64)(value))
    scale, offset = float(signal.scale), float(signal.offset)
    steps = (value - offset) / scale if scale else math.inf
    return scale * round(steps) + offset if math.isfinite(steps) else value
