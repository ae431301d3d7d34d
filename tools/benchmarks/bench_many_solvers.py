"""Start of many solver processes: from `hilrt run` to the first tick, and the whole session.

    python -m tools.benchmarks.bench_many_solvers [--solvers 60] [--rounds 3] [--tree CLONE ...] \\
        [--json]

A ring of masses between springs, first order, as fast as possible, each mass in a separate process
started by the session (``spawn = ["hilrt", "solver", …]``). With several clones, versions of the
package alternate in each round.

* ``start_s``: from the start of `hilrt run` to the first tick, wall clock;
* ``processor_s``: processor time of all processes;
* ``ratio``: start relative to that of the first clone in the same round, median.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.benchmarks.bench_scale import ring
from tools.benchmarks.bench_startup import ROOT, environment

SPAWNED = 'adapter = "zeromq"\nspawn = ["hilrt", "solver", "tools.benchmarks.timed:Cell"]\n'
RUN = """
import sys, time, hilrt
from hilrt.exchange.master import Master
begun = float(sys.argv[2])
plain = Master.run
async def run(self, *arguments, **more):
    print("first tick", time.time() - begun, flush=True)
    return await plain(self, *arguments, **more)
Master.run = run
changes = {"master.connect_timeout": 120.0, "record.report": False}
result = hilrt.run_session(sys.argv[1], changes, options=hilrt.RunOptions(view=False))
sys.exit(result.fault or 0)
"""


def run(n: int, tree: Path) -> dict[str, float]:
    """Measure the costs of one session."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ring.toml").write_text(ring(n, 20, SPAWNED), encoding="utf-8")
        (Path(folder) / "run.py").write_text(RUN, encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "run.py", "ring.toml", str(time.time())],
            cwd=folder,
            env=environment(tree),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        told = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"the session in {tree} ended with status {process.returncode}")
    started = float(told.split("first tick")[1].split()[0])
    return {"start_s": started, "processor_s": used.ru_utime + used.ru_stime}


def main() -> None:
    """Measure, and print a row for each clone."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--solvers", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tree", type=Path, nargs="+", default=[ROOT], help="clones to compare")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    trees = [tree.resolve() for tree in chosen.tree]
    for tree in trees:
        run(1, tree)  # compiled code and files are cached from now on
    rounds = [[run(chosen.solvers, tree) for tree in trees] for _ in range(chosen.rounds)]
    table = {}
    for i, tree in enumerate(trees):
        row = {key: statistics.median(one[i][key] for one in rounds) for key in rounds[0][i]}
        row["ratio"] = statistics.median(one[i]["start_s"] / one[0]["start_s"] for one in rounds)
        table[str(tree)] = row
    if chosen.json:
        print(json.dumps(table, indent=1))
        return
    for name, row in table.items():
        print(name + "".join(f"  {key} {value:.2f}" for key, value in row.items()))


if __name__ == "__main__":
    main()
