"""Share of ticks that the demonstration session does not miss, and causes of the missed ones.

    python -m tools.benchmarks.bench_session [--json] [--runs 5] [--duration 20] [--set KEY=VALUE …]

Runs `bench_configs/engine_in_the_loop.toml` in separate processes and reads the logs. For each
missed tick, the wake-up lateness (lateness minus computing time) and the computing time are
compared with the dispatch deadline:

    wake-up     the master was woken after the deadline: another process, or the host, used the
                processor
    computing   the tick's computing time alone exceeded the deadline
    both        only the sum of the two exceeded it
    skipped     whole ticks passed while the master did not run

For comparison: the share of the master's time that the host of a virtual machine used for other
purposes, and the share of ticks not missed by a bare loop, which only waits for each tick and
computes for as long as the master, with its priority and on its processor. The bare loop runs after
each session, when the machine is idle; it is the upper bound for a master on this machine.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import hilrt
from hilrt.config.session_file import load_session
from hilrt.config.structs import MasterTable
from hilrt.record.reader import Log
from hilrt.timing.host import set_affinity
from hilrt.timing.realtime import granted_priority, set_priority

ROOT = Path(__file__).parents[2]
SESSION = ROOT / "bench_configs/engine_in_the_loop.toml"
TIME_OVER_DURATION_S = 90.0
#: Duration of the bare loop, as a share of a session's time …
BARE_SHARE = 0.5
#: … and its busy wait before each tick.
BARE_SPIN_NS = 60_000


def run(out: Path, duration: float, overrides: list[str]) -> Path:
    """Run the session once; return its folder."""
    command = [sys.executable, "-m", "hilrt", "run", str(SESSION), "--out", str(out), "--quiet"]
    command += ["--duration", str(duration)]
    command += [word for item in overrides for word in ("--set", item)]
    before = set(out.glob("*"))
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=duration + TIME_OVER_DURATION_S,
        check=False,
    )
    new = set(out.glob("*")) - before
    if done.returncode or not new:
        sys.exit(f"{out.name}: a run ended with status {done.returncode}: {done.stderr.strip()}")
    return new.pop()


def bare_loop(master: MasterTable, work_ns: int, ticks: int) -> float:
    """Share of ticks that a bare loop does not miss, in this process."""
    if master.pacing.affinity:
        set_affinity(master.pacing.affinity)
    set_priority(granted_priority(master.pacing.priority))
    step_ns = round(master.step * 1e9)
    deadline_ns = round(master.dispatch_deadline * step_ns)
    missed = tick = 0
    now = epoch = time.monotonic_ns()
    while tick < ticks:
        before, tick = tick, max(tick, (now - epoch) // step_ns) + 1
        missed += tick - before - 1
        target = epoch + tick * step_ns
        if target - now > BARE_SPIN_NS:
            time.sleep((target - now - BARE_SPIN_NS) * 1e-9)
        while (now := time.monotonic_ns()) < target:
            pass
        done = now + work_ns
        while (now := time.monotonic_ns()) < done:
            pass
        missed += now - target > deadline_ns
    return 1.0 - missed / ticks


def measure_bare_loop(master: MasterTable, work_ns: int, duration: float) -> float:
    """`bare_loop` for `duration` [s], in a separate process."""
    ticks = round(duration / master.step)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(bare_loop, master, work_ns, ticks).result()


def causes(log: Log, deadline_us: float) -> collections.Counter[str]:
    """Missed ticks of a run by cause."""
    missed = np.asarray(log["master:missed"]) > 0
    lateness, compute = np.asarray(log["master:lateness"]), np.asarray(log["master:compute"])
    elapsed = np.asarray(log["cut:elapsed"])
    step = np.median(elapsed[elapsed > 0])
    found: collections.Counter[str] = collections.Counter()
    for late, work in zip(lateness[missed], compute[missed], strict=True):
        if late - work > deadline_us:
            found["wake-up"] += 1
        elif work > deadline_us:
            found["computing"] += 1
        else:
            found["both"] += 1
    skipped = int(np.sum(np.maximum(np.round(elapsed / step) - 1, 0)))
    if skipped:
        found["skipped"] = skipped
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--duration", type=float, default=20.0, help="session time of a run, s")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    arguments = parser.parse_args()
    file = load_session(SESSION, arguments.overrides)
    master = file.tables.master
    deadline_us = master.dispatch_deadline * master.step * 1e6
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as out:
        for _ in range(arguments.runs):
            load = os.getloadavg()[0]
            folder = run(Path(out), arguments.duration, arguments.overrides)
            summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
            log = hilrt.load_log(folder / "session.mcap")
            work_ns = round(float(np.median(log["master:compute"])) * 1e3)
            ticks = summary["time_s"] / master.step
            runs.append(
                {
                    "ticks": round(ticks),
                    "on_time": 1.0 - summary["missed_ticks"] / ticks,
                    "missed": summary["missed_ticks"],
                    "bare_on_time": measure_bare_loop(
                        master, work_ns, BARE_SHARE * arguments.duration
                    ),
                    "causes": dict(causes(log, deadline_us)),
                    "lateness_us": summary["lateness_us"],
                    "stolen_s": summary["stolen_s"],
                    "verdict": summary["verdict"],
                    "load_before": load,
                }
            )
            if not arguments.json:
                last = runs[-1]
                print(
                    f"{last['on_time']:8.3%} on time (bare loop {last['bare_on_time']:.3%}), "
                    f"{last['missed']} of {last['ticks']} missed "
                    f"{last['causes'] or ''} (load before {load:.1f}, host took "
                    f"{last['stolen_s'] or 0.0:.2f} s), {last['verdict']}",
                    flush=True,
                )
    shares = [one["on_time"] for one in runs]
    result = {
        "runs": runs,
        "median_on_time": float(np.median(shares)),
        "worst": min(shares),
        "median_bare_on_time": float(np.median([one["bare_on_time"] for one in runs])),
    }
    if arguments.json:
        print(json.dumps(result, indent=1))
    else:
        print(
            f"median {result['median_on_time']:.3%}, worst {result['worst']:.3%}; "
            f"bare loop, median {result['median_bare_on_time']:.3%}"
        )


if __name__ == "__main__":
    main()
