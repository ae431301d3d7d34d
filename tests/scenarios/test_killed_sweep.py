"""A sweep and its workers, killed with -9 in the middle of steps: each case once, none lost.

The model strikes itself, at cases and steps that a seed has chosen: no wait for a moment, and the
same moments at every run. At any moment, and more often: ``tools.qualification.killed_sweep``.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

#: Kills its worker, or the program that runs the sweep, at a case and step; at each once.
MODEL = """
import os
import signal
from pathlib import Path

import numpy as np

from hilrt import Port, Sample, Solver

FOLDER = Path(__file__).parent


class Struck(Solver):
    inputs = ()
    outputs = (Port("y"),)

    def __init__(self, number):
        self.number, self.steps = number, 0

    def initialize(self, t0, u0):
        return Sample(np.array([float(self.number)]))

    def advance(self, t, h, u):
        for victim, kill in (("worker", os.getpid), ("sweep", os.getppid)):
            sign = FOLDER / f"{victim}-{self.number}-{self.steps}"
            if sign.exists():
                sign.rename(FOLDER / f"done-{sign.name}")
                os.kill(kill(), signal.SIGKILL)
        self.steps += 1
        return Sample(np.array([self.number + 0.5]))
"""
SESSION = """
[session]
name = "struck"
duration = 0.05
pace = "asap"
[master]
step = 0.001
[subsystems.one]
adapter = "inprocess"
model = "struck:Struck"
params = { number = 0 }
"""
SWEEP = """
import sys
import hilrt

if __name__ == "__main__":
    hilrt.sweep(
        "session.toml",
        {"subsystems.one.params.number": range(int(sys.argv[1]))},
        out="out",
        options=hilrt.SweepOptions(workers=2, progress=False, statistics=["one.y"]),
    )
"""


def struck_sweep(folder: Path, seed: int, cases: int, kills: int) -> list[int]:
    """Exit statuses of the calls of a sweep that is killed, and loses workers, `kills` times."""
    random = np.random.default_rng(seed)
    for name, text in (("struck.py", MODEL), ("session.toml", SESSION), ("run.py", SWEEP)):
        (folder / name).write_text(text, "utf-8")
    at = random.choice(cases, 2 * kills, replace=False)
    for place, (number, step) in enumerate(zip(at, random.integers(50, size=len(at)), strict=True)):
        (folder / f"{'worker' if place < kills else 'sweep'}-{number}-{step}").touch()
    statuses = []
    while not statuses or (statuses[-1] and len(statuses) <= kills):
        command = [sys.executable, "run.py", str(cases)]
        statuses.append(subprocess.run(command, cwd=folder, check=False).returncode)
    return statuses


def check_rows(folder: Path, cases: int) -> None:
    frame = pd.read_parquet(folder / "out" / "sweep.parquet")
    assert frame["subsystems.one.params.number"].tolist() == list(range(cases))
    assert frame["case"].nunique() == cases
    assert set(frame["failure"]) == {""}
    assert frame["statistic.one.y.last"].tolist() == [number + 0.5 for number in range(cases)]
    assert not [*folder.glob("worker-*"), *folder.glob("sweep-*")]


def test_a_sweep_that_is_killed_and_loses_workers_has_each_case_once(tmp_path):
    statuses = struck_sweep(tmp_path, 34, cases=60, kills=1)
    assert statuses == [-9, 0]
    check_rows(tmp_path, 60)
