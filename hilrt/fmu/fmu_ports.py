"""Variables of a model description to ports, parameters and start values."""

from __future__ import annotations

import fnmatch
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hilrt.config import units
from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError
from hilrt.fmu.description import CONTINUOUS, NUMERIC, Fmu
from hilrt.fmu.values import TYPES
from hilrt.solver import Port

log = logging.getLogger("hilrt.fmu")

_BASE_UNITS = ("kg", "m", "s", "A", "K", "mol", "cd", "rad")
#: Units for definitions with a factor or an offset, which cannot be written as a product.
_COMMON_UNITS = ["degC", "degF", "t", "g", "mm", "km", "L", "min", "h", "km/h", "deg", "rpm"]
_COMMON_UNITS += ["kN", "bar", "kPa", "MPa", "kW", "%"]
_MOST_ELEMENTS = 1_000_000  # a larger array is taken as a wrong size, and would fill the memory
_SETTABLE = ("parameter", "structuralParameter", "input")


class Selection(NamedTuple):
    """What is used of an FMU: variables with their ports, and values set before it starts."""

    inputs: list[Any]
    outputs: list[Any]
    input_ports: tuple[Port, ...]
    output_ports: tuple[Port, ...]
    start: dict[str, Any]  #: variable name to value or list of values


def select(
    fmu: Fmu,
    params: Mapping[str, Any],
    outputs: Sequence[str] | None = None,
    feedthrough: Mapping[str, Sequence[str]] | None = None,
    events: bool = True,
) -> Selection:
    """Choose the ports of an FMU.

    Parameters
    ----------
    fmu : Fmu
    params : mapping
        Values of parameters, start values of others; an input named here is held and is no port.
    outputs : sequence of str, optional
        Names or patterns of the variables that become outputs; default: the FMU's outputs.
    feedthrough : mapping, optional
        Output to the inputs it depends on directly, instead of what the description says.
    events : bool
        Whether event mode is to be used, in which clocks can be ports.

    Raises
    ------
    ConfigError
        With every unknown name, and the nearest known one.
    """
    problems: list[str] = []
    start = _start_values(fmu, params, problems)
    sizes = _sizes(fmu, start)
    if not problems:  # otherwise the sizes may be wrong
        problems += _wrong_lengths(start, sizes)
    able = _portable(fmu, events)
    ins = [v for v in fmu.named("input") if v.name in able and v.name not in params]
    outs = _outputs(fmu, able, outputs, problems)
    problems += _too_large([*ins, *outs, *(fmu.variables[key] for key in start)], sizes)
    depends = _dependencies(fmu, [v.name for v in ins], feedthrough or {}, outs, problems)
    if problems:
        raise ConfigError(problems)
    depends |= {v.name: () for v in ins}
    input_ports, output_ports = (
        tuple(_port(fmu, v, sizes[v.name], depends[v.name]) for v in some) for some in (ins, outs)
    )
    return Selection(ins, outs, input_ports, output_ports, start)


def size_of(variable: Any, start: Mapping[str, Any]) -> int:
    """Number of elements, with the structural parameters of `start`."""
    size = 1
    for dimension in variable.dimensions:
        if dimension.start is not None:
            size *= int(dimension.start)
        else:
            size *= int(start.get(dimension.variable.name, dimension.variable.start))
    return size


def _sizes(fmu: Fmu, start: Mapping[str, Any]) -> dict[str, int]:
    return {name: size_of(variable, start) for name, variable in fmu.variables.items()}


def _wrong_lengths(start: Mapping[str, Any], sizes: Mapping[str, int]) -> list[str]:
    """Arrays with a wrong number of values: the FMU would read past the last one."""
    problems = []
    for key, value in start.items():
        given = len(value) if isinstance(value, list) else 1
        if given != sizes[key]:
            problems.append(
                f"params.{key} = {value!r}: has {given} of its {sizes[key]} elements; give a list "
                f"of {sizes[key]}, rows one after the other"
            )
    return problems


def _too_large(variables: Sequence[Any], sizes: Mapping[str, int]) -> list[str]:
    return [
        f"{name}: is an array of {sizes[name]} elements, more than {_MOST_ELEMENTS}; give a "
        "smaller value to the structural parameter that sizes it"
        for name in dict.fromkeys(variable.name for variable in variables)
        if sizes[name] > _MOST_ELEMENTS
    ]


def _portable(fmu: Fmu, events: bool) -> dict[str, Any]:
    """Variables that a port can carry: numbers, and clocks as counts of their ticks."""
    clocks = {
        c.name for c in fmu.clocks if fmu.event_mode and events and (c.triggered or c.is_output)
    }
    return {name: v for name, v in fmu.variables.items() if v.type in NUMERIC or name in clocks}


def _outputs(
    fmu: Fmu, able: dict[str, Any], wanted: Sequence[str] | None, problems: list[str]
) -> list[Any]:
    if wanted is None:
        return [v for v in fmu.named("output") if v.name in able]
    able = {name: v for name, v in able.items() if v.type != "Clock" or v.causality == "output"}
    found: dict[str, Any] = {}
    for name in wanted:
        # "x[1]" is a name in many FMUs, and would be a pattern for "x1".
        matches = [name] if name in able else fnmatch.filter(able, name)
        if not matches:
            problems.append(
                f"outputs = {name!r}: {fmu.path.name} has no such variable{nearest(name, able)}"
            )
        found |= {match: able[match] for match in matches}
    return list(found.values())


def _dependencies(
    fmu: Fmu,
    inputs: list[str],
    given: Mapping[str, Sequence[str]],
    outputs: list[Any],
    problems: list[str],
) -> dict[str, tuple[str, ...]]:
    """Output to inputs: as given, as described, or all inputs where nothing is stated."""
    names = [variable.name for variable in outputs]
    for key, known in given.items():
        if key not in names:
            problems.append(f"feedthrough.{key}: is no output{nearest(key, names)}")
        problems += [
            f"feedthrough.{key} = {name!r}: is no input{nearest(name, inputs)}"
            for name in known
            if name not in inputs
        ]
    described = {
        unknown.variable.name: unknown.dependencies
        for unknown in fmu.model.outputs
        if unknown.dependencies is not None
    }
    depends: dict[str, tuple[str, ...]] = {}
    for variable in outputs:
        name = variable.name
        if name in given:
            depends[name] = tuple(given[name])
        elif variable.type == "Clock":
            depends[name] = ()  # before the first step nothing ticks
        elif name in described:
            of = {variable.name for variable in described[name]}
            depends[name] = tuple(n for n in inputs if n in of)
        else:
            depends[name] = tuple(inputs)
    return depends


def _port(fmu: Fmu, variable: Any, size: int, feedthrough: tuple[str, ...]) -> Port:
    """Port of a variable; `ConfigError` where its description is inconsistent."""
    try:
        return _make_port(fmu, variable, size, feedthrough)
    except ValueError as error:
        raise ConfigError(
            f"fmu = {str(fmu.path)!r}: its variable {variable.name!r} cannot be used: {error}; "
            "export it again"
        ) from None


def _make_port(fmu: Fmu, variable: Any, size: int, feedthrough: tuple[str, ...]) -> Port:
    low, high = _bound(variable, "min", -math.inf), _bound(variable, "max", math.inf)
    if variable.type == "Boolean":
        low, high = 0.0, 1.0
    starts = starts_of(variable)
    if variable.causality == "input" and len(set(starts)) > 1:
        log.warning(
            "%s: the start values of the elements of %r differ, but all elements of a port start "
            "with one, %g: connect it, or hold it with a list in params",
            fmu.path.name,
            variable.name,
            starts[0],
        )
    return Port(
        variable.name,
        unit_of(fmu, variable),
        start=starts[0],
        # The master enforces bounds of inputs; those of outputs are the FMU's own.
        min=low if variable.causality == "input" else -math.inf,
        max=high if variable.causality == "input" else math.inf,
        feedthrough=feedthrough,
        size=size,
        description=variable.description or "",
    )


def _bound(variable: Any, which: str, default: float) -> float:
    for source in (variable, variable.declaredType):
        text = getattr(source, which, None)
        if text is not None:
            return float(text)
    return default


def starts_of(variable: Any) -> list[float]:
    """Start values of the elements; one stands for all of them, 0 where there is none."""
    words = [] if variable.start is None else str(variable.start).split()
    if variable.type == "Boolean":
        return [float(word in ("true", "1")) for word in words] or [0.0]
    return [float(word) for word in words] or [0.0]


def unit_of(fmu: Fmu, variable: Any) -> str:
    """Unit that `hilrt.config.units` reads; `UNSTATED` where the FMU states none or one unknown."""
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
    log.warning(
        "%s: unit %r of %r is %s, so it converts to nothing: check its connections by hand",
        fmu.path.name,
        unit,
        variable.name,
        "defined otherwise in the FMU than here" if known else "unknown",
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


def _start_values(fmu: Fmu, params: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """The values in the variables' types, without those that are problems."""
    start = {}
    for key, value in params.items():
        known = len(problems)
        typed = _value(fmu, key, value, problems)
        if len(problems) == known:
            start[key] = typed
    return start


def _value(fmu: Fmu, key: str, value: Any, problems: list[str]) -> Any:
    """A parameter's value in the variable's type; None where it is a problem."""
    variable = fmu.variables.get(key)
    where = f"params.{key} = {value!r}"
    if variable is None:
        known = [name for name, v in fmu.variables.items() if _settable(v)]
        problems.append(f"{where}: {fmu.path.name} has no such parameter{nearest(key, known)}")
        return None
    if not _settable(variable):
        problems.append(
            f"{where}: is a {variable.variability} {variable.causality} of {fmu.path.name}, which "
            "cannot be set; set a parameter, an input or a start value"
        )
        return None
    try:
        if isinstance(value, (list, tuple)):
            if not variable.dimensions:
                raise ValueError("it is no array; give one value")
            return [_scalar(fmu.major, variable, item) for item in value]
        return _scalar(fmu.major, variable, value)
    except (TypeError, ValueError, OverflowError) as error:
        problems.append(f"{where}: does not fit its type {variable.type}: {error}")
        return None


def _settable(variable: Any) -> bool:
    if variable.variability == "constant" or variable.type in ("Binary", "Clock"):
        return False
    return variable.causality in _SETTABLE or variable.initial in ("exact", "approx")


def _scalar(major: int, variable: Any, value: Any) -> Any:
    """One value in the variable's type; `ValueError` says why it is none."""
    if variable.type == "String":
        return str(value)
    if variable.type == "Enumeration":
        value = _item(variable, value)
    if isinstance(value, str) or value is None:
        raise ValueError("give a number")
    if variable.type == "Boolean":
        if value not in (True, False):
            raise ValueError("give true or false")
        return bool(value)
    number, kind = float(value), TYPES[major][variable.type][2]
    if variable.type in CONTINUOUS:
        if not abs(number) <= float(np.finfo(kind).max):
            raise ValueError("give a finite number that it can hold")
        return number
    if not number.is_integer():
        raise ValueError("give a whole number")
    limits = np.iinfo(kind)
    if not limits.min <= int(value) <= limits.max:
        raise ValueError(f"give a whole number from {limits.min} to {limits.max}")
    return int(value)


def _item(variable: Any, value: Any) -> Any:
    """Number of an enumeration's item; any number where the FMU lists no items."""
    listed = getattr(variable.declaredType, "items", None) or []
    items = {item.name: int(item.value) for item in listed}
    if isinstance(value, str):
        if not items:
            raise ValueError("the FMU lists no items; give a number")
        if value not in items:
            raise ValueError(f"there is no item {value!r}{nearest(value, items)}")
        return items[value]
    if items and value not in items.values():
        known = ", ".join(f"{number} ({name})" for name, number in items.items())
        raise ValueError(f"there is no item {value!r}; there are {known}")
    return value
