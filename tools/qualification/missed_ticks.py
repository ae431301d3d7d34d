"""Comparison of the missed ticks predicted by `hilrt advise` with those of runs in real time.

    python -m tools.qualification.missed_ticks [--loads 0 1 2] [--steps 1 2 5] [--repeat 3]
        [--seconds 10] [--set KEY=VALUE]

For each number of busy processes in parallel: the two-mass session's delays are measured as by
`hilrt doctor --measure`, then the session runs at each step [ms]. One line for each run has the
share of late ticks in the measurement with the upper end of its 95 % interval, which is the
advice's prediction, and the share missed in the run. Status 1 if more than a tenth of the runs
missed more ticks than predicted, beyond the uncertainty from the run's length (5 % by chance).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

from hilrt.config.session_file import SessionFile, load_session, override
from hilrt.session.run import RunOptions
from hilrt.session.session import run_session
from hilrt.studies.measured_delays import measure_session, missed_share

TWO_MASS = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"
#: Maximum duration of the measurement, s.
MEASURED_S = 5.0
#: Share of the runs that may miss more ticks than predicted.
MOST_ABOVE = 0.1


@contextlib.contextmanager
def load(count: int) -> Iterator[None]:
    """Run `count` processes that compute without pause."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def lowest(missed: int, ticks: int) -> float:
    """Lower end of the 95 % interval of a share (Clopper and Pearson, 1934)."""
    return float(beta.ppf(0.05, missed, ticks - missed + 1)) if missed else 0.0


def compare(file: SessionFile, steps: Sequence[float], seconds: float) -> Iterator[dict[str, Any]]:
    """Prediction and result at each step, s, after one measurement."""
    delays = measure_session(file, MEASURED_S)
    late = 1e-6 * np.array(delays.lateness_us)
    for step in steps:
        latest = file.tables.master.dispatch_deadline * step
        predicted = missed_share(late, latest)
        settings = {"master.step": step, "session.duration": seconds, "session.pace": "realtime"}
        with tempfile.TemporaryDirectory() as folder:
            options = RunOptions(folder=Path(folder) / "run", pace="realtime")
            result = run_session(override(file, settings), options=options)
            missed, ticks = int(result.summary["missed_ticks"]), round(seconds / step)
        yield {
            "step_s": step,
            "late": float(np.mean(late > latest)),
            "predicted": predicted,
            "missed": missed / ticks,
            "above": lowest(min(missed, ticks), ticks) > predicted,
        }


def main() -> None:
    """Compare, and print one line of JSON for each run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--loads", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=float, nargs="+", default=[1.0, 2.0, 5.0], help="ms")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--set", action="append", default=[], dest="sets")
    given = parser.parse_args()
    file = load_session(TWO_MASS, given.sets)
    lines = []
    for _ in range(given.repeat):
        for count in given.loads:
            with load(count):
                for line in compare(file, [1e-3 * ms for ms in given.steps], given.seconds):
                    lines.append({"load": count, **line})
                    print(json.dumps(lines[-1]), flush=True)
    above = sum(line["above"] for line in lines)
    print(f"{above} of {len(lines)} runs missed more ticks than predicted")
    raise SystemExit(above > MOST_ABOVE * len(lines))


if __name__ == "__main__":
    main()
