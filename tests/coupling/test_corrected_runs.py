"""Corrections, predictions and identification compiled and interpreted: the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hilrt.coupling.correct_outputs import correct_outputs
from hilrt.coupling.excite import excite
from hilrt.coupling.identify import identify
from hilrt.coupling.predict_late import predict_late
from hilrt.tables.record import blocks
from tests.coupling.corrected_runs import ORDERS, play


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the runs leave when the stages are Python."""
    path = tmp_path_factory.mktemp("runs") / "interpreted.npz"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "tests.coupling.corrected_runs", str(path)]
    subprocess.run(command, check=True, env=environment, cwd=Path(__file__).parents[2])
    with np.load(path) as file:
        return dict(file)


@pytest.mark.parametrize("order", ORDERS)
def test_compiled_stages_leave_what_interpreted_ones_do(
    interpreted: dict[str, Any], order: int
) -> None:
    _, left, seen = play(order)
    assert all(count > 0 for count in seen.values()), seen
    for name, values in left.items():
        theirs = interpreted[name]
        numbers, others = values.view("f8"), theirs.view("f8")
        same = (values == theirs) | (np.isnan(numbers) & np.isnan(others))
        assert same.all(), f"{name}: {np.flatnonzero(~same)}"


@pytest.mark.parametrize("order", ORDERS)
def test_stages_write_the_state_alone(order: int) -> None:
    run, _, _ = play(order)
    run.given.session["renewed"], run.given.subsystems["late"] = 1, 1
    tables = [table for _, table in (*blocks(run.plan), *blocks(run.given))]
    tables.append(run.slack)
    before = [table.tobytes() for table in tables]
    for stage in (predict_late, correct_outputs, excite):
        stage(run.plan, run.state, run.given)
    identify(run.plan, run.state, run.given, run.slack)
    assert [table.tobytes() for table in tables] == before
