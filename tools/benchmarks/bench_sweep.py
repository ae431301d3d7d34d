"""Sweeps of the two-mass session of 1 s: share of processor time spent in steps, and speed-up.

    python -m tools.benchmarks.bench_sweep [--json] [--cases 2000] [--workers 1 2] [--mosaik 20]

Cases differ only in μ. The figures are, for each number of workers and the whole call of
`hilrt.sweep` (with start and end of the workers): its time, the time spent in steps as a share of
all workers' time and of the cases' own time; then the speed-up from the first number to the last.

With ``--mosaik``, the same number of cases is also run by mosaik, one after the other in one
process, with the same masses. It couples them with held inputs and has no corrections or other
counterparts of our settings, so its cases are identical. FMPy simulates a single FMU and cannot
couple two, so it can run none of these cases.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import hilrt
from tools.benchmarks import other_masters

TWO_MASS = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"
MU = "bonds.spring.correction.mu"


def measure(cases: int, workers: int) -> dict[str, float]:
    """Time of a sweep, s, and the shares of it spent in steps."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        done = hilrt.sweep(
            TWO_MASS,
            {MU: np.linspace(0.0, 1.0, cases)},
            {"session.duration": 1.0},
            out=folder,
            options=hilrt.SweepOptions(workers=workers, progress=False),
        )
        took = time.perf_counter() - began
        frame = done.frame
    if len(frame) != cases or done.lost:
        raise SystemExit(f"{len(frame)} of {cases} cases, {done.lost} lost")
    in_steps = float(frame["wall_s"].sum())
    return {
        "workers": workers,
        "seconds": took,
        "share_in_steps": in_steps / (took * workers),
        "share_of_cases_in_steps": in_steps / float(frame["case_s"].sum()),
    }


def mosaik_case_s(cases: int) -> float | None:
    """Time of one case of 1 s by mosaik, s, the fastest of some; None if it is not installed."""
    if other_masters.missing("mosaik_inprocess"):
        return None
    times = []
    for _ in range(cases):
        began = time.perf_counter()
        other_masters.mosaik_inprocess(round(1.0 / other_masters.STEP_S) - other_masters.WARM_UP)
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--mosaik", type=int, default=0, help="cases that mosaik runs, too")
    given = parser.parse_args()
    rows = [measure(given.cases, workers) for workers in given.workers]
    found: dict[str, Any] = {
        "cases": given.cases,
        "sweeps": rows,
        "speed_up": rows[0]["seconds"] / rows[-1]["seconds"],
    }
    if given.mosaik and (case_s := mosaik_case_s(given.mosaik)) is not None:
        found["mosaik_case_s"] = case_s
    if given.json:
        print(json.dumps(found, indent=1))
        return
    for row in rows:
        print(
            f"{row['workers']:.0f} workers: {row['seconds']:.1f} s, {row['share_in_steps']:.1%} of "
            f"their time in steps ({row['share_of_cases_in_steps']:.1%} of the cases' time)"
        )
    print(f"speed-up {found['speed_up']:.2f}")
    if "mosaik_case_s" in found:
        print(f"mosaik: {found['mosaik_case_s'] * given.cases:.0f} s for as many with one process")


if __name__ == "__main__":
    main()
