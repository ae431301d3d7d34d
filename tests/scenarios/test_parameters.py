"""Parameters of a solver in a process of its own, changed while the session runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hilrt
from hilrt.replay.replay_log import replay
from hilrt.session.run import RunOptions
from tests.scenarios.sessions import LINUX, ROOT

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
