"""Ports, connections and power bonds as flat index arrays.

Two flat vectors contain all coupling variables of a session, the outputs `y` (ny,) and the inputs
`u` (nu,), stacked over the subsystems in the order of the session file; ``u = L y + offset`` (Haid
et al. 2022, eq. 5). The macro step uses the topology only in this form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Final, NamedTuple

import msgspec
import numpy as np

from hilrt.config import units
from hilrt.config.from_toml import nearest
from hilrt.config.read_values import connection_place
from hilrt.config.structs import Connection, InputOptions, Session
from hilrt.errors import ConfigError
from hilrt.solver import Floats, Port, Ports
from hilrt.tables.bonds import Bonds, build_bonds, span
from hilrt.tables.ports import Bools, Connections, Coupled, Ints, Side
from hilrt.tables.relation import Relation

#: Maximum coupled outputs of a session whose subsystems are probed before the first tick. Probing
#: takes steps of every subsystem, and the coupled response needs a matrix over all ports.
MOST_TRIED: Final = 256
#: Prefix of an input in ``[monitor.adjust]``: an operator may drive it.
OPERATED: Final = "inputs."


@dataclass(frozen=True)
class Network:
    """The session's topology. `every` (n,): base steps between communication points.

    `members` are the subsystems with groups replaced by their members: connections refer to
    members, samples and steps to subsystems.
    """

    subsystems: list[str]
    members: list[str]
    every: Ints
    outputs: Side
    inputs: Side
    connections: Connections
    bonds: Bonds
    L: Relation
    offset: Floats
    u_start: Floats
    u_min: Floats
    u_max: Floats
    max_rate: Floats
    max_jerk: Floats
    connected: Bools
    feedthrough: Relation  #: (ny, nu): the output depends directly on that input

    def initialization_order(self, needed: Iterable[tuple[int, int]] = ()) -> list[int]:
        """Subsystems ordered so that an output with feedthrough follows its inputs.

        `needed` contains further pairs of a subsystem and its predecessor.

        Members of a feedthrough loop come last, in the order of the session file; they start from
        their ports' start values and are iterated from there (`hilrt.session.assembly`).
        """
        through, of = self._through(), self.outputs.owner
        members = self.outputs.member
        inside = of[through.row] == of[through.column]  # a group's members depend on each other
        inside &= members[through.row] != members[through.column]
        rows, columns = of[through.row[~inside]], of[through.column[~inside]]
        follows = zip(rows.tolist(), columns.tolist(), strict=True)
        needs: dict[int, set[int]] = {s: set() for s in range(len(self.subsystems))}
        for a, b in (*follows, *needed):
            needs[a].add(b)
        sorter, order = TopologicalSorter(needs), list[int]()
        with suppress(CycleError):  # subsystems outside loops are sorted anyway
            sorter.prepare()
        while ready := sorter.get_ready():
            order += sorted(ready)
            sorter.done(*ready)
        return order + sorted(needs.keys() - set(order))

    def entangled(self) -> list[int]:
        """Subsystems in cycles of direct dependencies that include a group.

        The outputs may be in no loop, but if a group's members depend on each other through other
        subsystems, no order of initialization is right.
        """
        through, of, n = self._through(), self.outputs.owner, len(self.subsystems)
        loops = Relation.of(of[through.row], of[through.column], (n, n)).loops()
        _, first = np.unique(self.outputs.member, return_index=True)
        is_group = np.bincount(of[first], minlength=n) > 1
        return sorted(s for loop in loops for s in loop if is_group[loop].any())

    def loop_members(self) -> list[int]:
        """Subsystems with outputs that depend on themselves without a state in between."""
        outputs = [output for loop in self._through().loops() for output in loop]
        return sorted(set(self.outputs.owner[outputs].tolist()))

    @cached_property
    def fed(self) -> Relation:
        """Relation of inputs to the other subsystems that feed them, shape (nu, n subsystems).

        Members of a group count as subsystems here.
        """
        giver = self.outputs.owner[self.L.column]
        other = self.outputs.member[self.L.column] != self.inputs.member[self.L.row]
        shape = (len(self.inputs), len(self.subsystems))
        return Relation.of(self.L.row[other], giver[other], shape)

    @cached_property
    def givers(self) -> Relation:
        """Members that feed each member by any connection, shape (n, n)."""
        takes, n = self.inputs.member[self.connections.targets()], len(self.members)
        return Relation.of(takes, self.outputs.member[self.connections.source], (n, n))

    @cached_property
    def bonds_between(self) -> Counter[tuple[int, int]]:
        """Number of bonds between two members, smaller number first."""
        of, bonds = self.outputs.member, self.bonds
        ends = np.sort((of[bonds.effort], of[bonds.flow]), axis=0).T.tolist()
        pairs = {(b, a, z) for b, (a, z) in zip(bonds.of_element.tolist(), ends, strict=True)}
        return Counter((a, z) for _, a, z in pairs)

    def corrected_efforts(self, method: str) -> Bools:
        """Outputs that are efforts of bonds corrected by `method`, shape (ny,)."""
        mask = np.zeros(len(self.outputs), dtype=bool)
        bonds = self.bonds
        outputs = np.concatenate((bonds.effort, bonds.more))
        elements = np.concatenate((np.arange(len(bonds.effort)), bonds.more_of))
        for output, bond in zip(outputs, bonds.of_element[elements], strict=True):
            mask[output] |= bonds.tables[bond].correction.method == method
        return mask

    def _through(self) -> Relation:
        """Outputs that an output depends on directly, shape (ny, ny)."""
        return self.feedthrough @ self.L.pattern()


def coupled_ports(tables: Session, subsystem: str) -> Coupled:
    """Ports of a subsystem that the session file's connections use."""
    targets = (tables.split(c.target) for c in tables.connections)
    sources = (tables.split(c.source) for c in tables.connections)
    inputs, outputs = ({p for s, p in ends if s == subsystem} for ends in (targets, sources))
    return Coupled(inputs, outputs)


def build_network(ports: Mapping[str, Ports], tables: Session) -> Network:
    """Flatten a session's topology.

    Parameters
    ----------
    ports : mapping of str to Ports
        The ports of each subsystem, in the order of the session file.
    tables : Session
        The session file.

    Raises
    ------
    ConfigError
        If a connection or bond, which is named, does not fit the ports.
    """
    ports, tables = connect_reads(ports, tables)
    subsystems = list(ports)
    outputs = _side(tables, {name: p.outputs for name, p in ports.items()})
    inputs = _side(
        tables,
        {
            name: _narrowed(name, p.inputs, tables.subsystems[name].inputs)
            for name, p in ports.items()
        },
    )
    every = np.array([tables.subsystems[name].every for name in subsystems], dtype=np.intp)
    connections, L, offset = _connections(tables, outputs, inputs)
    bonds = build_bonds(tables, outputs, inputs, connections, L, every)
    flat = [port for _, port in inputs.ports.values() for _ in range(port.size)]
    connected = np.zeros(len(inputs), dtype=bool)
    connected[connections.targets()[connections.driven < 0]] = True
    return Network(
        subsystems=subsystems,
        members=members_of(subsystems, tables),
        every=every,
        outputs=outputs,
        inputs=inputs,
        connections=connections,
        bonds=bonds,
        L=L,
        offset=offset,
        u_start=np.array([p.start for p in flat], dtype=np.float64),
        u_min=np.array([p.min for p in flat], dtype=np.float64),
        u_max=np.array([p.max for p in flat], dtype=np.float64),
        max_rate=np.array([p.max_rate for p in flat], dtype=np.float64),
        max_jerk=np.array([p.max_jerk for p in flat], dtype=np.float64),
        connected=connected,
        feedthrough=_feedthrough(tables, outputs, inputs),
    )


def _narrowed(
    subsystem: str, ports: tuple[Port, ...], options: Mapping[str, InputOptions]
) -> tuple[Port, ...]:
    known = {port.name for port in ports}
    for name in options:
        if name not in known:
            raise ConfigError(
                f"[subsystems.{subsystem}.inputs.{name}]: there is no such input"
                f"{nearest(name, known)}"
            )
    try:
        return tuple(narrow(port, options.get(port.name)) for port in ports)
    except ValueError as error:
        raise ConfigError(
            f"[subsystems.{subsystem}.inputs] {error}, combining the bounds of the session file "
            "and of the subsystem"
            "; change start, min or max"
        ) from None


def narrow(port: Port, options: InputOptions | None) -> Port:
    """An input port with the session file's bounds and start value applied."""
    if options is None:
        return port
    low = port.min if options.min is None else max(port.min, options.min)
    high = port.max if options.max is None else min(port.max, options.max)
    start = port.start if options.start is None else options.start
    if options.start is not None and low <= high and not low <= start <= high:
        raise ValueError(f"port {port.name!r}: start {start:g} lies outside {low:g} to {high:g}")
    return Port(
        name=port.name,
        unit=port.unit,
        start=min(max(start, low), high),
        min=low,
        max=high,
        max_rate=min(port.max_rate, options.max_rate or port.max_rate),
        max_jerk=min(port.max_jerk, options.max_jerk or port.max_jerk),
        safe=port.safe if options.safe is None else options.safe,
        size=port.size,
        description=port.description,
    )


def _side(tables: Session, ports: Mapping[str, tuple[Port, ...]]) -> Side:
    names: list[str] = []
    unit_of: list[str] = []
    owner: list[int] = []
    member: list[int] = []
    slices: list[slice] = []
    by_name: dict[str, tuple[slice, Port]] = {}
    number = {name: i for i, name in enumerate(members_of(ports, tables))}
    for s, (subsystem, own) in enumerate(ports.items()):
        start = len(names)
        for port in own:
            name = tables.joined(subsystem, port.name)
            by_name[name] = (slice(len(names), len(names) + port.size), port)
            names += [tables.joined(subsystem, channel) for channel in port.channels()]
            unit_of += [port.unit] * port.size
            owner += [s] * port.size
            member += [number[name.partition(".")[0]]] * port.size
        slices.append(slice(start, len(names)))
    owners, members = (np.array(values, dtype=np.intp) for values in (owner, member))
    return Side(names, unit_of, owners, members, slices, by_name)


def members_of(subsystems: Iterable[str], tables: Session) -> list[str]:
    """The subsystems, with groups replaced by their members."""
    options = tables.subsystems
    return [member for name in subsystems for member in options[name].member_names or (name,)]


class ScalarConnection(NamedTuple):
    """A scalar connection; `held` by order 0, because one of its ends is a test sequence."""

    target: int
    source: int
    gain: float
    order: int
    free: bool
    held: bool
    raw: bool
    offset: float
    driven: int


def _connections(
    tables: Session, outputs: Side, inputs: Side
) -> tuple[Connections, Relation, Floats]:
    default = tables.master.extrapolation
    sequences = {name for name, options in tables.subsystems.items() if options.is_sequence}
    rows: list[ScalarConnection] = []
    others = _inputs_with_others(tables)
    offset = np.zeros(len(inputs))
    for i, table in enumerate(tables.connections):
        where = connection_place(i, table.source, table.target)
        source, out_port = outputs.find(table.source, where)
        target, in_port = inputs.find(table.target, where)
        if out_port.size != in_port.size:
            raise ConfigError(
                f"{where}: {out_port.size} elements do not fit {in_port.size}; connect equal sizes"
            )
        try:
            factor, shift = units.conversion(out_port.unit, in_port.unit)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}; {units.MISFIT_REMEDY}") from None
        order = default.order if table.order is None else table.order
        gain, constant = table.gain * factor, table.gain * shift + table.offset
        driven = _companion(tables, outputs, table) if table.target in others else -1
        raw = table.target.partition(".")[0] in sequences
        if held := raw or table.source.partition(".")[0] in sequences:
            order = 0
        for a, b in zip(span(source), span(target), strict=True):
            free = table.order is None and not held
            rows.append(ScalarConnection(b, a, gain, order, free, held, raw, constant, driven))
            if driven < 0:  # others count only while their sequence drives
                offset[b] += constant
    always = [row for row in rows if row.driven < 0]
    L = Relation.of(
        [row.target for row in always],
        [row.source for row in always],
        (len(inputs), len(outputs)),
        [row.gain for row in always],
    )
    rows.sort(key=lambda row: row.target)
    target_of = np.array([row.target for row in rows], dtype=np.intp)
    inputs_used, first = np.unique(target_of, return_index=True)
    return (
        Connections(
            source=np.array([row.source for row in rows], dtype=np.intp),
            gain=np.array([row.gain for row in rows], dtype=np.float64),
            order=np.array([row.order for row in rows], dtype=np.intp),
            free=np.array([row.free for row in rows], dtype=bool),
            taylor=np.array([default.source == "taylor" and not row.held for row in rows], bool),
            raw=np.array([row.raw for row in rows], dtype=bool),
            offset=np.array([row.offset for row in rows], dtype=np.float64),
            driven=np.array([row.driven for row in rows], dtype=np.intp),
            first=first.astype(np.intp),
            target=inputs_used,
        ),
        L,
        offset,
    )


def _inputs_with_others(tables: Session) -> set[str]:
    """Inputs that more than one source may drive: several connections, stimuli, operators."""
    targets = Counter(connection.target for connection in tables.connections)
    several = {target for target, count in targets.items() if count > 1}
    stimulated = {stimulus.input.partition("[")[0] for stimulus in tables.stimuli}
    return several | stimulated | {key.removeprefix(OPERATED) for key in tables.monitor.adjust}


def _companion(tables: Session, outputs: Side, connection: Connection) -> int:
    """Output that indicates whether a sequence drives over the connection; -1 if none does."""
    subsystem, _ = tables.split(connection.source)
    name = f"{connection.source}.driven"
    if not tables.subsystems[subsystem].is_sequence or name not in outputs.ports:
        return -1
    return int(outputs.ports[name][0].start)


def _feedthrough(tables: Session, outputs: Side, inputs: Side) -> Relation:
    rows, columns = list[int](), list[int]()
    for name, (part, port) in outputs.ports.items():
        subsystem, _ = tables.split(name)
        for dependency in port.feedthrough:
            where = f"output {name!r} feedthrough = {dependency!r}"
            on, _ = inputs.find(tables.joined(subsystem, dependency), where)
            for output in span(part):
                rows += [output] * (on.stop - on.start)
                columns += span(on)
    return Relation.of(rows, columns, (len(outputs), len(inputs)))


def connect_reads(ports: Mapping[str, Ports], tables: Session) -> tuple[dict[str, Ports], Session]:
    """Set the units of ports that read signals; add a connection to the tables for each.

    Names that are not outputs of the known `ports` stay unchanged.
    """
    found = dict(ports)
    connections = list(tables.connections)
    sources = {
        tables.joined(name, port.name): port for name, p in ports.items() for port in p.outputs
    }
    for name, known in ports.items():
        if not tables.subsystems[name].is_sequence:
            continue
        inputs = tuple(_like(port, sources.get(port.name)) for port in known.inputs)
        found[name] = Ports(inputs, known.outputs)
        for port in inputs:
            if port.name in sources:
                target = f"{name}.{port.name}"
                connections.append(Connection(source=port.name, target=target, order=0))
    return found, msgspec.structs.replace(tables, connections=connections)


def _like(port: Port, source: Port | None) -> Port:
    return port if source is None else replace(port, unit=source.unit, size=source.size)
