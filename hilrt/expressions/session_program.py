"""The program of a session: its calculated channels over the outputs of its subsystems.

Conditions that start and end stimuli, and then faults, are its results, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from hilrt.config.session_tables import FaultTable, Stimulus
from hilrt.config.structs import CALCULATED, Calculated, LookupEntry, Session
from hilrt.errors import ConfigError
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
from hilrt.tables.ports import Ints


def session_program(network: Network, tables: Session) -> Program:
    """The program of a session whose ports are known; `ConfigError` with every problem."""
    outputs = network.outputs
    units = dict(zip(outputs.names, outputs.units, strict=True))
    return program_of(units, tables)


def program_of(units: Mapping[str, str], tables: Session) -> Program:
    """The program of a session file, from the names and units of all outputs.

    Raises
    ------
    ConfigError
        With every problem, each with its entry of the session file.
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
    """Channels of ``[[calculated]]`` by their names; problems are added to `problems`."""
    found: dict[str, CalculatedChannel] = {}
    for i, entry in enumerate(entries):
        where = f"[calculated.{i}]"
        if entry.name in found:
            problems.append(f"{where} name: another channel is called {entry.name!r}; rename one")
        if entry.name in RESERVED:
            problems.append(f"{where} name: {entry.name!r} is a word of expressions; rename it")
        try:
            expression = parse(entry.expression, f"{where} expression")
        except ConfigError as error:
            problems += error.problems
            # Readers of the channel are checked all the same.
            expression = parse("nan", where)
        found[entry.name] = CalculatedChannel(expression, entry.unit)
    return found


def made_of(entries: Sequence[Calculated], ports: Iterable[str]) -> set[str]:
    """Ports that carry the values of `ports`: these, and channels calculated from them.

    A port is named without the element of a vector.
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
    """List the objects that conditions may start and end, with table and position."""
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
    """Tables of ``[[lookup_tables]]`` by their names; problems are added to `problems`."""
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


class StartValues:
    """Calculated channels before the first tick, when no time has passed.

    Parameters
    ----------
    network : Network
    tables : Session

    Attributes
    ----------
    subsystem : int or None
        Number of the subsystem of the calculated channels; None without any.
    needs : list of (int, int)
        That number, and the one of a subsystem that they read.
    """

    def __init__(self, network: Network, tables: Session) -> None:
        number = network.outputs.numbers
        # Stimuli and faults have not begun: the session does not wait for signals in their
        # conditions.
        without = replace(tables, stimuli=[], faults=[])
        program = self._program = session_program(network, without)
        self._read: Ints = np.array([number[n] for n in program.signals], dtype=np.intp)
        channels = program.channels
        places = [number[f"{CALCULATED}.{name}"] for name in channels]
        self._outputs: Ints = np.array(places, dtype=np.intp)
        self._registers = [register for register, _ in channels.values()]
        owner = network.outputs.owner
        self.subsystem = int(owner[places[0]]) if places else None
        self.needs = [(int(owner[places[0]]), int(s)) for s in {*owner[self._read]} if places]

    def fill(self, y: Floats) -> None:
        """Put them into `y`, shape (ny,); 0 if a value is not known yet."""
        known = self.values(y)
        y[self._outputs] = np.where(np.isfinite(known), known, 0.0)

    def values(self, y: Floats) -> Floats:
        """The channels' values from the other outputs in `y`, shape (channels,)."""
        if not len(self._outputs):
            return np.zeros(0)
        from hilrt.expressions.evaluate import evaluate  # compiled: not for a check

        program = self._program
        registers, memory = program.registers.copy(), program.memory.copy()
        registers["value"][: len(self._read)] = y[self._read]
        registers["t"][: len(self._read)] = 0.0
        evaluate(program.operations, program.points, registers, memory, 0.0)
        found: Floats = registers["value"][self._registers]
        return found
