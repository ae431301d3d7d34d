"""The emulator's process on a real bus: how it ends, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cantools
import pytest

from hilrt.can.bus import open_bus
from hilrt.can.frame import Frame
from tests.processes import ended

DATABASE = Path(__file__).parents[2] / "bench_configs" / "engine_bench.dbc"
MESSAGES = cantools.database.load_file(DATABASE)
TIMEOUT = 20.0

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs signals and multicast")


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


#: An emulator that a first request does not end while enable is requested, however long that is.
PATIENT = (
    "from hilrt.bench.emulate import EmulatorEnding\n"
    "from hilrt.cli.main import main\n"
    "EmulatorEnding.LIMIT_S = 1e6\n"
    "main()\n"
)


class StandIn:
    """What a gateway does, at 200 Hz: demands out, measurements in."""

    def __init__(self, channel: str, port: int) -> None:
        self.arguments = {"interface": "udp_multicast", "channel": channel, "port": port}
        self.bus = open_bus(self.arguments, [], "bus")
        self.enable = 0
        self.slow: dict[str, Any] = {}
        self._alive = 0

    def command(self, patient: bool = False) -> list[str]:
        bus = ",".join(f"{k}={v}" for k, v in self.arguments.items())
        python = [sys.executable, *(["-c", PATIENT] if patient else ["-m", "hilrt"])]
        return [
            *python,
            "emulate",
            "engine",
            "--bus",
            f"{bus},hop_limit=0",
            "--database",
            str(DATABASE),
        ]

    def exchange(self) -> None:
        self._alive = (self._alive + 1) % 256
        dyno = {"Speed": 0.0, "Torque": 0.0, "Mode": 0, "Enable": self.enable}
        self._send("DynoDemand", {**dyno, "Alive": self._alive})
        self._send("EngineDemand", {"Pedal": 0.0, "Alive": self._alive})
        time.sleep(0.005)
        message = MESSAGES.get_message_by_name("EngineSlow")
        for frame in self.bus.drain():
            if frame.can_id == message.frame_id:
                self.slow = message.decode(bytes(frame.data), decode_choices=False)

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            assert time.monotonic() < deadline, self.slow
            self.exchange()

    def enabled(self) -> bool:
        return bool(self.slow.get("Enabled"))

    def _send(self, name: str, values: dict[str, float]) -> None:
        message = MESSAGES.get_message_by_name(name)
        self.bus.send(Frame(message.frame_id, message.encode(values, strict=False)))


@pytest.fixture
def gateway() -> Iterator[StandIn]:
    made = StandIn("239.74.163.9", free_port())
    yield made
    made.bus.close()


@pytest.fixture
def emulator(gateway: StandIn, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    command = gateway.command(patient=getattr(request, "param", False))
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate(timeout=TIMEOUT)


def test_sigterm_while_enabled_waits_for_the_withdrawal(
    gateway: StandIn, emulator: subprocess.Popen[str]
) -> None:
    gateway.enable = 1
    gateway.until(gateway.enabled)
    emulator.send_signal(signal.SIGINT)  # Ctrl-C is for the session's owner
    emulator.send_signal(signal.SIGTERM)
    for _ in range(200):
        gateway.exchange()
    assert emulator.poll() is None
    gateway.enable = 0
    gateway.until(lambda: not gateway.enabled())
    assert emulator.wait(TIMEOUT) == 0
    assert emulator.stderr is not None
    assert "engine ended after" in emulator.stderr.read()


@pytest.mark.parametrize("emulator", [True], indirect=True, ids=["patient"])
def test_second_sigterm_ends_it_at_once(gateway: StandIn, emulator: subprocess.Popen[str]) -> None:
    gateway.enable = 1
    gateway.until(gateway.enabled)
    emulator.send_signal(signal.SIGTERM)
    for _ in range(150):  # two requests in quick succession would count as one
        gateway.exchange()
    assert emulator.poll() is None
    emulator.send_signal(signal.SIGTERM)
    gateway.until(lambda: emulator.poll() is not None)
    assert emulator.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal")
def test_orphaned_emulator_ends_when_nobody_demands_anything(gateway: StandIn) -> None:
    script = (
        "import os, subprocess, sys, time\n"
        f"child = subprocess.Popen({gateway.command()!r}, stderr=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    try:
        gateway.enable = 1
        gateway.until(gateway.enabled)
        parent.kill()
        for _ in range(100):  # the gateway is still there: so is the bench
            gateway.exchange()
        assert not ended(pid)
        deadline = time.monotonic() + TIMEOUT
        while not ended(pid):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        parent.kill()
        parent.communicate(timeout=TIMEOUT)
        if not ended(pid):
            os.kill(pid, signal.SIGKILL)
