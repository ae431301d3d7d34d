"""Corrections, predictions and identification compiled and interpreted: the same bits."""

from __future__ import annotations

from typing import Any

import pytest

from hilrt.coupling.compensate import predict_late
from hilrt.coupling.correct_outputs import correct_outputs
from hilrt.coupling.identify import identify
from hilrt.coupling.sum_inputs import excite
from hilrt.tables.record import blocks
from tests.coupling.corrected_runs import ORDERS, play
from tests.interpreted import assert_same_bits, left_by_interpreted


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the runs leave when the stages are Python."""
    return left_by_interpreted("tests.coupling.corrected_runs", tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize("order", ORDERS)
def test_compiled_stages_leave_what_interpreted_ones_do(
    interpreted: dict[str, Any], order: int
) -> None:
    _, left, seen = play(order)
    assert all(count > 0 for count in seen.values()), seen
    assert_same_bits(left, interpreted)


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
