"""Sweeps of the two-mass session of 1 s, and the same cases by mosaik and FMPy.

    python -m tools.benchmarks.bench_sweep [--json] [--cases 2000] [--workers 1 2] [--only-ours]

``sweeps``: cases that differ only in μ. For each number of workers and the whole call of
`hilrt.sweep` (with start and end of the workers): its time, the cases per second, the time spent in
steps as a share of all workers' time and of the cases' own time. ``speed_up`` is that from the
first number of workers to the last.

``same_cases``: cases per second of every tool with the last number of workers, for cases that all
can run, see `tools.benchmarks.same_cases`: ``hilrt`` and ``mosaik`` with the same Python masses,
``hilrt_fmu``, ``fmpy`` and ``fmpy_calls`` with the same FMUs. All must end at the same place. Only
ours have estimated errors, a verdict and an energy ledger. What is not installed is left out
(``pip install hilrt[benchmarks,fmu]``, a C compiler). No other tool can run the cases of the first
table, as none has the correction whose μ they vary.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hilrt
from tools.benchmarks import same_cases

TWO_MASS = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"
MU = "bonds.spring.correction.mu"
SPEED = "subsystems.mass1.params.v"
#: Initial speeds of the first mass, m/s.
SPEEDS = 50.0, 150.0
PLAIN = {"bonds.spring.correction.method": "none"}
#: Largest relative difference of a result by two tools.
SAME = 1e-9


def sweep(
    session: Path, key: str, values: Sequence[float], settings: dict[str, Any], workers: int
) -> tuple[dict[str, float], list[float]]:
    """Time of a sweep, s, and the shares of it spent in steps; where the second mass ends."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        done = hilrt.sweep(
            session,
            {key: values},
            {"session.duration": 1.0, **settings},
            out=folder,
            options=hilrt.SweepOptions(workers=workers, progress=False),
        )
        took = time.perf_counter() - began
        frame = done.frame
    if len(frame) != len(values) or done.lost:
        raise SystemExit(f"{len(frame)} of {len(values)} cases, {done.lost} lost")
    in_steps = float(frame["wall_s"].sum())
    return {
        "workers": workers,
        "seconds": took,
        "cases_per_s": len(values) / took,
        "share_in_steps": in_steps / (took * workers),
        "share_of_cases_in_steps": in_steps / float(frame["case_s"].sum()),
    }, frame["ports.mass2.x.last"].tolist()


def compare(cases: int, workers: int) -> dict[str, dict[str, float]]:
    """The same cases by every tool that is installed."""
    speeds = [float(f"{v:.6g}") for v in np.linspace(*SPEEDS, cases)]
    found: dict[str, dict[str, float]] = {}
    found["hilrt"], ends = sweep(TWO_MASS, SPEED, speeds, PLAIN, workers)
    with tempfile.TemporaryDirectory() as folder:
        others: dict[str, same_cases.Case] = {}
        if same_cases.has_mosaik():
            others["mosaik"] = same_cases.mosaik_case
        if same_cases.has_fmpy():
            session, ways = same_cases.fmu_session(Path(folder))
            others |= ways
            found["hilrt_fmu"], by_fmu = sweep(session, SPEED, speeds, {}, workers)
            check_ends("hilrt_fmu", by_fmu, ends)
        for name, run in others.items():
            took, reached = same_cases.in_pool(run, speeds, workers)
            check_ends(name, reached, ends)
            found[name] = {"workers": workers, "seconds": took, "cases_per_s": cases / took}
    return found


def check_ends(name: str, ends: Sequence[float], right: Sequence[float]) -> None:
    """End the program if a tool's cases end elsewhere than those of the session."""
    if not np.allclose(ends, right, rtol=SAME, atol=SAME):
        worst = float(np.max(np.abs(np.array(ends) - np.array(right))))
        raise SystemExit(f"{name}: the second mass ends up to {worst:g} m elsewhere")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only-ours", action="store_true", help="without mosaik and FMPy")
    given = parser.parse_args()
    values = np.linspace(0.0, 1.0, given.cases).tolist()
    rows = [sweep(TWO_MASS, MU, values, {}, workers)[0] for workers in given.workers]
    found: dict[str, Any] = {
        "cases": given.cases,
        "load": os.getloadavg(),
        "sweeps": rows,
        "speed_up": rows[0]["seconds"] / rows[-1]["seconds"],
    }
    if not given.only_ours:
        found["same_cases"] = compare(given.cases, given.workers[-1])
    if given.json:
        print(json.dumps(found, indent=1))
        return
    for row in rows:
        print(
            f"{row['workers']:.0f} workers: {row['seconds']:.1f} s, {row['cases_per_s']:.1f} cases "
            f"per second, {row['share_in_steps']:.1%} of their time in steps "
            f"({row['share_of_cases_in_steps']:.1%} of the cases' time)"
        )
    print(f"speed-up {found['speed_up']:.2f}; load average {found['load'][0]:.1f}")
    for name, row in found.get("same_cases", {}).items():
        print(f"{name:12} {row['cases_per_s']:8.1f} cases per second with {row['workers']} workers")


if __name__ == "__main__":
    main()
