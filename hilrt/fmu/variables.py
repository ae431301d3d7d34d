"""Types of an FMU's variables, their permitted values, and errors in their description."""

from __future__ import annotations

import ctypes
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hilrt.config.from_toml import nearest

#: Types that a port can represent, as a number.
_WHOLE = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
NUMERIC = frozenset(("Real", "Integer", "Enumeration", "Boolean", "Float32", "Float64", *_WHOLE))
CONTINUOUS = frozenset(("Real", "Float32", "Float64"))

#: FMI type to (name in the C functions, C type, numpy type), by major version.
_REAL = ("Real", ctypes.c_double, np.float64)
_INTEGER = ("Integer", ctypes.c_int, np.int32)
TYPES: dict[int, dict[str, tuple[str, Any, Any]]] = {
    2: {
        "Real": _REAL,
        "Integer": _INTEGER,
        "Enumeration": _INTEGER,
        "Boolean": ("Boolean", ctypes.c_int, np.int32),
    },
    3: {
        "Float64": ("Float64", ctypes.c_double, np.float64),
        "Float32": ("Float32", ctypes.c_float, np.float32),
        "Boolean": ("Boolean", ctypes.c_bool, np.bool_),
        "Enumeration": ("Int64", ctypes.c_int64, np.int64),
        **{
            f"{sign}Int{bits}": (
                f"{sign}Int{bits}",
                getattr(ctypes, f"c_{sign.lower()}int{bits}"),
                getattr(np, f"{sign.lower()}int{bits}"),
            )
            for sign in ("", "U")
            for bits in (8, 16, 32, 64)
        },
    },
}

_WHOLE_NUMBER = re.compile(r"\s*[+-]?[0-9]{1,18}\s*", re.ASCII)
_BOOLEANS = {"true": 1.0, "1": 1.0, "false": 0.0, "0": 0.0}


def flows(variable: Any) -> bool:
    """Whether a variable is continuous, rather than switched at events."""
    return variable.type in CONTINUOUS and variable.variability == "continuous"


def items_of(variable: Any) -> dict[str, int]:
    """Numbers of an enumeration's items by name; empty for other types, or without a list.

    Items whose value is not an integer are skipped.
    """
    listed = getattr(getattr(variable, "declaredType", None), "items", None) or []
    return {
        item.name: int(item.value) for item in listed if _WHOLE_NUMBER.fullmatch(str(item.value))
    }


def declared_bounds(variable: Any) -> tuple[float, float]:
    """Bounds declared for the variable or its type; infinite without any."""
    low, high = (
        next(
            (
                float(text)
                for source in (variable, variable.declaredType)
                if (text := getattr(source, which, None)) is not None
            ),
            default,
        )
        for which, default in (("min", -math.inf), ("max", math.inf))
    )
    return low, high


def bounds_of(major: int, variable: Any) -> tuple[float, float]:
    """Minimum and maximum, by declaration, items, and type."""
    if variable.type == "Clock":
        return -math.inf, math.inf
    if variable.type == "Boolean":
        return 0.0, 1.0
    low, high = declared_bounds(variable)
    kind = TYPES[major][variable.type][2]
    if kind is not np.float64:
        limits = np.finfo(kind) if variable.type in CONTINUOUS else np.iinfo(kind)
        low, high = max(low, float(limits.min)), min(high, float(limits.max))
    numbers = items_of(variable).values()
    if numbers:
        low, high = max(low, min(numbers)), min(high, max(numbers))
    return low, high


def starts_of(variable: Any) -> list[float]:
    """Start values of the elements; a single one applies to all, 0 by default.

    `ValueError` for a text that is not a value of the type.
    """
    words = [] if variable.start is None else str(variable.start).split()
    if variable.type == "Boolean":
        return [_boolean(word) for word in words] or [0.0]
    return [float(word) for word in words] or [0.0]


def _boolean(word: str) -> float:
    value = _BOOLEANS.get(word.lower())  # some tools write True
    if value is None:
        raise ValueError(f"{word!r} is neither true nor false")
    return value


# -- values given by a user ---------------------------------------------------------------------


def typed(major: int, variable: Any, value: Any) -> Any:
    """A value in the variable's type; `ValueError` or `TypeError` with the reason if invalid.

    Parameters
    ----------
    major : int
        FMI version, 2 or 3.
    variable
        As read by FMPy.
    value : object
        As given in the session file or on the command line.
    """
    if isinstance(value, (list, tuple)):
        raise ValueError("it is a nested list; give all elements in one list, row by row")
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
    else:
        if not number.is_integer():
            raise ValueError("give a whole number")
        limits = np.iinfo(kind)
        if not limits.min <= int(value) <= limits.max:
            raise ValueError(f"give a whole number from {limits.min} to {limits.max}")
    low, high = declared_bounds(variable)
    if not low <= number <= high:
        raise ValueError(f"its description allows {low:g} to {high:g}")
    return number if variable.type in CONTINUOUS else int(value)


def _item(variable: Any, value: Any) -> Any:
    """Number of an enumeration's item; any number if the FMU lists no items."""
    items = items_of(variable)
    if isinstance(value, str):
        if not items:
            raise ValueError("the FMU lists no items; give a number")
        if value not in items:
            raise ValueError(f"there is no item {value!r}{nearest(value, items)}")
        return items[value]
    if items and value not in items.values():
        known = ", ".join(f"{number} ({name})" for name, number in items.items())
        number = f"{value:g}" if isinstance(value, float) else repr(value)
        raise ValueError(f"there is no item {number}; there are {known}")
    return value


# -- faults of a description -----------------------------------------------------------------------


def unusable_variables(variables: Sequence[Any]) -> dict[str, str]:
    """Variables that cannot be used, by name, with the reason: ambiguous, or invalid bounds.

    Parameters
    ----------
    variables : sequence
        All variables of a description.
    """
    faults: dict[str, str] = {}
    for variable in variables:
        if variable.type in NUMERIC and (fault := _unreadable(variable)):
            faults[variable.name] = fault
    for name, n in Counter(variable.name for variable in variables).items():
        if n > 1:
            faults[name] = f"{n} variables have that name"
    return faults


def _unreadable(variable: Any) -> str:
    """Attributes that are not numbers of the variable's type."""
    for which in ("min", "max"):
        for source in (variable, variable.declaredType):
            text = getattr(source, which, None)
            if text is not None and not _is_number(text):
                return f"its {which} = {text!r} is not a number"
    for item in getattr(variable.declaredType, "items", None) or ():
        if not _is_number(item.value):
            return f"its item {item.name!r} has the number {item.value!r}"
    return ""


def bad_starts(variables: Sequence[Any]) -> dict[str, str]:
    """Variables whose own start value is invalid, by name; another one can be set."""
    return {
        variable.name: f"its start = {variable.start!r} is not a value of the type {variable.type}"
        for variable in variables
        if variable.type in NUMERIC and variable.start is not None and not _is_start(variable)
    }


def _is_start(variable: Any) -> bool:
    try:
        starts = starts_of(variable)
    except ValueError:
        return False
    return variable.type in CONTINUOUS or all(start.is_integer() for start in starts)


def _is_number(text: Any) -> bool:
    try:
        return not math.isnan(float(text))
    except (TypeError, ValueError):
        return False


def start_outside(major: int, variable: Any) -> str:
    """Reason why a usable variable's own start value may not be set; empty if it may."""
    if variable.start is None or variable.type not in NUMERIC:
        return ""
    low, high = bounds_of(major, variable)
    items = items_of(variable).values()
    for start in starts_of(variable):
        if not math.isfinite(start):
            return f"its own start = {start:g} is not finite"
        if not low <= start <= high:
            return f"its own start = {start:g} lies outside {low:g} to {high:g}"
        if items and start not in items:
            return f"its own start = {start:g} is not one of its items"
    return ""


def settable(variable: Any) -> bool:
    """Whether a value can be set before the simulation."""
    if variable.variability == "constant" or variable.type in ("Binary", "Clock"):
        return False
    causes = ("parameter", "structuralParameter", "input")
    return variable.causality in causes or variable.initial in ("exact", "approx")


def size_of(variable: Any, start: Mapping[str, Any]) -> int:
    """Number of elements, for the structural parameters in `start`."""
    size = 1
    for dimension in variable.dimensions:
        if dimension.start is not None:
            size *= int(dimension.start)
        else:
            size *= int(start.get(dimension.variable.name, dimension.variable.start))
    return size
