"""Tables: numpy record arrays of fixed layout, which compiled code sees as arrays of structs.

All fields have 8 bytes, so that there is no padding, and sizes that differ from session to session
are numbers of rows. So the types, and with them the compiled code, are the same for every session;
a snapshot is the tables' bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Coefficients of a polynomial in a table: degree 5 at most.
COEFFICIENTS = 6
#: Samples in a history: order control looks at three more than the order that it chooses.
SAMPLES = 8

#: A record array. Its fields depend on its dtype, which no type of Python can say.
Table = Any
#: A namedtuple of tables, arrays, and further such namedtuples.
Tables = Any


def table(fields: np.dtype[Any], rows: int) -> Table:
    """A table of that many rows, all zero.

    Raises
    ------
    TypeError
        If a field is no f8 or i8, or a sub-array of these, or if numpy's records have an attribute
        of its name, which interpreted code would read instead.
    """
    for name in fields.names or ():
        if hasattr(np.record, name):
            raise TypeError(f"records have an attribute {name!r} already; name the field otherwise")
        base = fields[name].base
        if base not in (np.dtype("f8"), np.dtype("i8")):
            raise TypeError(f"field {name!r} is {base}; fields of tables are f8 or i8")
    return np.zeros(rows, fields).view(np.recarray)


def blocks(tables: Tables, prefix: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """Names and arrays of a namedtuple of tables; those of one within are ``outer.inner``."""
    for name, value in zip(tables._fields, tables, strict=True):
        if isinstance(value, tuple):
            yield from blocks(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def copy_tables(source: Tables, target: Tables) -> None:
    """Overwrite every table of `target` by that of `source`, which has the same sizes."""
    for (_, mine), (_, theirs) in zip(blocks(source), blocks(target), strict=True):
        as_bytes(theirs)[...] = as_bytes(mine)


def cloned(tables: Tables) -> Tables:
    """An independent copy of a namedtuple of tables."""
    copy = type(tables)(*(cloned(t) if isinstance(t, tuple) else np.empty_like(t) for t in tables))
    copy_tables(tables, copy)
    return copy


def as_bytes(block: NDArray[Any]) -> NDArray[np.uint8]:
    """The memory of a table or a C-contiguous array, flat."""
    return block.view(np.ndarray).reshape(-1).view("u1")
