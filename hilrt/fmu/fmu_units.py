"""Units of an FMU's variables, as its description defines them, in words that pint reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hilrt.config import units
from hilrt.errors import ConfigError
from hilrt.fmu.description import Fmu

_BASE_UNITS = ("kg", "m", "s", "A", "K", "mol", "cd", "rad")
#: Units for definitions with a factor or an offset, which cannot be written as a product.
_COMMON_UNITS = ["degC", "degF", "t", "g", "mm", "km", "L", "min", "h", "km/h", "deg", "rpm"]
_COMMON_UNITS += ["kN", "bar", "kPa", "MPa", "kW", "%"]


def unit_of(fmu: Fmu, variable: Any, remarks: list[str] | None = None) -> str:
    """Unit that `hilrt.config.units` reads; `UNSTATED` where the FMU states none or one unknown.

    The latter is added to the `remarks`.
    """
    unit = variable.unit or getattr(variable.declaredType, "unit", None)
    if unit is None:
        return units.UNSTATED
    definitions = {definition.name: definition.baseUnit for definition in fmu.model.unitDefinitions}
    base = definitions.get(unit)
    known = _readable(unit)
    # Some names are ambiguous, as "ton": the definition counts.
    if known and (base is None or _agrees(unit, base)):
        return str(unit)
    if base is not None:
        if float(base.factor or 1.0) == 1.0 and float(base.offset or 0.0) == 0.0:
            return _product(_exponents(base))
        for common in _COMMON_UNITS:
            if _agrees(common, base):
                return common
    if remarks is not None:
        what = "defined otherwise in the FMU than here" if known else "unknown"
        remarks.append(
            f"{fmu.path.name}: unit {unit!r} of {variable.name!r} is {what}, so it converts to "
            "nothing: check its connections by hand"
        )
    return units.UNSTATED


def _agrees(unit: str, base: Any) -> bool:
    """Whether a unit known here is the one that an FMU defines, but for rounded digits."""
    exponents = _exponents(base)
    defined, zero = float(base.factor or 1.0), float(base.offset or 0.0)
    offset = 0.0
    try:
        if exponents == {"K": 1}:
            factor, offset = units.conversion(unit, "K")
        else:
            # By comparison with the definition, because radians have no exponent.
            inverse = _product({name: -n for name, n in exponents.items()})
            factor = units.power_factor(unit, f"W*{inverse}" if inverse else "W")
    except ConfigError:
        return False
    # Many FMUs define revolutions without a unit: 1/60 s**-1 is the rpm, too.
    factors = (factor,) if "rad" in exponents else (factor, factor / (2 * math.pi))
    same = any(math.isclose(defined, one, rel_tol=1e-3) for one in factors)
    return same and math.isclose(zero, offset, rel_tol=1e-4)


def _exponents(base: Any) -> dict[str, int]:
    exponents = {name: int(getattr(base, name) or 0) for name in _BASE_UNITS}
    return {name: n for name, n in exponents.items() if n}


def _product(exponents: Mapping[str, int]) -> str:
    return "*".join(f"{name}**{n}" for name, n in exponents.items())


def _readable(unit: str) -> bool:
    try:
        units.is_power(unit, "")
    except ConfigError:
        return False
    return True
