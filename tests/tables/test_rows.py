"""Comments at the fields of a state: unit, and stages that write it."""

import inspect
import re

import numpy as np
import pytest

from hilrt.tables import model, program_tables, state
from hilrt.tables.record import TableRow, blocks, cloned
from tests.random_stages import METHODS, left_by_stages
from tests.tables.stage_writes import classes, writers

#: Tables of a state, by their names in it.
ROWS = {
    name: re.search(r"\[(\w+)\]", str(kind))[1]
    for cls, prefix in (
        (state.State, ""),
        (model.ModelState, "model."),
        (model.Learning, "model.learning."),
    )
    for key, kind in cls.__annotations__.items()
    if "Table[" in str(kind)
    for name in [prefix + key]
}


def comments() -> dict[tuple[str, str], str]:
    """Comment behind each field of a state."""
    found = {}
    for module in (state, model, program_tables):
        for name, cls in inspect.getmembers(module, inspect.isclass):
            if (
                issubclass(cls, TableRow)
                and cls.__module__ == module.__name__
                and name in ROWS.values()
            ):
                lines = re.findall(r"^    (\w+): [^#\n]+(?:# (.*))?$", inspect.getsource(cls), re.M)
                found |= {(name, field): comment for field, comment in lines}
    return found


def named(comment: str) -> list[str]:
    """Stages at the end of a comment."""
    return comment.rpartition("; ")[2].split(", ")


def test_comments_name_the_stages_that_write_a_field():
    written, lost = writers()
    assert lost == []
    found = {field: named(comment) for field, comment in comments().items()}
    assert len(found) > 250
    assert found == {field: written.get(field) for field in found}
    assert written.keys() == found.keys()  # plans and inputs are written by none


UNIT = re.compile(r"\b(s|W|J|unit|share|ratio|factor|logarithm)\b")


def test_floats_have_a_unit():
    """In the comment, or in the docstring for all of a row."""
    kinds = {name: classes()[name].__annotations__ for name in ROWS.values()}
    bare = [
        f"{row}.{field}"
        for (row, field), comment in comments().items()
        if kinds[row][field] in ("f8", "Coefficients", "Samples")
        and not UNIT.search(f"{field} {comment}".replace("_", " "))
        if "unit" not in (classes()[row].__doc__ or "")
    ]
    assert bare == []


@pytest.mark.parametrize("method", METHODS)
def test_stages_change_no_field_that_does_not_name_them(method):
    allowed = {field: set(named(comment)) for field, comment in comments().items()}
    before = None
    changed = set()
    for where, _, tables in left_by_stages(method):
        *_, number, stage = where.split()
        if before is not None and number == before[0]:
            for (name, old), (_, new) in zip(blocks(before[1]), blocks(tables), strict=True):
                for field in new.dtype.names or ():
                    if not np.array_equal(old[field], new[field], equal_nan=True):
                        assert stage in allowed[ROWS[name], field], (stage, name, field)
                        changed.add((name, field))
        before = number, cloned(tables)
    assert len(changed) > 60
