"""Branch coverage of the rooms that are compiled or exchange data, in interpreted runs.

    python -m tools.qualification.branch_coverage [--rooms tables coupling …] [--limit 1800]

The tests of each room run with ``NUMBA_DISABLE_JIT=1``, one room after the other, and every run
measures all of the rooms; real-time sessions are excluded. Needs coverage (``pip install
coverage``). Prints the rows of the table in CONTRIBUTING.md, with failed or truncated runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ROOMS = ("tables", "coupling", "reliability", "step", "exchange", "peers", "bench")


def measure(room: str, data: Path, limit: float) -> str:
    """Run the tests of a room; return the problem, or an empty text."""
    source = ",".join(f"hilrt.{name}" for name in ROOMS)
    command = [sys.executable, "-m", "coverage", "run", "--branch", f"--source={source}"]
    command += ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not real_time"]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "COVERAGE_FILE": str(data)}
    try:
        done = subprocess.run(
            [*command, f"tests/{room}"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"truncated after {limit:g} s"
    return "" if done.returncode == 0 else done.stdout.rstrip().splitlines()[-1]


def by_room(report: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Share of statements and of branches of each room, by coverage's JSON report."""
    sums: dict[str, Counter[str]] = {room: Counter() for room in ROOMS}
    for name, file in report["files"].items():
        room = Path(name).parts[1]
        sums[room].update({k: v for k, v in file["summary"].items() if isinstance(v, int)})
    return {
        room: (
            n["covered_lines"] / max(n["num_statements"], 1),
            n["covered_branches"] / max(n["num_branches"], 1),
        )
        for room, n in sums.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=ROOMS)
    parser.add_argument("--limit", type=float, default=1800.0, help="of each room's tests, s")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for room in options.rooms:
            problem = measure(room, folder / f"data.{room}", options.limit)
            print(f"{room}: {problem or 'passed'}", file=sys.stderr, flush=True)
        base = [sys.executable, "-m", "coverage"]
        whole = f"--data-file={folder / 'whole'}"
        parts = [str(path) for path in folder.glob("data.*")]
        subprocess.run([*base, "combine", "-q", whole, *parts], cwd=ROOT, check=True)
        target = folder / "report.json"
        subprocess.run([*base, "json", "-q", whole, "-o", str(target)], cwd=ROOT, check=True)
        for room, (statements, branches) in by_room(json.loads(target.read_text())).items():
            print(f"| `hilrt/{room}` | {statements:.1%} | {branches:.1%} |")


if __name__ == "__main__":
    main()
