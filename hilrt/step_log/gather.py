"""Gather a row of the log from the session's tables; scatter it into them for a replay.

A `Column` gives a signal's place in the tables. All fields have 8 bytes: each is one word of its
table's memory, which is viewed both as floats and as integers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.compilation.compiled import compiled, entry_point
from hilrt.record.messages import Signal
from hilrt.solver import Floats
from hilrt.tables.record import Table, TableRow, i8, table

#: Tables with signals in the log; always all of them, so that the compiled code is the same.
TABLES: Final = (
    "given.session",
    "given.subsystems",
    "given.outputs",
    "given.inputs",
    "slack",
    "state.session",
    "state.outputs",
    "state.inputs",
    "state.drives",
    "state.faults",
    "state.parameters",
    "state.bonds",
    "state.causes",
    "channels",
    "timing",
)


class ColumnPlace(TableRow):
    """Place of a column's number; words are counted from the beginning of their table."""

    column: i8  # of the row
    table: i8
    word: i8
    integer: i8  # the word is an i8
    mask_table: i8  # -1: the column has no mask
    mask_word: i8


#: Tables as flat arrays of their words.
Words = tuple[NDArray[np.float64], ...]
Integers = tuple[NDArray[np.int64], ...]


class TablePlace(NamedTuple):
    """Place of a number: table (of `TABLES`), field, row, and element of a sub-array."""

    table: str
    field: str
    row: int = 0
    element: int = 0


class Column(NamedTuple):
    """A signal of the log, and the place of its number.

    `mask` is an i8 word: where it is 0, the number is meaningless, and the row contains NaN.
    """

    signal: Signal
    place: TablePlace
    mask: TablePlace | None = None


class Gather:
    """Copy of the tables' signals to `row`.

    Parameters
    ----------
    columns : sequence of Column
        In the order of the row.
    tables : mapping of str to table
        Named as in `TABLES`; their memory must not move.
    row : ndarray, shape (columns,)

    Attributes
    ----------
    fill : callable
        Fills all columns.
    """

    def __init__(
        self, columns: Sequence[Column], tables: Mapping[str, Table[Any]], row: Floats
    ) -> None:
        if len(columns) != len(row):
            raise ValueError(f"a row of {len(row)} values for {len(columns)} columns")
        arguments = (index_of(columns, range(len(columns)), tables), *words_of(tables), row)
        self.fill: Callable[[], None] = functools.partial(
            entry_point(gather, *arguments), *arguments
        )


class Scatter:
    """Copy of a log's rows back to the tables.

    Parameters
    ----------
    columns : sequence of Column
    places : sequence of int
        Position of each in a row.
    tables : mapping of str to table
    """

    def __init__(
        self, columns: Sequence[Column], places: Sequence[int], tables: Mapping[str, Table[Any]]
    ) -> None:
        direct = {column.place for column in columns}
        # A mask with its own column is read only from that column.
        columns = [c._replace(mask=None) if c.mask in direct else c for c in columns]
        self._arguments = (index_of(columns, places, tables), *words_of(tables))
        self._scatter = entry_point(scatter, *self._arguments, np.zeros(1))

    def put(self, row: Floats) -> None:
        """Write the columns of a contiguous row into the tables."""
        self._scatter(*self._arguments, row)


def index_of(
    columns: Sequence[Column], places: Sequence[int], tables: Mapping[str, Table[Any]]
) -> Table[ColumnPlace]:
    """Places of the columns as numbers; `places` are their positions in a row."""
    found = table(ColumnPlace, len(columns))
    found["column"] = places
    fields: dict[tuple[str, str], tuple[int, int, int, bool]] = {}

    def word(place: TablePlace | None) -> tuple[int, int, bool]:
        """Index of the table, index of the word in it, and whether the word is an integer."""
        if place is None:
            return -1, 0, True
        if (key := place[:2]) not in fields:
            dtype: Any = tables[place.table].dtype
            kind, offset = dtype.fields[place.field][:2]
            integer = kind.base == np.dtype("i8")
            fields[key] = (TABLES.index(place.table), dtype.itemsize // 8, offset // 8, integer)
        number, row_words, first, integer = fields[key]
        return number, place.row * row_words + first + place.element, integer

    places_, masks = ([word(getattr(c, name)) for c in columns] for name in ("place", "mask"))
    for name, values in zip(("table", "word", "integer"), zip(*places_, strict=True), strict=False):
        found[name] = values
    for name, values in zip(("mask_table", "mask_word"), zip(*masks, strict=True), strict=False):
        found[name] = values
    assert all(integer for *_, integer in masks), "a mask is not an integer"
    return found


def words_of(tables: Mapping[str, Table[Any]]) -> tuple[Words, Integers]:
    """The memory of the tables, in the order of `TABLES`."""
    words = tuple(tables[name].view(np.ndarray).view("f8") for name in TABLES)
    return words, tuple(array.view("i8") for array in words)


@compiled
def gather(columns: Table[ColumnPlace], words: Words, integers: Integers, row: Floats) -> None:
    """Write every column into the row."""
    for k in range(len(columns)):
        c = columns[k]
        if c.mask_table >= 0 and integers[c.mask_table][c.mask_word] == 0:
            row[c.column] = math.nan
        elif c.integer:
            row[c.column] = integers[c.table][c.word]
        else:
            row[c.column] = words[c.table][c.word]


@compiled
def scatter(columns: Table[ColumnPlace], words: Words, integers: Integers, row: Floats) -> None:
    """Write all columns of the row into their tables; set the masks of known values."""
    for k in range(len(columns)):
        c = columns[k]
        if c.mask_table >= 0:
            integers[c.mask_table][c.mask_word] = 0
    for k in range(len(columns)):
        c = columns[k]
        value = row[c.column]
        if c.mask_table >= 0 and not math.isnan(value):
            integers[c.mask_table][c.mask_word] = 1
        if c.integer:
            integers[c.table][c.word] = int(value) if math.isfinite(value) else 0
        else:
            words[c.table][c.word] = value


def load_gather() -> None:
    """Load the compiled function of all rows, or compile it."""
    words = (np.zeros(0),) * len(TABLES)
    entry_point(
        gather, table(ColumnPlace, 0), words, (np.zeros(0, np.int64),) * len(TABLES), np.zeros(0)
    )
