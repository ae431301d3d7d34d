"""Checks of test sequences: what they read exists, what they drive is held, and by one alone."""

from __future__ import annotations

from dataclasses import replace

from hilrt.check.check_topology import Topology
from hilrt.config.problems import Findings
from hilrt.sequences.sequence import DRIVEN
from hilrt.tables.connect_reads import connect_reads


def check_sequences(topology: Topology, findings: Findings) -> Topology:
    """Report what is wrong, and connect what the sequences read."""
    tables, ports = topology.tables, topology.ports
    sequences = {name for name, options in tables.subsystems.items() if options.is_sequence}
    if not sequences:
        return topology
    for name in sorted(sequences):
        known = ports.get(name)
        for port in () if known is None else known.inputs:
            table = f"subsystems.{name}"
            place = topology.find(port.name, "output", table, "sequence", findings)
            if place is not None and place.port is not None and place.port.size > 1:
                reason = f"reads {port.name!r}, which has {place.port.size} elements"
                findings.error(table, "sequence", None, reason, "read a port of one element")
        if tables.subsystems[name].jacobian is not None:
            reason = "is of no use for a test sequence, which is no model"
            findings.error(f"subsystems.{name}", "jacobian", None, reason, "leave it out")
    drivers: dict[str, int] = {}  # an input to the first connection from a sequence's port
    for i, connection in enumerate(tables.connections):
        source, target = (end.partition(".")[0] for end in (connection.source, connection.target))
        if source in sequences and connection.order:
            reason = f"{source!r} is a test sequence, whose outputs are held"
            findings.error(f"connections.{i}", "order", connection.order, reason, "leave it out")
        if source in sequences and not connection.source.endswith(DRIVEN):
            first = drivers.setdefault(connection.target, i)
            if first != i:
                reason = (
                    f"is driven by {tables.connections[first].source!r} of connection {first + 1}, "
                    "too: one port of a sequence drives an input, and two would be added"
                )
                remedy = "remove one; within a sequence, bench.together does several things"
                findings.error(f"connections.{i}", "to", connection.target, reason, remedy)
        if target in sequences:
            reason = f"{target!r} is a test sequence, whose inputs are connected by their names"
            findings.error(f"connections.{i}", "to", connection.target, reason, "leave it out")
    for i, bond in enumerate(tables.bonds):
        ends = {end.partition(".")[0] for end in (*bond.efforts, bond.flow)} & sequences
        if ends:
            reason = f"{min(ends)!r} is a test sequence, which has no power"
            findings.error(f"bonds.{bond.name or i}", "flow", bond.flow, reason, "leave it out")
    told = {name: known for name, known in ports.items() if known is not None}
    connected, tables = connect_reads(told, tables)
    return replace(topology, tables=tables, ports={**ports, **connected})
