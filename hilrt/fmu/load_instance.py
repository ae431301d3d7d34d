"""An instance of an FMU of either version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hilrt.fmu.description import Fmu
from hilrt.fmu.fmi2 import Instance2
from hilrt.fmu.fmi3 import Instance3
from hilrt.fmu.instance import Instance


def load(
    fmu: Fmu,
    inputs: Sequence[tuple[Any, int]],
    outputs: Sequence[tuple[Any, int]],
    debug: bool,
    events: bool,
    intermediate: bool,
) -> Instance:
    """Load and instantiate an FMU of either version.

    Parameters
    ----------
    fmu : Fmu
    inputs, outputs : sequence of (variable, int)
        The ports' variables with their sizes.
    debug : bool
        Request all log messages.
    events : bool
        FMI 3: use event mode and early return if the FMU supports them.
    intermediate : bool
        FMI 3: use intermediate update if the FMU supports it.
    """
    if fmu.major == 2:
        return Instance2(fmu, inputs, outputs, debug)
    return Instance3(fmu, inputs, outputs, debug, events, intermediate)
