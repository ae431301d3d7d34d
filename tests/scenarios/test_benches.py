"""The shipped sessions with the other emulated benches: they run, couple and come to rest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import hilrt
from tests.scenarios.sessions import CONFIGS, LINUX, Run, free_port, sets

pytestmark = LINUX

DURATION = 1.5


def start(folder: Path, session: str, bench: str) -> Run:
    """One of the shipped sessions, as a busy machine keeps up with it."""
    calm = sets(
        "master.step=0.01",
        "record.report=false",
        f"subsystems.{bench}.bus.port={free_port()}",
        f"subsystems.{bench}.master_timeout=0.5",
        f"subsystems.{bench}.bench_timeout=0.5",
        f"subsystems.{bench}.late.max_misses=1000",
    )
    options = ["--duration", str(DURATION), *calm]
    return Run(folder / "configs" / session, folder / bench, *options)


def largest(run: Run, signal: str) -> float:
    return float(np.nanmax(np.abs(hilrt.load_log(run.folder)[signal])))


def test_motor_and_hydraulic_axis_in_the_loop(tmp_path: Path) -> None:
    shutil.copytree(CONFIGS, tmp_path / "configs")
    motor = start(tmp_path, "motor_in_the_loop.toml", "motor")
    axis = start(tmp_path, "axis_in_the_loop.toml", "axis")
    try:
        for run in (motor, axis):
            assert run.wait() == 0, run.stderr
            summary = json.loads((run.folder / "summary.json").read_text())
            assert summary["time_s"] == pytest.approx(DURATION)
    finally:
        motor.clean_up()
        axis.clean_up()
    assert largest(motor, "motor.mode") == 1.0  # torque-controlled, as the bench confirms
    assert largest(motor, "machine.speed") > 3.0  # rad/s: the virtual machine is turned …
    assert largest(motor, "motor.speed") > 3.0  # … by the real shaft
    assert largest(axis, "axis.measured_position") > 5.0  # mm
    assert largest(axis, "axis.force") > 1.0  # kN
