"""Tables: fields of 8 bytes, and copies of their memory."""

from typing import Annotated, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from hilrt.solver import Floats
from hilrt.tables.record import TableRow, blocks, cloned, copy_tables, f8, i8, table


class Fields(TableRow):
    count: i8
    value: Annotated[Floats, 3]


class Inner(NamedTuple):
    matrix: np.ndarray


class Outer(NamedTuple):
    rows: np.ndarray
    none: np.ndarray
    inner: Inner


def filled() -> Outer:
    rows = table(Fields, 2)
    rows["count"], rows["value"] = (-1, 7), np.arange(6.0).reshape(2, 3)
    rows["value"].view("i8")[0, 0] = 0x7FF8000000000123  # NaN with bits of its own
    return Outer(rows, table(Fields, 0), Inner(np.arange(8.0).reshape(2, 2, 2)))


def memory(tables) -> dict[str, bytes]:
    return {name: block.tobytes() for name, block in blocks(tables)}


def test_blocks_are_named_by_the_way_to_them():
    assert [name for name, _ in blocks(filled(), "state.")] == [
        "state.rows",
        "state.none",
        "state.inner.matrix",
    ]


def test_a_clone_has_the_same_bytes_and_shares_none():
    tables = filled()
    before = memory(tables)
    copy = cloned(tables)
    assert memory(copy) == before
    assert [type(block) for _, block in blocks(copy)] == [type(b) for _, b in blocks(tables)]
    copy.rows["value"][1, 2] = copy.inner.matrix[1, 1, 1] = -1.0
    assert memory(tables) == before
    copy_tables(tables, copy)
    assert memory(copy) == before


def test_tables_of_other_sizes_are_not_copied():
    with pytest.raises(ValueError, match="could not broadcast"):
        copy_tables(filled(), filled()._replace(rows=table(Fields, 3)))


@pytest.mark.parametrize(
    ("name", "kind", "fault"),
    [
        ("a", np.int32, "f8 or i8"),
        ("b", Annotated[NDArray[np.float32], 2], "f8 or i8"),
        ("c", bool, "f8 or i8"),
        ("mean", f8, "have an attribute 'mean'"),
    ],
)
def test_fields_have_eight_bytes_and_names_of_their_own(name, kind, fault):
    row = type("Wrong", (TableRow,), {"__annotations__": {name: kind}})
    with pytest.raises(TypeError, match=fault):
        table(row, 1)


def test_the_layout_is_that_of_the_annotations_in_their_order():
    assert table(Fields, 2).dtype.descr == [("count", "<i8"), ("value", "<f8", (3,))]
