"""Start-up time of commands, compared with a floor: Python calling one empty compiled function.

    python -m tools.benchmarks.bench_startup [--rounds 7] [--tree CLONE ...] [--only COMMAND ...]

The floor imports numba and calls a function from numba's cache: the minimum cost of a process that
makes a macro step. Every command runs once unmeasured (to cache files and kernels), and once per
round between two floors. Processor time includes the processes started by the command; wall-clock
time and the time to the first character on the terminal are also listed. With several clones,
versions of the package are compared in the same rounds.
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SESSION = str(ROOT / "bench_configs" / "two_mass.toml")
SHORT = ["--duration", "0.01", "--set", "record.report=false"]
EMPTY = """
import numba

@numba.njit(cache=True)
def empty():
    pass

if __name__ == "__main__":
    empty()
"""


class Cost(NamedTuple):
    """Processor time with children [s], wall clock [s], time to the first output [s]."""

    processor: float
    wall: float
    shown: float


def cost(argv: list[str], folder: Path, tree: Path) -> Cost:
    """Run a command to its end on its own terminal; `RuntimeError` if it fails."""
    master, terminal = pty.openpty()
    begun = time.perf_counter()
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
        cwd=folder,
        env=environment(tree),
    )
    os.close(terminal)
    shown, text = float("nan"), b""
    while True:
        select.select([master], [], [])
        try:
            text += os.read(master, 65536)
        except OSError:  # the last process that had the terminal open has ended
            break
        if not text:
            break
        if shown != shown:
            shown = time.perf_counter() - begun
    os.close(master)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {text.decode(errors='replace')}")
    return Cost(used.ru_utime + used.ru_stime, wall, shown)


def commands(log: str) -> dict[str, list[str]]:
    """The measured commands; `log` is a session's log."""
    return {
        "--version": ["--version"],
        "schema": ["schema"],
        "check": ["check", SESSION],
        "log info": ["log", "info", log],
        "run --quiet": ["run", SESSION, *SHORT, "--quiet"],
        "run": ["run", SESSION, *SHORT],
    }


def environment(tree: Path) -> dict[str, str]:
    """Environment of a user who works in the clone `tree`: compiled code may be cached."""
    paths = os.pathsep.join((str(tree), str(tree / "adapters")))
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": paths}


def main() -> None:
    """Measure, and print a table for each version."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tree", type=Path, nargs="+", default=[ROOT], help="clones to compare")
    parser.add_argument("--only", nargs="+", help="of the commands in the table")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "floor.py").write_text(EMPTY, encoding="utf-8")
        trees = [tree.resolve() for tree in chosen.tree]
        measured = measure(Path(folder), trees, chosen.rounds, chosen.only)
    for tree in trees:
        print(f"\n{tree}\n{'':14}{'processor':>12}{'x floor':>9}{'wall':>9}{'first output':>14}")
        for name, costs in measured[tree].items():
            processor, wall, shown, ratio = np.median(costs, axis=0)
            print(f"{name:14}{processor:10.2f} s{ratio:9.2f}{wall:7.2f} s{shown:12.2f} s")


def measure(
    folder: Path, trees: list[Path], rounds: int, only: list[str] | None
) -> dict[Path, dict[str, list[tuple[float, ...]]]]:
    """Costs of each command, and its processor time relative to the floor, for every round."""
    floor = [sys.executable, "floor.py"]
    cases: list[tuple[Path, str, list[str]]] = []
    for tree in trees:
        first = [
            sys.executable,
            "-m",
            "hilrt",
            "run",
            SESSION,
            *SHORT,
            "--out",
            f"first-{tree.name}",
        ]
        cost(first, folder, tree)
        log = next(folder.glob(f"first-{tree.name}/*/session.mcap"))
        for name, arguments in commands(str(log)).items():
            if only is None or name in only:
                cases.append((tree, name, [sys.executable, "-m", "hilrt", *arguments]))
    for tree, _, argv in [(trees[0], "", floor), *cases]:
        cost(argv, folder, tree)
    found: dict[Path, dict[str, list[tuple[float, ...]]]] = {tree: {"floor": []} for tree in trees}
    for _ in range(rounds):
        before = cost(floor, folder, trees[0])
        for tree, name, argv in cases:
            costs = cost(argv, folder, tree)
            after = cost(floor, folder, trees[0])
            floors = 0.5 * (before.processor + after.processor)
            found[tree].setdefault(name, []).append((*costs, costs.processor / floors))
            found[tree]["floor"].append((*after, after.processor / floors))
            before = after
    return found


if __name__ == "__main__":
    main()
