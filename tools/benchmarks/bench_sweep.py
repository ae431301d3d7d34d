"""Sweeps of the two-mass session of 1 s: share of the processors' time in steps, and speed-up.

    python -m tools.benchmarks.bench_sweep [--json] [--cases 2000] [--workers 1 2]

Cases differ in μ alone. For each number of workers, of the call of `hilrt.sweep` as a whole, with
the start and the end of the workers: its time, the time that cases took in steps as a share of all
workers' time, and of the cases' own time; then the speed-up from the first number to the last.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

import hilrt

TWO_MASS = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"
MU = "bonds.spring.correction.mu"


def measure(cases: int, workers: int) -> dict[str, float]:
    """Time of a sweep, s, and shares of it in steps."""
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


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    rows = [measure(given.cases, workers) for workers in given.workers]
    found = {
        "cases": given.cases,
        "sweeps": rows,
        "speed_up": rows[0]["seconds"] / rows[-1]["seconds"],
    }
    if given.json:
        print(json.dumps(found, indent=1))
        return
    for row in rows:
        print(
            f"{row['workers']:.0f} workers: {row['seconds']:.1f} s, {row['share_in_steps']:.1%} of "
            f"their time in steps ({row['share_of_cases_in_steps']:.1%} of the cases' time)"
        )
    print(f"speed-up {found['speed_up']:.2f}")


if __name__ == "__main__":
    main()
