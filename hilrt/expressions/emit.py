"""Conversion of typed trees to operations; equal operations on equal operands are shared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from hilrt.config.from_toml import nearest
from hilrt.config.units import (
    UNSTATED,
    check_unit,
    conversion,
    has_own_zero,
    of_differences,
    product,
)
from hilrt.errors import ConfigError
from hilrt.expressions import operations as do
from hilrt.expressions.nodes import (
    Conversion,
    ExpressionRefused,
    Lookup,
    LookupTable,
    Node,
    Number,
    Operation,
    Reading,
)
from hilrt.expressions.parse import KnownSignals, channel_name

#: Unit of a value; None: a number in the text, which fits any unit.
Unit = str | None

_SAME: Final = {do.MODULO, do.MIN, do.MAX, do.CLIP, do.DEFAULT}
_COMPARISONS: Final = {do.LESS, do.LESS_EQUAL, do.EQUAL, do.NOT_EQUAL, do.HYSTERESIS}
_UNCHANGED: Final = {
    *(do.NEGATE, do.ABS, do.FLOOR, do.CEIL, do.ROUND),
    *(do.LOW_PASS, do.MEAN, do.RMS, do.DELAY),
}
_ANGLES: Final = {do.SIN, do.COS, do.TAN}
_INVERSE: Final = {do.ASIN, do.ACOS, do.ATAN, do.ATAN2}
_PLAIN: Final = {do.EXP, do.LOG, do.LOG10, do.ASIN, do.ACOS, do.ATAN}
#: Operations relative to zero; in a unit with an arbitrary zero, their result is arbitrary, too.
_FROM_ZERO: Final = {do.NEGATE, do.ABS, do.SIGN, do.RMS, do.MODULO}


def operand_units(code: int, units: Sequence[Unit]) -> list[Unit]:
    """Units to which the operands are converted; None: unchanged.

    Raises
    ------
    ConfigError
        If the operation is meaningless for these units.
    """
    if code in _FROM_ZERO or code in (do.INTEGRAL, do.POWER, do.SQRT):
        for unit in units[:1]:
            _refuse_own_zero(unit)
    if code in _ANGLES:
        return ["rad" if units[0] else None]
    if code in _PLAIN:
        return ["" if units[0] else None]
    if code == do.POWER:
        return [None, "" if units[1] else None]
    if code in (do.ADD, do.SUBTRACT):
        return _summands(code, units)
    if code == do.SELECT:
        return [None, *_alike(units[1:])]
    if code in _SAME or code in _COMPARISONS or code == do.ATAN2:
        return _alike(units)
    return [None] * len(units)


def result_unit(code: int, units: Sequence[Unit], exponent: float | None) -> Unit:
    """Unit of the result of an operation on converted operands.

    `exponent` is that of a power, if it is a number in the text.

    Raises
    ------
    ConfigError
        If the result has no unit.
    """
    if code == do.SUBTRACT:
        unit = _common(units)
        own_zero = all(u is not None and has_own_zero(u) for u in units)
        return of_differences(unit) if unit is not None and own_zero else unit
    if code == do.SELECT:
        return _common(units[1:])
    if code == do.ADD or code in _SAME:
        return _common(units)
    if code in _UNCHANGED:
        return units[0]
    if code in (do.MULTIPLY, do.DIVIDE):
        if units == [None, None]:
            return None
        return product(units[0] or "", units[1] or "", 1.0 if code == do.MULTIPLY else -1.0)
    if code == do.SQRT:
        return None if units[0] is None else product("", units[0], 0.5)
    if code == do.POWER:
        return _power(units[0], exponent)
    if code == do.DERIVATIVE:
        return None if units[0] is None else product(of_differences(units[0]), "s", -1.0)
    if code == do.INTEGRAL:
        return None if units[0] is None else product(units[0], "s")
    if code == do.TIME or code == do.DURATION:
        return "s"
    return "rad" if code in _INVERSE else ""


def converted(from_unit: Unit, to_unit: Unit) -> tuple[float, float]:
    """Factor and offset; `ConfigError` with both units if they do not fit."""
    if from_unit is None or to_unit is None:
        return 1.0, 0.0
    return conversion(from_unit, to_unit)


def _common(units: Sequence[Unit]) -> Unit:
    """Common unit of several values."""
    return next((unit for unit in units if unit is not None), None)


def _alike(units: Sequence[Unit]) -> list[Unit]:
    return [_common(units)] * len(units)


def _summands(code: int, units: Sequence[Unit]) -> list[Unit]:
    """Unit of a sum or a difference: degC - degC is a difference in K, degC + degC is refused."""
    a, b = units
    if a is None or b is None or a == UNSTATED or b == UNSTATED:
        return _alike(units)
    zeros = has_own_zero(a), has_own_zero(b)
    if zeros == (True, True):
        if code == do.SUBTRACT:
            return [a, a]
    elif True not in zeros:
        return [a, a]
    elif zeros == (True, False):  # a temperature, and a difference to it
        converted(b, of_differences(a))
        return [a, of_differences(a)]
    raise ConfigError(
        f"{a!r} and {b!r} cannot be added: the zero of such a unit is arbitrary; convert both to "
        'one with an absolute zero, such as convert(x, "K")'
    )


def _power(unit: Unit, exponent: float | None) -> Unit:
    if not unit or unit == UNSTATED:
        return unit
    if exponent is None:
        converted(unit, "")
        return ""
    return product("", unit, exponent)


def _refuse_own_zero(unit: Unit) -> None:
    if unit is not None and has_own_zero(unit):
        raise ConfigError(
            f"the zero of {unit!r} is arbitrary; convert the value to a unit with an absolute "
            'zero, such as convert(x, "K")'
        )


#: Minimum distance of two samples that give a slope, as a share of the shortest time between
#: samples.
SPACING_SHARE = 0.5


class Value(NamedTuple):
    """A result: its register and its unit."""

    register: int
    unit: Unit


class Emitter:
    """Creator of the operations of several trees.

    Parameters
    ----------
    signals : KnownSignals
        Signals that trees may refer to.
    read : sequence of str
        Signals whose newest samples are in the first registers.
    step : float
        Shortest time between two samples, s.

    Attributes
    ----------
    channels : dict of str
        Calculated channels that have been emitted.
    registers : list of (float, float)
        Value and time of each register before the first step.
    operations : list of tuple
        Fields of `hilrt.tables.program_tables.Operation`.
    points, memory : list of float
    """

    def __init__(self, signals: KnownSignals, read: Sequence[str], step: float) -> None:
        self._signals, self.read, self._step = signals, list(read), step
        self.channels: dict[str, Value] = {}
        self.registers = [(math.nan, math.nan)] * len(read)
        self.operations: list[tuple[int | float, ...]] = []
        self.points: list[float] = []
        self.memory: list[float] = []
        self._emitted: dict[object, int] = {}
        self._tables: dict[LookupTable, int] = {}

    def emit(self, node: Node) -> Value:
        """Emit the operations of a tree; `ExpressionRefused` describes the problem."""
        if isinstance(node, Number):
            return Value(self._constant(node.value), None)
        if isinstance(node, Reading):
            return self._reading(node)
        if isinstance(node, Operation):
            return self._operation(node)
        if isinstance(node, Lookup):
            return self._lookup(node)
        assert isinstance(node, Conversion)
        value = self.emit(node.operand)
        if node.states:
            self._known_unit(node)
            return Value(value.register, node.unit)
        return self.converted(value, node.unit, node.column)

    def converted(self, value: Value, unit: Unit, column: int) -> Value:
        """Convert a value to another unit; None: unchanged."""
        if unit is None:
            return value
        try:
            factor, offset = converted(value.unit, unit)
        except ConfigError as error:
            raise ExpressionRefused(str(error), column) from None
        if (factor, offset) == (1.0, 0.0):
            return Value(value.register, unit)
        return Value(self._add(do.SCALE, [value.register], p=factor, q=offset), unit)

    def with_times(self, register: int) -> int:
        """Return the register, or for a constant one with a new sample at every tick."""
        constant = self.registers[register][1] == -math.inf
        return self._add(do.AT_TICKS, [register]) if constant else register

    def _known_unit(self, node: Conversion) -> None:
        try:
            check_unit(node.unit)
        except ConfigError as error:
            raise ExpressionRefused(str(error), node.column) from None

    def _reading(self, node: Reading) -> Value:
        name = channel_name(node.name)
        if name in self.channels:
            return self.channels[name]
        if node.name in self._signals.units:
            return Value(self.read.index(node.name), self._signals.units[node.name])
        known = [*self._signals.units, *self._signals.channels]
        raise ExpressionRefused(
            f"there is no signal {node.name!r}{nearest(node.name, known)}", node.column
        )

    def _operation(self, node: Operation) -> Value:
        code = node.code
        values = [self.emit(operand) for operand in node.operands]
        exponent = node.operands[1] if code == do.POWER else None
        try:
            wanted = operand_units(code, [value.unit for value in values])
            places = [operand.column for operand in node.operands]
            values = list(map(self.converted, values, wanted, places))
            fixed = exponent.value if isinstance(exponent, Number) else None
            unit = result_unit(code, [value.unit for value in values], fixed)
        except ConfigError as error:
            raise ExpressionRefused(str(error), node.column) from None
        registers = [value.register for value in values]
        if code < do.FIRST_FILTER:
            return Value(self._add(code, registers), unit)
        registers[0] = self.with_times(registers[0])
        p = node.numbers[0] if node.numbers else 0.0
        if code == do.DERIVATIVE:
            p = SPACING_SHARE * self._step
        return Value(self._add(code, registers, p=p, slots=self._slots(code, p)), unit)

    def _slots(self, code: int, time: float) -> int:
        if code not in do.SLOTS:
            return 0
        wanted = math.ceil(min(time / self._step, 1e9) * (1.0 - 1e-9))
        return min(max(wanted, 1), do.SLOTS[code])

    def _lookup(self, node: Lookup) -> Value:
        table = node.table
        if isinstance(table, str):
            if table not in self._signals.tables:
                raise ExpressionRefused(
                    f"there is no lookup table {table!r}{nearest(table, self._signals.tables)}",
                    node.column,
                )
            table = self._signals.tables[table]
        axes = 2 if table.y else 1
        if len(node.operands) != axes:
            raise ExpressionRefused(
                f"the table has {axes} axes, not {len(node.operands)}", node.column
            )
        units = (table.x_unit, table.y_unit)
        registers = [
            self.converted(self.emit(operand), unit, operand.column).register
            for operand, unit in zip(node.operands, units, strict=False)
        ]
        if table not in self._tables:
            self._tables[table] = len(self.points)
            self.points += (*table.x, *table.y, *table.values)
        code = do.LOOKUP if axes == 1 else do.LOOKUP_2D
        place = self._tables[table], len(table.x), len(table.y)
        return Value(self._add(code, registers, place=place), table.unit or UNSTATED)

    # --- tables -------------------------------------------------------------------------------

    def own_constant(self, value: float) -> int:
        """Register of an adjustable constant, which is not shared with other numbers."""
        return self._register(value, -math.inf)

    def _constant(self, value: float) -> int:
        key = value.hex()  # 0.0 and -0.0 differ
        if key not in self._emitted:
            self._emitted[key] = self._register(value, -math.inf)
        return self._emitted[key]

    def _register(self, value: float, t: float) -> int:
        self.registers.append((value, t))
        return len(self.registers) - 1

    def _add(
        self,
        code: int,
        registers: list[int],
        p: float = 0.0,
        q: float = 0.0,
        slots: int = 0,
        place: tuple[int, int, int] = (0, 0, 0),
    ) -> int:
        """Add an operation, or find an equal one; return the register of its result."""
        key = (code, *registers, p.hex(), q.hex(), place)
        if key in self._emitted:
            return self._emitted[key]
        target = self._register(0.0 if code in do.CONDITIONS else math.nan, math.nan)
        operands = registers or [target]
        a, b, c = operands[0], operands[min(1, len(operands) - 1)], operands[-1]
        first, rows, columns = place
        if code in do.WORDS:
            first, rows = len(self.memory), slots
            words = do.WORDS[code] + (2 * (slots + do.SPARE_SLOTS) if slots else 0)
            self.memory += [-math.inf] + [0.0] * (words - 1)
        self.operations.append((code, target, a, b, c, p, q, first, rows, columns))
        self._emitted[key] = target
        return target
