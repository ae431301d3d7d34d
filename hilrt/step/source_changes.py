"""What changed at a communication point of the sources that drive inputs, in words."""

from __future__ import annotations

from hilrt.step.numerics import Numerics
from hilrt.tables.state import CONNECTION, DONE, HOLDING, RUNNING, SOURCES

_PHASES = {
    RUNNING: "stimulus {name} begins",
    HOLDING: "stimulus {name} holds its last value",
    DONE: "stimulus {name} ends",
}


def source_changes(numerics: Numerics) -> list[tuple[str, str]]:
    """Inputs whose source, or one of whose stimuli, changed at this point, each with a text."""
    plan, state, names = numerics.plan, numerics.state, numerics.network.inputs.names
    found = []
    for at, drive in zip(plan.drives, state.drives, strict=True):
        where = names[at.input]
        for k in range(at.first_stimulus, at.first_stimulus + at.stimuli):
            stimulus = state.stimuli[k]
            if stimulus.turned:
                text = _PHASES[int(stimulus.phase)].format(name=numerics.stimuli[k])
                found.append((where, f"{text} at {where}"))
        if drive.turned:
            source = SOURCES[int(drive.source)]
            if drive.source == CONNECTION and not plan.inputs[at.input].connected:
                source = "start value"
            found.append((where, f"{where} is driven by its {source}"))
    return found
