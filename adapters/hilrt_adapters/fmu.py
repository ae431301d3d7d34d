"""An FMU in the master's own process (``adapter = "fmu"``).

A crash inside the FMU's binary takes the master down with it; for anything but a trusted FMU host
it in a process of its own with ``hilrt solver MODEL.fmu`` (``adapter = "zeromq"``).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from hilrt.config.structs import SubsystemOptions
from hilrt.fmu.fmu_options import FmuOptions, make_solver
from hilrt.link import CodeRun
from hilrt.solver import Ports
from hilrt_adapters.inprocess import InProcessLink

if TYPE_CHECKING:
    from hilrt.fmu.fmu_solver import FmuSolver


class FmuLink(InProcessLink):
    """An FMU called directly; see `InProcessLink`."""

    Options = FmuOptions  # the keys differ, the life does not

    @classmethod
    def make(cls, options: SubsystemOptions, folder: Path) -> FmuSolver:
        """From the model description; the binary is loaded by `initialize`."""
        return make_solver(cast(FmuOptions, options), folder)

    @classmethod
    def runs_code(cls, options: SubsystemOptions) -> CodeRun | None:
        """None: its binary is not loaded to be checked."""
        return None

    @classmethod
    def ports_without_code(cls, name: str, options: SubsystemOptions, folder: Path) -> Ports | None:
        """From the model description."""
        return cls.ports(name, options, folder)

    @classmethod
    def remarks(cls, name: str, options: SubsystemOptions, folder: Path) -> list[str]:
        """Of the model description."""
        return cls.make(options, folder).remarks

    @classmethod
    def wrong_starts(cls, name: str, options: SubsystemOptions, folder: Path) -> dict[str, str]:
        """Values that do not fit the type of the input's variable."""
        return cls.make(options, folder).wrong_starts(options.inputs)

    @classmethod
    def no_numbers(cls, name: str, options: SubsystemOptions, folder: Path) -> dict[str, str]:
        """String and binary variables."""
        return cls.make(options, folder).no_numbers()

    @classmethod
    def missing_here(cls, name: str, options: SubsystemOptions, folder: Path) -> list[str]:
        """A binary for this host."""
        return cls.make(options, folder).fmu.missing_here()

    async def open(self) -> None:
        """Read the model description; `ConfigError` where it cannot be used, or not here."""
        solver = self.make(self.options, self.folder)
        solver.fmu.need_binary()
        self.host(solver)

    @classmethod
    def told_to_end(cls, name: str, options: SubsystemOptions, folder: Path) -> float:
        """The table's `stop_time`, in session time."""
        return cls.make(options, folder).until
