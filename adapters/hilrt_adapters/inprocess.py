"""A solver in the master's own process (``adapter = "inprocess"``): no network, no waiting."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import msgspec

from hilrt.config.structs import SubsystemOptions
from hilrt.errors import PeerLost, SolverError
from hilrt.hosting.group import Group, GroupOptions
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linear_model import find_linear_model, renew_linear_model
from hilrt.hosting.load_solver import load_solver
from hilrt.link import CodeRun, Description, LinearModel, Link, Probes
from hilrt.solver import Floats, Sample, Solver


class InProcessOptions(SubsystemOptions, kw_only=True):
    """``[subsystems.NAME]`` of an in-process solver."""

    #: `"module:Class"`, a subclass of `hilrt.Solver`.
    model: str
    #: Folder that is searched for the module before the session file's.
    path: str | None = None
    #: Keyword arguments of the class.
    params: dict[str, Any] = msgspec.field(default_factory=dict)


def load(options: InProcessOptions | GroupOptions, folder: Path) -> Solver:
    """Solver of a table; `ConfigError` describes the problem."""
    if isinstance(options, GroupOptions):
        return options.make(folder)
    return load_solver(options.model, options.params, model_folders(options.path, folder))


def model_folders(path: str | None, folder: Path) -> list[Path]:
    """Folders searched for a model before installed packages: `path`, and the session file's."""
    return [folder] if path is None else [folder / path, folder]


class InProcessLink(Link, Probes):
    """A solver called directly.

    `dispatch` only notes the inputs; the first `receive` after it runs the step. All inputs of a
    tick are thus dispatched before any in-process solver computes.

    Attributes
    ----------
    solver : Solver
        The instance, after `open`.
    """

    Options: ClassVar[type[SubsystemOptions]] = InProcessOptions
    GroupOptions: ClassVar[type[SubsystemOptions] | None] = GroupOptions
    #: Code that `make` runs.
    code: ClassVar[CodeRun] = CodeRun(
        "model",
        "imports its module and calls its constructor",
        "its parameters and ports, and what depends on them",
    )

    solver: Solver
    _hosted: HostedSolver
    #: Start, length and coefficients; None for coefficients repeats the last step.
    _job: tuple[float, float, Floats | None] | None = None
    _again: bool = False  # the job repeats the last step with these coefficients
    _t: float = 0.0  # start of the last step
    _lost: str | None = None

    @classmethod
    def make(cls, options: SubsystemOptions, folder: Path) -> Solver:
        """Solver of a table; `ConfigError` if it cannot be created."""
        return load(cast(InProcessOptions | GroupOptions, options), folder)

    @classmethod
    def describe(
        cls, name: str, options: SubsystemOptions, folder: Path, run_code: bool = True
    ) -> Description:
        """Describe an instance created for this purpose, as the class alone is not enough."""
        if not run_code:
            return Description(code=cls.code)
        return Description.from_solver(lambda: cls.make(options, folder))

    async def open(self) -> None:
        """Import the module and create the solver; `ConfigError` if that fails."""
        self.host(self.make(self.options, self.folder))

    def host(self, solver: Solver) -> None:
        """Use an existing solver, instead of `open`."""
        self.solver, self._hosted = solver, HostedSolver(solver)
        self.inputs, self.outputs = self._hosted.inputs, self._hosted.outputs
        self.probes = self
        self.rewinds = self.repeats = self if self._hosted.can_go_back else None
        self.tells_events = solver.tells_events
        self.findings, self.parameters = self._hosted.findings, self._hosted.parameters

    async def initialize(self, t0: float, u0: Floats) -> Sample:
        """See `Link.initialize`; the solver runs in this call, however long it takes."""
        try:
            return self._hosted.initialize(t0, u0.copy())
        except SolverError as error:
            raise self._lose(error) from error

    async def jacobian(
        self, source: str, t: float, h: float, order: int, u: Floats
    ) -> Floats | None:
        """See `Probes.jacobian`."""
        try:
            return self._hosted.jacobian(source, t, h, order, u)
        except SolverError as error:
            raise self._lose(error) from error

    async def response(self, t: float, h: float, u: Floats, direction: Floats) -> Floats | None:
        """See `Probes.response`."""
        try:
            return self._hosted.response(t, h, u, direction)
        except SolverError as error:
            raise self._lose(error) from error

    async def linear_model(self, h: float, u: Floats) -> LinearModel | None:
        """See `Probes.linear_model`."""
        try:
            return find_linear_model(self._hosted, u, h)
        except SolverError as error:
            raise self._lose(error) from error

    async def renewed_model(self, t: float, h: float, u: Floats) -> LinearModel | None:
        """See `Probes.renewed_model`."""
        try:
            return renew_linear_model(self._hosted, t, u, h)
        except SolverError as error:
            raise self._lose(error) from error

    def set_parameter(self, name: str, value: float) -> str:
        """See `Link.set_parameter`; called between two steps."""
        try:
            return self._hosted.set_parameter(name, value)
        except SolverError as error:
            raise self._lose(error) from error

    def dispatch(self, tick: int, t: float, h: float, coefficients: Floats) -> None:
        """Note the inputs; the step runs in `receive`."""
        self._job = (t, h, coefficients.copy())
        self._t = t

    def keep_states(self) -> None:
        """See `Rewinds.keep_states`."""
        self._hosted.keeps = True

    def go_back(self, tick: int, h: float) -> None:
        """See `Rewinds.go_back`; like a dispatch, it runs in `receive`."""
        self._job = (self._t, h, None)

    @property
    def apart(self) -> Sequence[tuple[slice, slice]]:
        """See `Repeats.apart`: the members of a group."""
        if isinstance(self.solver, Group):
            return [(part.inputs, part.outputs) for part in self.solver.parts]
        return [(slice(0, self._hosted.n_inputs), slice(0, self._hosted.n_outputs))]

    def repeat(self, h: float, coefficients: Floats) -> None:
        """See `Repeats.repeat`."""
        self._job, self._again = (self._t, h, coefficients), True

    def tried(self, h: float, coefficients: Floats) -> Floats:
        """See `Repeats.tried`."""
        try:
            return self._hosted.tried(h, coefficients)
        except SolverError as error:
            raise self._lose(error) from error

    def receive(self) -> None:
        """Run the dispatched step, if there is one."""
        if self._job is not None or self._lost is not None:
            self.inbox.put(*self.step())

    def step(self) -> tuple[Sample, float]:
        """Run the dispatched step; return its sample and the end of the step, s."""
        if self._lost is not None:
            raise PeerLost(self.name, self._lost)
        assert self._job is not None
        t, h, coefficients = self._job
        again, self._job, self._again = self._again, None, False
        try:
            if again or coefficients is None:
                return self._hosted.go_back(h, coefficients), t + h
            return self._hosted.advance(t, h, coefficients), t + h
        except SolverError as error:
            raise self._lose(error) from error

    async def stop(self, reason: str) -> None:
        """Let the solver release its resources."""
        if hasattr(self, "_hosted"):
            self._job = None
            self._hosted.stop(reason)

    async def close(self) -> None:
        """Stop the solver, unless it was stopped."""
        await self.stop("the session is closed")

    def _lose(self, error: SolverError) -> PeerLost:
        self._lost = str(error)
        return PeerLost(self.name, self._lost)
