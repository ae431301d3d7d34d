"""Description of a subsystem whose table names an FMU, from its model description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from hilrt.config.structs import SubsystemOptions
from hilrt.errors import ConfigError
from hilrt.link import Description

if TYPE_CHECKING:
    from hilrt.fmu.fmu_solver import FmuSolver


def describe_fmu(make: Callable[[], FmuSolver], options: SubsystemOptions) -> Description:
    """Describe the FMU that `make` opens; its binary is not loaded."""
    try:
        solver = make()
    except ConfigError as error:
        return Description(problems=error.problems)
    return replace(
        Description.from_solver(lambda: solver),
        remarks=solver.remarks,
        wrong_starts=solver.wrong_starts(options.inputs),
        unsupported_variables=solver.unsupported_variables(),
        missing_on_host=solver.fmu.missing_on_host(),
        end_time=solver.until,
    )
