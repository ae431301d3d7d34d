"""Tolerances of the session file: what they are there for."""

from __future__ import annotations

from hilrt.config.structs import MasterTable


def has_tolerances(master: MasterTable) -> bool:
    """Whether any tolerance of signals is given; those of "ecco" are of energy."""
    table = master.step_control
    given = table.atol is not None or table.rtol is not None
    return given and table.method != "ecco"


def errors_are_tested(master: MasterTable) -> bool:
    """Whether the local error of the inputs is estimated and tested at every step."""
    return has_tolerances(master) and master.step_control.method in ("fixed", "local")
