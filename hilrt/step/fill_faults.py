"""Fill the plan's tables with the faults of the session file."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from typing import Final, NamedTuple

import numpy as np

from hilrt.config.from_toml import nearest
from hilrt.config.session_tables import FaultTable
from hilrt.config.structs import CALCULATED, Session
from hilrt.errors import ConfigError
from hilrt.expressions.session_program import channels_of, made_of, port_name
from hilrt.tables.network import Network
from hilrt.tables.plan import FAULT_KINDS, Plan
from hilrt.tables.ports import Side

#: Sides of a faulted location, in the order of their rows.
OUTPUT, CONNECTION, INPUT = range(3)
#: Kinds that delay values.
LATE: Final = ("delay", "jitter")
#: Maximum number of steps that a fault may delay a value by.
MAX_UNDERWAY: Final = 10_000
#: Minimum capacity for delayed values at one location: steps may be shorter.
FEWEST_SLOTS: Final = 100
#: Separates the ends of a connection.
ARROW: Final = " -> "


class Altered(NamedTuple):
    """A scalar altered by a fault: side, its number there, fault number, and element."""

    side: int
    number: int
    fault: int
    element: int


def alteration_rows(network: Network, faults: Sequence[FaultTable]) -> list[Altered]:
    """List the scalars that the faults of a session alter, in the order of their table.

    Raises
    ------
    ConfigError
        If a fault names no existing output, input, connection or subsystem.
    """
    found = [
        Altered(side, number, f, element)
        for f, fault in enumerate(faults)
        if not fault.emulated
        for side, numbers in [_place_of(network, fault)]
        for element, number in enumerate(numbers)
    ]
    return sorted(found)


def _place_of(network: Network, fault: FaultTable) -> tuple[int, list[int]]:
    where = f"[faults.{fault.name}]"
    if fault.output is not None:
        if fault.output.startswith(CALCULATED + "."):
            raise ConfigError(f"{where}: {fault.output} is calculated; alter its inputs")
        return OUTPUT, _numbers(network.outputs, fault.output, f"{where} output")
    if fault.peer is not None:
        if fault.peer not in network.subsystems or fault.peer == CALCULATED:
            text = f"there is no such subsystem{nearest(fault.peer, network.subsystems)}"
            raise ConfigError(f"{where} peer = {fault.peer!r}: {text}")
        part = network.outputs.slices[network.subsystems.index(fault.peer)]
        return OUTPUT, list(range(part.start, part.stop))
    if fault.input is not None:
        return INPUT, _numbers(network.inputs, fault.input, f"{where} input")
    source, arrow, target = (fault.connection or "").partition(ARROW)
    if not arrow:
        text = 'give an output, an input, a peer, or a connection as "a.output -> b.input"'
        raise ConfigError(f"{where}: no location given; {text}")
    sources = _numbers(network.outputs, source.strip(), f"{where} connection")
    targets = _numbers(network.inputs, target.strip(), f"{where} connection")
    connections = network.connections
    rows = list(zip(connections.source.tolist(), connections.targets().tolist(), strict=True))
    wanted = list(zip(sources, targets, strict=False))
    found = [c for pair in wanted for c, ends in enumerate(rows) if ends == pair]
    if not found:
        raise ConfigError(f"{where} connection = {fault.connection!r}: there is no such connection")
    return CONNECTION, found


def _numbers(side: Side, name: str, where: str) -> list[int]:
    """Numbers of all elements of a port, or of one."""
    if name in side.ports:
        part, _ = side.ports[name]
        return list(range(part.start, part.stop))
    if name in side.numbers:
        return [side.numbers[name]]
    raise ConfigError(f"{where} = {name!r}: there is no such port{nearest(name, side.names)}")


def faulted_inputs(network: Network, rows: Sequence[Altered]) -> set[int]:
    """Inputs that faults alter, directly or through their connections."""
    targets, found = network.connections.targets(), set[int]()
    for row in rows:
        if row.side == INPUT:
            found.add(row.number)
        elif row.side == CONNECTION:
            found.add(int(targets[row.number]))
        else:
            found.update(targets[network.connections.source == row.number].tolist())
    return found


def benches_reached(tables: Session, fault: FaultTable, physical: Container[str]) -> list[str]:
    """Benches that a fault reaches by a set-point or a measurement and that do not allow it.

    If a fault alters one element of a vector, all elements count as altered; so do calculated
    channels of an altered output.

    Parameters
    ----------
    tables : Session
    fault : FaultTable
        Its ports need not exist.
    physical : container of str
        The subsystems that are benches.
    """
    ends = [end.strip() for end in fault.place.split(ARROW.strip())]
    if not fault.emulated and (fault.output is not None or fault.peer is not None):
        altered = _altered_sources(tables, ends[0])
        ends += [c.target for c in tables.connections if port_name(c.source) in altered]
    reached = {end.partition(".")[0] for end in ends}
    return sorted(
        name
        for name in reached & tables.subsystems.keys()
        if name in physical and fault.name not in tables.subsystems[name].allow_faults
    )


def _altered_sources(tables: Session, place: str) -> set[str]:
    """Ports that carry an altered output: its own, and those of channels calculated from it.

    `place` is the name of an output, or of a subsystem, all of whose outputs are altered.
    """
    signals = [
        signal
        for channel in channels_of(tables.calculated, []).values()
        for signal in channel.expression.signals
    ]
    sources = {port_name(source) for source in [*(c.source for c in tables.connections), *signals]}
    altered = {name for name in sources if name.startswith(f"{place}.")}
    return made_of(tables.calculated, altered | {port_name(place)})


def steps_underway(fault: FaultTable, tables: Session) -> int:
    """Maximum delay of a value in steps of ``[master] step``; 0 if it is not delayed."""
    late = fault.kind in LATE and not fault.emulated
    return math.ceil((fault.value or 0.0) / tables.master.step) if late else 0


def check_allowed(tables: Session, physical: Container[str]) -> None:
    """Refuse faults that reach a bench which does not allow them.

    Raises
    ------
    ConfigError
        With one line per fault and bench.
    """
    problems = [
        f"[faults.{fault.name}] acts on the bench {bench!r}, which does not allow it; "
        f'write allow_faults = ["{fault.name}"] into [subsystems.{bench}] if the bench can '
        "tolerate that"
        for fault in tables.faults
        for bench in benches_reached(tables, fault, physical)
    ]
    if problems:
        raise ConfigError(problems)


def fill_faults(plan: Plan, network: Network, tables: Session, rows: Sequence[Altered]) -> None:
    """Fill the tables of faults and of altered values, except for the registers of conditions.

    Raises
    ------
    ConfigError
        If a fault delays values by more steps than supported.
    """
    faults, first_slot = tables.faults, 0
    for times, fault in zip(plan.faults, faults, strict=True):
        waits = fault.start is None and fault.start_when is None
        times.start = np.inf if waits else fault.start or 0.0
        times.end = np.inf if fault.end is None else fault.end
    places = [(row.side, row.number) for row in rows]
    for k, (row, made) in enumerate(zip(rows, plan.alterations, strict=True)):
        fault = faults[row.fault]
        made.fault, made.kind = row.fault, FAULT_KINDS.index(fault.kind)
        made.output = row.number if row.side == OUTPUT else -1
        made.first = k == 0 or places[k - 1] != places[k]
        made.closing = k == len(rows) - 1 or places[k + 1] != places[k]
        made.amount, made.seed = fault.value or 0.0, fault.seed
        if fault.peer is None:  # a peer's outputs come in one message
            made.seed += row.element
        if fault.kind in LATE:
            steps = steps_underway(fault, tables)
            if steps > MAX_UNDERWAY:
                text = f"delays by {steps:,} steps; at most {MAX_UNDERWAY:,} are supported"
                raise ConfigError(f"[faults.{fault.name}] value = {fault.value}: {text}")
            made.first_slot, made.slots = first_slot, max(steps + 2, FEWEST_SLOTS)
            first_slot += made.slots
        if row.side != OUTPUT:
            owner = plan.inputs if row.side == INPUT else plan.connections
            if made.first:
                owner["first_alteration"][row.number] = k
            owner["alterations"][row.number] += 1
    drives = plan.inputs["drive"][sorted(faulted_inputs(network, rows))]
    plan.drives["faulted"][drives] = 1
