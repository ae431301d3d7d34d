"""A strike at a running session: made at the round's moment, and taken back after its length."""

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
#: Until the first tick, or until the process that is meant is there, s.
START_S = 60.0
#: Processes by the word of their command that names them.
PROCESSES = {
    "recorder": "hilrt.cli.recorder_process",
    "gateway": "gateway",
    "solver": "solver",
    "emulator": "emulate",
    "view": "hilrt.monitor.terminal",
    "relay": "hilrt.monitor.relay",
}
#: Size of the file system that fills up, MB: enough for what a session asks for at its start.
DISK_MB = 64


@dataclass
class Struck:
    """Times at which a fault began and was taken back, s since 1970; 0: it never was.

    `running` says whether the log had begun.
    """

    t: float = 0.0
    over: float = 0.0
    running: bool = False


def strike(one: Round, run: Run, folder: Path) -> Struck:
    """Do to the session what the round says, when it says so, and for how long."""

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
        if one.fault == "disk":  # to fill it takes its time
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
    """The processes that are meant by a target."""
    if target == "all":
        return [pid for pid, _ in run.alive()]
    if target == "others":
        spared = {process(run, "gateway"), process(run, "emulator")}
        return [pid for pid, _ in run.alive() if pid not in spared]
    return [pid for pid in [process(run, target)] if pid]


def process(run: Run, target: str) -> int:
    """The process of that name; 0 if there is none."""
    if target == "master":
        return 0 if run.ended() else run.pid
    word = PROCESSES[target]
    return next((pid for pid, command in run.alive() if word in command and pid != run.pid), 0)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _say(file: Path, data: bytes) -> None:
    """Replace a file in one step."""
    new = file.with_suffix(".new")
    new.write_bytes(data)
    new.replace(file)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of its own at a folder; the tool must have a mount namespace of its own."""
    folder.mkdir(parents=True)
    size = f"size={DISK_MB}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
