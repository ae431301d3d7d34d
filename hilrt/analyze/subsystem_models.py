"""The subsystems of a session for an analysis: solvers in this process, without a session."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hilrt.config import registry
from hilrt.config.from_toml import parse_params
from hilrt.config.session_file import SessionFile
from hilrt.config.structs import JacobianOptions, SubsystemOptions
from hilrt.coupling.jacobian import LinearSubsystem
from hilrt.errors import ConfigError, HilrtError
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linearise import CannotLinearise, Constant, Differentiated, Dynamics, Exact, size
from hilrt.hosting.load_solver import load_solver
from hilrt.link import Link, Probes
from hilrt.models.linear import Linear
from hilrt.solver import Floats, Ports, Sample, Solver


class SubsystemModel(Link, Probes):
    """A subsystem in the analysis, for start values and Jacobians; it is never run."""

    dynamics: Dynamics

    def __init__(
        self, name: str, options: SubsystemOptions, folder: Path, ports: Ports, reason: str = ""
    ) -> None:
        super().__init__(name, options, folder)
        self.inputs, self.outputs = ports
        self.probes = self
        self.hosted: HostedSolver | None = None
        self.reason = reason  #: why there is no solver to differentiate
        self.bench = False
        self.matrices = matrices(options.jacobian, name, ports)

    async def open(self) -> None:
        """Do nothing: there is nothing to connect."""

    async def initialize(self, t0: float, u0: Floats) -> Sample:
        """Outputs at the start, from the solver, or the ports' start values."""
        if self.hosted is not None:
            return self.hosted.initialize(t0, u0.copy())
        starts = [port.start for port in self.outputs for _ in range(port.size)]
        return Sample(np.array(starts, dtype=np.float64))

    async def jacobian(
        self, source: str, t: float, h: float, order: int, u: Floats
    ) -> Floats | None:
        """See `Probes.jacobian`."""
        if self.hosted is not None:
            return self.hosted.jacobian(source, t, h, order, u)
        return None if self.matrices is None else self.matrices.jacobian(h, order)

    def dispatch(self, tick: int, t: float, h: float, coefficients: Floats) -> None:
        """Refuse: an analysis has no session."""
        raise NotImplementedError

    def receive(self) -> None:
        """Receive nothing: an analysis takes no steps."""
        raise NotImplementedError

    def linearise(self, u0: Floats, h: float, in_loop: bool) -> str | None:
        """Set `dynamics`; return the problem if that is not possible."""
        if self.hosted is not None:
            solver = self.hosted.solver
            if isinstance(solver, Linear) and type(solver).advance is Linear.advance:
                self.dynamics = Exact(solver.system, "its matrices")
                return None
            try:
                self.dynamics = Differentiated(self.hosted, u0, h)
                return None
            except (CannotLinearise, HilrtError) as error:
                self.reason = str(error)
        if self.matrices is not None:
            self.dynamics = Exact(self.matrices, "A, B, C, D of the session file")
            return None
        if not in_loop:
            ports = Ports(tuple(self.inputs), tuple(self.outputs))
            self.dynamics = Constant(ports, "left out: it has no feedback")
            return None
        return (
            f"[subsystems.{self.name}]: cannot be linearised: {self.reason}; give A, B, C, D in "
            f"[subsystems.{self.name}.jacobian], or use a Python model that saves its state "
            "instead; `hilrt analyze reference` finds the error at a step by running the session"
        )


def matrices(options: JacobianOptions | None, name: str, ports: Ports) -> LinearSubsystem | None:
    """Linear subsystem with the session file's matrices; None if these are not given."""
    if options is None or options.A is None or options.B is None or options.C is None:
        return None
    nu, ny = size(ports.inputs), size(ports.outputs)
    where = f"[subsystems.{name}.jacobian]"
    try:
        A, B, C = (np.array(rows, dtype=np.float64) for rows in (options.A, options.B, options.C))
        D = np.zeros((ny, nu)) if options.D is None else np.array(options.D, dtype=np.float64)
        system = LinearSubsystem(A, B, C, D)
    except (ValueError, IndexError) as error:
        raise ConfigError(f"{where}: {error}; correct the matrices") from None
    if system.D.shape != (ny, nu):
        raise ConfigError(
            f"{where}: the matrices are for {system.D.shape[0]} outputs and {system.D.shape[1]} "
            f"inputs, the subsystem has {ny} and {nu}"
        )
    return system


def find_subsystem_models(file: SessionFile) -> list[SubsystemModel]:
    """The subsystems of a session, with solvers created if possible; no process is started.

    Raises
    ------
    ConfigError
        Names the subsystems whose solver or ports are wrong or unknown.
    """
    found: list[SubsystemModel] = []
    problems: list[str] = []
    for name, options in file.tables.subsystems.items():
        try:
            found.append(_subsystem_model(name, options, file.folder))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return found


def _subsystem_model(name: str, options: SubsystemOptions, folder: Path) -> SubsystemModel:
    where = f"[subsystems.{name}]"
    make = _maker(options, folder)
    if make is None:
        link_class: type[Link] = registry.link_class(options.adapter)
        description = link_class.describe(name, options, folder)
        if description.problems:
            raise ConfigError(description.problems)
        ports = description.ports
        if ports is None:
            raise ConfigError(
                f"{where}: its ports are only known while it runs; use adapter "
                '"inprocess", or spawn = ["hilrt", "solver", "module:Class"], for the analysis'
            )
        reason = f"an analysis does not run the adapter {options.adapter!r}"
        subsystem = SubsystemModel(name, options, folder, ports, reason)
        subsystem.bench = link_class.physical
        return subsystem
    try:
        solver = make()
    except ConfigError as error:
        raise ConfigError([f"{where}: {problem}" for problem in error.problems]) from None
    ports = Ports(tuple(solver.inputs), tuple(solver.outputs))
    subsystem = SubsystemModel(name, options, folder, ports)
    subsystem.hosted = HostedSolver(solver)
    return subsystem


def _maker(options: SubsystemOptions, folder: Path) -> Callable[[], Solver] | None:
    """Function that creates the solver in this process; None if its table has no model."""
    model = getattr(options, "model", None)
    if isinstance(model, str):
        params, path = getattr(options, "params", {}), getattr(options, "path", None)
        folders = [folder] if path is None else [folder / path, folder]
        return lambda: load_solver(model, params, folders)
    command = spawned_solver(options.spawn or [])
    if command is None:
        return None
    target, given = command

    def start() -> Solver:
        with contextlib.chdir(folder):  # the working directory of its process
            return load_solver(target, given, [folder])

    return start


def spawned_solver(command: list[str]) -> tuple[str, dict[str, Any]] | None:
    """Class and parameters of ``hilrt solver``'s command; None for any other."""
    if "solver" not in command[1:-1]:
        return None
    target, *rest = command[command.index("solver") + 1 :]
    pairs = [pair for flag, pair in itertools.pairwise(rest) if flag == "--param"]
    texts = {key: text for key, _, text in (pair.partition("=") for pair in pairs)}
    return target, parse_params(texts)
