"""Whole sessions as real processes: started, watched from outside, looked at on the bus.

Frames are taken by python-can (on a machine without a network from the package's own socket, for
python-can finds none there) and decoded by cantools. Processes are found in /proc by a mark in
their environment, which everything that a session starts inherits.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import can
import cantools
import msgspec
import pytest

import hilrt
from hilrt.can.udp_multicast import open_can
from tests.scenarios.fork_server import Forked, start_hilrt

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "bench_configs"
SHARED = ROOT.parent / "shared"
MESSAGES = cantools.database.load_file(CONFIGS / "engine_bench.dbc")
#: For everything that happens within a few seconds on an idle machine, s.
TIMEOUT = 90.0
#: For what takes no end, in scenarios that only wait for it to be killed, s.
SHORT_STOP = 1.0
MARK = "SCENARIO_OF_HILRT"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")

#: Largest rates of the bench's inputs, as in the session files, unit/s.
MAX_RATE = {"Speed": 800.0, "Pedal": 500.0}
#: The longest time that one move of a set-point makes up for, s: the gateway's promise that a
#: stall of its own is no step for the bench.
LONGEST_GAP = 0.02

#: A session that a busy machine keeps up with: no pinning, no spinning, patience.
CALM = (
    "master.step=0.01",
    "master.connect_timeout=60.0",
    "master.arm_timeout=60.0",
    "master.pacing={spin=0.0, affinity=[]}",
    "subsystems.vehicle.late.max_misses=1000",
    "subsystems.engine.late.max_misses=1000",
    "subsystems.engine.master_timeout=1.0",
    "subsystems.engine.idle_timeout=10.0",
    "subsystems.engine.bench_timeout=0.2",
    "record.report=false",
)
#: What draws the page about the session all the same.
REPORT = "record.report=true"


def until(condition: Callable[[], Any], what: str, timeout: float = TIMEOUT) -> Any:
    """Wait for a condition and return what it returned."""
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {timeout:g} s"
        time.sleep(0.02)
    return found


def free_port() -> int:
    """A port of this test's own: multicast buses on one port hear each other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


# ---- the bus -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """A decoded frame; `t` is the kernel's time of reception, s since 1970."""

    t: float
    values: dict[str, Any]

    def __getitem__(self, signal_name: str) -> float:
        return float(self.values[signal_name])


class Listener:
    """An independent node that records every frame of a bus of its own.

    Attributes
    ----------
    table : str
        The bus as an inline table, for the session file.
    """

    def __init__(self) -> None:
        self.channel, self.port = "239.74.163.11", free_port()
        where = f'channel="{self.channel}", port={self.port}, hop_limit=0'
        self.table = f'{{interface="udp_multicast", {where}}}'
        self.arguments = f"interface=udp_multicast,channel={self.channel},port={self.port}"
        try:
            # python-can's, but on a machine without a network
            self._bus = open_can(
                interface="udp_multicast", channel=self.channel, port=self.port, hop_limit=0
            )
        except can.CanInitializationError as error:
            # Every scenario with a bus fails then: say that it is the machine's network.
            text = f"the machine has no network that takes multicast frames: {error.__cause__!r}"
            raise RuntimeError(text) from error
        with socket.socket(fileno=os.dup(self._bus.fileno())) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._raw: list[can.Message] = []
        self._closing = False
        self._thread = threading.Thread(target=self._read, name="listener", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._closing:
            frame = self._bus.recv(timeout=0.05)
            if frame is not None:
                self._raw.append(frame)

    def messages(self, name: str) -> list[can.Message]:
        """Frames of one message in the order of reception, as they were."""
        return self.with_id(MESSAGES.get_message_by_name(name).frame_id)

    def with_id(self, frame_id: int) -> list[can.Message]:
        """Frames of an identifier in the order of reception, as they were."""
        return [raw for raw in list(self._raw) if raw.arbitration_id == frame_id]

    def frames(self, name: str, since: float = 0.0) -> list[Frame]:
        """Frames of one message in the order of reception."""
        message = MESSAGES.get_message_by_name(name)
        return [
            Frame(raw.timestamp, message.decode(bytes(raw.data), decode_choices=False))
            for raw in self.messages(name)
            if raw.timestamp >= since
        ]

    def newest(self, name: str) -> Frame | None:
        """The newest frame of a message, if there is one."""
        frame_id = MESSAGES.get_message_by_name(name).frame_id
        for raw in reversed(list(self._raw)):
            if raw.arbitration_id == frame_id:
                values = MESSAGES.decode_message(frame_id, bytes(raw.data), decode_choices=False)
                return Frame(raw.timestamp, values)
        return None

    def enable_requested(self) -> bool:
        """Whether the gateway asks the bench to run."""
        frame = self.newest("DynoDemand")
        return frame is not None and frame["Enable"] == 1

    def close(self) -> None:
        self._closing = True
        self._thread.join(TIMEOUT)
        self._bus.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ---- the processes -----------------------------------------------------------------------------


class Run:
    """One ``hilrt run`` in a session and process group of its own, as a terminal would make it.

    With `test`, a file with a sequence, it is ``hilrt test``. It is forked off a process that has
    loaded the same, unless the scenario is about the `true_start` of a session. Such a fork may be
    given a `stop_timeout` [s] of its own, where something in it will never end.
    """

    ROLES = (
        "emulate",
        "gateway",
        "solver",
        "sequence",
        "hilrt.cli.recorder_process",
        "hilrt.monitor.terminal",
    )

    def __init__(
        self,
        session: Path,
        out: Path,
        *options: str,
        quiet: bool = True,
        environment: Mapping[str, str] = MappingProxyType({}),
        test: Path | None = None,
        true_start: bool = False,
        stop_timeout: float | None = None,
    ) -> None:
        self.out, self.session = out, session
        out.mkdir(parents=True, exist_ok=True)
        self._mark = uuid.uuid4().hex
        self._stdout, self._stderr = out.with_suffix(".stdout"), out.with_suffix(".stderr")
        command = ["run", str(session), *(["--quiet"] if quiet else [])]
        if test is not None:
            command = ["test", str(test), "--session", str(session)]
        command += ["--out", str(out), *options]
        given = {**os.environ, **environment, MARK: self._mark}
        self.process: subprocess.Popen[bytes] | Forked
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            if not true_start:
                files = stdout.fileno(), stderr.fileno()
                self.process = start_hilrt(command, *files, given, stop_timeout)
                return
            assert stop_timeout is None, "a true start has its own"
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hilrt", *command],
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                env=given,
                start_new_session=True,
            )

    # -- from outside --

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def folder(self) -> Path:
        """The run's folder."""
        (folder,) = [entry for entry in self.out.iterdir() if entry.is_dir()]
        return folder

    @property
    def stdout(self) -> str:
        return self._stdout.read_text()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def ended(self) -> bool:
        return self.process.poll() is not None

    def children(self) -> dict[str, int]:
        """Process ids by role, without the master."""
        found = {}
        for pid, command in self.alive():
            for role in self.ROLES:
                if role in command and pid != self.pid:
                    found[role] = pid
        return found

    def alive(self) -> list[tuple[int, list[str]]]:
        """Every process of this run that has not ended, with its command."""
        mark = f"{MARK}={self._mark}".encode()
        found = [] if self.ended() else [(self.pid, ["hilrt"])]
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or entry.name == str(self.pid):
                continue
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    command = (entry / "cmdline").read_bytes().decode().split("\0")
                    found.append((int(entry.name), command))
        return found

    def signal(self, number: int) -> None:
        """Send a signal to the process group, as a terminal does."""
        os.killpg(self.pid, number)

    def press_enter(self) -> None:
        """As the operator at the terminal."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    # -- waiting --

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait for a condition, as long as the master lives."""

        def seen() -> Any:
            found = condition()
            assert found or not self.ended(), f"{what}: the session ended first; {self.stderr}"
            return found

        return until(seen, what)

    def until_running(self) -> None:
        """Until the first tick, when the log is begun."""
        self.until(lambda: list(self.out.glob("*/session.mcap")), "first tick")

    def wait(self, timeout: float = TIMEOUT) -> int:
        """Exit status; afterwards nothing of the run may be left."""
        status = self.process.wait(timeout)
        self.until_nothing_left(timeout=30.0)
        return status

    def until_nothing_left(self, timeout: float = TIMEOUT) -> None:
        until(lambda: not self.alive(), "end of every process of the run", timeout)

    def clean_up(self) -> None:
        """Kill what is left; only ever processes of this run."""
        try:
            if not self.ended():
                self.process.kill()
            self.process.wait(TIMEOUT)
        finally:
            if self.process.stdin is not None:
                self.process.stdin.close()
            for pid, _ in self.alive():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def engine_session(folder: Path, *, bench_of_its_own: bool = False) -> Path:
    """A copy of the shipped engine session; without the emulated bench if there is one already."""
    shutil.copytree(CONFIGS, folder, dirs_exist_ok=True)
    path = folder / "engine_in_the_loop.toml"
    if bench_of_its_own:
        lines = path.read_text().splitlines()
        kept = [line for line in lines if not line.startswith("emulator =")]
        assert len(kept) == len(lines) - 1
        path.write_text("\n".join(kept))
    return path


def inline(value: object) -> str:
    """A value as TOML, tables in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {inline(entry)}" for key, entry in value.items()) + "}"
    return msgspec.json.encode(value).decode()


def sets(*overrides: str) -> list[str]:
    """``--set`` options."""
    return [word for item in overrides for word in ("--set", item)]


def driving(start: float = 25.0) -> str:
    """The vehicle on its way from the first tick on: `start` is the time in the cycle, s."""
    words = ["hilrt", "solver", "hilrt.models.vehicle:Vehicle"]
    words += ["--param", "cycle=wltc_class3b.csv", "--param", f"cycle_start={start}"]
    return f"subsystems.vehicle.spawn={words}".replace("'", '"')


@contextlib.contextmanager
def engine_run(
    tmp_path: Path,
    listener: Listener,
    *overrides: str,
    duration: float = 600.0,
    options: Sequence[str] = (),
    bench_of_its_own: bool = False,
    quiet: bool = True,
    true_start: bool = False,
    stop_timeout: float | None = None,
) -> Iterator[Run]:
    """A running engine session on the listener's bus; nothing of it is left afterwards."""
    session = engine_session(tmp_path / "configs", bench_of_its_own=bench_of_its_own)
    given = sets(*CALM, f"subsystems.engine.bus={listener.table}", driving(), *overrides)
    run = Run(
        session,
        tmp_path / "runs",
        "--duration",
        str(duration),
        *given,
        *options,
        quiet=quiet,
        true_start=true_start,
        stop_timeout=stop_timeout,
    )
    try:
        yield run
    finally:
        run.clean_up()


def assert_fault(run: Run, *words: str) -> None:
    """Exit status 3 with one clear message, and whole files that say the same."""
    assert run.wait() == 3, run.stderr
    assert "Traceback" not in run.stderr
    for word in words:
        assert word in run.stderr, run.stderr
    log = hilrt.load_log(run.folder)
    assert not log.truncated
    faults = [event.text for event in log.events if event.level == "error"]
    assert any(all(word in text for word in words) for text in faults), faults
    assert (run.folder / "summary.json").is_file()


# ---- what a bench may expect -------------------------------------------------------------------


def assert_brought_down(listener: Listener, since: float) -> None:
    """The safe profile as the bench saw it, from `since` [s since 1970] on.

    Pedal first, then the speed, both ramped and not jumped; enable is withdrawn last, and for good.
    """
    speed = listener.frames("DynoDemand", since)
    pedal = listener.frames("EngineDemand", since)
    assert speed[-1]["Enable"] == 0
    assert speed[-1]["Speed"] == 0.0
    assert pedal[-1]["Pedal"] == 0.0
    withdrawn = next(i for i, frame in enumerate(speed) if frame["Enable"] == 0)
    assert all(frame["Enable"] == 0 for frame in speed[withdrawn:])
    assert speed[withdrawn]["Speed"] == 0.0
    assert_ramped(speed, "Speed")
    assert_ramped(pedal, "Pedal")
    pedal_down = next(frame.t for frame in pedal if frame["Pedal"] == 0.0)
    assert all(frame["Speed"] > 0.0 for frame in speed if frame.t < pedal_down)


def assert_ramped(frames: Sequence[Frame], name: str) -> None:
    """No step from frame to frame, and no faster over time than the rate allows.

    The first holds for all frames. The second holds for all but a few pairs: a frame may leave any
    time after it was made where the host gives its processor to others.
    """
    rate = MAX_RATE[name]
    for before, after in itertools.pairwise(frames):
        move = abs(after[name] - before[name])
        if (after["Alive"] - before["Alive"]) % 256 == 1:  # the listener has not lost one between
            assert move <= rate * LONGEST_GAP + 0.01, (before, after)
    pairs = list(itertools.combinations_with_replacement(frames[::10], 2))
    fast = [(a, b) for a, b in pairs if abs(b[name] - a[name]) > rate * (b.t - a.t + 0.1)]
    assert len(fast) <= 0.02 * len(pairs), fast
