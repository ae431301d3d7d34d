"""The demonstration session on a real SocketCAN. Needs vcan0.

``make test-socketcan`` runs it, in an emulated kernel where this one has no CAN. There everything
takes some twenty times as long, so the session has a slow step and long patience, and the emulated
bench lives in slow motion.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import can
import cantools
import pytest

import hilrt
from tests.scenarios.sessions import CONFIGS, Run, driving, engine_session, sets

pytestmark = pytest.mark.skipif(
    not Path("/sys/class/net/vcan0").exists(), reason="no vcan0; see make test-socketcan"
)

#: Wall clock per time of the bench; 1 on a machine that is no emulated one.
SLOW_MOTION = 20 if "IN_CAN_GUEST" in os.environ else 1
DURATION = 3.0
TIMEOUT = 900.0
SLOW = (
    "master.step=0.1",
    "master.connect_timeout=400.0",
    "master.arm_timeout=200.0",
    "master.pacing={spin=0.0, affinity=[]}",
    "subsystems.vehicle.late.max_misses=1000",
    "subsystems.engine.late.max_misses=1000",
    "subsystems.engine.master_timeout=5.0",
    "subsystems.engine.bench_timeout=3.0",
    "subsystems.engine.idle_timeout=100.0",
    "subsystems.engine.enable.timeout=100.0",
    "subsystems.engine.safe_profile.step_timeout=10.0",
)
MESSAGES = cantools.database.load_file(CONFIGS / "engine_bench.dbc")


class Watcher:
    """Every set-point of the dynamometer and every state of the bench that pass on vcan0."""

    NAMES = ("DynoDemand", "EngineSlow")

    def __init__(self) -> None:
        ids = [MESSAGES.get_message_by_name(name).frame_id for name in self.NAMES]
        filters = [{"can_id": i, "can_mask": 0x7FF, "extended": False} for i in ids]
        self._bus = can.Bus(
            interface="socketcan", channel="vcan0", can_filters=filters, ignore_config=True
        )
        self.seen: dict[int, list[dict[str, float]]] = {i: [] for i in ids}
        self._closing = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._closing:
            frame = self._bus.recv(0.1)
            if frame is not None:
                values = MESSAGES.decode_message(
                    frame.arbitration_id, bytes(frame.data), decode_choices=False
                )
                self.seen[frame.arbitration_id].append(values)

    def of(self, name: str) -> list[dict[str, float]]:
        return self.seen[MESSAGES.get_message_by_name(name).frame_id]

    def close(self) -> None:
        self._closing = True
        self._thread.join(10.0)
        self._bus.shutdown()


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    made = Watcher()
    yield made
    made.close()


def on_socketcan(folder: Path) -> Path:
    """The shipped session with one line changed, as the documentation says."""
    session = engine_session(folder, bench_of_its_own=SLOW_MOTION > 1)
    lines = session.read_text().splitlines()
    (bus,) = [i for i, line in enumerate(lines) if line.startswith("bus =")]
    lines[bus] = 'bus = { interface = "socketcan", channel = "vcan0" }'
    session.write_text("\n".join(lines))
    return session


@pytest.fixture
def slow_bench() -> Iterator[None]:
    """The session's bench, started here where it must be slower than `hilrt run` starts it."""
    if SLOW_MOTION == 1:
        yield
        return
    bus = {"interface": "socketcan", "channel": "vcan0"}
    database = str(CONFIGS / "engine_bench.dbc")
    script = (
        "from pathlib import Path\n"
        "from hilrt.bench import emulate\n"
        f"emulate.CYCLE_NS *= {SLOW_MOTION}\n"
        f"emulate.CATCH_UP_NS *= {SLOW_MOTION}\n"
        f"emulate.main(emulate.Emulation('engine', bus={bus!r}, database=Path({database!r})))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script])
    yield
    process.kill()
    process.wait(TIMEOUT)


def patient_vehicle() -> str:
    """The vehicle on its way, in slow motion as to how long the master may be silent."""
    if SLOW_MOTION == 1:
        return driving()
    key, words = driving().split("=", 1)
    script = (
        "import hilrt.peers.peer_protocol as protocol; "
        f"protocol.MASTER_SILENCE_S *= {SLOW_MOTION}; "
        "from hilrt.cli.main import main; main()"
    )
    return f"{key}={json.dumps([sys.executable, '-c', script, *json.loads(words)[1:]])}"


@pytest.mark.usefixtures("slow_bench")
def test_demonstration_session(tmp_path: Path, watcher: Watcher) -> None:
    session = on_socketcan(tmp_path / "configs")
    options = ["--duration", str(DURATION), *sets(*SLOW, patient_vehicle())]
    run = Run(session, tmp_path / "runs", *options)
    try:
        status = run.wait(TIMEOUT)
        assert status == 0, run.stderr
        summary = json.loads((run.folder / "summary.json").read_text())
        told = hilrt.load_log(run.folder).events
    finally:
        run.clean_up()
    (stamps,) = [event.text for event in told if event.cause == "can_time_stamps"]
    assert stamps.endswith("by the kernel")
    assert summary["time_s"] == pytest.approx(DURATION)
    demands, states = watcher.of("DynoDemand"), watcher.of("EngineSlow")
    assert max(demand["Speed"] for demand in demands) > 50.0
    assert (demands[-1]["Enable"], demands[-1]["Speed"]) == (0, 0)  # brought down
    assert any(state["Enabled"] for state in states)
    assert not states[-1]["Enabled"]
