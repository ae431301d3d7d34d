"""Single cases of a sweep: run alone by the command in its row, and ended after a time."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import hilrt
from hilrt import SweepOptions
from hilrt.studies.run_cases import StudyCase, SweptSession, run_case

TWO_MASS = Path(__file__).resolve().parents[2] / "bench_configs" / "two_mass.toml"
SESSION = """
[session]
name = "waits"
duration = 0.01
pace = "asap"
[master]
step = 0.001
[subsystems.one]
adapter = "inprocess"
model = "waits:Waits"
params = { number = 0 }
"""
#: It never answers at one of its settings.
MODEL = """
import threading

import numpy as np

from hilrt import Port, Sample, Solver


class Waits(Solver):
    inputs, outputs = (), (Port("y"),)

    def __init__(self, number):
        self.number = number

    def initialize(self, t0, u0):
        return Sample(np.array([float(self.number)]))

    def advance(self, t, h, u):
        if self.number == 2:
            threading.Event().wait()
        return self.initialize(t, None)
"""


def test_the_command_of_a_row_runs_that_case_alone(tmp_path):
    """Another process, with a log and in another way, gives the same energies, bit for bit."""
    swept = SweptSession(str(TWO_MASS), TWO_MASS.read_text("utf-8"), ("session.duration=0.1",))
    own = {"bonds.spring.correction.mu": 0.3, "bonds.spring.correction.residual": "held"}
    row = run_case(swept, StudyCase("c", own))
    program, *words = shlex.split(row["command"])
    assert program == "hilrt"
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "hilrt", *words, "--folder", str(folder), "--quiet"]
    subprocess.run(command, check=False, timeout=280)  # whose status is its verdict
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    assert summary["steps"] == row["steps"] == 100
    for name in ("residual_energy_j", "corrected_energy_j", "interface_energy_j"):
        assert summary["bonds"]["spring"][name] == row[f"bonds.spring.{name}"]
    assert summary["bonds"]["spring"]["corrected_energy_j"] != 0.0


def test_a_case_that_takes_too_long_is_a_row_with_its_reason(tmp_path):
    (tmp_path / "waits.py").write_text(MODEL, "utf-8")
    (tmp_path / "s.toml").write_text(SESSION, "utf-8")
    done = hilrt.sweep(
        tmp_path / "s.toml",
        {"subsystems.one.params.number": range(4)},
        out=tmp_path / "out",
        options=SweepOptions(workers=1, timeout=1.0, progress=False),
    )
    assert (done.cases, done.lost) == (4, 1)
    frame = done.frame.set_index("subsystems.one.params.number")
    assert frame["failure"][2] == "took more than 1 s (--timeout), 2 times"
    others = frame.drop(2)
    assert (others["failure"] == "").all()
    assert (others["ports.one.y.last"] == others.index).all()
