"""Checks of connections, power bonds and algebraic loops."""

from __future__ import annotations

import graphlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import msgspec

from hilrt.config import units
from hilrt.config.from_toml import nearest
from hilrt.config.problems import Findings, Problem, TomlLines
from hilrt.config.read_values import LISTS, in_words
from hilrt.config.session_file import SessionFile
from hilrt.config.structs import Bond, Connection, Session
from hilrt.errors import ConfigError
from hilrt.solver import Port, Ports

#: Largest number of algebraic loops listed: the search for each visits all ports.
MOST_LOOPS = 20
#: Tables that are lists of tables, or contain one.
_WITH_LISTS = (*LISTS, "record")


def worded(problems: Iterable[Problem], tables: Session) -> list[Problem]:
    """Replace list entries in findings, ``connections.0``, by names counted from 1."""
    lists = {name: msgspec.to_builtins(getattr(tables, name)) for name in _WITH_LISTS}
    return [worded_line(problem, lists) for problem in problems]


def worded_line(problem: Problem, tables: Mapping[str, Any]) -> Problem:
    """Reword one finding as `worded` does, given the file's lists."""
    text = str(problem)
    named = in_words(text, tables)
    return problem if named == text else replace(problem, line=named)


def located(problems: Iterable[Problem], session: SessionFile) -> list[Problem]:
    """Add the line in the file to findings; values from ``--set`` have none."""
    lines = TomlLines(session.text)
    overridden = [item.partition("=")[0] for item in session.overrides]
    found = []
    for problem in problems:
        key = problem.key.strip('"')
        path = f"{problem.table}.{key}" if key else problem.table
        if not any(path == other or path.startswith(f"{other}.") for other in overridden):
            problem = replace(problem, at=lines.of(path))
        found.append(problem)
    return found


Direction = Literal["output", "input"]


class Place(NamedTuple):
    """``subsystem.port``; `port` is None if only its name is known.

    `member` is the subsystem, or the member of a group.
    """

    subsystem: str
    name: str
    port: Port | None
    member: str


@dataclass(frozen=True)
class Topology:
    """The session and its known ports.

    Attributes
    ----------
    ports : dict of str to Ports or None
    physical : set of str
        The benches.
    refused : set of str
        Subsystems whose own problems, including those of their limits, are already reported.
    unclear : set of str
        Ports, ``subsystem.port``, of which only the name is known.
    final : set of str
        Subsystems that are known not to save and restore their state.
    wrong_starts, unsupported_variables : dict of str
        Reasons by ``subsystem.name``: for start values that the subsystem refuses, and for
        variables that cannot be ports.
    """

    tables: Session
    ports: dict[str, Ports | None]
    physical: set[str]
    refused: set[str] = field(default_factory=set)
    unclear: set[str] = field(default_factory=set)
    final: set[str] = field(default_factory=set)
    wrong_starts: dict[str, str] = field(default_factory=dict)
    unsupported_variables: dict[str, str] = field(default_factory=dict)

    @cached_property
    def connections_from(self) -> dict[str, list[tuple[int, Connection]]]:
        """Connections with their positions in the file, by source."""
        found: dict[str, list[tuple[int, Connection]]] = defaultdict(list)
        for i, connection in enumerate(self.tables.connections):
            found[connection.source].append((i, connection))
        return found

    @cached_property
    def _by_name(self) -> dict[str, tuple[dict[str, Port], dict[str, Port]]]:
        """Known inputs and outputs of the subsystems, by name."""
        return {
            name: ({p.name: p for p in known.inputs}, {p.name: p for p in known.outputs})
            for name, known in self.ports.items()
            if known is not None
        }

    def units(self, direction: Direction) -> dict[str, str]:
        """Unit of every element of the known outputs or inputs, by its name in the log.

        It is `UNSTATED` if only the port's name is known.
        """
        found = {}
        for subsystem, known in self.ports.items():
            sides = Ports((), ()) if known is None else known
            for port in sides.outputs if direction == "output" else sides.inputs:
                unclear = self.tables.joined(subsystem, port.name) in self.unclear
                for element in port.channels():
                    name = self.tables.joined(subsystem, element)
                    found[name] = units.UNSTATED if unclear else port.unit
        return found

    def find(
        self, text: str, direction: Direction, table: str, key: str, findings: Findings
    ) -> Place | None:
        """Find the place ``subsystem.port``; if it does not exist, add an error and return None."""
        member, dot, short = text.partition(".")
        subsystem, name = self.tables.split(text)
        if not dot or not short:
            findings.error(table, key, text, "names no port", "write it as subsystem.port")
            return None
        if subsystem not in self.ports:
            findings.error(
                table,
                key,
                text,
                f"there is no subsystem {subsystem!r}"
                f"{nearest(subsystem, [*self.ports, *self.tables.group_of])}",
                "",
            )
            return None
        known = self.ports[subsystem]
        if known is None:
            return Place(subsystem, name, None, member)
        inputs, outputs = self._by_name[subsystem]
        wanted, other = (outputs, inputs) if direction == "output" else (inputs, outputs)
        if name in wanted:
            port = None if text in self.unclear else wanted[name]
            return Place(subsystem, name, port, member)
        if name in other:
            opposite = "input" if direction == "output" else "output"
            message = f"{short!r} is not an {direction} of {member!r}, but an {opposite}"
        elif text in self.unsupported_variables:
            message = f"{short!r} of {member!r} {self.unsupported_variables[text]}"
        else:
            message = f"{member!r} has no {direction} {short!r}{nearest(name, wanted)}"
        findings.error(table, key, text, message, "")
        return None


def check_connections(topology: Topology, findings: Findings) -> None:
    """Check that both ends of each connection exist, with matching sizes and units."""
    seen: dict[tuple[str, str], int] = {}
    for i, connection in enumerate(topology.tables.connections):
        table = f"connections.{i}"
        ends = (connection.source, connection.target)
        source = topology.find(connection.source, "output", table, "from", findings)
        target = topology.find(connection.target, "input", table, "to", findings)
        if ends in seen:
            findings.warn(
                table,
                "to",
                connection.target,
                f"connection {seen[ends] + 1} has the same ends, and the two are added",
                "remove one, or combine their gains",
            )
        seen.setdefault(ends, i)
        if connection.gain == 0.0:
            findings.warn(table, "gain", 0.0, "the connection transmits nothing", "remove it")
        if source and target and source.port and target.port:
            _check_fit(connection, source.port, target.port, table, findings)


def _check_fit(
    connection: Connection, source: Port, target: Port, table: str, findings: Findings
) -> None:
    if source.size != target.size:
        findings.error(
            table,
            "to",
            connection.target,
            f"has {target.size} elements, but {connection.source!r} has {source.size}",
            "connect ports of one size",
        )
    try:
        units.conversion(source.unit, target.unit)
    except ConfigError as error:
        message = f"from {connection.source!r}: {error}"
        findings.error(table, "to", connection.target, message, units.MISFIT_REMEDY)


def check_bonds(topology: Topology, findings: Findings) -> None:
    """Check that bonds join an effort and a flow to a power."""
    seen: set[str] = set()
    for i, bond in enumerate(topology.tables.bonds):
        table = f"bonds.{bond.name or i}"
        if bond.name in seen:
            findings.error(table, "name", bond.name, "another bond has that name", "rename one")
        seen.add(bond.name)
        flow = topology.find(bond.flow, "output", table, "flow", findings)
        for name in bond.efforts:
            _check_effort(topology, bond, name, flow, table, findings)
        if len(set(bond.efforts)) < len(bond.efforts):
            findings.error(table, "effort", bond.effort, "names an output twice", "remove one")


def _check_effort(
    topology: Topology, bond: Bond, name: str, flow: Place | None, table: str, findings: Findings
) -> None:
    """Check one effort output against the bond's flow."""
    effort = topology.find(name, "output", table, "effort", findings)
    if effort is None or flow is None:
        return
    if effort.member == flow.member:
        findings.error(
            table,
            "flow",
            bond.flow,
            f"comes from {flow.member!r} like the effort",
            "a bond joins two subsystems: name the output of the other one",
        )
        return
    _check_partner(topology, name, flow.member, table, "effort", findings)
    _check_partner(topology, bond.flow, effort.member, table, "flow", findings)
    if effort.port and flow.port:
        _check_power(bond, effort.port, flow.port, table, findings)


def _check_partner(
    topology: Topology, source: str, subsystem: str, table: str, key: str, findings: Findings
) -> None:
    """Check for exactly one connection of gain +1 from a bond's output to its other subsystem."""
    found = [
        (i, connection)
        for i, connection in topology.connections_from.get(source, ())
        if connection.target.partition(".")[0] == subsystem
    ]
    if len(found) != 1:
        findings.error(
            table,
            key,
            source,
            f"is connected to {len(found)} inputs of the bond's other subsystem {subsystem!r}",
            f'give it exactly one [[connections]] entry, to = "{subsystem}.…"',
        )
        return
    i, connection = found[0]
    for name, value, needed in (("gain", connection.gain, 1.0), ("offset", connection.offset, 0.0)):
        if value != needed:
            findings.error(
                f"connections.{i}",
                name,
                value,
                f"the connection carries the {key} of {table}, so its {name} must be {needed:g}",
                "change the sign or scale in the model, so that effort times flow is power into "
                "the flow's side",
            )


def _check_power(bond: Bond, effort: Port, flow: Port, table: str, findings: Findings) -> None:
    if effort.size != flow.size:
        findings.error(
            table,
            "flow",
            bond.flow,
            f"has {flow.size} elements, the effort has {effort.size}",
            "bond ports of one size",
        )
    if units.UNSTATED in (effort.unit, flow.unit):
        findings.warn(
            table,
            "",
            None,
            "a unit is missing, so the product is assumed to be in W",
            "declare the units in the database or the model",
        )
        return
    try:
        if not units.is_power(effort.unit, flow.unit):
            findings.error(
                table,
                "flow",
                bond.flow,
                f"{effort.unit!r} of the effort times {flow.unit!r} of the flow is not a power",
                "bond a pair such as N*m and rad/s, N and m/s, V and A, Pa and m^3/s",
            )
        elif units.is_flow(effort.unit):
            findings.warn(
                table,
                "effort",
                bond.effort,
                f"is a flow by its unit {effort.unit!r}; corrections act on the effort",
                "swap the two, unless this is intended",
            )
    except ConfigError as error:
        findings.error(table, "", None, str(error), "")


def check_loops(topology: Topology, findings: Findings) -> None:
    """Report loops of outputs that depend directly on each other, with no state between them."""
    through: dict[str, set[str]] = {}  # output: inputs on which it depends directly
    for subsystem, ports in topology.ports.items():
        if ports is None:
            continue
        inputs = {port.name for port in ports.inputs}
        for port in ports.outputs:
            for name in port.feedthrough:
                if name not in inputs:
                    findings.error(
                        f"subsystems.{subsystem}",
                        "",
                        None,
                        f"output {port.name!r} has a feedthrough from {name!r}, which is "
                        f"not an input{nearest(name, inputs)}",
                        "correct the model's ports",
                    )
            output = topology.tables.joined(subsystem, port.name)
            through[output] = {topology.tables.joined(subsystem, n) for n in port.feedthrough}
    sources: dict[str, set[str]] = defaultdict(set)
    for connection in topology.tables.connections:
        sources[connection.target].add(connection.source)
    graph = {
        output: {source for target in needed for source in sources.get(target, ())}
        for output, needed in through.items()
    }
    for found in range(MOST_LOOPS + 1):
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            cycle: list[str] = error.args[1]  # first and last are the same; each feeds the next
            if found == MOST_LOOPS:
                more = f"there are more than {MOST_LOOPS} algebraic loops; only these are listed"
                findings.warn("connections", "", None, more, "break the listed ones first")
                return
            findings.warn(
                "connections",
                "",
                None,
                f"algebraic loop {' -> '.join(cycle)}: no state lies between",
                "its start values are found by iteration, and afterwards each pass lags by one "
                "step; break it with a state or a filter; for an FMU that declares no "
                "dependencies, declare them by its key feedthrough",
            )
            graph[cycle[1]].discard(cycle[0])  # to find the next loop
        else:
            return
