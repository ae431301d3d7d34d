"""Groups: many solvers as one subsystem, whose ports are named ``member.port``.

The master sends a group one message with all inputs and receives one reply with all outputs.
Members exchange data only through the master, like all subsystems.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np

from hilrt.config.from_toml import nearest
from hilrt.config.structs import InputOptions, SubsystemOptions
from hilrt.errors import ConfigError, SolverError
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.load_solver import load_class, make_instance, make_solver
from hilrt.solver import Floats, InputPolynomial, Parameter, Port, Sample, Solver


class GroupOptions(SubsystemOptions, kw_only=True, dict=True):
    """``[groups.NAME]``: many solvers of one class, as one subsystem with all their ports.

    Keys of `inputs` and `out_of_range` are ports of every member, or ``"member.port"`` of one.
    """

    #: Where the group runs: `"inprocess"`, in the master's process, or `"zeromq"`, in a separate
    #: process (`hilrt solver --group`).
    adapter: Literal["inprocess", "zeromq"] = "inprocess"
    #: `"module:Class"`, a subclass of `hilrt.Solver`; one instance for each member.
    model: str
    #: `"module:Class"`, a subclass of `hilrt.Group` that steps all members in one call
    #: (docs/groups.md#all-members-in-one-call). Default: one after another.
    together: str | None = None
    #: Number of the members, or their names. In connections, bonds, alarms and signals they are
    #: named like subsystems: `"m3.force"`.
    members: Annotated[int, msgspec.Meta(ge=1)] | list[str]
    #: Prefix of the number in a member's name, if `members` is a number: `m0`, `m1` and so on.
    #: Default: the group's name.
    prefix: str = ""
    #: Folder that is searched for the module before the session file's.
    path: str | None = None
    #: Keyword arguments of the class, for all members.
    params: dict[str, Any] = msgspec.field(default_factory=dict)
    #: Keyword arguments with one value for each member, in the members' order.
    each: dict[str, list[Any]] = msgspec.field(default_factory=dict)
    #: Keyword arguments of single members, by the members' names.
    own: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Give every member its own entries of `inputs` and `out_of_range`."""
        self.inputs = self._of_members(self.inputs, _merged)
        if isinstance(self.out_of_range, dict):
            self.out_of_range = self._of_members(self.out_of_range, lambda _, own: own)

    @cached_property
    def member_names(self) -> tuple[str, ...]:
        """See `SubsystemOptions.member_names`."""
        if isinstance(self.members, int):
            return tuple(f"{self.prefix}{i}" for i in range(self.members))
        return tuple(self.members)

    def problems(self, where: str) -> list[str]:
        """Errors of the table beyond its types, one line each."""
        names, found = self.member_names, []
        for name in sorted({n for n in names if not n or "." in n or ":" in n}):
            found.append(
                f"[{where}] members: {name!r} is not a valid name; it cannot contain '.' or ':'"
            )
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            found.append(f"[{where}] members: {', '.join(twice)} more than once; rename")
        for key, values in self.each.items():
            if len(values) != len(names):
                text = f"has {len(values)} values for {len(names)} members; give one for each"
                found.append(f"[{where}.each] {key}: {text}")
        for name in self.own.keys() - set(names):
            found.append(f"[{where}.own] {name}: is not a member{nearest(name, names)}")
        return found

    def params_of(self, i: int) -> dict[str, Any]:
        """Keyword arguments of member number `i`."""
        each = {key: values[i] for key, values in self.each.items()}
        return self.params | each | self.own.get(self.member_names[i], {})

    def make(self, folder: Path) -> Group:
        """Group with new members; `ConfigError` names a member that cannot be created.

        `folder` is the session file's.
        """
        folders = [folder] if self.path is None else [folder / self.path, folder]
        made = dict[str, Solver]()
        cls = load_class(self.model, folders)
        for i, name in enumerate(self.member_names):
            try:
                made[name] = make_solver(cls, self.model, self.params_of(i))
            except ConfigError as error:
                raise ConfigError([f"member {name}: {text}" for text in error.problems]) from error
        if self.together is None:
            return Group(made)
        together = load_class(self.together, folders)
        if not issubclass(together, Group):
            raise ConfigError(f"{self.together} is not a group; make it a subclass of hilrt.Group")
        return make_instance(together, self.together, {"members": made})

    def _of_members(self, table: Mapping[str, Any], merged: Any) -> dict[str, Any]:
        """Entries by ``member.port``; `merged` combines a common entry and a member's own."""
        names = self.member_names
        members, found = set(names), dict[str, Any]()
        for key, value in table.items():
            if key.partition(".")[0] not in members:
                found.update({f"{name}.{key}": value for name in names})
        for key, value in table.items():
            if key.partition(".")[0] in members:
                found[key] = merged(found[key], value) if key in found else value
        return found


def _merged(common: InputOptions, own: InputOptions) -> InputOptions:
    """A member's table, with missing keys from the common one."""
    fields = msgspec.structs.fields(InputOptions)
    changed = {f.name: v for f in fields if (v := getattr(own, f.name)) != f.default}
    return msgspec.structs.replace(common, **changed)


class Part(NamedTuple):
    """A member, with the slices of its inputs and outputs in the group's."""

    name: str
    hosted: HostedSolver
    inputs: slice
    outputs: slice


class Group(Solver):
    """Many solvers as one, stepped one after another.

    Inputs and outputs are those of the members, one after another. A sample has `dy`, `y_mid` and
    `y_mean` if all members return them, and the earliest `event_t`.

    A subclass may step all members in one call: it overrides `initialize`, `advance`, `save_state`
    and `restore_state`. `save_state` returns a list with the state of each member, as the member's
    own class saves it, because members are probed one by one from these states.

    Parameters
    ----------
    members : mapping of str to Solver
        Members by their names, which precede the names of their ports: ``m3.force``.

    Attributes
    ----------
    parts : list of Part
        The members, in order.
    """

    def __init__(self, members: Mapping[str, Solver]) -> None:
        self.parts: list[Part] = []
        inputs: list[Port] = []
        outputs: list[Port] = []
        u = y = 0
        for name, solver in members.items():
            hosted = HostedSolver(solver)
            inputs += [dataclasses.replace(p, name=f"{name}.{p.name}") for p in hosted.inputs]
            for p in hosted.outputs:
                through = tuple(f"{name}.{on}" for on in p.feedthrough)
                outputs.append(dataclasses.replace(p, name=f"{name}.{p.name}", feedthrough=through))
            ends = u + hosted.n_inputs, y + hosted.n_outputs
            self.parts.append(Part(name, hosted, slice(u, ends[0]), slice(y, ends[1])))
            u, y = ends
        self.inputs, self.outputs, self._n_outputs = tuple(inputs), tuple(outputs), y
        self.any_step = all(part.hosted.solver.any_step for part in self.parts)
        self.tells_events = any(part.hosted.solver.tells_events for part in self.parts)

    @property
    def parameters(self) -> tuple[Parameter, ...]:  # type: ignore[override]
        """Parameters of all members, ``member.parameter``."""
        return tuple(
            dataclasses.replace(parameter, name=f"{part.name}.{parameter.name}")
            for part in self.parts
            for parameter in part.hosted.parameters
        )

    @property
    def findings(self) -> list[str]:
        """Findings that any member reports; see `HostedSolver.findings`."""
        return sorted({text for part in self.parts for text in part.hosted.findings})

    def initialize(self, t0: float, u0: Floats) -> Sample:
        """See `Solver.initialize`."""
        samples = []
        for part in self.parts:
            try:
                samples.append(part.hosted.initialize(t0, u0[part.inputs].copy()))
            except SolverError as error:
                raise SolverError(f"member {part.name}: {error}") from error
        return self._joined(samples, t0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        """See `Solver.advance`; steps the members one after another."""
        coefficients, samples = u.coefficients, []
        for part in self.parts:
            try:
                samples.append(part.hosted.advance(t, h, coefficients[:, part.inputs].copy()))
            except SolverError as error:
                raise SolverError(f"member {part.name}: {error}") from error
        return self._joined(samples, t + h)

    def save_state(self) -> list[Any]:
        """States of the members, in order."""
        return [part.hosted.solver.save_state() for part in self.parts]

    def restore_state(self, state: list[Any]) -> None:
        """See `Solver.restore_state`."""
        for part, own in zip(self.parts, state, strict=True):
            part.hosted.solver.restore_state(own)

    def can_restore(self) -> bool:
        """Whether all members can restore their state."""
        return all(part.hosted.solver.can_restore() for part in self.parts)

    def jacobian(self, h: float, order: int) -> Floats | None:
        """Jacobians of the members, on the diagonal; see `Solver.jacobian`."""
        return self.jacobians("solver", 0.0, h, order, np.zeros(0))

    def jacobians(self, source: str, t: float, h: float, order: int, u: Floats) -> Floats | None:
        """See `HostedSolver.jacobian`; each member is probed alone."""
        gamma = np.zeros((order + 1, self._n_outputs, self.parts[-1].inputs.stop))
        if self.can_restore():
            self.bring_members()
        for part in self.parts:
            try:
                own = part.hosted.jacobian(source, t, h, order, u[part.inputs])
            except SolverError as error:
                raise SolverError(f"member {part.name}: {error}") from error
            if own is None:
                return None
            gamma[:, part.outputs, part.inputs] = own
        return gamma

    def bring_members(self) -> None:
        """Copy the group's state to its members, if it steps them in one call."""
        if type(self).advance is not Group.advance:
            for part, own in zip(self.parts, self.save_state(), strict=True):
                part.hosted.solver.restore_state(own)

    def set_parameter(self, name: str, value: float) -> None:
        """See `Solver.set_parameter`."""
        member, _, own = name.partition(".")
        hosted = next(part.hosted for part in self.parts if part.name == member)
        if reason := hosted.set_parameter(own, value):
            raise ValueError(reason)

    def stop(self, reason: str) -> None:
        """Stop all members, even if one of them raises."""
        for part in self.parts:
            part.hosted.stop(reason)

    def _joined(self, samples: Sequence[Sample], end: float) -> Sample:
        """Combine the members' samples into one at `end` [s]."""
        joined = Sample(np.concatenate([sample.y for sample in samples]))
        for key in ("y_mid", "y_mean"):
            values = [getattr(sample, key) for sample in samples]
            if not any(value is None for value in values):
                setattr(joined, key, np.concatenate(values))
        derivatives = [sample.dy for sample in samples if sample.dy is not None]
        if len(derivatives) == len(samples):
            count = min(len(dy) for dy in derivatives)
            joined.dy = np.concatenate([dy[:count] for dy in derivatives], axis=1)
        if any(sample.t_valid is not None for sample in samples):
            joined.t_valid = np.concatenate(
                [np.full(len(s.y), end) if s.t_valid is None else s.t_valid for s in samples]
            )
        events = [sample.event_t for sample in samples if sample.event_t is not None]
        joined.event_t = min(events, default=None)
        for part, sample in zip(self.parts, samples, strict=True):
            if sample.ended:
                joined.ended = f"member {part.name}: {sample.ended}"
                break
        return joined
