"""Which clocks of an FMU tick in a session, and why others do not."""

from __future__ import annotations

from hilrt.fmu.clocks import FmuClock
from hilrt.fmu.description import Fmu


def why_not_driven(fmu: Fmu, clock: FmuClock, events: bool) -> str:
    """Why an input clock never ticks here; empty if it does.

    Parameters
    ----------
    fmu : Fmu
    clock : FmuClock
    events : bool
        Whether event mode is to be used.
    """
    if not (clock.timed or clock.triggered):
        return f"its intervalVariability is {clock.variability!r}"
    if not fmu.event_mode:
        return "the FMU has no event mode (hasEventMode)"
    if not events:
        return "events = false"
    if clock.timed and not fmu.variable_step:
        return "its ticks may lie inside a step, and the FMU takes steps of one length only"
    return ""


def not_driven(fmu: Fmu, events: bool) -> list[str]:
    """Input clocks that never tick here, and why; `events`: whether event mode is to be used."""
    reasons = [
        (clock, why_not_driven(fmu, clock, events))
        for clock in fmu.clocks
        if clock.causality == "input"
    ]
    return [
        f"{fmu.path.name}: clock {clock.name!r} is not driven: {reason}; what it clocks "
        "keeps its start value"
        for clock, reason in reasons
        if reason
    ]
