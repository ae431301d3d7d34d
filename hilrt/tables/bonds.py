"""Power bonds as flat index arrays: efforts, flows, and the inputs connected to them.

A bond's effort may be the sum of several outputs at a summing junction; one residual and one
correction then belong to the sum (Rodríguez et al. 2022, section 4.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hilrt.config import units
from hilrt.config.structs import Bond, Session
from hilrt.errors import ConfigError
from hilrt.solver import Floats
from hilrt.tables.ports import Connections, Ints, Side
from hilrt.tables.relation import Relation


@dataclass(frozen=True)
class Bonds:
    """Power bonds, element by element; arrays of shape (ne,) unless stated.

    `effort`, `flow` index outputs; `effort_input`, `flow_input` the inputs they are connected to;
    `effort_gain`, `flow_gain` convert from the output's to the input's unit; `watt` converts the
    product of the outputs' units to W; `of_element` is each element's bond. For each bond, `first`
    (nb,) is its first element, `every` (nb,) the base steps between points of its slower side.

    If a bond's effort is the sum of several outputs, `effort` contains the first of them, and
    `more` the others, with `more_of` the element that each adds to, both of shape (nm,); all of
    them receive the same flow as the first. `others`, shape (nc, 2 ne), contains the gains of
    connections that act on the effort inputs, then on the flow inputs, without belonging to the
    bond.
    """

    tables: list[Bond]
    effort: Ints
    flow: Ints
    effort_input: Ints
    flow_input: Ints
    effort_gain: Floats
    flow_gain: Floats
    watt: Floats
    first: Ints
    of_element: Ints
    every: Ints
    more: Ints
    more_of: Ints
    others: Relation

    def __len__(self) -> int:
        return len(self.tables)

    def efforts(self, y: Floats) -> Floats:
        """Effort of each element in the outputs `y` (ny,), shape (ne,)."""
        e: Floats = y[self.effort]
        if len(self.more):
            np.add.at(e, self.more_of, y[self.more])
        return e

    def elements(self, b: int) -> slice:
        """Elements of bond number `b`."""
        return slice(*np.searchsorted(self.of_element, (b, b + 1)).tolist())

    @cached_property
    def inputs(self) -> Ints:
        """Effort inputs and then flow inputs, shape (2 ne,)."""
        return np.concatenate((self.effort_input, self.flow_input))

    @cached_property
    def shared(self) -> bool:
        """Whether any bond's input also has contributions from outside the bond."""
        return len(self.others) > 0


def span(part: slice) -> range:
    """Indices in a slice that has a start and a stop."""
    return range(part.start, part.stop)


def build_bonds(
    tables: Session,
    outputs: Side,
    inputs: Side,
    connections: Connections,
    L: Relation,
    every: Ints,
) -> Bonds:
    """Find every bond's ports and connections; raise `ConfigError` if they are unsuitable."""
    columns: dict[str, list[float]] = {
        key: [] for key in ("effort", "flow", "ein", "fin", "eg", "fg", "watt", "bond")
    }
    first: list[int] = []
    bond_every: list[int] = []
    more: list[int] = []
    more_of: list[int] = []
    for b, table in enumerate(tables.bonds):
        where = f"[bonds.{table.name}]"
        effort, e_port = outputs.find(table.efforts[0], f"{where} effort")
        flow, f_port = outputs.find(table.flow, f"{where} flow")
        if e_port.size != f_port.size:
            raise ConfigError(f"{where}: effort has {e_port.size} elements, flow {f_port.size}")
        watt = units.power_factor(e_port.unit, f_port.unit)
        first.append(len(columns["bond"]))
        e_owner, f_owner = outputs.owner[effort.start], outputs.owner[flow.start]
        bond_every.append(int(max(every[e_owner], every[f_owner])))
        e_member, f_member = outputs.member[effort.start], outputs.member[flow.start]
        start = len(columns["bond"])
        for e, f in zip(span(effort), span(flow), strict=True):
            e_in = _partner(L, inputs, e, f_member, f"{where} effort = {table.efforts[0]!r}")
            f_in = _partner(L, inputs, f, e_member, f"{where} flow = {table.flow!r}")
            values = (e, f, e_in, f_in, L.value(e_in, e), L.value(f_in, f), watt, b)
            for key, value in zip(columns, values, strict=True):
                columns[key].append(value)
        for name in table.efforts[1:]:
            part = _summand(name, table, outputs, inputs, connections, L, every)
            more += part
            more_of += range(start, start + e_port.size)
    index = {
        key: np.array(columns[key], dtype=np.intp)
        for key in ("effort", "flow", "ein", "fin", "bond")
    }
    return Bonds(
        tables=list(tables.bonds),
        effort=index["effort"],
        flow=index["flow"],
        effort_input=index["ein"],
        flow_input=index["fin"],
        effort_gain=np.array(columns["eg"], dtype=np.float64),
        flow_gain=np.array(columns["fg"], dtype=np.float64),
        watt=np.array(columns["watt"], dtype=np.float64),
        first=np.array(first, dtype=np.intp),
        of_element=index["bond"],
        every=np.array(bond_every, dtype=np.intp),
        more=np.array(more, dtype=np.intp),
        more_of=np.array(more_of, dtype=np.intp),
        others=_others(connections, index, more, more_of),
    )


def _summand(
    name: str,
    table: Bond,
    outputs: Side,
    inputs: Side,
    connections: Connections,
    L: Relation,
    every: Ints,
) -> Sequence[int]:
    """Outputs of another effort of a bond, whose connections must equal those of the first."""
    where = f"[bonds.{table.name}] effort = {name!r}"
    like = f"the first effort {table.efforts[0]!r}"
    (part, port), (lead, lead_port) = outputs.find(name, where), outputs.find(table.efforts[0], "")
    flow, _ = outputs.find(table.flow, where)
    if (port.size, port.unit) != (lead_port.size, lead_port.unit):
        raise ConfigError(f"{where}: needs the size and the unit of {like}")
    member, f_member = outputs.member[part.start], outputs.member[flow.start]
    if every[outputs.owner[part.start]] != every[outputs.owner[lead.start]]:
        raise ConfigError(f"{where}: needs the same `every` as {like}")
    for e, e0, f in zip(span(part), span(lead), span(flow), strict=True):
        if _partner(L, inputs, e, f_member, where) != _partner(L, inputs, e0, f_member, where):
            raise ConfigError(f"{where}: is not connected to the same input as {like}")
        ways = [
            (L.value(to, f), connections.order_of(f, to))
            for to in (
                _partner(L, inputs, f, member, f"{where} flow = {table.flow!r}"),
                _partner(L, inputs, f, outputs.member[e0], f"{where} flow = {table.flow!r}"),
            )
        ]
        if ways[0] != ways[1]:
            raise ConfigError(
                f"{where}: its flow {table.flow!r} does not arrive in the same unit and order "
                f"as at {like}; make the [[connections]] equal"
            )
    return span(part)


def _others(
    connections: Connections,
    index: Mapping[str, Ints],
    more: Sequence[int],
    more_of: Sequence[int],
) -> Relation:
    """Gains (nc, 2 ne) of contributions to a bond's inputs from outside the bond."""
    ne = len(index["effort"])
    nc, nu = len(connections.source), int(connections.target.max(initial=-1)) + 1
    at = np.concatenate((index["ein"], index["fin"]))
    arrives = Relation.of(at, np.arange(2 * ne), (nu, 2 * ne))
    found = Relation.of(np.arange(nc), connections.targets(), (nc, nu), connections.gain) @ arrives
    own = [(index["effort"], np.arange(ne)), (more, more_of), (index["flow"], ne + np.arange(ne))]
    keys = [2 * ne * np.array(o, np.intp) + np.array(c, np.intp) for o, c in own]
    keep = ~np.isin(2 * ne * connections.source[found.row] + found.column, np.concatenate(keys))
    return Relation(found.shape, found.row[keep], found.column[keep], found.weight[keep])


def _partner(L: Relation, inputs: Side, output: int, member: np.intp, where: str) -> int:
    """Input of the bond's other subsystem to which this output is connected."""
    targets = L.transposed.neighbours(output)
    candidates = targets[inputs.member[targets] == member]
    if len(candidates) != 1:
        raise ConfigError(
            f"{where}: is connected to {len(candidates)} inputs of the bond's other subsystem; "
            "a power bond needs exactly one [[connections]] entry each way"
        )
    return int(candidates[0])
