"""The table of an FMU in a session file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from hilrt.config.session_tables import NonNegative, Positive
from hilrt.config.structs import SubsystemOptions
from hilrt.errors import ConfigError


class FmuOptions(SubsystemOptions, kw_only=True):
    """``[subsystems.NAME]`` of an in-process FMU."""

    #: FMU file, relative to the session file.
    fmu: str
    #: Values of parameters and start values. An input named here keeps its value and is no port.
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    #: Variables that become outputs: names or patterns (`"body.*"`). Default: the FMU's outputs.
    outputs: list[str] | None = None
    #: For each output, the inputs on which it depends directly; replaces the FMU's own declaration.
    feedthrough: dict[str, list[str]] = msgspec.field(default_factory=dict)
    #: Correct units of ports, where the FMU states none or wrong ones: `units = { torque = "N*m"
    #: }`. Numbers are not converted.
    units: dict[str, str] = msgspec.field(default_factory=dict)
    #: Number of FMU steps per macro step; the inputs are set before each.
    substeps: Annotated[int, msgspec.Meta(ge=1)] = 1
    #: Pass the input polynomial to an FMU that supports it; otherwise inputs are held.
    input_derivatives: bool = True
    #: Make two half steps per macro step, so that the outputs in its middle are known: for
    #: `output_defect`, and so that the flag `inside_unknown` is not raised.
    half_steps: bool = False
    #: Set the inputs to their values at the end of the step before reading the outputs. Default:
    #: true for FMUs with feedthrough that have neither directional derivatives nor clocks.
    end_inputs: bool | None = None
    #: FMI 3: use event mode and early return if the FMU has them.
    events: bool = True
    #: Relative tolerance of the FMU's solver.
    tolerance: Positive | None = None
    #: [s] FMU time at session time 0.
    start_time: NonNegative = 0.0
    #: [s] Stop time passed to the FMU.
    stop_time: Positive | None = None
    #: Request all log messages of the FMU.
    debug: bool = False


@contextlib.contextmanager
def together_with(problems: list[str]) -> Iterator[None]:
    """Raise `problems` together with those of the enclosed block."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from None
    if problems:
        raise ConfigError(problems)


def wrong_times(start: float, stop: float | None) -> list[str]:
    """Problem with an FMU's start and stop time [s], if there is one."""
    if stop is None or stop > start:
        return []
    return [
        f"stop_time = {stop!r}: is not after start_time = {start!r} (both in FMU time, s); give a "
        "later one, or remove it"
    ]
