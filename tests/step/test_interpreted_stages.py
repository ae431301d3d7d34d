"""The same source compiled and interpreted, on random tables: bit for bit, and only the state."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hilrt.tables.record import blocks
from tests.random_stages import METHODS, left_by_stages, states


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory):
    """What the stages leave when they run in Python."""
    path = tmp_path_factory.mktemp("stages") / "interpreted.npz"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "tests.random_stages", str(path)]
    subprocess.run(command, check=True, env=environment, cwd=Path(__file__).parents[2])
    with np.load(path) as file:
        return dict(file)


@pytest.mark.parametrize("method", METHODS)
def test_compiled_stages_leave_what_interpreted_ones_do(interpreted, method):
    for name, values in states(method).items():
        theirs = interpreted[name]
        same = values.view("u8") == theirs.view("u8")
        same |= np.isnan(values) & np.isnan(theirs)
        assert same.all(), f"{name}: {np.flatnonzero(~same)}"


@pytest.mark.parametrize("method", METHODS)
def test_stages_write_the_state_alone(method):
    for name, (before, after), _ in left_by_stages(method):
        for mine, theirs in zip(before[:2], after[:2], strict=True):
            for (table, old), (_, new) in zip(blocks(mine), blocks(theirs), strict=True):
                assert old.tobytes() == new.tobytes(), f"{name} has written {table}"
        assert before[2].tobytes() == after[2].tobytes(), f"{name} has written the slack"
