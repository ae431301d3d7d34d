"""Set-up, steps and memory of sessions with many in-process subsystems.

    python -m tools.benchmarks.bench_scale [--json] [--sizes 200,1000,5000] [--steps 20]

A ring of masses between springs, each a subsystem, first order, without a log. Each size runs in a
separate process, after a session of three subsystems that loads the compiled code:

* ``setup_s``: processor time from the session file to the first advance of a subsystem;
* ``step_us``: processor time per subsystem and macro step, median;
* ``memory_mb``: growth of the process.

``setup_over``, ``step_over`` and ``memory_over`` are these figures per subsystem, relative to the
smallest size: 1 if the cost grows linearly.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hilrt
from tools.benchmarks import timed

STEP_S = 1e-3


IN_PROCESS = """adapter = "inprocess"
model = "tools.benchmarks.timed:Cell"
params = {{ x = {x}, first = {first} }}
"""


def ring(n: int, steps: int, subsystem: str = IN_PROCESS) -> str:
    """Session file of `n` masses in a ring; `subsystem` is the table of each."""
    text = [
        f'[session]\nname = "ring"\nduration = {steps * STEP_S}\npace = "asap"\n'
        f"[master]\nstep = {STEP_S}\nextrapolation = {{ order = 1 }}\n"
    ]
    for i in range(n):
        first = "true" if i == 0 else "false"
        text.append(f"[subsystems.m{i}]\n{subsystem.format(x=0.01 * (i % 7), first=first)}")
        right = (i + 1) % n
        for source, target in ((f"m{i}.x", f"m{right}.left"), (f"m{right}.x", f"m{i}.right")):
            text.append(f'[[connections]]\nfrom = "{source}"\nto = "{target}"\n')
    return "".join(text)


def simulate(n: int, steps: int) -> dict[str, float]:
    """Measure the costs of one session."""
    timed.begun_ns.clear()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ring.toml"
        file.write_text(ring(n, steps), encoding="utf-8")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = time.process_time_ns()
        result = hilrt.simulate(file, record=False)
        if result.fault:
            sys.exit(f"the session ended early: {result.fault}")
    setup_ns = timed.begun_ns[0] - begun
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # kB
    step_us = statistics.median(timed.intervals_us(1)) / n
    return {"setup_s": setup_ns * 1e-9, "step_us": step_us, "memory_mb": grown / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sizes", default="200,1000,5000")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)  # in a separate process
    arguments = parser.parse_args()
    if arguments.one:
        simulate(3, 3)
        print(json.dumps(simulate(arguments.one, arguments.steps)))
        return
    found: dict[int, dict[str, float]] = {}
    for n in map(int, arguments.sizes.split(",")):
        argv = [sys.executable, "-m", "tools.benchmarks.bench_scale", "--one", str(n)]
        argv += ["--steps", str(arguments.steps)]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
        found[n] = json.loads(done.stdout)
    least = min(found)
    for n, row in found.items():
        row["setup_over"] = row["setup_s"] / n / (found[least]["setup_s"] / least)
        row["step_over"] = row["step_us"] / found[least]["step_us"]
        row["memory_over"] = row["memory_mb"] / n / (found[least]["memory_mb"] / least)
    if arguments.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{'subsystems':>12}" + "".join(f"{name:>13}" for name in found[least]))
    for n, row in found.items():
        print(f"{n:12}" + "".join(f"{value:13.2f}" for value in row.values()))


if __name__ == "__main__":
    main()
