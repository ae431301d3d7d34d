"""Launcher that forks many solver processes after common imports; run by `hilrt.session.spawn`.

``python -m hilrt.cli.forked_solvers PARENT_PID SIGNAL CPUS`` runs on Linux and reads JSON from its
standard input: a list of (arguments of `hilrt`, log, environment). It forks a process for each,
writes their process ids to its standard output and ends. Its parent, which is a subreaper
meanwhile, then becomes their parent, and monitors them like processes that it started itself.
Users' models are imported after the fork, each in its own process.

On two shared, busy processors the session of 60 solvers of `tools/benchmarks/bench_many_solvers.py`
took 6.1 s of processor time and 6.2 s to its first tick, instead of 17.9 s and 15.2 s (one run
each, timed by hand).
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import time

from typer.main import get_command

from hilrt.cli.main import app
from hilrt.cli.main import main as run_command
from hilrt.config import session_file  # noqa: F401  (loaded for groups)
from hilrt.hosting import solver_process  # noqa: F401  (loaded for all)
from hilrt.session.launch import drop_interrupts, take_place

_PR_SET_NAME = 15
#: Longest name of a process, bytes.
_NAME_BYTES = 15
#: Time limit for the kernel to pass the forked processes to the parent, s.
_HANDED_OVER_S = 10.0

#: Arguments of `hilrt`, log, and additions to the environment.
Job = tuple[list[str], str, dict[str, str]]


def main(arguments: list[str]) -> bool:
    """Fork the processes; return True in each of them, prepared for its command."""
    parent, death_signal, cpus = arguments
    jobs: list[Job] = json.load(sys.stdin)
    launcher = os.getpid()
    gc.collect()
    gc.freeze()  # a collection would copy shared pages
    ready, release = os.pipe()
    pids = []
    for job in jobs:
        pid = os.fork()
        if pid == 0:
            os.close(release)
            _prepare(job)
            _wait_for_parent(ready, launcher)
            take_place(int(parent), int(death_signal), cpus, 0)
            return True
        pids.append(pid)
    os.write(1, json.dumps(pids).encode())  # before they run: the parent must have their ids
    os.write(release, b"." * len(pids))
    return False


def _prepare(job: Job) -> None:
    """Give this process its own session, log, environment and random numbers."""
    command, log, environment = job
    os.setsid()
    for path, flags, descriptors in (
        (os.devnull, os.O_RDONLY, (0,)),
        (log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, (1, 2)),
    ):
        opened = os.open(path, flags, 0o666)
        for descriptor in descriptors:
            os.dup2(opened, descriptor)
        os.close(opened)
    drop_interrupts()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(environment)
    sys.argv = ["hilrt", *command]
    name = command[command.index("--name") + 1] if "--name" in command else "solver"
    text = ctypes.create_string_buffer(name.encode()[:_NAME_BYTES])
    ctypes.CDLL(None).prctl(_PR_SET_NAME, text, 0, 0, 0)
    if "numpy.random" in sys.modules:  # `random` reseeds itself; numpy would repeat its numbers
        sys.modules["numpy.random"].seed()


def _wait_for_parent(ready: int, launcher: int) -> None:
    """Wait until all are forked, and the launcher has ended and its parent adopted this process."""
    all_forked = os.read(ready, 1)
    os.close(ready)
    deadline = time.monotonic() + _HANDED_OVER_S
    while all_forked and os.getppid() == launcher:
        if time.monotonic() > deadline:
            all_forked = b""
        time.sleep(0.001)
    if not all_forked:
        sys.exit("the process that forks solvers has failed")


if __name__ == "__main__":
    command = get_command(app)  # takes longer than the rest of a solver's start
    if main(sys.argv[1:]):
        run_command(command)
    else:
        os._exit(0)
