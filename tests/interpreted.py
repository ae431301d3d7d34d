"""The same runs compiled and interpreted: what they leave must have the same bits."""

from __future__ import annotations

import operator
import os
import runpy
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hilrt.tables import record
from hilrt.tables.record import blocks


def numbers(values: np.ndarray) -> np.ndarray:
    """A table as floats, field by field."""
    if values.dtype.names is None:
        return np.array(values, dtype=float)
    fields = [np.asarray(values[name], dtype=float).ravel() for name in values.dtype.names]
    return np.concatenate(fields) if fields else np.zeros(0)


def left_by_interpreted(module: str, folder: Path) -> dict[str, np.ndarray]:
    """What the runs of a module leave in a process without the compiler, arrays by name.

    ``python -m MODULE FILE`` has to write it.
    """
    path = folder / "interpreted.npz"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "tests.interpreted", module, str(path)]
    subprocess.run(command, check=True, env=environment, cwd=Path(__file__).parents[1])
    with np.load(path) as file:
        return dict(file)


def read_fields_directly() -> None:
    """Let rows and fields of tables be read in C: numpy's record arrays look them up in Python.

    That takes three quarters of the time of an interpreted step, and the bits are the same.
    """
    inherited = frozenset(dir(np.record))
    set_attribute = np.record.__setattr__

    def declared(records: type[np.record], name: str) -> bool:
        """What `table` asks of the name of each field that it makes."""
        if name in inherited:
            return True
        setattr(records, name, property(operator.itemgetter(name)))
        return False

    def write(row: np.record, name: str, value: Any) -> None:
        try:
            np.void.__setitem__(row, name, value)
        except ValueError:
            set_attribute(row, name, value)

    setattr(record, "hasattr", declared)  # noqa: B010
    setattr(np.record, "__setattr__", write)  # noqa: B010
    del np.record.__getattribute__, np.record.__getitem__


def assert_untouched(name: str, before: Iterable[Any], after: Iterable[Any]) -> None:
    """Plan and input, copied before and after a stage, have the same bytes."""
    for mine, theirs in zip(before, after, strict=True):
        for (table, old), (_, new) in zip(blocks(mine), blocks(theirs), strict=True):
            assert old.tobytes() == new.tobytes(), f"{name} has written {table}"


def assert_same_bits(left: Mapping[str, np.ndarray], interpreted: Mapping[str, np.ndarray]) -> None:
    """Every float is the same bit by bit; NaN equals NaN wherever its bits come from."""
    for name, values in left.items():
        theirs = interpreted[name]
        same = values.view("u8") == theirs.view("u8")
        same |= np.isnan(values) & np.isnan(theirs)
        assert same.all(), f"{name}: {np.flatnonzero(~same)}"


if __name__ == "__main__":
    read_fields_directly()
    _, module, *sys.argv[1:] = sys.argv
    runpy.run_module(module, run_name="__main__", alter_sys=False)
