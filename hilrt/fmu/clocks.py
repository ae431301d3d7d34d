"""Clocks of FMI 3: their declarations in the model description, and their ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

#: Ticks closer [s] than this to a step's end belong to the next step: event points are whole ns.
NEAR_S = 2e-9
_PERIODIC = ("constant", "fixed", "calculated", "tunable")
_APERIODIC = ("changing", "countdown")


class FmuClock(NamedTuple):
    """A clock of an FMU.

    Attributes
    ----------
    name : str
    reference : int
        Its value reference.
    causality, variability : str
        Causality of the clock, and variability of its interval.
    interval, shift : float
        Time between ticks (NaN if only the FMU knows it), and time of the first tick after the
        start, s.
    """

    name: str
    reference: int
    causality: str
    variability: str
    interval: float
    shift: float

    @property
    def periodic(self) -> bool:
        """Whether it is an input that ticks at equal intervals."""
        return self.causality == "input" and self.variability in _PERIODIC

    @property
    def timed(self) -> bool:
        """Whether it is an input that ticks at known times, periodic or set by the FMU."""
        return self.periodic or (self.causality == "input" and self.variability in _APERIODIC)

    @property
    def triggered(self) -> bool:
        """Whether it is an input triggered by another subsystem."""
        return self.causality == "input" and self.variability == "triggered"

    @property
    def is_output(self) -> bool:
        """Whether it is an output that ticks at events of the FMU."""
        return self.causality == "output" and self.variability == "triggered"


def read_clocks(root: Any) -> tuple[FmuClock, ...]:
    """All clocks in the XML `root` of a model description; FMPy does not read their times."""
    return tuple(_clock(element.attrib) for element in root.iterfind("ModelVariables/Clock"))


def _clock(given: Any) -> FmuClock:
    def seconds(what: str, missing: float) -> float:
        if f"{what}Decimal" in given:
            return float(given[f"{what}Decimal"])
        if f"{what}Counter" in given and "resolution" in given:
            return float(given[f"{what}Counter"]) / float(given["resolution"])
        return missing

    return FmuClock(
        given.get("name", ""),
        int(given.get("valueReference", 0)),
        given.get("causality", "local"),
        given.get("intervalVariability", ""),
        seconds("interval", math.nan),
        seconds("shift", 0.0),
    )


class Schedule:
    """Next ticks of clocks, by their value references."""

    def __init__(self) -> None:
        self._due: dict[int, float] = {}
        self._every: dict[int, tuple[float, float]] = {}
        self._count: dict[int, int] = {}

    def at(self, reference: int, t: float) -> None:
        """Schedule one tick at `t` [s], instead of the clock's next one."""
        self._due[reference] = t

    def every(self, reference: int, first: float, interval: float) -> None:
        """Schedule ticks at `first` [s], and every `interval` [s] from then on."""
        self._every[reference] = first, interval
        self._count[reference] = 0
        self._due[reference] = first

    def next(self, t: float, end: float) -> tuple[float, list[int]]:
        """Time [s] of the next tick in ``[t, end)``, and its clocks; else `end`, without clocks.

        Ticks within a rounding error of `t`, and missed ones, are due at `t`.
        """
        first = min(self._due.values(), default=math.inf)
        if first >= end - NEAR_S:
            return end, []
        ticking = [reference for reference, due in self._due.items() if due <= first + NEAR_S]
        return (t if first <= t + NEAR_S else first), ticking

    def ticked(self, references: Sequence[int]) -> None:
        """Advance periodic clocks to their next ticks; other clocks have none until `at`."""
        for reference in references:
            self._due.pop(reference, None)
            if reference in self._every:
                # Counted, not accumulated, so that the times of a long session stay on their grid.
                self._count[reference] += 1
                first, interval = self._every[reference]
                self._due[reference] = first + self._count[reference] * interval
