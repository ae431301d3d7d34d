"""Convert a model description's variables to ports, parameters and start values."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hilrt.config import units
from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError
from hilrt.fmu.description import Fmu
from hilrt.fmu.values import start_values, wrong_lengths
from hilrt.fmu.variables import (
    NUMERIC,
    bounds_of,
    declared_bounds,
    size_of,
    start_outside,
    starts_of,
)
from hilrt.solver import Parameter, Port

_MOST_ELEMENTS = 1_000_000  # larger arrays would exhaust the memory, and are refused
#: Maximum remarks of one kind about one FMU; more are only counted.
_MOST_REMARKS = 10


class Selection(NamedTuple):
    """Selected variables of an FMU with their ports, and values set before it starts."""

    inputs: list[Any]
    outputs: list[Any]
    input_ports: tuple[Port, ...]
    output_ports: tuple[Port, ...]
    start: dict[str, Any]  #: variable name to value or list of values
    remarks: list[str]  #: warnings


def select(
    fmu: Fmu,
    params: Mapping[str, Any],
    outputs: Sequence[str] | None = None,
    feedthrough: Mapping[str, Sequence[str]] | None = None,
    events: bool = True,
    stated: Mapping[str, str] | None = None,
) -> Selection:
    """Select the ports of an FMU.

    Parameters
    ----------
    fmu : Fmu
    params : mapping
        Values of parameters, start values of others; an input named here is held and is no port.
    outputs : sequence of str, optional
        Names or patterns of the variables that become outputs; default: the FMU's outputs.
    feedthrough : mapping, optional
        Output to the inputs that it depends on directly, instead of the description's.
    events : bool
        Whether event mode is used, in which clocks can be ports.
    stated : mapping, optional
        Port to its unit, instead of the description's.

    Raises
    ------
    ConfigError
        With all unknown names, and the nearest known ones.
    """
    problems: list[str] = []
    start = start_values(fmu, params, problems)
    sizes = {name: size_of(variable, start) for name, variable in fmu.variables.items()}
    if not problems:  # otherwise the sizes may be wrong
        problems += wrong_lengths(start, sizes)
    portable = _portable(fmu, events)
    ins = [v for v in fmu.named("input") if v.name in portable and v.name not in params]
    outs = _outputs(fmu, portable, outputs, problems)
    problems += _too_large([*ins, *outs, *(fmu.variables[key] for key in start)], sizes)
    problems += _unusable(fmu, [*ins, *outs])
    ins, outs = ([v for v in some if sizes[v.name]] for some in (ins, outs))  # not empty ones
    depends = _dependencies(fmu, [v.name for v in ins], feedthrough or {}, outs, problems)
    stated = stated or {}
    problems += _wrong_units(stated, [v.name for v in (*ins, *outs)])
    if problems:
        raise ConfigError(problems)
    depends |= {v.name: () for v in ins}
    remarks = _remarks(fmu, params)
    input_ports, output_ports = (
        tuple(_port(fmu, v, sizes[v.name], depends[v.name], stated, remarks) for v in some)
        for some in (ins, outs)
    )
    return Selection(ins, outs, input_ports, output_ports, start, remarks)


def unsupported_variables(fmu: Fmu) -> dict[str, str]:
    """Variables that a port cannot represent, by name, with the reason."""
    return {
        name: f"is a {variable.type}, not a number, but ports only carry numbers"
        for name, variable in fmu.variables.items()
        if variable.type not in NUMERIC and variable.type != "Clock"
    }


def _unusable(fmu: Fmu, variables: Sequence[Any]) -> list[str]:
    faults = fmu.bad_starts | fmu.unusable
    return [
        f"fmu = {str(fmu.path)!r}: its variable {name!r} cannot be used: {faults[name]}; export it "
        "again"
        for name in dict.fromkeys(variable.name for variable in variables)
        if name in faults
    ]


def _remarks(fmu: Fmu, params: Mapping[str, Any]) -> list[str]:
    """Remarks on limitations of an FMU that can be used."""
    name, kept = fmu.path.name, "keeps its start value"
    remarks = [
        f"{name}: {v.type} input {v.name!r} gets no value, because ports only carry numbers; it "
        f"{kept}"
        for v in fmu.named("input")
        if v.type not in NUMERIC and v.type != "Clock" and v.name not in params
    ]
    faults = fmu.bad_starts | fmu.unusable
    unused = [f"{name}: variable {key!r}: {text}" for key, text in faults.items()]
    wrong = [
        f"{name}: {v.causality} {v.name!r}: {text}; the FMU may refuse it"
        for v in (*fmu.named("input"), *fmu.named("parameter"))
        if v.name not in params and v.name not in faults
        if (text := start_outside(fmu.major, v))
    ]
    for some in (unused, wrong):
        remarks += some[:_MOST_REMARKS]
        if len(some) > _MOST_REMARKS:
            remarks.append(f"{name}: and {len(some) - _MOST_REMARKS} more such variables")
    return remarks


def _too_large(variables: Sequence[Any], sizes: Mapping[str, int]) -> list[str]:
    return [
        f"{name}: is an array of {sizes[name]} elements, more than {_MOST_ELEMENTS}; give a "
        "smaller value to the structural parameter that sizes it"
        for name in dict.fromkeys(variable.name for variable in variables)
        if sizes[name] > _MOST_ELEMENTS
    ]


def _portable(fmu: Fmu, events: bool) -> dict[str, Any]:
    """Variables that a port can represent: numbers, and clocks as counts of their ticks."""
    clocks = {
        c.name for c in fmu.clocks if fmu.event_mode and events and (c.triggered or c.is_output)
    }
    return {name: v for name, v in fmu.variables.items() if v.type in NUMERIC or name in clocks}


def _outputs(
    fmu: Fmu, portable: dict[str, Any], wanted: Sequence[str] | None, problems: list[str]
) -> list[Any]:
    if wanted is None:
        return [v for v in fmu.named("output") if v.name in portable]
    portable = {
        name: v for name, v in portable.items() if v.type != "Clock" or v.causality == "output"
    }
    found: dict[str, Any] = {}
    for name in wanted:
        # "x[1]" is a name in many FMUs, but also a pattern for "x1".
        matches = [name] if name in portable else fnmatch.filter(portable, name)
        if not matches:
            problems.append(f"outputs = {name!r}: {_why_no_output(fmu, name, portable)}")
        found |= {match: portable[match] for match in matches}
    return list(found.values())


def _why_no_output(fmu: Fmu, name: str, portable: Mapping[str, Any]) -> str:
    """Reason why a name or pattern matches no variable that can be an output."""
    others = unsupported_variables(fmu)
    found = [name] if name in others else fnmatch.filter(others, name)
    if found:
        which = "" if found[0] == name else f"{found[0]} "
        return f"{which}{others[found[0]]}; leave it out"
    if name in fmu.variables:
        return (
            "is a clock that is not an output here; only clocks that the FMU triggers are "
            "outputs, if it has event mode (hasEventMode) and events are on"
        )
    return f"{fmu.path.name} has no such variable{nearest(name, portable)}"


def _dependencies(
    fmu: Fmu,
    inputs: list[str],
    given: Mapping[str, Sequence[str]],
    outputs: list[Any],
    problems: list[str],
) -> dict[str, tuple[str, ...]]:
    """Output to inputs: as given, as described, or all inputs if nothing is stated."""
    names = [variable.name for variable in outputs]
    for key, known in given.items():
        if key not in names:
            problems.append(f"feedthrough.{key}: is not an output{nearest(key, names)}")
        problems += [
            f"feedthrough.{key} = {name!r}: is not an input{nearest(name, inputs)}"
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
            depends[name] = ()  # nothing ticks before the first step
        elif name in described:
            of = {variable.name for variable in described[name]}
            depends[name] = tuple(n for n in inputs if n in of)
        else:
            depends[name] = tuple(inputs)
    return depends


def _wrong_units(stated: Mapping[str, str], ports: Sequence[str]) -> list[str]:
    """Problems of units that the session file states for ports."""
    problems = []
    for name, unit in stated.items():
        if name not in ports:
            problems.append(f"units.{name}: there is no such port{nearest(name, ports)}")
            continue
        try:
            units.check_unit(unit)
        except ConfigError as error:
            problems.append(f"units.{name}: {error}")
    return problems


def _port(
    fmu: Fmu,
    variable: Any,
    size: int,
    feedthrough: tuple[str, ...],
    stated: Mapping[str, str],
    remarks: list[str],
) -> Port:
    """Port of a variable; `ConfigError` if its description is inconsistent."""
    unit = stated.get(variable.name)
    if unit is None:
        unit = unit_of(fmu, variable, remarks)
    try:
        return _make_port(fmu, variable, size, feedthrough, unit, remarks)
    except ValueError as error:
        raise ConfigError(
            f"fmu = {str(fmu.path)!r}: its variable {variable.name!r} cannot be used: {error}; "
            "export it again"
        ) from None


def _make_port(
    fmu: Fmu,
    variable: Any,
    size: int,
    feedthrough: tuple[str, ...],
    unit: str,
    remarks: list[str],
) -> Port:
    is_input = variable.causality == "input"
    low, high = bounds_of(fmu.major, variable) if is_input else declared_bounds(variable)
    if not (is_input or low < high):  # of an output they are only monitored
        low, high = -math.inf, math.inf
    starts = starts_of(variable)
    if is_input and len(set(starts)) > 1:
        remarks.append(
            f"{fmu.path.name}: the start values of the elements of {variable.name!r} differ, but "
            "all elements of a port have the same one,"
            f" {starts[0]:g}: connect it, or hold it with a "
            "list in params"
        )
    return Port(
        variable.name,
        unit,
        start=min(max(starts[0], low), high) if math.isfinite(starts[0]) else 0.0,
        min=low,
        max=high,
        feedthrough=feedthrough,
        size=size,
        description=variable.description or "",
    )


def tunable_parameters(fmu: Fmu, start: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """Parameters that may be set between two steps, with values from `start` or their defaults."""
    found = []
    for variable in fmu.named("parameter"):
        numeric = variable.type in NUMERIC and variable.type != "Clock"
        if variable.variability != "tunable" or not numeric or size_of(variable, start) != 1:
            continue
        low, high = bounds_of(fmu.major, variable)
        given = start.get(variable.name, starts_of(variable)[0])
        default = min(max(float(given), low), high)
        unit = unit_of(fmu, variable)
        text = variable.description or ""
        found.append(Parameter(variable.name, unit, default, low, high, text))
    return tuple(found)


_BASE_UNITS = ("kg", "m", "s", "A", "K", "mol", "cd", "rad")
#: Units for definitions with a factor or an offset, which cannot be written as a product.
_COMMON_UNITS = ["degC", "degF", "t", "g", "mm", "km", "L", "min", "h", "km/h", "deg", "rpm"]
_COMMON_UNITS += ["kN", "bar", "kPa", "MPa", "kW", "%"]


def unit_of(fmu: Fmu, variable: Any, remarks: list[str] | None = None) -> str:
    """Unit for `hilrt.config.units`; `UNSTATED` if the FMU states none or an unknown one.

    An unknown one is added to the `remarks`.
    """
    unit = variable.unit or getattr(variable.declaredType, "unit", None)
    if unit is None:
        return units.UNSTATED
    definitions = {definition.name: definition.baseUnit for definition in fmu.model.unitDefinitions}
    base = definitions.get(unit)
    known = _readable(unit)
    # Some names are ambiguous, such as "ton": the definition decides.
    if known and (base is None or _agrees(unit, base)):
        return str(unit)
    if base is not None:
        if float(base.factor or 1.0) == 1.0 and float(base.offset or 0.0) == 0.0:
            return _product(_exponents(base))
        for common in _COMMON_UNITS:
            if _agrees(common, base):
                return common
    if remarks is not None:
        what = "defined differently in the FMU" if known else "unknown"
        remarks.append(
            f"{fmu.path.name}: unit {unit!r} of {variable.name!r} is {what}, so it cannot be "
            "converted: state it under units, or check its connections by hand"
        )
    return units.UNSTATED


def _agrees(unit: str, base: Any) -> bool:
    """Whether a known unit agrees with the FMU's definition, except for rounded digits."""
    exponents = _exponents(base)
    defined, zero = float(base.factor or 1.0), float(base.offset or 0.0)
    offset = 0.0
    try:
        if exponents == {"K": 1}:
            factor, offset = units.conversion(unit, "K")
        else:
            # Compared by definition, because radians have no exponent.
            inverse = _product({name: -n for name, n in exponents.items()})
            factor = units.power_factor(unit, f"W*{inverse}" if inverse else "W")
    except ConfigError:
        return False
    # Many FMUs define revolutions without a unit: 1/60 s**-1 is also the rpm.
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
