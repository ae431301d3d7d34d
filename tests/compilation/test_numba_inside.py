"""A namedtuple of tables is one pointer in compiled code; tables that do not fit are refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import numba
import numpy as np
import pytest

import hilrt
from hilrt.compilation.compiled import bound, compiled
from hilrt.solver import Floats
from hilrt.tables.record import Table, TableRow, f8, i8, table
from tests.random_stages import build

#: Imports and attributes that numba does not document.
UNDOCUMENTED = re.compile(
    r"import llvmlite|from llvmlite|numba\.(core|np|extending)\b|_nrt|\._cache\b|\.get_overload\("
)


class Rows(TableRow):
    value: f8
    three: Annotated[Floats, 3]
    count: i8


class Narrow(TableRow):
    value: f8


needs_compiler = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


class Inner(NamedTuple):
    cube: Table
    rows: Table


class Outer(NamedTuple):
    rows: Table
    inner: Inner
    more: Table


def outer(rows: int, seed: int = 0) -> Outer:
    rng = np.random.default_rng(seed)
    made = [table(Rows, n) for n in (rows, rows + 1, 2)]
    for one in made:
        one["value"], one["three"] = rng.normal(size=len(one)), rng.normal(size=(len(one), 3))
        one["count"] = rng.integers(0, 9, len(one))
    return Outer(made[0], Inner(rng.normal(size=(2, 3, rows)), made[1]), made[2])


@compiled
def total(tables: Inner) -> float:
    found = 0.0
    for i in range(tables.cube.shape[0]):
        for j in range(tables.cube.shape[1]):
            for k in range(tables.cube.shape[2]):
                found += (i + 1) * (j + 2) * tables.cube[i, j, k] * tables.rows[k].value
    return found


@compiled
def work(tables: Outer, other: Table) -> float:
    inner = tables.inner
    for r in range(len(tables.rows)):
        row = tables.rows[r]
        row.value = 0.5 * row.value + row.three[r % 3] + total(inner)
        row.three[1] = row.count * inner.rows[r + 1].value
        inner.cube[1, 2, r] += other[0].value
        tables.more[1].count += row.count
    return total(inner)


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_compiled_code_reads_and_writes_the_tables_themselves(rows: int) -> None:
    mine, theirs = outer(rows), outer(rows)
    function = bound(work, mine, mine.more)
    for _ in range(3):
        assert function() == getattr(work, "py_func", work)(theirs, theirs.more)
    for one, other in zip((*mine[::2], *mine.inner), (*theirs[::2], *theirs.inner), strict=True):
        assert one.tobytes() == other.tobytes()


@needs_compiler
def test_tables_that_do_not_fit_are_refused_by_name() -> None:
    good = outer(4)
    bound(work, good, good.more)
    sparse = good._replace(inner=good.inner._replace(cube=np.zeros((2, 3, 8))[:, :, ::2]))
    with pytest.raises(TypeError, match=r"Outer\.inner\.cube is not contiguous"):
        bound(work, sparse, good.more)
    with pytest.raises(TypeError, match=r"Outer\.more is not a table but a list"):
        bound(work, good._replace(more=[1.0]), good.more)
    flat = good._replace(inner=good.inner._replace(cube=np.zeros(4)))
    with pytest.raises(TypeError, match=r"work: inner\.cube is .* in argument 1"):
        bound(work, flat, good.more)
    narrow = table(Narrow, 4)
    with pytest.raises(TypeError, match=r"work: rows is .* in argument 1"):
        bound(work, good._replace(rows=narrow), good.more)
    with pytest.raises(TypeError, match=r"work: a table is .* in argument 2"):
        bound(work, good, narrow)


@needs_compiler
def test_numerics_refuse_tables_of_another_layout_and_none_is_replaced() -> None:
    numerics = build("fixed")
    for name in ("plan", "state", "given", "slack"):
        with pytest.raises(AttributeError):
            setattr(numerics, name, getattr(numerics, name))
    numerics.load()
    numerics._state = numerics.state._replace(outputs=table(Rows, 4))
    with pytest.raises(TypeError, match=r"macro_step: outputs is .* in argument 2"):
        numerics.load()


HELPER = """
import threading
from hilrt.step.load_step import end_with_input

end_with_input()
print("ready", flush=True)
threading.Event().wait()
"""


def test_the_helper_of_a_first_start_ends_with_the_process_that_started_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HELPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as helper:
        assert helper.stdin is not None
        assert helper.stdout is not None
        try:
            assert helper.stdout.readline() == b"ready\n"
            helper.stdin.close()
            assert helper.wait(60.0) == 1
        finally:
            helper.kill()


def test_what_numba_does_not_document_stands_in_one_file():
    root = Path(hilrt.__file__).parents[1]
    files = [path for room in ("hilrt", "adapters") for path in (root / room).rglob("*.py")]
    found = [path for path in files if UNDOCUMENTED.search(path.read_text(encoding="utf-8"))]
    assert [path.name for path in found] == ["numba_inside.py"]
