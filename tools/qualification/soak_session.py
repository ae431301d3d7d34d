"""One hour at 1 kHz in real time: drift of the grid, growth of memory, missed ticks.

    python -m tools.qualification.soak_session [--json] [--duration 3600] [--set KEY=VALUE …]

Runs `bench_configs/two_mass.toml` in real time, in a separate process, with the recorder on and
without spin, and with an observer: a solver without inputs that returns the monotonic clock. The
least delay of its readings against session time is compared between the first and the last minute:
the drift, measured independently of the master's grid. The resident memory of every process of the
session is sampled from /proc (Linux); its slope is fitted after the first tenth of the run, because
caches fill and compiled code is loaded at first.

Ends with status 1 if the grid drifted by a tick or a process grew by more than 2 MB/h.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from hilrt import Port, Sample, Solver
from hilrt.record.reader import LogStream
from hilrt.solver import Floats, InputPolynomial

SESSION = Path(__file__).parents[2] / "bench_configs/two_mass.toml"
STEP_S = 0.001
TIME_OVER_DURATION_S = 600.0  # the report of an hour takes long
GROWTH_MB_PER_H = 2.0
WITNESS = """
[subsystems.witness]
adapter = "inprocess"
model = "tools.qualification.soak_session:Witness"
"""


class Witness(Solver):
    """Returns the time on the monotonic clock since its start, s."""

    outputs = (Port("clock", "s"),)

    def initialize(self, t0: float, u0: Floats) -> Sample:
        self.start_ns = time.monotonic_ns()
        return self.advance(t0, 0.0, InputPolynomial(t0, u0[None]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        return Sample(np.array([(time.monotonic_ns() - self.start_ns) * 1e-9]))


def children(pid: int) -> list[int]:
    """Identifiers of the process and of all its descendants."""
    found = [pid]
    for parent in found:
        try:
            tasks = Path(f"/proc/{parent}/task")
            lists = [(task / "children").read_text() for task in tasks.iterdir()]
        except OSError:  # it has ended
            continue
        found += [int(word) for text in lists for word in text.split()]
    return found


def resident_mb(pid: int) -> float | None:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def name_of(pid: int) -> str:
    """The last module or program in the command line, which identifies the process."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return ""
    if "run" in words:
        return "master"
    named = [word for word in words if word.startswith("hilrt.") or "import" in word]
    return (named or words)[0][:60]


class Memory:
    """Resident memory of every process over time."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.samples: dict[int, list[tuple[float, float]]] = {}

    def sample(self, pid: int, t: float) -> None:
        for one in children(pid):
            mb = resident_mb(one)
            if mb:
                self.names[one] = self.names.get(one) or name_of(one)  # empty before its exec
                self.samples.setdefault(one, []).append((t, mb))

    def result(self, duration: float) -> list[dict[str, Any]]:
        """Growth of the processes that existed most of the time."""
        rows = []
        for pid, samples in self.samples.items():
            t, mb = np.array(samples).T
            kept = (t > 0.1 * duration) & (t < duration)
            if t[kept].size < 3 or np.ptp(t[kept]) < 0.5 * duration:
                continue
            rows.append(
                {
                    "process": self.names[pid],
                    "first_mb": float(mb[kept][0]),
                    "last_mb": float(mb[kept][-1]),
                    "max_mb": float(mb.max()),
                    "mb_per_h": float(np.polyfit(t[kept], mb[kept], 1)[0]) * 3600,
                }
            )
        return rows


def run(session: Path, out: Path, arguments: argparse.Namespace) -> tuple[Path, Memory]:
    """Run once; return the run's folder and memory."""
    overrides = ["session.pace=realtime", "master.pacing.spin=0", *arguments.overrides]
    command = [sys.executable, "-m", "hilrt", "run", str(session), "--out", str(out), "--quiet"]
    command += ["--duration", str(arguments.duration)]
    command += [word for item in overrides for word in ("--set", item)]
    memory, begun = Memory(), time.monotonic()
    every = min(10.0, arguments.duration / 100)
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            t = time.monotonic() - begun
            memory.sample(process.pid, t)
            if t > arguments.duration + TIME_OVER_DURATION_S:
                process.terminate()
                sys.exit("the session did not end in time")
            time.sleep(every)
    if process.returncode:
        sys.exit(f"the session ended with status {process.returncode}")
    return next(out.iterdir()), memory


def drift_ticks(folder: Path, duration: float) -> float:
    """Drift of the grid against the monotonic clock, from the first minute to the last.

    For other durations, a minute is a sixtieth of the run. A sample was taken after the tick before
    its own, however many were skipped between them; the sample at t = 0 is older than the grid.
    """
    least: dict[int, float] = {}
    for block in LogStream(folder / "session.mcap").blocks():
        names = [signal.name for signal in block.channel.signals]
        if "witness.clock" not in names or block.channel.topic != "outputs":
            continue
        t = block.times_ns[:-1] * 1e-9
        behind = block.values[1:, names.index("witness.clock")] - t
        part = np.minimum(t / duration * 60, 59).astype(int)
        known = np.isfinite(behind) & (t > 0.0)  # late ones are missing
        for one in np.unique(part[known]):
            smallest = float(behind[known & (part == one)].min())
            least[one] = min(smallest, least.get(one, np.inf))
    return (least[max(least)] - least[min(least)]) / STEP_S


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--duration", type=float, default=3600.0, help="s")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        session, out = Path(scratch) / "soak.toml", Path(scratch) / "runs"
        session.write_text(SESSION.read_text(encoding="utf-8") + WITNESS, encoding="utf-8")
        folder, memory = run(session, out, arguments)
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        drift = drift_ticks(folder, arguments.duration)
        log_mb = (folder / "session.mcap").stat().st_size / 1e6
    processes = memory.result(arguments.duration)
    result = {
        "duration_s": summary["time_s"],
        "drift_ticks": drift,
        "steps": summary["steps"],
        "missed_ticks": summary["missed_ticks"],
        "missed_because": summary["missed_because"],
        "dropped_rows": summary["recorder"]["dropped_rows"],
        "lateness_us": summary["lateness_us"],
        "log_mb": log_mb,
        "processes": processes,
    }
    if arguments.json:
        print(json.dumps(result, indent=1))
    else:
        for key, value in result.items():
            print(f"{key:16} {value:.3f}" if isinstance(value, float) else f"{key:16} {value}")
    flat = all(row["mb_per_h"] < GROWTH_MB_PER_H for row in processes)
    return 0 if abs(drift) < 1.0 and processes and flat else 1


if __name__ == "__main__":
    sys.exit(main())
