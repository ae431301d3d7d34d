"""Parameters of a solver in a separate process, changed while the session runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hilrt
from hilrt.replay.replay_log import replay
from hilrt.session.run import RunOptions
from tests.scenarios.sessions import LINUX, ROOT, free_port
from tests.scenarios.test_generated import DATABASE

pytestmark = LINUX

MODEL = """
from tests.adjustable_masses import Oscillator


class Choosy(Oscillator):
    def set_parameter(self, name, value):
        if value > 400.0:
            raise ValueError("the spring breaks")
        super().set_parameter(name, value)
"""
SESSION = """
[session]
name = "stiffened"
duration = 600.0
pace = "asap"
[master]
step = 0.01
connect_timeout = 60.0
[record]
report = false
[subsystems.body]
adapter = "zeromq"
spawn = ["hilrt", "solver", "choosy:Choosy"]
[subsystems.body.inputs.f]
start = 0.0
[monitor.adjust."parameters.body.stiffness"]
min = 10
max = 500
"""


def exact(t: np.ndarray, at: float) -> np.ndarray:
    """Course of the mass from 1, at rest, with the stiffness 40 before the time `at`, then 160."""
    w, w2 = np.sqrt(40.0), np.sqrt(160.0)
    x0, v0 = np.cos(w * at), -w * np.sin(w * at)
    after = x0 * np.cos(w2 * (t - at)) + v0 / w2 * np.sin(w2 * (t - at))
    return np.where(t <= at, np.cos(w * t), after)


def test_a_process_has_the_new_value_from_the_next_communication_point_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "choosy.py").write_text(MODEL)
    path = tmp_path / "session.toml"
    path.write_text(SESSION)
    with hilrt.LiveSession(path, options=RunOptions(out=tmp_path / "runs")) as session:
        session.wait_until(lambda s: s.t > 0.1)
        session.set("parameters.body.stiffness", 160.0)
        reached = session.t
        session.wait_until(lambda s: s.t > reached + 1.0)
        session.set("parameters.body.stiffness", 450.0)
        reached = session.t
        session.wait_until(lambda s: s.t > reached + 1.0)
        result = session.stop()
    log = result.log
    told = {e.cause: (e.t, e.text) for e in log.events if e.source == "body"}
    at = told["parameter_changed"][0]
    assert 0.1 < at < log.t[-1]
    assert told["parameter_refused"][1].endswith("= 450 is refused: the spring breaks")
    changed = log.t[np.flatnonzero(log["parameter:body.stiffness"] == 160.0)[0]]
    np.testing.assert_allclose(log["body.x"], exact(log.t, changed), rtol=0, atol=1e-9)
    assert replay(result.log.path).difference is None


STIFFENING = """
from hilrt import Sequence


class Stiffening(Sequence):
    async def run(self, bench):
        await bench.wait(0.29)
        bench.set("parameters.body.stiffness", 160.0)
        await bench.wait(0.5)
"""
TEST = """
[subsystems.test]
adapter = "sequence"
sequence = "stiffening.py:Stiffening"
adjust = ["parameters.body.stiffness"]
"""
STIMULUS = """
[[stimuli]]
name = "stiff"
input = "parameters.body.stiffness"
mode = "replace"
start = 0.3
segments = [{ shape = "step", to = 160.0 }]
"""


@pytest.mark.parametrize("more", [TEST, STIMULUS], ids=["sequence", "stimulus"])
def test_sequences_and_stimuli_change_it_in_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "choosy.py").write_text(MODEL)
    (tmp_path / "stiffening.py").write_text(STIFFENING)
    path = tmp_path / "session.toml"
    path.write_text(SESSION.partition("[monitor.adjust")[0] + more)
    changes = {"session.duration": 0.7}
    result = hilrt.run_session(path, changes, options=RunOptions(out=tmp_path / "runs"))
    assert result.fault is None
    log = result.log
    np.testing.assert_allclose(log["body.x"], exact(log.t, 0.3), rtol=0, atol=1e-9)
    assert replay(log.path).difference is None


RIG = """
[session]
name = "rig"
duration = 60.0
[master]
step = 0.02
connect_timeout = 60.0
arm_timeout = 60.0
pacing = { spin = 0.0, affinity = [] }
[record]
report = false
[subsystems.rig]
adapter = "can"
database = "rig.dbc"
emulator = "drive:Drive"
master_timeout = 1.0
idle_timeout = 20.0
bench_timeout = 0.5
late = { max_misses = 1000 }
enable = { request = "RigCmd.DriveEnable", state = "RigFast.EnableAck" }
[subsystems.rig.bus]
interface = "udp_multicast"
channel = "239.74.163.12"
port = PORT
hop_limit = 0
fd = true
[subsystems.rig.messages.RigCmd]
counter = "CmdCounter"
protection = { method = "sum", signal = "CmdChecksum" }
[subsystems.rig.outputs]
speed = "RigFast.Speed"
oil = "RigMux.Oil"
[subsystems.rig.inputs.speed_set]
signal = "RigCmd.SpeedSet"
realised = "speed"
min = 0.0
max = 6000.0
max_rate = 1000.0
safe = 0.0
start = 0.0
[subsystems.test]
adapter = "sequence"
sequence = "heating.py:Heating"
adjust = ["parameters.rig.oil", "parameters.rig.gain"]
late = { max_misses = 1000 }
"""
DRIVE = """
from hilrt import Parameter, Port, Sample, Solver


class Drive(Solver):
    inputs = (Port("speed_set", "rad/s"),)
    outputs = (Port("speed", "rad/s"),)
    parameters = (Parameter("gain", "", 1.0, 0.0, 10.0),)

    def __init__(self):
        self.gain = 1.0
        print("set torque 5 is no answer to the session")

    def set_parameter(self, name, value):
        if value > 2.0:
            raise ValueError("the belt slips")
        super().set_parameter(name, value)

    def initialize(self, t0, u0):
        return Sample(self.gain * u0)

    def advance(self, t, h, u):
        return Sample(self.gain * u(t))
"""
HEATING = """
from hilrt import Sequence


class Heating(Sequence):
    reads = ("rig.oil",)

    async def run(self, bench):
        bench.set("parameters.rig.gain", 5.0)
        bench.set("parameters.rig.oil", 85.0)
        await bench.until("rig.oil > 84.9 and rig.oil < 85.1", timeout=20.0)
        bench.set("parameters.rig.oil", 500.0)
        await bench.wait(0.5)
        bench.measure("oil", bench.read("rig.oil"), unit="degC", min=84.9, max=85.1)
"""


def test_a_sequence_changes_a_constant_of_an_emulated_bench(tmp_path: Path) -> None:
    """The sensor's range, -40 to 200 °C, bounds it; what the bench's class refuses is an event."""
    (tmp_path / "rig.dbc").write_text(DATABASE)
    (tmp_path / "heating.py").write_text(HEATING)
    (tmp_path / "drive.py").write_text(DRIVE)
    path = tmp_path / "session.toml"
    path.write_text(RIG.replace("PORT", str(free_port())))
    result = hilrt.run_session(path, options=RunOptions(out=tmp_path / "runs"))
    assert (result.fault, result.exit_status) == (None, 0)
    told = [e.text for e in result.log.events if e.cause == "parameter_refused"]
    assert sorted(told) == [
        "parameter gain = 5 is refused: the belt slips",
        "parameter rig.oil = 500 degC is refused: it lies outside -40 to 200",
    ]
    assert replay(result.log.path).difference is None
