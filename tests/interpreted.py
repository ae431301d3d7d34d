"""The same runs compiled and interpreted: what they leave must have the same bits."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

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
    """Let numpy's records read and write fields in C: by attribute, they look them up in Python.

    That takes two thirds of the time of an interpreted step, and the bits are the same.
    """
    attribute, set_attribute = np.record.__getattribute__, np.record.__setattr__

    def read(record: np.record, name: str) -> Any:
        if name[0] == "_":  # asked for at every access: the exception would cost more
            return attribute(record, name)
        try:
            return np.void.__getitem__(record, name)
        except ValueError:  # `table` sees to it that no field has a method's name
            return attribute(record, name)

    def write(record: np.record, name: str, value: Any) -> None:
        try:
            np.void.__setitem__(record, name, value)
        except ValueError:
            set_attribute(record, name, value)

    setattr(np.record, "__getattribute__", read)  # noqa: B010
    setattr(np.record, "__setattr__", write)  # noqa: B010


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
