"""Clocks of FMI 3: which are driven from here, when they tick, and what is left to its start value.

Periodic input clocks tick at their own times, inside the step, where the FMU has event mode. What
an FMU's own output clocks do is told. Clocks whose next tick only the FMU knows (countdown,
changing), and input clocks that another FMU would trigger, are not driven.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hilrt.fmu.description import Fmu

#: Ticks this close [s] to the end of a step belong to the next one: event points are whole ns.
NEAR_S = 2e-9
_PERIODIC = ("constant", "fixed", "tunable")


class Clock(NamedTuple):
    """A clock of an FMU.

    Attributes
    ----------
    name : str
    reference : int
        Its value reference.
    causality, variability : str
        Of the clock; the variability is that of its interval.
    interval, shift : float
        Time between ticks, and of the first one after the start, s; the first is NaN if unknown.
    """

    name: str
    reference: int
    causality: str
    variability: str
    interval: float
    shift: float

    @property
    def periodic(self) -> bool:
        """Whether it is an input with known times."""
        known = self.interval > 0.0  # not NaN, either
        return self.causality == "input" and self.variability in _PERIODIC and known

    @property
    def tells(self) -> bool:
        """Whether it is an output that ticks at events of the FMU."""
        return self.causality == "output" and self.variability == "triggered"


def read_clocks(root: Any) -> tuple[Clock, ...]:
    """All clocks in the XML of a model description; FMPy does not read their times."""
    return tuple(_clock(element.attrib) for element in root.iterfind("ModelVariables/Clock"))


def _clock(given: Any) -> Clock:
    def seconds(what: str, missing: float) -> float:
        if f"{what}Decimal" in given:
            return float(given[f"{what}Decimal"])
        if f"{what}Counter" in given and "resolution" in given:
            return float(given[f"{what}Counter"]) / float(given["resolution"])
        return missing

    return Clock(
        given.get("name", ""),
        int(given.get("valueReference", 0)),
        given.get("causality", "local"),
        given.get("intervalVariability", ""),
        seconds("interval", math.nan),
        seconds("shift", 0.0),
    )


def not_driven(fmu: Fmu, events: bool) -> list[str]:
    """Input clocks that never tick here, and why; `events`: whether event mode is to be used."""
    found = []
    for clock in fmu.clocks:
        if clock.causality != "input":
            continue
        if not clock.periodic:
            known = f"interval is {clock.variability or 'not stated'}"
            reason = f"its {known}; only periodic clocks with a stated interval are"
        elif not fmu.event_mode:
            reason = "the FMU has no event mode (hasEventMode)"
        elif not fmu.variable_step:
            reason = "its ticks may lie inside a step, and the FMU takes steps of one length only"
        elif not events:
            reason = "events = false"
        else:
            continue
        found.append(
            f"{fmu.path.name}: clock {clock.name!r} is not driven: {reason}; what it clocks "
            "keeps its start value"
        )
    return found


def ticks(
    clocks: Sequence[Clock], start: float, begin: float, end: float
) -> list[tuple[float, list[int]]]:
    """Times [s] of the ticks in ``[begin, end)``, with the value references of who ticks.

    Parameters
    ----------
    clocks : sequence of Clock
        Periodic ones.
    start : float
        When the FMU started, s.
    """
    found: dict[float, list[int]] = {}
    for clock in clocks:
        first = start + clock.shift
        n = max(0, math.ceil((begin - NEAR_S - first) / clock.interval))
        while (t := first + n * clock.interval) < end - NEAR_S:
            at = max(t, begin)
            same = next((known for known in found if abs(known - at) <= NEAR_S), at)
            found.setdefault(same, []).append(clock.reference)
            n += 1
    return sorted(found.items())
