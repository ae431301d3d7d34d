"""Tables are read once in what numba compiles, and fields of records at every place."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core import compiler, ir

from hilrt.compilation.compiled import compiled
from hilrt.compilation.stage_passes import ReadTablesOnce
from hilrt.tables.record import Table, table

ROWS = np.dtype([("value", "f8")])


class Inner(NamedTuple):
    matrix: Table


class Outer(NamedTuple):
    rows: Table
    more: Table
    inner: Inner


def stage(plan: Outer, row: Any) -> float:
    same = plan
    total = 0.0
    for i in range(len(plan.rows)):
        row.value = plan.rows[i].value + same.rows[i].value + row.value
        total += plan.inner.matrix[i].value * same.inner.matrix[i].value + row.value
    return total


def test_each_table_is_read_once_and_a_record_wherever_it_stands() -> None:
    rows = table(ROWS, 1)
    plan = Outer(rows, rows, Inner(rows))
    code = compiler.run_frontend(stage)
    state = SimpleNamespace(func_ir=code, args=(numba.typeof(plan), numba.typeof(rows[0])))
    assert ReadTablesOnce().run_pass(state)
    statements = [s for block in code.blocks.values() for s in block.find_insts(ir.Assign)]
    reads = Counter(s.value.attr for s in statements if getattr(s.value, "op", "") == "getattr")
    assert reads == {"rows": 1, "inner": 1, "matrix": 1, "value": 6}
    assert "same" not in {s.target.name for s in statements}


@compiled
def halved(x: float) -> float:
    return 0.5 * x


@compiled
def settled(rows: Table, x: float) -> float:
    """`step` joins in blocks that do not have it, and is of two types."""
    step = 1
    for i in range(len(rows)):
        if rows[i].value > x:
            if rows[i].value > 2.0 * x:
                step = 3
            else:
                rows[i].value = halved(x)
        x += halved(rows[i].value)
    first = step
    step = halved(x)
    while step > 1.0:
        step = halved(step) if step > 3.0 else step - 1.0
    return first + step


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_variables_that_are_assigned_anew_and_parts_give_what_python_gives() -> None:
    for values in ((), (1.0, 5.0, 2.5), (9.0, 0.1)):
        rows = table(ROWS, len(values))
        rows.value = values
        same = rows.copy()
        assert settled(rows, 1.5) == settled.py_func(same, 1.5)
        assert rows.tolist() == same.tolist()
    (library,) = (code.library for code in halved.part.overloads.values())
    assert not library.get_pointer_to_function("halved")
    assert halved(3.0) == 1.5, "what is a part of others is called by Python, too"


def test_code_without_tables_stays_as_it_is() -> None:
    code = compiler.run_frontend(stage)
    state = SimpleNamespace(func_ir=code, args=(numba.types.float64, numba.types.float64))
    assert not ReadTablesOnce().run_pass(state)
