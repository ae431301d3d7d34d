"""The demonstration's vehicle for the master's process, with the drive cycle beside this file."""

from pathlib import Path
from typing import Any

from hilrt.models.vehicle import Vehicle


class CycleVehicle(Vehicle):
    """As `Vehicle`, whose cycle file would be looked for in the current folder."""

    def __init__(self, cycle: str = "wltc_class3b.csv", **data: Any) -> None:
        super().__init__(str(Path(__file__).with_name(cycle)), **data)
