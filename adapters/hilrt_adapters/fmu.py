"""An FMU in the master's own process (``adapter = "fmu"``).

A crash inside the FMU's binary terminates the master, too. Host any FMU that is not trusted in a
separate process with ``hilrt solver MODEL.fmu`` (``adapter = "zeromq"``).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from hilrt.config.structs import SubsystemOptions
from hilrt.fmu.command import describe_fmu
from hilrt.fmu.fmu_options import FmuOptions
from hilrt.link import Description
from hilrt_adapters.inprocess import InProcessLink

if TYPE_CHECKING:
    from hilrt.fmu.fmu_solver import FmuSolver


class FmuLink(InProcessLink):
    """An FMU called directly; see `InProcessLink`."""

    Options = FmuOptions  # only the keys differ
    GroupOptions = None

    @classmethod
    def make(cls, options: SubsystemOptions, folder: Path) -> FmuSolver:
        """Create the solver from the model description; `initialize` loads the binary."""
        from hilrt.fmu.fmu_solver import FmuSolver  # the keys do not need FMPy

        return FmuSolver(cast(FmuOptions, options), folder)

    @classmethod
    def describe(
        cls, name: str, options: SubsystemOptions, folder: Path, run_code: bool = True
    ) -> Description:
        """Describe the FMU by its model description, without running its code."""
        return describe_fmu(lambda: cls.make(options, folder), options)

    async def open(self) -> None:
        """Read the model description; `ConfigError` if the FMU cannot be used here."""
        solver = self.make(self.options, self.folder)
        solver.fmu.need_binary()
        self.host(solver)
