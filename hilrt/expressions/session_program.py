"""The program of a session: its calculated channels over the outputs of its subsystems.

Its results are the conditions that start and end stimuli, then faults, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from hilrt.config.session_tables import FaultTable, Stimulus
from hilrt.config.structs import CALCULATED, Calculated, LookupEntry, Session
from hilrt.errors import ConfigError
from hilrt.expressions import operations as do
from hilrt.expressions.functions import RESERVED
from hilrt.expressions.nodes import LookupTable, lookup_table
from hilrt.expressions.parse import (
    CalculatedChannel,
    Expression,
    KnownSignals,
    channel_name,
    parse,
)
from hilrt.expressions.program import Program
from hilrt.solver import Floats
from hilrt.tables.network import Network
from hilrt.tables.ports import Bools, Ints
from hilrt.tables.relation import Relation


def session_program(network: Network, tables: Session) -> Program:
    """The program of a session with known ports; `ConfigError` with all problems."""
    outputs = network.outputs
    units = dict(zip(outputs.names, outputs.units, strict=True))
    return program_of(units, tables)


def program_of(units: Mapping[str, str], tables: Session) -> Program:
    """The program of a session file, from names and units of all outputs.

    Raises
    ------
    ConfigError
        With all problems, each with its entry of the session file.
    """
    problems: list[str] = []
    known = KnownSignals(
        {name: unit for name, unit in units.items() if not name.startswith(CALCULATED + ".")},
        channels_of(tables.calculated, problems),
        lookup_tables_of(tables.lookup_tables, problems),
    )
    try:
        conditions = _conditions(tables, problems)
        program = Program.from_texts(conditions, known, step=shortest_step(tables))
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    return program


def shortest_step(tables: Session) -> float:
    """Shortest time between two communication points on the grid, s."""
    master = tables.master
    if master.step_control.method == "fixed":
        return master.step
    return min(master.step, master.step_control.minimum)


def channels_of(entries: Sequence[Calculated], problems: list[str]) -> dict[str, CalculatedChannel]:
    """Channels of ``[[calculated]]`` by name; problems are added to `problems`."""
    found: dict[str, CalculatedChannel] = {}
    for i, entry in enumerate(entries):
        where = f"[calculated.{i}]"
        if entry.name in found:
            problems.append(f"{where} name: another channel is called {entry.name!r}; rename one")
        if entry.name in RESERVED:
            problems.append(f"{where} name: {entry.name!r} is reserved in expressions; rename it")
        try:
            expression = parse(entry.expression, f"{where} expression")
        except ConfigError as error:
            problems += error.problems
            # Expressions that use the channel are still checked.
            expression = parse("nan", where)
        found[entry.name] = CalculatedChannel(expression, entry.unit)
    return found


def made_of(entries: Sequence[Calculated], ports: Iterable[str]) -> set[str]:
    """Return `ports` and the channels that are calculated from them.

    Ports are named without the element of a vector.
    """
    channels = channels_of(entries, [])
    read = {
        f"{CALCULATED}.{name}": {
            f"{CALCULATED}.{c}" if (c := channel_name(signal)) in channels else port_name(signal)
            for signal in channel.expression.signals
        }
        for name, channel in channels.items()
    }
    found, before = set(ports), -1
    while len(found) > before:
        before = len(found)
        found |= {name for name, signals in read.items() if signals & found}
    return found


def port_name(signal: str) -> str:
    """Name of a signal's port, without the element of a vector."""
    return signal.partition("[")[0].strip()


def conditional(tables: Session) -> list[tuple[str, int, Stimulus | FaultTable]]:
    """Stimuli and faults, which conditions may start and end, with table and position."""
    stimuli = [("stimuli", i, entry) for i, entry in enumerate(tables.stimuli)]
    return [*stimuli, *(("faults", i, entry) for i, entry in enumerate(tables.faults))]


def _conditions(tables: Session, problems: list[str]) -> list[Expression]:
    found: list[Expression] = []
    for table, i, entry in conditional(tables):
        for key in ("start_when", "end_when"):
            text = getattr(entry, key)
            if text is not None:
                try:
                    found.append(parse(text, f"[{table}.{i}] {key}"))
                except ConfigError as error:
                    problems += error.problems
    return found


def lookup_tables_of(entries: Sequence[LookupEntry], problems: list[str]) -> dict[str, LookupTable]:
    """Tables of ``[[lookup_tables]]`` by name; problems are added to `problems`."""
    found: dict[str, LookupTable] = {}
    for i, entry in enumerate(entries):
        where = f"[lookup_tables.{i}]"
        if entry.name in found:
            problems.append(f"{where} name: another table is called {entry.name!r}; rename one")
        units = {"x_unit": entry.x_unit, "y_unit": entry.y_unit, "unit": entry.unit}
        try:
            found[entry.name] = lookup_table(entry.x, entry.values, entry.y, **units)
        except ValueError as error:
            problems.append(f"{where} values: {error}")
    return found


def channel_sources(network: Network, program: Program) -> tuple[Relation, Bools]:
    """Outputs that calculated channels read, and channels with a memory.

    Returns
    -------
    sources : Relation, shape (ny, ny)
        From a channel to the outputs that it is calculated from, through other channels, too.
    remembers : ndarray of bool, shape (ny,)
        Channels whose value also depends on earlier samples: they use a filter, or read outputs of
        several rates.
    """
    number, ny = network.outputs.numbers, len(network.outputs)
    read = [{number[name]} for name in program.signals]
    origins: list[set[int]] = read + [set() for _ in range(len(read), len(program.registers))]
    filtered = np.zeros(len(origins), np.bool_)
    for op in program.operations:
        operands = (int(op.a), int(op.b), int(op.c))
        origins[int(op.target)] = set().union(*(origins[k] for k in operands))
        filtered[op.target] = op.code >= do.FIRST_FILTER or filtered[[*operands]].any()
    places = [(number[f"{CALCULATED}.{name}"], k) for name, (k, _) in program.channels.items()]
    pairs = [(channel, output) for channel, k in places for output in origins[k]]
    rows, columns = zip(*pairs, strict=True) if pairs else ((), ())
    remembers = np.zeros(ny, np.bool_)
    for channel, k in places:
        rates = network.every[network.outputs.owner[[*origins[k]]]]
        remembers[channel] = filtered[k] or len(set(rates.tolist())) > 1
    return Relation.of(rows, columns, (ny, ny)), remembers


class ChannelValues:
    """Calculated channels as functions of the current outputs that they read.

    Parameters
    ----------
    network : Network
    tables : Session

    Attributes
    ----------
    subsystem : int or None
        Number of the subsystem of calculated channels; None without any.
    needs : list of (int, int)
        That number, and the one of a subsystem that they read.
    outputs, read : ndarray of int, shape (channels,), (read,)
        Their own numbers, and those of the outputs that they read.
    sources, remembers
        As of `channel_sources`.
    """

    #: Share of an output's magnitude by which it is moved for a derivative.
    MOVED = 1e-6

    def __init__(self, network: Network, tables: Session) -> None:
        number = network.outputs.numbers
        # Stimuli and faults have not begun: signals of their conditions are not needed.
        without = replace(tables, stimuli=[], faults=[])
        program = self._program = session_program(network, without)
        self.read: Ints = np.array([number[n] for n in program.signals], dtype=np.intp)
        channels = program.channels
        places = [number[f"{CALCULATED}.{name}"] for name in channels]
        self.outputs: Ints = np.array(places, dtype=np.intp)
        self._registers = [register for register, _ in channels.values()]
        owner = network.outputs.owner
        self.subsystem = int(owner[places[0]]) if places else None
        self.needs = [(int(owner[places[0]]), int(s)) for s in {*owner[self.read]} if places]
        self.sources, self.remembers = channel_sources(network, program)
        units = np.array(network.outputs.units)[self.read]
        self._unit: Ints = np.unique(units, return_inverse=True)[1]

    def fill(self, y: Floats) -> None:
        """Write the channels' values to `y`, shape (ny,); 0 if not known yet."""
        known = self.values(y)
        y[self.outputs] = np.where(np.isfinite(known), known, 0.0)

    def values(self, y: Floats, t: float = 0.0) -> Floats:
        """The channels' values at time `t` [s] from the other outputs in `y`, shape (channels,)."""
        if not len(self.outputs):
            return np.zeros(0)
        from hilrt.expressions.evaluate import evaluate  # compiled: not for a check

        program = self._program
        registers, memory = program.registers.copy(), program.memory.copy()
        registers["value"][: len(self.read)] = y[self.read]
        registers["t"][: len(self.read)] = t
        evaluate(program.operations, program.points, registers, memory, t)
        found: Floats = registers["value"][self._registers]
        return found

    def responses(self, y: Floats, t: float = 0.0) -> Floats:
        """Derivatives of the channels by the outputs that they read, shape (channels, read).

        They are central differences about the outputs `y`, shape (ny,), at time `t` [s]; NaN where
        a value is unknown.
        """
        found = np.empty((len(self.outputs), len(self.read)))
        for k, step in enumerate(self.MOVED * self.magnitudes(y)):
            above, below, i = y.copy(), y.copy(), self.read[k]
            above[i] += step
            below[i] -= step
            change = self.values(above, t) - self.values(below, t)
            found[:, k] = change / (above[i] - below[i])
        return found

    def magnitudes(self, y: Floats) -> Floats:
        """Largest magnitude of outputs with the same unit, for each output read; 1 if it is 0."""
        largest = np.zeros(len(self.read))
        np.maximum.at(largest, self._unit, np.abs(y[self.read]))
        return np.where(largest > 0.0, largest, 1.0)[self._unit]
