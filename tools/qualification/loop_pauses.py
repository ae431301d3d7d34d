"""Stops each process of a session except the master, and measures the longest pause of the loop.

    python -m tools.qualification.loop_pauses [--stop 1.5] [--limit 50]

A real session at 100 Hz: an emulated engine bench on a CAN bus, its gateway, a solver, a hosted
FMU, the recorder, the relay, the page and the terminal view. Each of them gets SIGSTOP for `--stop`
seconds, then SIGCONT. The times of the master's dispatches are read from the log; a table shows the
longest time from one tick to the next, and that of an undisturbed interval. Status 1 if one exceeds
the undisturbed one by more than `--limit` [ms]: the loop has waited for that process. Linux, with a
C compiler for the FMU.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import hilrt
from tests.fmu.build import mass
from tests.scenarios.sessions import Listener, Run, engine_run, free_port, until

#: Words in the command of each stopped process. The gateway is last, as its silent bench ends the
#: session.
PROCESSES = {
    "recorder": "hilrt.cli.recorder_process",
    "relay": "hilrt.monitor.relay",
    "page": "hilrt.web",
    "view": "hilrt.monitor.terminal",
    "solver": "hilrt.models.vehicle:Vehicle",
    "FMU": "hosted_fmu",
    "emulator": "emulate",
    "gateway": "gateway",
}
QUIET = "(none)"
SETTINGS = (
    "record.required=false",
    "subsystems.vehicle.late.max_misses=100000",
    "subsystems.engine.late.max_misses=100000",
    "subsystems.engine.master_timeout=60.0",
    "subsystems.engine.bench_timeout=60.0",
)


def hosted_fmu() -> str:
    """Table of an unconnected mass in a separate process."""
    argv = ["hilrt", "solver", str(mass(3)), "--param", "x2=0.0", "--param", "v2=0.0"]
    spawn = json.dumps([*argv, "--param", "F=0.0"])
    table = f'adapter = "zeromq", late = {{max_misses = 100000}}, spawn = {spawn}'
    return f"subsystems.hosted_fmu={{{table}}}"


def stop_each(run: Run, stop_s: float) -> dict[str, tuple[float, float]]:
    """Stop each process; return beginning and end of each stop, s since 1970."""
    windows = {QUIET: (time.time(), time.time() + stop_s)}
    time.sleep(stop_s)
    for name, word in PROCESSES.items():
        pids = [pid for pid, command in run.alive() if word in command and pid != run.pid]
        begun = time.time()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(stop_s)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        if not pids:
            sys.exit(f"{name}: there is no such process")
        windows[name] = (begun, time.time())
        if run.ended():
            break
        time.sleep(stop_s)
    return windows


def pauses(folder: Path, windows: dict[str, tuple[float, float]]) -> dict[str, float]:
    """The longest time between two ticks in each window, ms."""
    log = hilrt.load_log(folder)
    done = log.t + 1e-6 * log["master:lateness"] + int(log.metadata["epoch_ns"]) * 1e-9
    found = {}
    for name, (begun, ended) in windows.items():
        inside = done[(done >= begun - 0.1) & (done <= ended + 0.1)]
        found[name] = 1e3 * float(np.max(np.diff(inside))) if len(inside) > 1 else np.inf
    return found


def main() -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stop", type=float, default=1.5, help="how long each is stopped, s")
    parser.add_argument("--limit", type=float, default=50.0, help="pause beyond the quiet one, ms")
    options = parser.parse_args()
    settings = (*SETTINGS, hosted_fmu(), f'monitor.page="{free_port()}"')
    with (
        tempfile.TemporaryDirectory() as folder,
        Listener() as listener,
        engine_run(Path(folder), listener, *settings, options=["--web"], quiet=False) as run,
    ):
        run.until_running()
        time.sleep(2.0)
        windows = stop_each(run, options.stop)
        if not run.ended():
            run.signal(signal.SIGINT)
        until(run.ended, "the session's end")
        found = pauses(run.folder, windows)
    print(f"{'stopped':10} {'longest pause, ms':>18}")
    for name, pause in found.items():
        print(f"{name:10} {pause:18.1f}")
    return int(any(pause > found[QUIET] + options.limit for pause in found.values()))


if __name__ == "__main__":
    sys.exit(main())
