"""The two reference oscillators through the command line: figures from the run's folder alone."""

from __future__ import annotations

import json
import math
import multiprocessing
import re
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import expm

import hilrt
from hilrt.session.run import RunOptions
from tests.scenarios.fork_server import run_hilrt
from tests.scenarios.sessions import CONFIGS, TIMEOUT

Floats = NDArray[np.float64]

FIRST = "master.extrapolation.order=1"
HELD = "bonds.spring.correction.residual=held"
KEEP = "bonds.spring.correction.when_harmful=keep"  # to see what it does, as in the paper
CAP = "bonds.spring.correction.cap={}"

#: Mean energy error of the last second, %, by the name of the run.
ERRORS = {
    "uncorrected": 93.9,
    "corrected": -0.79,
    "cap 1 %": 44.8,
    "cap 10 %": 2.4,
    "cap 25 %": 0.02,
    "first order, uncorrected": 0.06,
    "first order, held": -35.0,
    "first order, as sent": -0.03,
}
#: Overrides of the runs that need no command line of their own.
SWEEP = {
    "cap 1 %": [HELD, CAP.format(0.01)],
    "cap 10 %": [HELD, CAP.format(0.1)],
    "cap 25 %": [CAP.format(0.25)],
    "first order, uncorrected": [FIRST, "bonds.spring.correction.method=none"],
    "first order, held": [FIRST, HELD, KEEP],
    "first order, as sent": [FIRST],
}
CONTROLLED = 'master.step_control={method="pi", tolerance=0.01, initial=1e-4}'


def run(session: str, out: Path, *options: str) -> Path:
    """Run a session to its end and return its folder."""
    command = ["run", str(CONFIGS / session), "--quiet"]
    command += ["--out", str(out), "--set", "record.report=false", *options]
    done = run_hilrt(*command, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (folder,) = out.iterdir()
    return folder


def simulate(out: Path, overrides: Sequence[str]) -> Path:
    """The same without a command line and a report."""
    file = hilrt.load_session(CONFIGS / "two_mass.toml", overrides)
    return hilrt.run_session(file, options=RunOptions(out=out)).folder


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of the runs; virtual time, so that two may share the machine."""
    root = tmp_path_factory.mktemp("linear")
    with (
        ThreadPoolExecutor(1) as commands,
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool,
    ):
        shadow = commands.submit(run, "two_mass.toml", root / "shadow", "--shadow")
        corrected = commands.submit(run, "two_mass.toml", root / "corrected", "--set", HELD)
        running: dict[str, Future[Path]] = {"uncorrected": shadow, "corrected": corrected}
        for i, (name, overrides) in enumerate(SWEEP.items()):
            running[name] = pool.submit(simulate, root / str(i), overrides)
        return {name: future.result() for name, future in running.items()}


def energy(log: hilrt.Log) -> Floats:
    """Of both masses and all three springs at every tick, shape (n,), J."""
    x1, v1, x2, v2 = (log[f"mass{s}"] for s in ("1.x", "1.v", "2.x", "2.v"))
    found: Floats = 0.5 * (v1**2 + v2**2 + 10 * x1**2 + 1000 * x2**2 + 100 * (x1 - x2) ** 2)
    return found


@pytest.mark.parametrize("name", ERRORS)
def test_energy_computed_from_the_log(linear: dict[str, Path], name: str) -> None:
    log = hilrt.load_log(linear[name])
    e = energy(log)
    assert len(e) == 10_001
    error = e[log.t >= 9.0 - 1e-9].mean() / e[0] - 1.0
    assert 100 * error == pytest.approx(ERRORS[name], abs=1.0)


def test_shadow_computes_and_applies_nothing(linear: dict[str, Path]) -> None:
    log = hilrt.load_log(linear["uncorrected"])
    assert not log["spring:correction"].any()
    assert np.abs(log["spring:correction_computed"]).max() > 1.0
    np.testing.assert_array_equal(
        log["mass2.force:sent"], log["mass1.force:corrected"], strict=True
    )
    bond = json.loads((linear["uncorrected"] / "summary.json").read_text())["bonds"]["spring"]
    assert bond["corrected_energy_j"] == 0.0


def test_duration_ends_at_the_first_point_at_or_after_it(tmp_path: Path) -> None:
    folder = run("two_mass.toml", tmp_path, "--duration", "0.0125", "--set", "master.step=0.002")
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["steps"], summary["time_s"]) == (7, pytest.approx(0.014))
    np.testing.assert_allclose(hilrt.load_log(folder).t, 0.002 * np.arange(8), atol=1e-12)


def test_solvers_in_processes_of_their_own_are_tried_out_as_in_process(tmp_path: Path) -> None:
    text = (CONFIGS / "two_mass.toml").read_text(encoding="utf-8")
    for mass in ("Mass1", "Mass2"):
        target = f"hilrt.models.two_mass:{mass}"
        own = f'spawn = ["hilrt", "solver", "{target}"]'
        assert f'model = "{target}"' in text
        text = text.replace(f'model = "{target}"', own)
    text = re.sub("^params = .*\n", "", text, flags=re.MULTILINE)  # which are the defaults
    (tmp_path / "remote.toml").write_text(text.replace('"inprocess"', '"zeromq"'))
    found = []
    for i, path in enumerate([CONFIGS / "two_mass.toml", tmp_path / "remote.toml"]):
        file = hilrt.load_session(path, ["session.duration=0.2", "record.report=false"])
        folder = hilrt.run_session(file, options=RunOptions(out=tmp_path / str(i))).folder
        found.append(json.loads((folder / "summary.json").read_text())["estimated_error"])
    assert {signal["how"] for signal in found[1].values()} == {"sensitivities"}
    assert found[1] == found[0]


# ---- rotational --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run("two_mass_rotational.toml", tmp_path_factory.mktemp("fixed"))


def four_digits(reference: float) -> Any:
    """Agreement with a figure that was published with four digits."""
    return pytest.approx(reference, abs=0.5000001 * 10 ** (math.floor(math.log10(reference)) - 3))


def test_defects_of_the_fixed_step(fixed: Path) -> None:
    summary = json.loads((fixed / "summary.json").read_text())
    assert summary["steps"] == 100
    ports = summary["ports"]
    assert ports["side2.omega"]["output_defect"]["rms"] == four_digits(2.651e-4)
    assert ports["side1.torque"]["output_defect"]["rms"] == four_digits(1.127e-4)
    assert ports["side2.torque"]["connection_defect"]["rms"] == four_digits(7.215e-4)
    assert ports["side1.omega2"]["connection_defect"]["rms"] == four_digits(4.592e-4)


def test_errors_of_the_fixed_step(fixed: Path) -> None:
    """Outputs held back over their intervals, against the exact solution of the whole."""
    log = hilrt.load_log(fixed)
    # phi1, omega1, phi2, omega2
    a = np.array([[0, 1, 0, 0], [-2, -3, 1, 2], [0, 0, 0, 1], [1, 2, -2, -4]]) / 10.0
    a[0, 1] = a[2, 3] = 1.0
    x0 = np.array([0.1, 0.1, 0.2, 0.1])
    outputs = {"side2.omega": [0, 0, 0, 1], "side1.torque": [1, 2, -1, -2]}
    nodes, weights = np.polynomial.legendre.leggauss(4)
    times = (log.t[:-1, None] + log.t[1:, None] + np.diff(log.t)[:, None] * nodes) / 2
    exact = np.array([[expm(a * t) @ x0 for t in row] for row in times])
    for (name, row), reference in zip(outputs.items(), (3.209e-4, 4.772e-4), strict=True):
        error = log[name][1:, None] - exact @ np.array(row, dtype=float)
        squares = (error**2 @ weights) / 2 * np.diff(log.t)
        assert math.sqrt(squares.sum() / log.t[-1]) == four_digits(reference)


def test_controlled_step(tmp_path: Path) -> None:
    folder = run("two_mass_rotational.toml", tmp_path, "--set", CONTROLLED)
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["steps"] == 40
    size = summary["step_size_s"]
    assert size["first"] == pytest.approx(1e-4)
    assert size["mean"] == pytest.approx(0.0260052, abs=1e-6)
    assert size["max"] == pytest.approx(0.0781321, abs=1e-6)
    steps = np.diff(hilrt.load_log(folder).t)
    assert (len(steps), steps.max()) == (40, pytest.approx(size["max"]))
