"""Unit conversion between ports, and the check that an effort times a flow is a power.

Pint reads the units after spellings common in CAN databases and FMUs have been rewritten (``Nm``,
``kg.m2``, ``min-1``, ``°C``, ``-``). Some conversions that the SI permits would be a guess on a
test bench and are refused:

* The radian counts as dimensionless (``rad/s`` to ``1/s`` is 1), but a revolution, a degree or a
  hertz does not turn into a plain number: whether 1 Hz means one or 2π radians per second must be
  stated. ``1/min`` is a speed in revolutions per minute, as bench databases mean it.
* A torque (``N*m``) is not an energy (``J``), although their dimensions agree.
"""

from __future__ import annotations

import functools
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from hilrt.errors import ConfigError

if TYPE_CHECKING:
    import pint

#: Unit of a signal whose source states none; it converts to any unit, unchanged. An empty unit, in
#: contrast, means a plain number, so 1 is 100 ``%``.
UNSTATED = "?"
#: Remedy for a connection between units that do not convert.
MISFIT_REMEDY = f'check the ends, or give one port the unit "{UNSTATED}" and the connection a gain'

_ALIASES = {
    **dict.fromkeys(("-", "1", "[-]", "--", "none", "unitless", "dimensionless"), ""),
    **dict.fromkeys(("1/min", "min-1", "min^-1", "/min", "rev/min", "r/min", "u/min"), "rpm"),
    **dict.fromkeys(("°", "degree", "degrees"), "deg"),
    **dict.fromkeys(("deg c", "degc", "celsius", "℃"), "degC"),
    **dict.fromkeys(("deg f", "degf", "fahrenheit"), "degF"),
    **dict.fromkeys(("kmh", "km/hr"), "km/h"),
    "bar": "bar",
    "percent": "%",
    "rpm": "rpm",
}
_WORDS = {"Nm": "(N*m)", "kNm": "(kN*m)", "mNm": "(mN*m)", "Nms": "(N*m*s)", "rev": "turn"}
_WORDS |= {"Ohm": "ohm", "kOhm": "kohm", "Amp": "A", "l": "L"}
_WORDS |= {"Amps": "A", "Ampere": "A", "Volt": "V", "Volts": "V", "Watt": "W", "Newton": "N"}
_WORDS |= {"Hertz": "Hz", "Pascal": "Pa", "Joule": "J", "Kelvin": "K", "Bar": "bar", "Sec": "s"}
#: Pairs of units whose product is the watt, as in most bonds, which then need no pint.
_WATTS = (
    {"N", "m/s"},
    {"N*m", "rad/s"},
    {"Nm", "rad/s"},
)
_EFFORTS = ("N", "N*m", "Nm")  #: the most common ones, recognised without pint
_FLOWS = ("m/s", "rad/s", "A", "m^3/s")
#: Pint's names of temperature units such as degC and °F contain one of these.
_PERHAPS_A_TEMPERATURE = re.compile(r"[CcFf°℃℉]|deg|eaumur")
_ENERGY = {"[mass]": 1, "[length]": 2, "[time]": -2}


class _Unit(NamedTuple):
    """Components of a unit."""

    name: str  # as pint reads it
    factor: Decimal  # to SI root units, without offset
    offset: bool  # has a different zero from the root unit
    dimension: dict[str, int | float]
    radians: int | float  # exponent of the radian, which `dimension` leaves out
    plain_angle: bool  # contains no degree, revolution or hertz
    torque: bool  # has the dimension of energy, but is written with a length


@functools.cache
def conversion(from_unit: str, to_unit: str) -> tuple[float, float]:
    """Return factor and offset such that ``value_to = factor * value_from + offset``.

    Parameters
    ----------
    from_unit, to_unit : str
        Units as in `Port.unit`; `UNSTATED` and equal texts convert unchanged.

    Returns
    -------
    tuple of float
        Factor [to_unit/from_unit] and offset [to_unit].

    Raises
    ------
    ConfigError
        If a unit cannot be read, or the two do not measure the same quantity.
    """
    if from_unit == to_unit or UNSTATED in (from_unit, to_unit):
        return 1.0, 0.0
    source, target = _read(from_unit), _read(to_unit)
    if source.dimension != target.dimension:
        raise ConfigError(
            f"unit {_show(from_unit)} does not convert to {_show(to_unit)}: their dimensions differ"
        )
    if source.torque != target.torque:
        raise ConfigError(
            f"unit {_show(from_unit)} does not convert to {_show(to_unit)}: "
            "a torque is not an energy; give both ports the intended unit"
        )
    if source.radians != target.radians and not (source.plain_angle and target.plain_angle):
        raise ConfigError(
            f"unit {_show(from_unit)} does not convert to {_show(to_unit)}: one counts an angle, "
            "the other a number; give both ports an angular unit (rad, deg, rad/s, rpm)"
        )
    zero = _registry().convert(Decimal(0), source.name, target.name)
    return float(source.factor / target.factor), float(zero)


@functools.cache
def is_power(unit_a: str, unit_b: str) -> bool:
    """Whether the product of two units has the dimension of power (W).

    The radian counts as dimensionless. True for `UNSTATED`, which could be anything. False for a
    unit with a zero of its own (``°C``), which cannot be multiplied. `ConfigError` if a unit cannot
    be read.
    """
    if _is_watt(unit_a, unit_b):
        return True
    a, b = _read(unit_a), _read(unit_b)
    if a.offset or b.offset:
        return False
    keys = a.dimension.keys() | b.dimension.keys()
    product = {key: a.dimension.get(key, 0) + b.dimension.get(key, 0) for key in keys}
    return {key: n for key, n in product.items() if n} == _read("W").dimension


@functools.cache
def product(unit_a: str, unit_b: str, power: float = 1.0) -> str:
    """Unit of a value in `unit_a` times the given `power` of a value in `unit_b`.

    `UNSTATED` makes the product's unit unstated.

    Raises
    ------
    ConfigError
        If a unit cannot be read, or has a zero of its own (``°C``) and so cannot be multiplied.
    """
    if UNSTATED in (unit_a, unit_b):
        return UNSTATED
    for text in (unit_a, unit_b):
        if has_own_zero(text):
            raise ConfigError(
                f"values in {_show(text)} cannot be multiplied: their zero is arbitrary; "
                'convert them to one with an absolute zero, such as convert(x, "K")'
            )
    if not unit_b:
        return unit_a
    if not unit_a and power == 1.0:
        return unit_b
    a, b = _read(unit_a), _read(unit_b)
    registry = _registry()
    units = registry.Unit(a.name) * registry.Unit(b.name) ** Decimal(f"{power:g}")
    return format(units, "~C")


@functools.cache
def of_differences(unit: str) -> str:
    """Unit of the difference of two values: K for temperatures in degC."""
    if not has_own_zero(unit):
        return unit
    kelvin = _read(unit).factor == _read("K").factor
    return "K" if kelvin else "delta_degF"


def check_unit(unit: str) -> None:
    """Raise `ConfigError` if a unit cannot be read."""
    if unit not in ("", UNSTATED):
        _read(unit)


def has_own_zero(unit: str) -> bool:
    """Whether the unit's zero is arbitrary, as for degC; most units are decided without pint."""
    return _PERHAPS_A_TEMPERATURE.search(unit) is not None and _read(unit).offset


def is_flow(unit: str) -> bool:
    """Whether a unit is that of a common flow: a speed, a current, a volume per time."""
    if unit in (UNSTATED, *_EFFORTS):
        return False
    return any(_measures(unit, flow) for flow in _FLOWS)


@functools.cache
def _measures(unit: str, other: str) -> bool:
    """Whether two units have the same dimension."""
    return unit == other or _read(unit).dimension == _read(other).dimension


def _is_watt(unit_a: str, unit_b: str) -> bool:
    """Whether the product is W, or assumed to be, decided without pint."""
    return UNSTATED in (unit_a, unit_b) or {unit_a, unit_b} in _WATTS


def power_factor(unit_a: str, unit_b: str) -> float:
    """Factor from the product of two values in these units to W.

    1 where a unit is `UNSTATED`; `ConfigError` if the product is not a power (see `is_power`).
    """
    if not is_power(unit_a, unit_b):
        raise ConfigError(f"{_show(unit_a)} times {_show(unit_b)} is not a power")
    if _is_watt(unit_a, unit_b):
        return 1.0
    return float(_read(unit_a).factor * _read(unit_b).factor / _read("W").factor)


@functools.cache
def _registry() -> pint.UnitRegistry[Any]:
    import pint  # takes 0.2 s, so only in sessions that convert units

    # Decimal keeps exact factors exact: °C to K is 1 and 273.15, kPa to bar 0.01.
    return pint.UnitRegistry(non_int_type=Decimal)


@functools.cache
def _read(text: str) -> _Unit:
    """Parse a unit; `ConfigError` if pint cannot read it."""
    registry = _registry()
    try:
        unit = registry.parse_units(_rewrite(text))
        factor, root = registry.get_root_units(unit, check_nonmult=False)
        names = [name for name, _ in registry.Quantity(1, unit).unit_items()]
        exponents = {name: _number(n) for name, n in registry.Quantity(1, root).unit_items()}
    except Exception:  # pint's parser also raises assertion, syntax and type errors
        raise ConfigError(
            f"unit {_show(text)} is unknown; write it with SI symbols, such as rad/s, N*m, kg/h, "
            "km/h, degC, bar, %, or leave it empty for a plain number"
        ) from None
    dimension = {key: _number(n) for key, n in dict(unit.dimensionality).items()}
    angles = [name for name in names if "radian" in str(registry.get_root_units(name)[1])]
    return _Unit(
        name=str(unit),
        factor=Decimal(str(factor)),
        offset=bool(registry.convert(Decimal(0), unit, root)),
        dimension=dimension,
        radians=exponents.get("radian", 0),
        plain_angle=all(name.endswith("radian") for name in angles)
        and not any(name.endswith("hertz") for name in names),
        torque=dimension == _ENERGY
        and any(dict(registry.get_dimensionality(name)) == {"[length]": 1} for name in names),
    )


def _rewrite(text: str) -> str:
    """Rewrite spellings of CAN databases and FMUs to pint's."""
    text = text.strip()
    alias = _ALIASES.get(text.lower())
    if alias is not None:
        return alias
    text = re.sub(r"[·⋅×]", "*", text)
    text = re.sub(r"(?<=[^\W\d])\.(?=[^\W\d])|(?<=\d)\.(?=[^\W\d])", "*", text)  # kg.m2.s-2
    text = re.sub(r"(?<=[^\W\d_])([+-]?\d+)(?!\w)", r"**\1", text)  # m2, s-1
    return re.sub(r"[^\W\d_]+", lambda word: _WORDS.get(word[0], word[0]), text)


def _number(exponent: Any) -> int | float:
    """Convert an exponent to a plain number: pint mixes int and Decimal."""
    value = float(exponent)
    return int(value) if value.is_integer() else value


def _show(text: str) -> str:
    return repr(text) if text else "'' (a plain number)"
