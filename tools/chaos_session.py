"""The sessions that are disturbed, and one round: a session, what is done to it, what was seen."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from chaos_listener import Heard, read
from chaos_plan import AFTER_S, Round

TOOLS = Path(__file__).parent
sys.path.insert(0, str(TOOLS.parent))
from tests.scenarios.sessions import Run, driving, engine_session, free_port, sets  # noqa: E402

CHANNEL = "239.74.163.15"
#: Processes by the word of their command that names them.
PROCESSES = {
    "recorder": "hilrt.session.recorder_process",
    "gateway": "gateway",
    "solver": "solver",
    "emulator": "emulate",
    "view": "hilrt.monitor.terminal",
    "relay": "hilrt.monitor.relay",
}
#: Until the first tick, and from the fault to the end of the master, s.
START_S, END_S = 60.0, 30.0
#: From the end of the master to that of all its processes: the gateway's safe profile, and what
#: a process may take that finds its connections gone, s.
REST_S = 8.0
#: Of the engine's session, s: what its gateway promises.
STEP, MAX_MISSES, MASTER_TIMEOUT, BENCH_TIMEOUT = 0.01, 30, 0.3, 0.1
SETTINGS = (
    f"master.step={STEP}",
    f"master.connect_timeout={START_S}",
    "master.pacing={spin=0.0, affinity=[]}",
    "record.report=false",
)
BENCH = (
    f"subsystems.vehicle.late.max_misses={MAX_MISSES}",
    f"subsystems.engine.late.max_misses={MAX_MISSES}",
    f"subsystems.engine.master_timeout={MASTER_TIMEOUT}",
    f"subsystems.engine.bench_timeout={BENCH_TIMEOUT}",
)


@dataclass
class Seen:
    """What a round looked like from outside; times in s since 1970.

    Attributes
    ----------
    struck : float
        When the fault was there.
    ended : float
        When the master was gone.
    left : list of str
        Commands of processes that outlived the session.
    """

    struck: float = 0.0
    ended: float = 0.0
    status: int | None = None
    running: bool = False
    left: list[str] = field(default_factory=list)
    stdout: str = ""
    stderr: str = ""
    folder: Path | None = None
    heard: list[Heard] = field(default_factory=list)


class Bus:
    """A bus of the round's own, and the process that listens to it."""

    def __init__(self, folder: Path) -> None:
        self.port, self._file = free_port(), folder / "frames"
        where = f'channel="{CHANNEL}", port={self.port}, hop_limit=0'
        self.table = f'{{interface="udp_multicast", {where}}}'
        command = [sys.executable, str(TOOLS / "chaos_listener.py"), CHANNEL, str(self.port)]
        self._process = subprocess.Popen([*command, str(self._file)])

    def close(self) -> list[Heard]:
        """End the listener; everything that it has heard."""
        self._process.terminate()
        self._process.wait(END_S)
        return list(read(self._file))


def play(one: Round, folder: Path) -> Seen:
    """One round in a folder of its own."""
    folder.mkdir(parents=True)
    bus = Bus(folder)
    seen = Seen()
    try:
        with _started(one, folder, bus) as run:
            _strike(one, run, seen)
            with contextlib.suppress(subprocess.TimeoutExpired):
                seen.status = run.process.wait(END_S + one.length)
            seen.ended = time.time()
            _wait(lambda: not run.alive(), REST_S)
            seen.left = [" ".join(command)[:120] for _, command in run.alive()]
            seen.stdout, seen.stderr = run.stdout, run.stderr
            folders = [entry for entry in run.out.iterdir() if entry.is_dir()]
            seen.folder = folders[0] if folders else None
    finally:
        seen.heard = bus.close()
    return seen


@contextlib.contextmanager
def _started(one: Round, folder: Path, bus: Bus) -> Iterator[Run]:
    """The session of a round, which ends by itself a little after the fault."""
    session = engine_session(folder / "configs")
    given = (*SETTINGS, *BENCH, f"subsystems.engine.bus={bus.table}", driving())
    duration = one.moment + one.length + AFTER_S
    options = ["--duration", f"{duration:.3f}", *sets(*given)]
    run = Run(session, folder / "runs", *options, quiet=False)
    try:
        yield run
    finally:
        run.clean_up()


def _strike(one: Round, run: Run, seen: Seen) -> None:
    """Do to the session what the round says, when it says so."""
    if one.early:
        _wait(lambda: run.ended() or _pid(run, one.target), START_S)
    else:
        _wait(lambda: run.ended() or list(run.out.glob("*/session.mcap")), START_S)
    time.sleep(one.moment)
    seen.running = bool(list(run.out.glob("*/session.mcap")))
    pid = _pid(run, one.target)
    seen.struck = time.time()
    if pid and one.fault == "kill":
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _pid(run: Run, target: str) -> int:
    """The process of that name; 0 if there is none."""
    if target == "master":
        return 0 if run.ended() else run.pid
    word = PROCESSES[target]
    return next((pid for pid, command in run.alive() if word in command and pid != run.pid), 0)


def _wait(condition: Callable[[], object], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)


def remove(folder: Path) -> None:
    """What a round has left on the disk."""
    shutil.rmtree(folder, ignore_errors=True)
