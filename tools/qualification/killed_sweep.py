"""Kills a sweep five times and its workers five times with SIGKILL, then compares the rows.

    python -m tools.qualification.killed_sweep [--cases 4000] [--kills 5] [--seed 0]

Cases of the two-mass session differ in μ. In each round, a worker is killed after a random number
of finished cases, and the whole sweep later; the last round ends by itself. Then every case must
have exactly one row, with the same figures as in an undisturbed sweep, except for times. Linux.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

import hilrt

TWO_MASS = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"
MU = "bonds.spring.correction.mu"
TIMES = ("wall_s", "case_s", "cost")
#: Maximum time of a round without progress, s.
STUCK_S = 300.0


def start(folder: Path, cases: int) -> subprocess.Popen[bytes]:
    """Start or continue the sweep."""
    command = [sys.executable, "-m", "hilrt", "sweep", str(TWO_MASS), "--quiet", "--out"]
    command += [str(folder), "--vary", f"{MU}=0:1:{cases}", "--set", "session.duration=0.2"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def parts(folder: Path) -> list[Path]:
    """Completely written parts."""
    return list(folder.glob("parts/[!.]*.parquet"))


def wait_for(folder: Path, more: int, sweep: subprocess.Popen[bytes]) -> None:
    """Wait for a number of further parts, or the end of the sweep."""
    wanted, deadline = len(parts(folder)) + more, time.monotonic() + STUCK_S
    while len(parts(folder)) < wanted and sweep.poll() is None:
        if time.monotonic() > deadline:
            sweep.kill()
            raise SystemExit(f"no progress for {STUCK_S:g} s")
        time.sleep(0.02)


def kill_worker(sweep: subprocess.Popen[bytes], chance: random.Random) -> bool:
    """Kill a worker of the sweep with SIGKILL."""
    try:
        lists = Path(f"/proc/{sweep.pid}/task").glob("*/children")  # each thread has its own
        children = [pid for file in lists for pid in file.read_text().split()]
        named = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
        workers = [int(pid) for pid, command in named.items() if b"spawn_main" in command]
        os.kill(chance.choice(workers), signal.SIGKILL)
    except (OSError, IndexError):
        return False
    return True


def disturb(folder: Path, cases: int, kills: int, chance: random.Random) -> tuple[int, int]:
    """Run the sweep to its end; return how often it and its workers were killed."""
    sweeps = workers = 0
    for _ in range(kills):
        sweep = start(folder, cases)
        wait_for(folder, chance.randint(1, 2), sweep)
        time.sleep(chance.uniform(0.0, 0.5))
        workers += sweep.poll() is None and kill_worker(sweep, chance)
        wait_for(folder, chance.randint(1, 2), sweep)
        time.sleep(chance.uniform(0.0, 0.5))
        sweeps += sweep.poll() is None
        sweep.kill()
        sweep.wait()
    finish(folder, cases)
    return sweeps, workers


def finish(folder: Path, cases: int) -> None:
    """Start or continue the sweep, and wait for its end."""
    sweep = start(folder, cases)
    while sweep.poll() is None:
        wait_for(folder, 1, sweep)
    if sweep.returncode:
        raise SystemExit(f"an undisturbed sweep ended with status {sweep.returncode}")


def problems(found: pd.DataFrame, undisturbed: pd.DataFrame, cases: int) -> list[str]:
    """Describe cases that are missing, duplicate, or differ from the undisturbed ones."""
    said = []
    if len(found) != cases or not found["case"].is_unique:
        said.append(f"{len(found)} rows, {found['case'].nunique()} cases of {cases}")
    if lost := int((found["failure"] != "").sum()):
        said.append(f"{lost} cases without a result")
    try:
        left, right = (
            frame.drop(columns=list(TIMES)).sort_index(axis=1) for frame in (found, undisturbed)
        )
        pd.testing.assert_frame_equal(left, right, check_exact=True)
    except AssertionError as error:
        said.append(f"other rows than without disturbance: {error}")
    return said


def main() -> None:
    """Disturb a sweep, compare, print; status 1 if there are problems."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=4000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        disturbed, calm = Path(name) / "disturbed", Path(name) / "calm"
        counts = disturb(disturbed, given.cases, given.kills, random.Random(given.seed))
        finish(calm, given.cases)
        frames = [hilrt.load_sweep(folder) for folder in (disturbed, calm)]
        rows = sum(len(pd.read_parquet(file, columns=["case"])) for file in parts(disturbed))
    found = problems(frames[0], frames[1], given.cases)
    print(f"killed: the sweep {counts[0]} times, a worker {counts[1]} times; {rows} rows in parts")
    print("\n".join(found) or f"{given.cases} cases, each once, as without disturbance")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
