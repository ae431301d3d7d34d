"""Recording of a long session: load of the recorder, and speed of report and replay.

    python -m tools.benchmarks.bench_record [--json] [--duration 600] [--channels 200] [--log FILE]

Two rigs, with enough ports for the requested number of signals at every tick, run in real time at 1
kHz on two processors while the recorder's process is observed. Then `hilrt report` and `hilrt
replay` process the log, each as a separate command; their speed is session time over their run
time, including start-up. With --log, only these two are measured, on an existing log.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import hilrt
from hilrt.record.find_log import find_log
from hilrt.record.reader import LogStream
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver

PROCESSORS = 2
RECORDER = b"hilrt.cli.recorder_process"
SAMPLE_S = 0.5
#: Time that a command may take beyond the session's duration, s.
TIME_OVER_DURATION_S = 120.0
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
NOISE = 0.01
STEP_S = 0.001


class Rig(Solver):
    """Noisy sine waves, which compress as badly as measured values; inputs are ignored.

    Parameters
    ----------
    ports : int
        Number of inputs, and of outputs.
    seed : int
        Of the noise.
    """

    def __init__(self, ports: int, seed: int) -> None:
        self.inputs = tuple(Port(f"u{i}", "N" if i % 2 else "m/s") for i in range(ports))
        self.outputs = tuple(Port(f"y{i}", "N" if i % 2 else "m/s") for i in range(ports))
        self._rng = np.random.default_rng(seed)
        self._omega = np.linspace(1.0, 30.0, ports)

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return self._sample(t0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        return self._sample(t + h)

    def _sample(self, t: float) -> Sample:
        noise = self._rng.standard_normal(len(self._omega))
        return Sample(np.sin(self._omega * t) + NOISE * noise)


def session_file(ports: int, duration: float, priority: int) -> str:
    """Two rigs connected port by port, with a corrected bond between them."""
    lines = ["[session]", 'name = "bench-record"', f"duration = {duration}"]
    lines += ["[master]", f"step = {STEP_S}", "extrapolation = { order = 1 }"]
    lines += [f"pacing = {{ priority = {priority} }}"]
    for seed, name in enumerate(("a", "b")):
        lines += [
            f"[subsystems.{name}]",
            'adapter = "inprocess"',
            'model = "tools.benchmarks.bench_record:Rig"',
        ]
        lines += [f"params = {{ ports = {ports}, seed = {seed} }}"]
    for i, (source, target) in itertools.product(range(ports), (("a", "b"), ("b", "a"))):
        lines += ["[[connections]]", f'from = "{source}.y{i}"', f'to = "{target}.u{i}"']
    lines += ["[[bonds]]", 'name = "shaft"', 'effort = "a.y1"', 'flow = "b.y0"']
    lines += ['correction = { method = "energy", mu = 0.5, cap = 0.25 }']
    return "\n".join(lines)


def run_session(
    folder: Path, ports: int, duration: float, *, pace: str = "asap", priority: int = 0
) -> tuple[Path, Any]:
    """Run a session; return its log and the figures of the recorder's process."""
    file = folder / f"rigs{ports}.toml"
    file.write_text(session_file(ports, duration, priority), encoding="utf-8")
    out = folder / f"runs{ports}_{pace}"
    command = [sys.executable, "-m", "hilrt", "run", str(file), "--out", str(out), "--quiet"]
    process = subprocess.Popen(
        [*command, "--pace", pace],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    try:
        seen = watch_recorder(process, time.monotonic() + duration + TIME_OVER_DURATION_S)
        complaint = process.communicate(timeout=TIME_OVER_DURATION_S)[1]
    except subprocess.TimeoutExpired:
        process.terminate()
        sys.exit("the session did not end in time")
    if process.returncode:
        sys.exit(f"the session ended with status {process.returncode}: {complaint.strip()}")
    return find_log(next(out.iterdir())), seen


def watch_recorder(process: subprocess.Popen[str], deadline: float) -> dict[str, float]:
    """Share of a processor [%] and largest resident memory [MB] of the session's recorder."""
    recorder, samples, memory = 0, [], 0.0
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise subprocess.TimeoutExpired(process.args, deadline)
        recorder = recorder or find_recorder(process.pid)
        if recorder:
            try:
                fields = Path(f"/proc/{recorder}/stat").read_text().rpartition(")")[2].split()
                status = Path(f"/proc/{recorder}/status").read_text()
            except OSError:  # it has ended
                break
            if "VmHWM:" in status:
                memory = float(status.partition("VmHWM:")[2].split()[0]) / 1024
                used = (int(fields[11]) + int(fields[12])) * TICK_S
                samples.append((time.monotonic(), used))
        time.sleep(SAMPLE_S)
    if len(samples) < 2:
        return {"processor_percent": float("nan"), "memory_mb": memory}
    (begin, before), (end, after) = samples[0], samples[-1]
    return {"processor_percent": 100.0 * (after - before) / (end - begin), "memory_mb": memory}


def find_recorder(master: int) -> int:
    """Process identifier of the recorder that belongs to a session; 0 if there is none yet."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == master and RECORDER in (entry / "cmdline").read_bytes():
                return int(entry.name)
        except OSError:  # it has ended
            continue
    return 0


def count_signals(log: Path) -> int:
    """Signals in a log."""
    stream = LogStream(log)
    next(stream.blocks(), None)
    return sum(len(channel.signals) for channel in stream.channels.values())


def ports_for(folder: Path, channels: int) -> int:
    """Ports of each rig for at least that many signals; each port adds the same number."""
    few, more = (count_signals(run_session(folder, n, 0.01)[0]) for n in (2, 3))
    return max(2, 2 + math.ceil((channels - few) / (more - few)))


def measure(log: Path) -> dict[str, Any]:
    """Contents of the log, and speed of report and replay."""
    stream = LogStream(log)
    rows: dict[str, int] = {}
    last_ns = 0
    for block in stream.blocks():
        rows[block.channel.topic] = rows.get(block.channel.topic, 0) + len(block.times_ns)
        last_ns = max(last_ns, int(block.times_ns[-1]))
    duration = last_ns * 1e-9
    found: dict[str, Any] = {
        "session_s": duration,
        "signals": sum(len(channel.signals) for channel in stream.channels.values()),
        "rows": max(rows.values()),
        "rows_missing": int(stream.metadata.get("rows_missing", 0)),
        "gaps": sum(event.cause == "record_gap" for event in stream.events),
        "damage": stream.damage,
        "log_mb": log.stat().st_size / 1e6,
    }
    with tempfile.TemporaryDirectory() as out:
        page = ["--out", str(Path(out) / "report.html")]
        for name, options in (("report", page), ("replay", [])):
            begun, before = time.monotonic(), children_s()
            done = subprocess.run(
                [sys.executable, "-m", "hilrt", name, str(log), *options],
                capture_output=True,
                text=True,
                timeout=duration + TIME_OVER_DURATION_S,
                check=False,
            )
            took = time.monotonic() - begun
            said = (done.stdout or done.stderr).strip().splitlines()
            found[name] = {
                "took_s": took,
                "processor_s": children_s() - before,
                "times_real_time": duration / took,
                "status": done.returncode,
                "said": said[0] if said else "",
            }
    return found


def children_s() -> float:
    """Processor time of the commands that have ended, s; independent of the host's load."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show(found: dict[str, Any]) -> None:
    """Print the figures as a table."""
    rows = [
        ("signals at every tick", f"{found['signals']}"),
        ("rows", f"{found['rows']:,} of {found['session_s'] / STEP_S + 1:,.0f} ticks"),
        ("session time", f"{found['session_s']:.1f} s"),
        ("rows missing", f"{found['rows_missing']} in {found['gaps']} gaps"),
        ("log", f"{found['log_mb']:.1f} MB, {found['log_mb'] / found['session_s']:.2f} MB/s"),
    ]
    if found["damage"]:
        rows.append(("log not whole", found["damage"]))
    if "recorder" in found:
        recorder = found["recorder"]
        rows.append(("recorder, of one processor", f"{recorder['processor_percent']:.1f} %"))
        rows.append(("recorder, largest memory", f"{recorder['memory_mb']:.0f} MB"))
    for name in ("report", "replay"):
        one = found[name]
        speed = (
            f"{one['times_real_time']:.1f} times real time "
            f"({one['took_s']:.2f} s, {one['processor_s']:.2f} s of processor time)"
        )
        rows.append((f"hilrt {name}", speed))
        rows.append(("", one["said"]))
    for key, value in rows:
        print(f"{key:28}{value}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--duration", type=float, default=600.0, help="session time, s")
    parser.add_argument("--channels", type=int, default=200, help="signals to record, at least")
    parser.add_argument("--pace", default="realtime", help="asap: only for the log's sake")
    parser.add_argument("--priority", type=int, default=0, help="real-time, of the master")
    parser.add_argument("--log", type=Path, help="a log to go over instead of a session")
    parser.add_argument("--keep", type=Path, help="folder for the session that stays")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PROCESSORS])
    with tempfile.TemporaryDirectory() as temporary:
        found: dict[str, Any] = {}
        if arguments.log is None:
            folder = arguments.keep or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            ports = ports_for(Path(temporary), arguments.channels)
            log, seen = run_session(
                folder,
                ports,
                arguments.duration,
                pace=arguments.pace,
                priority=arguments.priority,
            )
            found["recorder"] = seen
        else:
            log = find_log(arguments.log)
        found |= measure(log)
    if arguments.json:
        print(json.dumps({"hilrt": hilrt.__version__, **found}, indent=1))
    else:
        show(found)


if __name__ == "__main__":
    main()
