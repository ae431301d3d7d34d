"""A test sequence that fails leaves a bench at its safe values, and the line in the log."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.scenarios.failing_sequences import (
    assert_safe_and_told,
    failing_run,
    strike,
    until_driving,
)
from tests.scenarios.sessions import LINUX, Listener

pytestmark = LINUX


@pytest.mark.parametrize(("fault", "as_test"), [("kill", False), ("raise", True)])
def test_it_ends_at_safe_values_with_the_line(tmp_path: Path, fault: str, as_test: bool) -> None:
    with Listener() as listener, failing_run(tmp_path, listener, fault, as_test=as_test) as run:
        until_driving(run, listener)
        since = time.time()
        strike(run, fault)
        assert_safe_and_told(run, listener, fault, since)
