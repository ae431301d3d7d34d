"""The typed tree of an expression; every node yields one number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

#: Length of text shown in messages; longer texts are shortened around the location.
SHOWN = 60


@dataclass(frozen=True)
class Node:
    """Base of all nodes; `column` is its position in the text, counted from 0."""

    column: int = field(kw_only=True, compare=False)


@dataclass(frozen=True)
class Number(Node):
    """A number in the text, or computed from such numbers."""

    value: float


@dataclass(frozen=True)
class Reading(Node):
    """A signal ``subsystem.port``, or a calculated channel."""

    name: str


@dataclass(frozen=True)
class Operation(Node):
    """An operation of `hilrt.expressions.operations` with its operands and constants."""

    code: int
    operands: tuple[Node, ...]
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True)
class Lookup(Node):
    """Linear interpolation in a table: a named one of the session, or one in the text."""

    table: str | LookupTable
    operands: tuple[Node, ...]


@dataclass(frozen=True)
class Conversion(Node):
    """`operand` in another unit; `states`: its number is declared to have that unit."""

    operand: Node
    unit: str
    states: bool


@dataclass(frozen=True)
class LookupTable:
    """Points of a lookup table; outside of them the end values apply.

    Attributes
    ----------
    x, y : tuple of float
        Ascending; `y` is empty for a table of one axis.
    values : tuple of float
        One per `x`; with two axes row by row, one row per `x`.
    x_unit, y_unit, unit : str or None
        None: unstated.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    values: tuple[float, ...]
    x_unit: str | None = None
    y_unit: str | None = None
    unit: str | None = None


def lookup_table(
    x: Sequence[float],
    values: Sequence[float | Sequence[float]],
    y: Sequence[float] = (),
    **units: str | None,
) -> LookupTable:
    """Create a lookup table.

    Raises
    ------
    ValueError
        If an axis is not ascending, a number is not finite, or sizes do not fit.
    """
    for name, axis in (("x", x), ("y", y)):
        if any(not a < b for a, b in pairwise(axis)):
            raise ValueError(
                f"the points of {name} must be ascending; sort them, without repetition"
            )
    if not len(x):
        raise ValueError("there are no points")
    rows = [row if isinstance(row, Sequence) else [row] for row in values]
    if len(rows) != len(x) or any(len(row) != max(len(y), 1) for row in rows):
        wanted = f"{len(x)} rows of {len(y)} values" if len(y) else f"{len(x)} values"
        raise ValueError(f"the table needs {wanted}, one for each point")
    flat = tuple(float(value) for row in rows for value in row)
    if not all(map(math.isfinite, (*x, *y, *flat))):
        raise ValueError("a number in it is not finite")
    return LookupTable(tuple(map(float, x)), tuple(map(float, y)), flat, **units)


def at(text: str, column: int) -> str:
    """Location in an expression, as text."""
    flat = " ".join(text.split("\n"))
    if len(flat) <= SHOWN:
        return f"expression {flat!r}, column {column + 1}"
    begin = max(0, column - SHOWN // 3)
    end = begin + SHOWN
    shown = f"{'…' if begin else ''}{flat[begin:end]}{'…' if end < len(flat) else ''}"
    return f"expression {shown!r}, column {column + 1} of the whole"


class ExpressionRefused(Exception):
    """Refusal of an expression: the reason, and the column, counted from 0."""

    def __init__(self, reason: str, column: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.column = reason, column
