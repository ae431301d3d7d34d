"""Small plots for the terminal view: the newest values of each signal as a row of bars."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from hilrt.monitor.telemetry import Status

BARS = "▁▂▃▄▅▆▇█"
#: Values kept per signal, one per status.
LENGTH = 10


def sparkline(values: Sequence[float]) -> str:
    """Values as bars between the smallest and the largest of them; a gap where there is none."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return " " * len(values)
    low, high = min(finite), max(finite)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(
        BARS[round((value - low) * scale)] if math.isfinite(value) else " " for value in values
    )


class Traces:
    """The newest values of each signal, for the small plots."""

    def __init__(self) -> None:
        self._values: dict[str, deque[float]] = {}
        self._t = -math.inf

    def add(self, status: Status) -> None:
        """Take the values of a status that is newer than those before."""
        if not status.values or status.t == self._t:
            return
        if status.t < self._t:
            self._values.clear()
        self._t = status.t
        for name, value in status.values.items():
            self._values.setdefault(name, deque(maxlen=LENGTH)).append(value)

    def plot(self, name: str) -> str:
        """The small plot of a signal; empty before its first value."""
        return sparkline(self._values.get(name, ()))
