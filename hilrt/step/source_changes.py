"""The sources that drive inputs, as text: present state, and changes at a point."""

from __future__ import annotations

from hilrt.config.session_tables import FaultTable
from hilrt.step.numerics import Numerics
from hilrt.tables.plan import DrivePlan, ParameterPlan
from hilrt.tables.state import CONNECTION, DONE, HOLDING, OPERATOR, RUNNING, SOURCES, STIMULUS

_PHASES = {
    RUNNING: "stimulus {name} begins",
    HOLDING: "stimulus {name} holds its last value",
    DONE: "stimulus {name} ends",
}


def source_changes(numerics: Numerics) -> list[tuple[str, str]]:
    """Inputs whose source or stimuli changed at this point, each with a text."""
    plan, state, names = numerics.plan, numerics.state, numerics.network.inputs.names
    found = []
    for parameter, own in zip(plan.parameters, numerics.parameters, strict=True):
        found += _turned_stimuli(numerics, parameter, own.number)
    for at, drive in zip(plan.drives, state.drives, strict=True):
        where = names[at.input]
        found += _turned_stimuli(numerics, at, where)
        if drive.turned:
            source = SOURCES[int(drive.source)]
            if drive.source == CONNECTION and not plan.inputs[at.input].connected:
                source = "start value"
            if drive.source != OPERATOR:  # an operator's request is already an event
                found.append((where, f"driven by its {source}"))
    return found


def _turned_stimuli(
    numerics: Numerics, at: DrivePlan | ParameterPlan, where: str
) -> list[tuple[str, str]]:
    """Stimuli of an input or a parameter that began, ended or started to hold at this point."""
    found = []
    for k in range(at.first_stimulus, at.first_stimulus + at.stimuli):
        stimulus = numerics.state.stimuli[k]
        if stimulus.turned:
            text = _PHASES[int(stimulus.phase)].format(name=numerics.stimuli[k])
            found.append((where, f"{text} at {where}"))
    return found


def fault_changes(numerics: Numerics) -> list[tuple[FaultTable, bool]]:
    """Faults that began or ended at this point, and whether they began."""
    pairs = zip(numerics.faults, numerics.state.faults, strict=True)
    return [(fault, bool(now.active)) for fault, now in pairs if now.turned]


def mu_changes(numerics: Numerics) -> list[tuple[str, str]]:
    """Bonds whose mu changed in this step, and a text with what it follows."""
    found = []
    for b, bond in enumerate(numerics.network.bonds.tables):
        if numerics.state.bonds[b].mu_turned:
            now, by_flows = numerics.state.bonds[b], numerics.plan.bonds[b].side_flow >= 0
            basis = "by the flows at both sides" if by_flows else "by the effort's probed response"
            if not now.trusted > 0.0:
                basis = "as the effort does not follow the flows at both sides"
            found.append((bond.name, f"mu is {now.mu:.3g} from now on, {basis}"))
    return found


def present_sources(numerics: Numerics) -> dict[str, str]:
    """Inputs now driven by something other than their connections, or with added stimuli."""
    plan, state, names = numerics.plan, numerics.state, numerics.network.inputs.names
    found = {}
    for at, drive in zip(plan.drives, state.drives, strict=True):
        source = int(drive.source)
        active = [
            k
            for k in range(at.first_stimulus, at.first_stimulus + at.stimuli)
            if state.stimuli[k].phase in (RUNNING, HOLDING)
            and plan.stimuli[k].replaces == (source == STIMULUS)
        ]
        if source == STIMULUS:
            found[names[at.input]] = (
                f"stimulus {numerics.stimuli[active[0]]}" if active else "stimulus"
            )
        elif source != CONNECTION:
            found[names[at.input]] = SOURCES[source]
        elif active:
            added = ", ".join(numerics.stimuli[k] for k in active)
            found[names[at.input]] = f"its connections and stimulus {added}"
    return found
