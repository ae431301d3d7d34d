"""Units of what operations give, and which conversions their operands need.

A number in the text has no unit of its own: it takes that of what it is added to or compared with,
and multiplies without one. Whatever else is added or compared is converted, as connections convert;
what does not measure the same thing is refused. pint is asked only where two units differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hilrt.config.units import (
    UNSTATED,
    conversion,
    has_own_zero,
    of_differences,
    product,
)
from hilrt.errors import ConfigError
from hilrt.expressions import operations as do

#: Unit of a value; None: a number in the text, which takes any.
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
#: They count from zero; where zero is arbitrary, so is the result.
_FROM_ZERO: Final = {do.NEGATE, do.ABS, do.SIGN, do.RMS, do.MODULO}


def operand_units(code: int, units: Sequence[Unit]) -> list[Unit]:
    """Units that the operands are to be converted to; None: as they are.

    Raises
    ------
    ConfigError
        If the operation has no meaning for these units.
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

    `exponent` is that of a power, where it is a number in the text.

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
    """Factor and offset; `ConfigError` with both units where they do not fit."""
    if from_unit is None or to_unit is None:
        return 1.0, 0.0
    return conversion(from_unit, to_unit)


def _common(units: Sequence[Unit]) -> Unit:
    """The first one that is none of a number in the text."""
    return next((unit for unit in units if unit is not None), None)


def _alike(units: Sequence[Unit]) -> list[Unit]:
    return [_common(units)] * len(units)


def _summands(code: int, units: Sequence[Unit]) -> list[Unit]:
    """Of a sum or a difference: degC less degC is a difference in K; degC and degC have no sum."""
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
        f"{a!r} and {b!r} are not added: the zero of such a unit is arbitrary; convert both to one "
        'that counts from its own zero, such as convert(x, "K")'
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
            f"the zero of {unit!r} is arbitrary; convert the value to a unit that counts from its "
            'own zero, such as convert(x, "K")'
        )
