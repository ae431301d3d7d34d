"""Inputs and outputs of all subsystems as flat vectors, and the connections between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.config import units
from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError
from hilrt.solver import Floats, Port, Ports

Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Side:
    """All inputs or all outputs: names ``subsystem.port`` of the scalar channels, in flat order.

    Attributes
    ----------
    names, units : list of str, length n
    owner : ndarray of int, shape (n,)
        Index of the subsystem that each channel belongs to.
    member : ndarray of int, shape (n,)
        The same, with the members of a group counted individually.
    slices : list of slice, one per subsystem
    ports : dict
        ``subsystem.port`` to the slice of its channels and the port.
    """

    names: list[str]
    units: list[str]
    owner: Ints
    member: Ints
    slices: list[slice]
    ports: dict[str, tuple[slice, Port]]

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Position of every scalar channel, by its name."""
        return {name: i for i, name in enumerate(self.names)}

    def find(self, name: str, where: str) -> tuple[slice, Port]:
        """Slice and port of ``subsystem.port``; raise `ConfigError` with the nearest names."""
        if name not in self.ports:
            raise ConfigError(f"{where}: there is no port {name!r}{nearest(name, self.ports)}")
        return self.ports[name]


@dataclass(frozen=True)
class Connections:
    """Scalar connections, sorted by the input they act on; arrays of shape (nc,).

    `gain` includes the unit conversion. `free` marks those without an order of their own in the
    session file, `raw` those by which a test sequence reads. `offset` is in the input's unit.
    `driven` is the output that indicates whether a sequence drives over the connection, -1 if none
    does.
    `first` holds the position of the first connection of every connected input (for
    ``np.add.reduceat``), `target` the inputs in the same order.
    """

    source: Ints
    gain: Floats
    order: Ints
    free: Bools
    taylor: Bools
    raw: Bools
    offset: Floats
    driven: Ints
    first: Ints
    target: Ints

    def targets(self) -> Ints:
        """Input that each connection acts on, shape (nc,)."""
        counts = np.diff(np.append(self.first, len(self.source)))
        return np.repeat(self.target, counts)

    def orders_at(self, inputs: Sequence[int]) -> list[int]:
        """Orders of all connections that act on given inputs."""
        ends = np.append(self.first, len(self.source))
        return [
            order
            for to in inputs
            if (k := np.searchsorted(self.target, to)) < len(self.target) and self.target[k] == to
            for order in self.order[ends[k] : ends[k + 1]].tolist()
        ]

    def order_of(self, output: int, to: int) -> int:
        """Order of the connection from an output to an input."""
        begin = self.first[np.searchsorted(self.target, to)]
        return int(self.order[begin + np.argmax(self.source[begin:] == output)])


class Coupled(NamedTuple):
    """Names of a subsystem's inputs and outputs that connections use."""

    inputs: set[str]
    outputs: set[str]


def wrong_ports(own: Ports, ports: Ports, coupled: Coupled) -> Iterator[str]:
    """Reasons why a model cannot replace a subsystem, one line each, with a remedy.

    Parameters
    ----------
    own : Ports
        The model's.
    ports : Ports
        The subsystem's.
    coupled : Coupled
        The ports that connections use; the model may lack the others.
    """
    inputs = ("input", own.inputs, ports.inputs, coupled.inputs)
    outputs = ("output", own.outputs, ports.outputs, coupled.outputs)
    for direction, mine, theirs, needed in (inputs, outputs):
        given = {port.name: port for port in mine}
        wanted = {port.name: port for port in theirs}
        for name in sorted(wanted.keys() & needed - given.keys()):
            unit = wanted[name].unit or "a plain number"
            hint = nearest(name, given) or "; give the model one"
            yield f"has no {direction} {name!r} ({unit}), which is connected{hint}"
        for name, port in given.items():
            if name in wanted:
                yield from _misfits(direction, port, wanted[name])
            elif direction == "input":
                hint = nearest(name, wanted) or "; make it a parameter of the model"
                yield f"has an input {name!r} that the subsystem lacks{hint}"


def _misfits(direction: str, own: Port, wanted: Port) -> Iterator[str]:
    if own.size != wanted.size:
        yield (
            f"its {direction} {own.name!r} has {own.size} elements, the subsystem's "
            f"{wanted.size}; use the same number"
        )
    try:
        units.conversion(own.unit, wanted.unit)
    except ConfigError as error:
        remedy = "give the model's port the unit of the subsystem's port, or a compatible one"
        yield f"its {direction} {own.name!r}: {error}; {remedy}"
