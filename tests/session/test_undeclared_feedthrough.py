"""Direct feedthrough that a solver does not declare: found by a trial, its first sample right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from hilrt.replay.replay_log import replay
from hilrt.session.simulate import simulate
from hilrt.solver import Port
from tests.reliability.equations import Opaque, Restoring
from tests.replay.recording_tools import record_file

K, D, MASS, RELAXES = 50.0, 1.0, 2.0, 0.5


class Mount(Restoring):
    """A spring, a damper, and rubber that relaxes; it answers at once, and says nothing of it."""

    inputs = (Port("x", "m"), Port("v", "m/s"))
    outputs = (Port("force", "N"),)
    start = (0.0,)

    def f(self, t, x, u):
        return [(20.0 * u[0] - x[0]) / RELAXES]

    def g(self, x, u):
        return [-K * u[0] - D * u[1] - x[0]]


class Declared(Mount):
    outputs = (Port("force", "N", feedthrough=("x", "v")),)


class OpaqueMount(Opaque):
    inputs, outputs, start, f, g = Mount.inputs, Mount.outputs, Mount.start, Mount.f, Mount.g


class Mass(Restoring):
    inputs, outputs = (Port("force", "N"),), (Port("x", "m"), Port("v", "m/s"))
    start = (0.3, 1.0)

    def f(self, t, x, u):
        return [x[1], u[0] / MASS]

    def g(self, x, u):
        return x


def write(mount: type[Opaque], folder: Path) -> Path:
    path = folder / "mount.toml"
    path.write_text(
        f"""
session = {{ name = "mount", duration = 2.0, pace = "asap" }}
master = {{ step = 1e-3, extrapolation = {{ order = 1 }} }}
connections = [
    {{ from = "mount.force", to = "mass.force" }},
    {{ from = "mass.x", to = "mount.x" }},
    {{ from = "mass.v", to = "mount.v" }},
]

[subsystems]
mount = {{ adapter = "inprocess", model = "{__name__}:{mount.__name__}" }}
mass = {{ adapter = "inprocess", model = "{__name__}:Mass" }}
"""
    )
    return path


def rates(t: float, z: np.ndarray) -> list[float]:
    force = -K * z[0] - D * z[1] - z[2]
    return [z[1], force / MASS, (20.0 * z[0] - z[2]) / RELAXES]


def test_the_first_sample_is_that_of_the_coupled_system(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = simulate(write(Mount, tmp_path))
    assert result.log["mount.force"][0] == pytest.approx(-K * 0.3 - D)
    (said,) = [r.getMessage() for r in caplog.records if r.name == "hilrt.start"]
    assert said.startswith("mount: output 'force' depends directly on x and v")
    assert "Port('force', feedthrough=('x', 'v'))" in said
    t = result.log.t
    true = solve_ivp(rates, (0.0, 2.0), [0.3, 1.0, 0.0], "DOP853", t, rtol=1e-11, atol=1e-12)
    error = result.log["mass.x"] - true.y[0]
    assert np.sqrt(np.mean(error**2)) < 1e-3 * true.y[0].std()
    assert result.verdict == "good", result.summary["reasons"]


def test_it_is_the_same_session_as_with_the_declaration(tmp_path: Path) -> None:
    hidden, declared = (simulate(write(kind, tmp_path)).log for kind in (Mount, Declared))
    for name in ("mount.force", "mass.x", "mass.v"):
        np.testing.assert_array_equal(hidden[name], declared[name])


def test_what_cannot_be_tried_out_stays_as_it_answered(tmp_path: Path) -> None:
    assert simulate(write(OpaqueMount, tmp_path)).log["mount.force"][0] == 0.0


def test_its_log_replays(tmp_path: Path) -> None:
    log = record_file(str(write(Mount, tmp_path)), tmp_path / "run", duration=1.2)
    outcome = replay(log)
    assert (outcome.difference, outcome.snapshots) == (None, 1)
