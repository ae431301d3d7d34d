"""What `hilrt check` asks a link about the FMU of its table, answered by the model description."""

from __future__ import annotations

import abc
import math
from pathlib import Path
from typing import TYPE_CHECKING

from hilrt.config.structs import SubsystemOptions
from hilrt.link import Link

if TYPE_CHECKING:
    from hilrt.fmu.fmu_solver import FmuSolver


class FmuFacts(Link):
    """A link whose table may name an FMU; see `Link` for the methods."""

    @classmethod
    @abc.abstractmethod
    def described(cls, options: SubsystemOptions, folder: Path) -> FmuSolver | None:
        """The table's FMU, with its binary not loaded; None where it names none."""

    @classmethod
    def remarks(cls, name: str, options: SubsystemOptions, folder: Path) -> list[str]:
        """Of the model description."""
        solver = cls.described(options, folder)
        return [] if solver is None else solver.remarks

    @classmethod
    def wrong_starts(cls, name: str, options: SubsystemOptions, folder: Path) -> dict[str, str]:
        """Values that do not fit the type of the input's variable."""
        solver = cls.described(options, folder)
        return {} if solver is None else solver.wrong_starts(options.inputs)

    @classmethod
    def no_numbers(cls, name: str, options: SubsystemOptions, folder: Path) -> dict[str, str]:
        """String and binary variables."""
        solver = cls.described(options, folder)
        return {} if solver is None else solver.no_numbers()

    @classmethod
    def missing_here(cls, name: str, options: SubsystemOptions, folder: Path) -> list[str]:
        """A binary for this host."""
        solver = cls.described(options, folder)
        return [] if solver is None else solver.fmu.missing_here()

    @classmethod
    def may_tell_events(cls, name: str, options: SubsystemOptions, folder: Path) -> bool:
        """Where event mode is used."""
        solver = cls.described(options, folder)
        return solver is not None and solver.tells_events

    @classmethod
    def told_to_end(cls, name: str, options: SubsystemOptions, folder: Path) -> float:
        """Its `stop_time`, in session time."""
        solver = cls.described(options, folder)
        return math.inf if solver is None else solver.until
