"""The disturbed sessions, and one round: session, fault, and observations."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools.qualification.chaos_listener import Heard, read
from tools.qualification.chaos_plan import Round
from tools.qualification.chaos_strike import CLOCK_VARIABLE, Struck, strike

TOOLS = Path(__file__).parent
from tests.scenarios.sessions import Run, driving, engine_session, free_port, sets  # noqa: E402
from tests.two_masses import CONNECTIONS  # noqa: E402

CHANNEL = "239.74.163.15"
#: Time limits for the first tick, and from the fault to the end of the master, s.
START_S, END_S = 60.0, 30.0
#: Time limit from the end of the master to that of all its processes: the gateway's safe profile,
#: and the end of a process whose connections are lost, s.
REST_S = 8.0
#: Timeouts of the sessions, s: of the gateway, and of the master.
STEP, MAX_MISSES, STEP_TIMEOUT = 0.01, 30, 2.0
MASTER_TIMEOUT, IDLE_TIMEOUT, BENCH_TIMEOUT = 0.3, 2.0, 0.1
#: Maximum loss of a recording before the session ends, s.
MAX_GAP = 1.0
SETTINGS = (
    f"master.step={STEP}",
    f"master.connect_timeout={START_S}",
    "master.pacing={spin=0.0, affinity=[]}",
    "record.report=false",
    f"record.max_gap={MAX_GAP}",
)
BENCH = (
    f"subsystems.vehicle.late.max_misses={MAX_MISSES}",
    f"subsystems.engine.late.max_misses={MAX_MISSES}",
    f"subsystems.engine.master_timeout={MASTER_TIMEOUT}",
    f"subsystems.engine.idle_timeout={IDLE_TIMEOUT}",
    f"subsystems.engine.bench_timeout={BENCH_TIMEOUT}",
)
#: Heavy masses: the session is insensitive to delays, as it is about processes.
MASSES = """
[session]
name = "masses"
duration = 1e5
pace = "{pace}"
[master]
step = 0.01
step_timeout = {step_timeout}
[monitor]
listen = "tcp://127.0.0.1:{port}"
[subsystems.mass1]
adapter = "zeromq"
spawn = {command}
late = {{ max_misses = {misses} }}
[subsystems.mass2]
adapter = "zeromq"
spawn = ["hilrt", "solver", "hilrt.models.two_mass:Mass2", "--param", "m=100.0"]
late = {{ max_misses = {misses} }}
"""
#: Time from the bench's start to the beginning of faults on the bus, s: near the first tick.
BENCH_START_S = 2.0


@dataclass
class Seen:
    """External observations of a round; times in s since 1970.

    Attributes
    ----------
    struck : Struck
    status : int
        Exit status; None if the master did not end.
    left : list of str
        Commands of processes that outlived the session.
    """

    struck: Struck = field(default_factory=Struck)
    status: int | None = None
    left: list[str] = field(default_factory=list)
    stdout: str = ""
    stderr: str = ""
    folder: Path | None = None
    heard: list[Heard] = field(default_factory=list)


class Bus:
    """The round's own bus, and the process that listens to it."""

    def __init__(self, folder: Path) -> None:
        self.port, self._file = free_port(), folder / "frames"
        where = f'channel="{CHANNEL}", port={self.port}, hop_limit=0'
        self.table = f'{{interface="udp_multicast", {where}}}'
        command = [sys.executable, str(TOOLS / "chaos_listener.py"), CHANNEL, str(self.port)]
        self._process = subprocess.Popen([*command, str(self._file)])

    def close(self) -> list[Heard]:
        """End the listener; return everything it recorded."""
        self._process.terminate()
        self._process.wait(END_S)
        return list(read(self._file))


def play(one: Round, folder: Path) -> Seen:
    """Run one round in its own folder."""
    folder.mkdir(parents=True, exist_ok=True)
    seen = Seen()
    with contextlib.ExitStack() as stack:
        bus = Bus(folder) if one.session == "engine" else None
        if bus is not None:
            stack.callback(lambda: seen.heard.extend(bus.close()))
        run = stack.enter_context(_started(one, folder, bus))
        seen.struck = strike(one, run, folder)
        if one.session == "fast":
            _wait(lambda: run.ended() or list(run.out.glob("*/session.mcap")), START_S)
            _wait(run.ended, one.duration - one.moment - one.length)
            if not run.ended():
                run.signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            seen.status = run.process.wait(END_S)
        _wait(lambda: not run.alive(), REST_S)
        seen.left = [" ".join(command)[:120] for _, command in run.alive()]
        seen.stdout, seen.stderr = run.stdout, run.stderr
        folders = [entry for entry in run.out.iterdir() if entry.is_dir()]
        seen.folder = folders[0] if folders else None
    return seen


@contextlib.contextmanager
def _started(one: Round, folder: Path, bus: Bus | None) -> Iterator[Run]:
    """Start the session of a round, which ends by itself shortly after the fault."""
    overrides, environment = list(SETTINGS), {}
    if bus is not None:
        session = engine_session(folder / "configs")
        overrides += [*BENCH, f"subsystems.engine.bus={bus.table}", _vehicle(one, folder)]
        if one.fault == "bus":
            scenario = folder / "scenario.toml"
            scenario.write_text(_scenario(one))
            overrides.append(f"subsystems.engine.scenario='{scenario}'")
    else:
        session = folder / "masses.toml"
        session.write_text(_masses(one, folder))
    if one.fault == "clock":
        clock = folder / "clock"
        clock.write_bytes(bytes(8))
        paths = [str(TOOLS / "chaos_clock"), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {CLOCK_VARIABLE: str(clock), "PYTHONPATH": os.pathsep.join(paths)}
    if one.session != "fast":
        more = BENCH_START_S if one.fault == "bus" else 0.0
        overrides.append(f"session.duration={one.duration + more:.3f}")
    quiet = one.session != "engine"
    run = Run(session, folder / "runs", *sets(*overrides), quiet=quiet, environment=environment)
    try:
        yield run
    finally:
        run.clean_up()


def _vehicle(one: Round, folder: Path) -> str:
    """Table of the vehicle; with a disturbed line if that is the fault."""
    setting = driving()
    if one.fault == "link":
        setting = setting.replace('["hilrt"', f'{_link(one, folder)}, "-m", "hilrt"')
    return setting


def _link(one: Round, folder: Path) -> str:
    """Beginning of a command with a disturbed line."""
    words = [sys.executable, TOOLS / "chaos_link.py", folder / "link", one.number, sys.executable]
    return "[" + ", ".join(f'"{word}"' for word in words)


def _masses(one: Round, folder: Path) -> str:
    """Two solvers, and a relay."""
    command = '["hilrt", "solver", "hilrt.models.two_mass:Mass1", "--param", "m=100.0"]'
    if one.fault == "link":
        command = command.replace('["hilrt"', f'{_link(one, folder)}, "-m", "hilrt"')
    text = MASSES.format(
        pace="asap" if one.session == "fast" else "realtime",
        step_timeout=STEP_TIMEOUT,
        port=free_port(),
        command=command,
        misses=MAX_MISSES,
    )
    return text + CONNECTIONS


def _scenario(one: Round) -> str:
    """Faults of the emulated bench."""
    lines = [f"seed = {one.number}\n[[events]]\nkind = '{one.target}'"]
    lines.append(f"at = {BENCH_START_S + one.moment:.3f}\nfor = {one.length:.3f}")
    if one.target == "loss":
        lines.append(f"share = {one.amount:.3f}\nburst = 3")
    if one.target == "latency":
        lines.append(f"delay = {one.amount:.3f}\njitter = {0.5 * one.amount:.3f}")
    return "\n".join(lines)


def _wait(condition: Callable[[], object], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
