"""Paired comparison of the ticks that the demonstration misses at two commits.

    python -m tools.benchmarks.pair_ticks OLD_TREE [--rounds 10] [--duration 15] [--busy]

`OLD_TREE` is a checkout of the other commit with its own `.venv` (`../shared/tools/pair.sh` makes
one). Sessions of the two commits alternate in pairs, with alternating order, so that both run under
the same load. Prints the share of ticks that each missed, the medians of the parts of a tick, the
master's share of a processor, and the mean of the paired differences with its upper 95 % bound
(Student's t). With ``--busy``, a process keeps the second processor busy.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from multiprocessing import Process
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

ROOT = Path(__file__).parents[2]
SESSION = "bench_configs/engine_in_the_loop.toml"
TIME_OVER_DURATION_S = 90.0
PARTS = ("wake", "cut", "macro_step", "dispatch", "slack")


def compute() -> None:
    """Keep a processor busy."""
    while True:
        sum(range(1000))


def run(
    tree: Path, duration: float, out: Path, session: str = SESSION, settings: Sequence[str] = ()
) -> dict[str, Any]:
    """Summary of one session."""
    command = [str(tree / ".venv/bin/hilrt"), "run", session, "--quiet", "--out", str(out)]
    command += ["--duration", str(duration)]
    command += [word for item in settings for word in ("--set", item)]
    subprocess.run(
        command, cwd=tree, check=True, capture_output=True, timeout=duration + TIME_OVER_DURATION_S
    )
    newest = max(out.glob("*/summary.json"), key=lambda path: path.stat().st_mtime)
    found: dict[str, Any] = json.loads(newest.read_text())
    return found


def missed_share(summary: dict[str, Any]) -> float:
    """Share of the session's ticks that were missed, %."""
    return 100.0 * float(summary["missed_ticks"]) / (float(summary["time_s"]) / 1e-3)


def described(summary: dict[str, Any]) -> str:
    """Describe one session in one line."""
    parts = summary["timeline_us"]
    medians = ", ".join(f"{part} {parts[part]['p50']:.3g}" for part in PARTS)
    return (
        f"missed {missed_share(summary):5.2f} %, medians in us: {medians}, "
        f"master {summary['processor_share']['master']:.0%} of a processor, {summary['verdict']}"
    )


def compare(sides: Mapping[str, Callable[[Path], dict[str, Any]]], rounds: int, busy: bool) -> None:
    """Run two sides in alternation, and print what the second one misses beyond the first.

    Each is given a folder for its runs, and returns a summary.
    """
    names, missed = list(sides), {name: list[float]() for name in sides}
    computing = Process(target=compute, daemon=True)
    if busy:
        computing.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for k in range(rounds):
                for side in names if k % 2 == 0 else names[::-1]:
                    out = Path(folder) / side
                    out.mkdir(exist_ok=True)
                    summary = sides[side](out)
                    missed[side].append(missed_share(summary))
                    print(f"{k + 1:2} {side}: {described(summary)}", flush=True)
                    time.sleep(0.5)
    finally:
        if busy:
            computing.kill()
    if rounds < 2:
        sys.exit("a bound needs at least two rounds")
    difference = np.array(missed[names[1]]) - np.array(missed[names[0]])
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    bound = difference.mean() + student.ppf(0.95, len(difference) - 1) * error
    for side, shares in missed.items():
        print(f"{side}: missed {np.mean(shares):.2f} % (median {np.median(shares):.2f} %)")
    change = f"{difference.mean():+.2f} points, upper 95 % bound {bound:+.2f}"
    print(f"{names[1]} - {names[0]}: {change}")


def parser_of_pairs(description: str) -> argparse.ArgumentParser:
    """Options that all comparisons in pairs have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--duration", type=float, default=15.0)
    parser.add_argument("--busy", action="store_true")
    return parser


def main() -> None:
    """Run the pairs and print them."""
    parser = parser_of_pairs(__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    options = parser.parse_args()
    trees = {"old": options.old.resolve(), "new": ROOT}
    sides = {name: partial(run, tree, options.duration) for name, tree in trees.items()}
    compare(sides, options.rounds, options.busy)


if __name__ == "__main__":
    main()
