"""Tables: numpy record arrays of fixed layout, which compiled code sees as arrays of structs.

All fields have 8 bytes, so there is no padding, and sizes that differ between sessions are numbers
of rows. The types, and with them the compiled code, are therefore the same for every session; a
snapshot is the bytes of the tables.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    TypeAlias,
    TypeVar,
    get_type_hints,
    overload,
)

import numpy as np
from numpy.typing import NDArray

from hilrt.solver import Floats

#: Coefficients of a polynomial in a table: degree 5 at most.
COEFFICIENTS = 6
#: Samples in a history: order control needs three more than the order that it chooses.
SAMPLES = 8

#: Types of fields: a number; a flag, a count or a row of another table; sub-arrays.
f8: TypeAlias = float
i8: TypeAlias = int
Integers: TypeAlias = NDArray[np.int64]
Coefficients = Annotated[Floats, COEFFICIENTS]
Samples = Annotated[Floats, SAMPLES]

#: A namedtuple of tables, arrays, and further such namedtuples.
Tables = Any


class TableRow:
    """Layout of a table's rows: its annotations are the fields.

    Each field's comment states its unit and, in a state, the stages that write it.
    """


R = TypeVar("R", bound=TableRow)

if TYPE_CHECKING:

    class RowTable(np.ndarray[Any, np.dtype[Any]], Generic[R]):
        """An array of records: a row by its number, a column by its field's name.

        `tools/column_names.py` makes mypy check the names.
        """

        @overload  # type: ignore[override]
        def __getitem__(self, key: int | np.integer[Any], /) -> R: ...
        @overload
        def __getitem__(self, key: str, /) -> NDArray[Any]: ...
        @overload
        def __getitem__(self, key: slice | Sequence[int] | NDArray[Any], /) -> RowTable[R]: ...
        def __getitem__(self, key: Any, /) -> Any: ...
        def __setitem__(self, key: Any, value: Any, /) -> None: ...
        def __iter__(self) -> Iterator[R]: ...  # type: ignore[override]

    Table: TypeAlias = RowTable
else:
    Table = np.ndarray


@functools.cache
def layout_of(row: type[TableRow]) -> np.dtype[Any]:
    """The numpy type of a table's rows: records whose fields are also attributes.

    The tables are ordinary arrays: `numpy.recarray` takes ten times as long to return a column.

    Raises
    ------
    TypeError
        If a field is neither f8 nor i8, nor a sub-array of these, or if its name is an attribute of
        numpy's records, which interpreted code would read instead.
    """
    fields = []
    for name, kind in get_type_hints(row, include_extras=True).items():
        if hasattr(np.record, name):
            raise TypeError(
                f"records have an attribute {name!r} already; choose another name for the field"
            )
        shape = getattr(kind, "__metadata__", ((),))[0]
        base = getattr(kind, "__origin__", kind)
        if base not in (f8, i8, Floats, Integers):
            raise TypeError(f"field {name!r} is {kind}; fields of tables are f8 or i8")
        fields.append((name, "f8" if base in (f8, Floats) else "i8", shape))
    return np.dtype((np.record, fields))


@functools.cache
def stages_of(row: type[TableRow]) -> dict[str, list[str]]:
    """Stages that write each field of a state's row, in order: the last words of its comment.

    `tests/tables/test_rows.py` derives the same from the stages.
    """
    comments = re.findall(r"^    (\w+): [^#\n]+# (.*)$", inspect.getsource(row), re.M)
    return {name: comment.rpartition("; ")[2].split(", ") for name, comment in comments}


def table(row: type[R], rows: int) -> Table[R]:
    """A table of that many rows, all zero; for `TypeError`, see `layout_of`."""
    return np.zeros(rows, layout_of(row))  # type: ignore[arg-type, return-value]


def numbers(column: NDArray[Any]) -> Any:
    """A column as a memoryview, which reads or writes a number in a third of numpy's time."""
    view: Any = column
    return memoryview(view)


def blocks(tables: Tables, prefix: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """Names and arrays of a namedtuple of tables; nested ones are ``outer.inner``."""
    for name, value in zip(tables._fields, tables, strict=True):
        if isinstance(value, tuple):
            yield from blocks(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def copy_tables(source: Tables, target: Tables) -> None:
    """Overwrite every table of `target` with that of `source`, which has the same sizes."""
    for (_, mine), (_, theirs) in zip(blocks(source), blocks(target), strict=True):
        as_bytes(theirs)[...] = as_bytes(mine)


def cloned(tables: Tables) -> Tables:
    """An independent copy of a namedtuple of tables."""
    copy = type(tables)(*(cloned(t) if isinstance(t, tuple) else np.empty_like(t) for t in tables))
    copy_tables(tables, copy)
    return copy


def as_bytes(block: NDArray[Any]) -> NDArray[np.uint8]:
    """The memory of a table or a C-contiguous array, flat."""
    return block.reshape(-1).view("u1")
