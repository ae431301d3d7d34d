"""Ports, connections and power bonds as flat index arrays.

All coupling variables of a session stand in two flat vectors, the outputs `y` (ny,) and the inputs
`u` (nu,), stacked over the subsystems in the order of the session file; ``u = L y + offset``
(METHODS section 1). Everything the macro step needs to know of the topology is here, as arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hilrt import units
from hilrt.config import Bond, InputOptions, Session, nearest
from hilrt.errors import ConfigError
from hilrt.link import Ports
from hilrt.solver import Floats, Port

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
    slices : list of slice, one per subsystem
    ports : dict
        ``subsystem.port`` to the slice of its channels and the port.
    """

    names: list[str]
    units: list[str]
    owner: Ints
    slices: list[slice]
    ports: dict[str, tuple[slice, Port]]

    def __len__(self) -> int:
        return len(self.names)

    def find(self, name: str, where: str) -> tuple[slice, Port]:
        """Slice and port of ``subsystem.port``; `ConfigError` with the nearest names."""
        if name not in self.ports:
            raise ConfigError(f"{where}: there is no port {name!r}{nearest(name, self.ports)}")
        return self.ports[name]


@dataclass(frozen=True)
class Connections:
    """Scalar connections, sorted by the input they act on; arrays of shape (nc,).

    `gain` includes the unit conversion. `free` marks those without an order of their own in the
    session file. `first` holds the position of the first connection of
    every connected input (for ``np.add.reduceat``), `target` the inputs in the same order.
    """

    source: Ints
    gain: Floats
    order: Ints
    free: Bools
    taylor: Bools
    first: Ints
    target: Ints


@dataclass(frozen=True)
class Bonds:
    """Power bonds, element by element; arrays of shape (ne,) unless stated.

    `effort`, `flow` index outputs; `effort_input`, `flow_input` the inputs they are connected to;
    `effort_gain`, `flow_gain` convert from the output's to the input's unit; `watt` converts the
    product of the outputs' units to W; `first` (nb,) is each bond's first element.
    `every` (nb,) is the number of base steps between its communication points (slower side).
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

    def __len__(self) -> int:
        return len(self.tables)

    @cached_property
    def converted(self) -> bool:
        """Whether any unit differs between the two ends."""
        return bool((self.effort_gain != 1.0).any() or (self.flow_gain != 1.0).any())

    @cached_property
    def own_inputs(self) -> bool:
        """Whether no two elements act on the same input."""
        return len(np.unique(self.effort_input)) == len(self.effort_input)

    @cached_property
    def watt_of_bond(self) -> Floats:
        """`watt` of each bond, shape (nb,): one unit holds for all elements of a bond."""
        return self.watt[self.first]


@dataclass(frozen=True)
class Network:
    """The session's topology. `every` (n,): base steps between communication points."""

    subsystems: list[str]
    every: Ints
    outputs: Side
    inputs: Side
    connections: Connections
    bonds: Bonds
    L: Floats
    offset: Floats
    u_start: Floats
    u_min: Floats
    u_max: Floats
    u_rate: Floats
    connected: Bools
    feedthrough: Bools  #: (ny, nu): the output depends directly on that input

    def initialization_order(self) -> list[int]:
        """Subsystems so that an output with feedthrough follows what it depends on.

        Members of a feedthrough loop come last, in the order of the session file; they start from
        their ports' start values.
        """
        n = len(self.subsystems)
        needs = np.zeros((n, n), dtype=bool)  # needs[a, b]: a's outputs need b's outputs
        through = (self.feedthrough @ (self.L != 0)).astype(bool)
        for i, j in zip(*np.nonzero(through), strict=True):
            needs[self.outputs.owner[i], self.outputs.owner[j]] = True
        order: list[int] = []
        while len(order) < n:
            ready = [
                s for s in range(n) if s not in order and not (needs[s] & ~_mask(order, n)).any()
            ]
            order += ready or [s for s in range(n) if s not in order]
        return order


def _mask(indices: list[int], n: int) -> Bools:
    mask = np.zeros(n, dtype=bool)
    mask[indices] = True
    return mask


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
        Naming the connection or bond that does not fit the ports.
    """
    subsystems = list(ports)
    outputs = _side(subsystems, {name: p.outputs for name, p in ports.items()})
    inputs = _side(
        subsystems,
        {
            name: _narrowed(name, p.inputs, tables.subsystems[name].inputs)
            for name, p in ports.items()
        },
    )
    every = np.array([tables.subsystems[name].every for name in subsystems], dtype=np.intp)
    connections, L, offset = _connections(tables, outputs, inputs)
    bonds = _bonds(tables, outputs, inputs, L, every)
    flat = [port for _, port in inputs.ports.values() for _ in range(port.size)]
    connected = np.zeros(len(inputs), dtype=bool)
    connected[connections.target] = True
    return Network(
        subsystems=subsystems,
        every=every,
        outputs=outputs,
        inputs=inputs,
        connections=connections,
        bonds=bonds,
        L=L,
        offset=offset,
        u_start=np.array([p.start for p in flat]),
        u_min=np.array([p.min for p in flat]),
        u_max=np.array([p.max for p in flat]),
        u_rate=np.array([p.max_rate for p in flat]),
        connected=connected,
        feedthrough=_feedthrough(outputs, inputs),
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
            f"[subsystems.{subsystem}.inputs] {error}, the session file's and the subsystem's own "
            "bounds taken together; change min or max"
        ) from None


def narrow(port: Port, options: InputOptions | None) -> Port:
    """An input port with the session file's bounds and start value put in."""
    if options is None:
        return port
    low = port.min if options.min is None else max(port.min, options.min)
    high = port.max if options.max is None else min(port.max, options.max)
    start = port.start if options.start is None else options.start
    return Port(
        name=port.name,
        unit=port.unit,
        start=min(max(start, low), high),
        min=low,
        max=high,
        max_rate=port.max_rate
        if options.max_rate is None
        else min(port.max_rate, options.max_rate),
        safe=port.safe if options.safe is None else options.safe,
        size=port.size,
        description=port.description,
    )


def _side(subsystems: list[str], ports: Mapping[str, tuple[Port, ...]]) -> Side:
    names: list[str] = []
    unit_of: list[str] = []
    owner: list[int] = []
    slices: list[slice] = []
    by_name: dict[str, tuple[slice, Port]] = {}
    for s, subsystem in enumerate(subsystems):
        start = len(names)
        for port in ports[subsystem]:
            channels = [f"{subsystem}.{channel}" for channel in port.channels()]
            by_name[f"{subsystem}.{port.name}"] = (slice(len(names), len(names) + port.size), port)
            names += channels
            unit_of += [port.unit] * port.size
            owner += [s] * port.size
        slices.append(slice(start, len(names)))
    return Side(names, unit_of, np.array(owner, dtype=np.intp), slices, by_name)


def _connections(
    tables: Session, outputs: Side, inputs: Side
) -> tuple[Connections, Floats, Floats]:
    default = tables.master.extrapolation
    rows: list[tuple[int, int, float, int, bool]] = []
    L = np.zeros((len(inputs), len(outputs)))
    offset = np.zeros(len(inputs))
    for i, table in enumerate(tables.connections):
        where = f"[connections.{i}] {table.source} -> {table.target}"
        source, out_port = outputs.find(table.source, where)
        target, in_port = inputs.find(table.target, where)
        if out_port.size != in_port.size:
            raise ConfigError(
                f"{where}: {out_port.size} elements do not fit {in_port.size}; connect equal sizes"
            )
        try:
            factor, shift = units.conversion(out_port.unit, in_port.unit)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        order = default.order if table.order is None else table.order
        for a, b in zip(_range(source), _range(target), strict=True):
            rows.append((b, a, table.gain * factor, order, table.order is None))
            L[b, a] += table.gain * factor
            offset[b] += table.gain * shift + table.offset
    rows.sort(key=lambda row: row[0])
    target_of = np.array([row[0] for row in rows], dtype=np.intp)
    inputs_used, first = np.unique(target_of, return_index=True)
    return (
        Connections(
            source=np.array([row[1] for row in rows], dtype=np.intp),
            gain=np.array([row[2] for row in rows], dtype=np.float64),
            order=np.array([row[3] for row in rows], dtype=np.intp),
            free=np.array([row[4] for row in rows], dtype=bool),
            taylor=np.full(len(rows), default.source == "taylor"),
            first=first.astype(np.intp),
            target=inputs_used,
        ),
        L,
        offset,
    )


def _range(part: slice) -> range:
    return range(part.start, part.stop)


def _bonds(tables: Session, outputs: Side, inputs: Side, L: Floats, every: Ints) -> Bonds:
    columns: dict[str, list[float]] = {
        key: [] for key in ("effort", "flow", "ein", "fin", "eg", "fg", "watt", "bond")
    }
    first: list[int] = []
    bond_every: list[int] = []
    for b, table in enumerate(tables.bonds):
        where = f"[bonds.{table.name}]"
        effort, e_port = outputs.find(table.effort, f"{where} effort")
        flow, f_port = outputs.find(table.flow, f"{where} flow")
        if e_port.size != f_port.size:
            raise ConfigError(f"{where}: effort has {e_port.size} elements, flow {f_port.size}")
        watt = units.power_factor(e_port.unit, f_port.unit)
        first.append(len(columns["bond"]))
        e_owner, f_owner = outputs.owner[effort.start], outputs.owner[flow.start]
        bond_every.append(int(max(every[e_owner], every[f_owner])))
        for e, f in zip(_range(effort), _range(flow), strict=True):
            e_in = _partner(L, inputs, e, f_owner, f"{where} effort = {table.effort!r}")
            f_in = _partner(L, inputs, f, e_owner, f"{where} flow = {table.flow!r}")
            if table.correction.residual == "sent":
                _refuse_sums(L, inputs, (e_in, f_in), where)
            values = (e, f, e_in, f_in, L[e_in, e], L[f_in, f], watt, b)
            for key, value in zip(columns, values, strict=True):
                columns[key].append(value)
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
    )


def _partner(L: Floats, inputs: Side, output: int, subsystem: np.intp, where: str) -> int:
    """The input of the bond's other subsystem that this output is connected to."""
    candidates = np.flatnonzero((L[:, output] != 0) & (inputs.owner == subsystem))
    if len(candidates) != 1:
        raise ConfigError(
            f"{where}: is connected to {len(candidates)} inputs of the bond's other subsystem; "
            "a power bond needs exactly one [[connections]] entry each way"
        )
    return int(candidates[0])


def _refuse_sums(L: Floats, inputs: Side, used: tuple[int, ...], where: str) -> None:
    """What was sent to an input that adds up connections is not one bond's effort or flow."""
    for i in used:
        if np.count_nonzero(L[i]) > 1:
            raise ConfigError(
                f"{where}: input {inputs.names[i]!r} adds up several connections, so that the "
                "bond's share of what was sent is not known; give it an input of its own, or set "
                'correction.residual = "held"'
            )


def _feedthrough(outputs: Side, inputs: Side) -> Bools:
    matrix = np.zeros((len(outputs), len(inputs)), dtype=bool)
    for name, (part, port) in outputs.ports.items():
        subsystem = name.rpartition(".")[0]
        for dependency in port.feedthrough:
            where = f"output {name!r} feedthrough = {dependency!r}"
            columns, _ = inputs.find(f"{subsystem}.{dependency}", where)
            matrix[part, columns] = True
    return matrix
