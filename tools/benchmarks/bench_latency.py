"""Compensation of the latency of a remote bench: tip-in and tip-out in simulated time.

    python -m tools.benchmarks.bench_latency [--json] [--jitter 0.0005] [--loss 0.02] [--seeds 3]

For 2, 5 and 10 ms of latency, without and with sensor noise: RMS error of engine speed and shaft
torque relative to the same run without latency and loss, without and with compensation, and the
ratio of the two. The runs are those of `tests/tip_in.py`; the worst seed of jitter and loss counts.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from tests.tip_in import Distance, errors, run

LATENCIES_S = (0.002, 0.005, 0.010)


def compare(distance: Distance, noise: bool, seeds: int) -> dict[str, Any]:
    """Errors of speed [rad/s] and torque [N m]; the largest of all seeds."""
    reference = run(Distance(), compensated=True, noise=noise)
    found = {
        compensated: np.array(
            [
                errors(run(distance, compensated=compensated, noise=noise, seed=seed), reference)
                for seed in range(seeds)
            ]
        )
        for compensated in (False, True)
    }
    row: dict[str, Any] = {"latency_ms": distance.latency * 1e3, "noise": noise}
    for i, name in enumerate(("speed", "torque")):
        row[f"{name}_without"] = float(found[False][:, i].max())
        row[f"{name}_compensated"] = float(found[True][:, i].max())
        row[f"{name}_ratio"] = float((found[True][:, i] / found[False][:, i]).max())
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--jitter", type=float, default=0.0005, help="s")
    parser.add_argument("--loss", type=float, default=0.02, help="share of the samples")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    rows = []
    for noise in (False, True):
        for latency in LATENCIES_S:
            distance = Distance(latency, arguments.jitter, arguments.loss)
            rows.append(compare(distance, noise, arguments.seeds))
            if not arguments.json:
                print(
                    "  ".join(f"{key} {value:.3g}" for key, value in rows[-1].items()), flush=True
                )
    if arguments.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
