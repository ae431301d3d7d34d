"""Tables are read once in what numba compiles, and fields of records at every place."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core import compiler, ir

from hilrt.stage_passes import ReadTablesOnce
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


def test_code_without_tables_stays_as_it_is() -> None:
    code = compiler.run_frontend(stage)
    state = SimpleNamespace(func_ir=code, args=(numba.types.float64, numba.types.float64))
    assert not ReadTablesOnce().run_pass(state)
