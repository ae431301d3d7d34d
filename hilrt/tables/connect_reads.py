"""What test sequences read is connected by its name, in the unit that it has.

An input ``engine.speed`` of a sequence takes the output ``engine.speed`` of the subsystem `engine`.
The session file has no entry for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from hilrt.config.structs import Connection, Session
from hilrt.solver import Port, Ports


def connect_reads(ports: Mapping[str, Ports], tables: Session) -> tuple[dict[str, Ports], Session]:
    """Ports with the units of what is read, and tables with a connection for each of it.

    What is no output of the known `ports` is left as it is.
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
