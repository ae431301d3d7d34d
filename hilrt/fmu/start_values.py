"""Values that a session sets before an FMU starts, in the types of its variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hilrt.config.from_toml import nearest
from hilrt.fmu.description import Fmu
from hilrt.fmu.variables import settable, typed


def start_values(fmu: Fmu, params: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """The values in the variables' types, without those that are problems.

    Parameters
    ----------
    fmu : Fmu
    params : mapping
        Name to value, or to a list of one for each element.
    problems : list of str
        Extended with one line per problem.
    """
    start = {}
    for key, value in params.items():
        known = len(problems)
        value = _value(fmu, key, value, problems)
        if len(problems) == known:
            start[key] = value
    return start


def _value(fmu: Fmu, key: str, value: Any, problems: list[str]) -> Any:
    """A parameter's value in the variable's type; None if it is a problem."""
    variable = fmu.variables.get(key)
    where = f"params.{key} = {value!r}"
    if variable is None:
        known = [name for name, v in fmu.variables.items() if settable(v)]
        problems.append(f"{where}: {fmu.path.name} has no such parameter{nearest(key, known)}")
        return None
    if not settable(variable):
        kind = f"{variable.variability} {variable.causality}"
        if variable.type in ("Binary", "Clock"):
            kind = f"{variable.type} {variable.causality}"
        problems.append(
            f"{where}: is a {kind} of {fmu.path.name}, which cannot be set; set a parameter, an "
            "input or a start value"
        )
        return None
    if key in fmu.unusable:
        problems.append(f"{where}: cannot be set: {fmu.unusable[key]}; export the FMU again")
        return None
    try:
        if isinstance(value, (list, tuple)):
            if not variable.dimensions:
                raise ValueError("it is not an array; give one value")
            return [typed(fmu.major, variable, item) for item in value]
        return typed(fmu.major, variable, value)
    except (TypeError, ValueError, OverflowError) as error:
        problems.append(f"{where}: does not fit its type {variable.type}: {error}")
        return None


def wrong_lengths(start: Mapping[str, Any], sizes: Mapping[str, int]) -> list[str]:
    """Arrays with a wrong number of values: the FMU would read past the last one."""
    problems = []
    for key, value in start.items():
        given = len(value) if isinstance(value, list) else 1
        if given != sizes[key]:
            problems.append(
                f"params.{key} = {value!r}: has {given} of its {sizes[key]} elements; give a list "
                f"of {sizes[key]}, row by row"
            )
    return problems


def wrong_starts(fmu: Fmu, starts: Mapping[str, float | None]) -> dict[str, str]:
    """Start values of inputs that do not fit their variables, by name, and why."""
    wrong = {}
    for name, start in starts.items():
        variable = fmu.variables[name]
        if start is None or variable.type == "Clock":
            continue
        try:
            if variable.type == "Boolean" and start not in (0.0, 1.0):
                raise ValueError("give 0 or 1")
            typed(fmu.major, variable, start)
        except (ValueError, OverflowError) as error:
            wrong[name] = f"does not fit its type {variable.type}: {error}"
    return wrong
