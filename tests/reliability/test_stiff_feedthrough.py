"""A clutch that is stable with held inputs and unstable with extrapolated ones, against scipy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import hilrt
from hilrt.studies.advise_session import advise_session

MODELS = '''
import math

import numpy as np
from hilrt import Port, Sample, Solver


class Inertia(Solver):
    """Exact under a torque of first order."""

    inputs = (Port("torque", "N*m"),)
    outputs = (Port("w", "rad/s"),)

    def __init__(self, J, sign, w=0.0, drive=0.0):
        self.J, self.sign, self.w, self.drive = J, sign, w, drive

    def initialize(self, t0, u0):
        return Sample(np.array([self.w]))

    def advance(self, t, h, u):
        driven = self.drive * (math.cos(20.0 * t) - math.cos(20.0 * (t + h))) / 20.0
        self.w += (self.sign * u(t + 0.5 * h)[0] * h + driven) / self.J
        return Sample(np.array([self.w]))

    def save_state(self):
        return self.w

    def restore_state(self, state):
        self.w = state


class Clutch(Solver):
    """It slips at 50 N m."""

    inputs = (Port("w1", "rad/s"), Port("w2", "rad/s"))
    outputs = (Port("torque", "N*m", feedthrough=("w1", "w2")),)

    def torque(self, u):
        return Sample(np.array([50.0 * math.tanh(u[0] - u[1])]))

    def initialize(self, t0, u0):
        return self.torque(u0)

    def advance(self, t, h, u):
        return self.torque(u(t + h))

    def save_state(self):
        return None

    def restore_state(self, state):
        pass
'''

SESSION = """
[session]
name = "clutch"
duration = 2.0
pace = "asap"

[master]
step = 0.0028
extrapolation = { order = 0 }

[subsystems.engine]
adapter = "inprocess"
model = "clutch_models:Inertia"
params = { J = 0.2, sign = -1.0, drive = 30.0, w = 0.0 }

[subsystems.load]
adapter = "inprocess"
model = "clutch_models:Inertia"
params = { J = 1.0, sign = 1.0 }

[subsystems.clutch]
adapter = "inprocess"
model = "clutch_models:Clutch"

[[connections]]
from = "engine.w"
to = "clutch.w1"

[[connections]]
from = "load.w"
to = "clutch.w2"

[[connections]]
from = "clutch.torque"
to = "engine.torque"

[[connections]]
from = "clutch.torque"
to = "load.torque"
"""
#: Steps at which the closed clutch, 50 N m s, becomes unstable: a = 1 and a = 0.399.
LIMITS = {0: 1.0 / 300.0, 1: 0.39926 / 300.0}
ORDER, START = "master.extrapolation.order", "subsystems.engine.params.w"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "clutch_models.py").write_text(MODELS)
    found = tmp_path / "clutch.toml"
    found.write_text(SESSION)
    return found


def torque_error(result: Any, start: float) -> float:
    """Error of the clutch's torque, relative to its variation."""
    t, torque = result.log.time("clutch.torque"), result.log["clutch.torque"]

    def motion(at: float, w: Any) -> list[float]:
        passed = 50.0 * np.tanh(w[0] - w[1])
        return [(30.0 * np.sin(20.0 * at) - passed) / 0.2, passed]

    found = solve_ivp(motion, (0.0, t[-1] + 1e-6), [start, 0.0], "LSODA", t, rtol=1e-9, atol=1e-9).y
    truth = 50.0 * np.tanh(found[0] - found[1])
    return float(np.sqrt(np.mean((torque - truth) ** 2)) / truth.std())


def orders(result: Any) -> list[int]:
    """Orders that the advice recommends."""
    changes = [change["settings"] for change in result.summary["advice"]]
    return [settings[ORDER] for settings in changes if ORDER in settings]


@pytest.mark.parametrize("start", [0.0, 20.0])  # closed from the start, and slipping at first
def test_no_order_is_advised_that_a_stiff_feedthrough_makes_unstable(path: Path, start: float):
    held = hilrt.simulate(path, {START: start})
    assert torque_error(held, start) < 0.05
    assert held.verdict == "degraded"
    assert held.summary["advice"]
    assert orders(held) == []
    assert held.summary["growth_per_s"] == pytest.approx(0.0, abs=1e-6)
    assert held.summary["stable_step_s"] == pytest.approx(LIMITS[0], rel=0.05)
    line = hilrt.simulate(path, {START: start, ORDER: 1})
    assert torque_error(line, start) > 0.5
    assert line.summary["growth_per_s"] > 10.0


def test_order_1_is_still_advised_where_it_is_stable(path: Path) -> None:
    settings = {"master.step": 1.05e-3, "subsystems.engine.params.drive": 100.0, START: 20.0}
    held = hilrt.simulate(path, settings)
    assert orders(held) == [1]
    line = hilrt.simulate(path, settings | {ORDER: 1})
    assert line.summary["stable_step_s"] == pytest.approx(LIMITS[1], rel=0.05)
    assert line.summary["growth_per_s"] == pytest.approx(0.0, abs=1e-6)


def test_no_setting_is_advised_before_a_run_that_is_unstable_where_the_clutch_is_closed(
    path: Path,
) -> None:
    file = hilrt.load_session(path, {"session.duration": 0.5})
    found = advise_session(file, 0.05, budget=1e6, search_s=1e6)
    assert 0.0 < found.settings["master.step"] < LIMITS[found.settings[ORDER]]
    assert torque_error(hilrt.simulate(file, found.settings), 0.0) < 0.05
    assert any("order 1" in reason for reason in found.rejected)
