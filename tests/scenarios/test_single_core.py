"""A master with real-time priority on one processor together with its solvers: they still run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenarios.sessions import CONFIGS, LINUX, TIMEOUT

pytestmark = [LINUX, pytest.mark.real_time]


def may_have_priority() -> bool:
    """Whether this account may use SCHED_FIFO; tried in a separate process."""
    trial = "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"
    return subprocess.run([sys.executable, "-c", trial], capture_output=True).returncode == 0


@pytest.mark.skipif(not may_have_priority(), reason="this account may not use SCHED_FIFO")
def test_solvers_on_the_masters_processor_answer_in_time(tmp_path: Path) -> None:
    text = (CONFIGS / "two_mass.toml").read_text()
    text = text.replace('pace = "asap"', 'pace = "realtime"')
    for name, number in (("mass1", 1), ("mass2", 2)):
        solver = (
            f'["{sys.executable}", "-m", "hilrt", "solver", "hilrt.models.two_mass:Mass{number}"]'
        )
        head = f"[subsystems.{name}]"
        before, table = text.split(head)
        lines = [f"{head}", 'adapter = "zeromq"', f"spawn = {solver}", "late.max_misses = 1000"]
        rest = table[table.index("\n\n") :]
        text = before + "\n".join(lines) + rest
    session = tmp_path / "single_core.toml"
    session.write_text(text)
    command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), sys.executable, "-m", "hilrt"]
    command += ["run", str(session), "--quiet", "--out", str(tmp_path), "--duration", "1"]
    for override in (
        "master.step=0.01",
        "master.connect_timeout=60.0",
        "master.pacing={priority=10, spin=500.0}",
        "record.report=false",
    ):
        command += ["--set", override]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("two-mass-*/summary.json")
    summary = json.loads(path.read_text())
    # Without the processor they would never answer; how often in time is a matter of the host.
    assert summary["steps"] > 20
    for name in ("mass1", "mass2"):
        assert summary["peers"][name]["late"] < 0.9 * summary["steps"]
