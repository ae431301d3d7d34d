"""Fault in a running session: injected at the round's time, and undone after its duration."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.scenarios.sessions import Run
from tools.qualification.chaos_plan import Round

CLOCK_VARIABLE = "CHAOS_CLOCK"
#: Time limit for the first tick, or for the start of the target process, s.
START_S = 60.0
#: Processes by the word of their command that identifies them.
PROCESSES = {
    "recorder": "hilrt.cli.recorder_process",
    "gateway": "gateway",
    "solver": "solver",
    "emulator": "emulate",
    "view": "hilrt.monitor.terminal",
    "relay": "hilrt.monitor.relay",
}
#: Size of the file system that fills up, MB: enough for the start of a session.
DISK_MB = 64


@dataclass
class Struck:
    """Times at which a fault began and was undone, s since 1970; 0: never.

    `running` says whether the log had begun.
    """

    t: float = 0.0
    over: float = 0.0
    running: bool = False


def strike(one: Round, run: Run, folder: Path) -> Struck:
    """Inject the round's fault into the session, at its time and for its duration."""

    def begun() -> list[Path]:
        return list(run.out.glob("*/session.mcap"))

    target = one.target if one.target in PROCESSES else "master"
    ready: Callable[[], object] = (lambda: process(run, target)) if one.early else begun
    deadline = time.monotonic() + START_S
    while not (run.ended() or ready()) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(one.moment)
    struck = Struck(running=bool(begun()))
    undo = contextlib.ExitStack()
    struck.t = time.time()
    with undo:
        _do(one, run, folder, undo)
        if one.fault == "disk":  # filling it takes time
            struck.t = time.time()
        if one.length:
            time.sleep(one.length)
    struck.over = time.time()
    return struck


def _do(one: Round, run: Run, folder: Path, undo: contextlib.ExitStack) -> None:
    if one.fault in ("kill", "stop"):
        pids = processes(run, one.target)
        for pid in pids:
            _signal(pid, signal.SIGKILL if one.fault == "kill" else signal.SIGSTOP)
            if one.fault == "stop":
                undo.callback(_signal, pid, signal.SIGCONT)
    elif one.fault == "interrupt":
        run.process.send_signal(signal.SIGTERM)
    elif one.fault == "link":
        said = {"cut": True} if one.target == "cut" else {one.target: one.amount}
        _say(folder / "link", json.dumps(said).encode())
        undo.callback(_say, folder / "link", b"{}")
    elif one.fault == "clock":
        ahead = round(one.amount * 1e9).to_bytes(8, "little", signed=True)
        with (folder / "clock").open("r+b") as clock:
            clock.write(ahead)
    elif one.target == "full" and run.out.is_mount():
        with (run.out / "filler").open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass
    elif one.fault == "disk":
        pid = process(run, "recorder")
        sizes = [file.stat().st_size for file in run.out.glob("*/session.mcap")]
        with contextlib.suppress(ProcessLookupError):
            if pid:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (max(sizes), max(sizes)))


def processes(run: Run, target: str) -> list[int]:
    """Processes of a target."""
    if target == "all":
        return [pid for pid, _ in run.alive()]
    if target == "others":
        spared = {process(run, "gateway"), process(run, "emulator")}
        return [pid for pid, _ in run.alive() if pid not in spared]
    return [pid for pid in [process(run, target)] if pid]


def process(run: Run, target: str) -> int:
    """Process of that name; 0 if there is none."""
    if target == "master":
        return 0 if run.ended() else run.pid
    word = PROCESSES[target]
    return next((pid for pid, command in run.alive() if word in command and pid != run.pid), 0)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _say(file: Path, data: bytes) -> None:
    """Replace a file atomically."""
    new = file.with_suffix(".new")
    new.write_bytes(data)
    new.replace(file)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mount a separate file system at a folder; needs a mount namespace of this process."""
    folder.mkdir(parents=True)
    size = f"size={DISK_MB}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
