"""Programs of expressions: flat tables of operations, registers and memory.

Common subexpressions are computed once. Calculated channels are ordered by their dependencies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hilrt.config.units import UNSTATED
from hilrt.errors import ConfigError
from hilrt.expressions.emit import Emitter, Value
from hilrt.expressions.nodes import ExpressionRefused, Number
from hilrt.expressions.parse import Expression, KnownSignals, parse
from hilrt.tables.program_tables import LookupPoint, OperationRow, Register, Word
from hilrt.tables.record import Table, table

#: Maximum memory of a program's filters, in numbers.
MAX_MEMORY = 1_000_000


@dataclass(frozen=True)
class Program:
    """Operations of a set of expressions.

    Attributes
    ----------
    operations, points : tables of `hilrt.tables.program_tables`
    registers, memory : tables
        Initial content.
    signals : tuple of str
        Signals whose newest samples are in the first registers.
    results : tuple of int
        Register of each expression.
    units : tuple of str
        Unit of each result; `UNSTATED` if any unit fits.
    channels : dict of str
        Register and unit of each calculated channel.
    """

    operations: Table[OperationRow]
    points: Table[LookupPoint]
    registers: Table[Register]
    memory: Table[Word]
    signals: tuple[str, ...]
    results: tuple[int, ...]
    units: tuple[str, ...]
    channels: dict[str, tuple[int, str]]

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str | Expression],
        signals: Mapping[str, str] | KnownSignals,
        *,
        step: float,
    ) -> Program:
        """Create the program of some expressions.

        Parameters
        ----------
        texts : sequence of str or Expression
        signals : mapping of str, or KnownSignals
            Signals that they may refer to, with units.
        step : float
            Shortest time between two samples of a signal, s; determines the size of windows and
            delays.

        Raises
        ------
        ConfigError
            With all problems: invalid texts, unknown names, units that do not fit, channels that
            depend on each other, windows that are too long.
        """
        known = signals if isinstance(signals, KnownSignals) else KnownSignals(signals)
        problems: list[str] = []
        expressions = _parsed(texts, problems)
        emitter = Emitter(known, known.read_by(expressions), step)
        try:
            order = known.channels_in_order()
        except ConfigError as error:
            raise ConfigError([*problems, *error.problems]) from None
        for name in order:
            channel = known.channels[name]
            node = channel.expression.node
            emitter.channels[name] = (
                Value(emitter.own_constant(node.value), channel.unit)
                if isinstance(node, Number)
                else _emitted(emitter, channel.expression, problems, channel.unit)
            )
        values = [_emitted(emitter, expression, problems) for expression in expressions]
        if len(emitter.memory) > MAX_MEMORY:
            problems.append(
                f"windows and delays of all expressions would need {len(emitter.memory)} numbers, "
                f"{MAX_MEMORY} at most; use fewer or shorter ones"
            )
        if problems:
            raise ConfigError(problems)
        return _program(emitter, values)


def _parsed(texts: Sequence[str | Expression], problems: list[str]) -> list[Expression]:
    found: list[Expression] = []
    for text in texts:
        try:
            found.append(text if isinstance(text, Expression) else parse(text))
        except ConfigError as error:
            problems += error.problems
    return found


def _emitted(
    emitter: Emitter, expression: Expression, problems: list[str], unit: str | None = None
) -> Value:
    """Emit an expression; after a problem, return a value of any unit to avoid further errors."""
    try:
        value = emitter.emit(expression.node)
        return emitter.converted(value, unit, expression.node.column)
    except ExpressionRefused as refusal:
        problems += expression.refused(refusal).problems
        return Value(0, UNSTATED)


def _program(emitter: Emitter, values: Sequence[Value]) -> Program:
    operations = table(OperationRow, len(emitter.operations))
    registers = table(Register, len(emitter.registers))
    points, memory = table(LookupPoint, len(emitter.points)), table(Word, len(emitter.memory))
    operations[:] = emitter.operations
    registers[:] = emitter.registers
    points["value"], memory["value"] = emitter.points, emitter.memory
    return Program(
        operations=operations,
        points=points,
        registers=registers,
        memory=memory,
        signals=tuple(emitter.read),
        results=tuple(value.register for value in values),
        units=tuple(value.unit or "" for value in values),
        channels={name: (v.register, v.unit or "") for name, v in emitter.channels.items()},
    )
