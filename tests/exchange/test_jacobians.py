"""Where Jacobians come from, in sessions as a user writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

from hilrt.config.session_file import load_session
from hilrt.coupling.jacobian import LinearSubsystem
from hilrt.errors import ConfigError
from hilrt.exchange.jacobians import JacobianRenewal
from hilrt.models.integrate import ExactSteps
from hilrt.models.linear import Linear
from hilrt.record.reader import load_log
from hilrt.session.result import RunResult
from hilrt.session.run import RunOptions
from hilrt.session.session import run_session
from hilrt.solver import InputPolynomial, Sample
from tests.two_masses import CONNECTIONS

SESSION = Path(__file__).parents[2] / "bench_configs" / "two_mass_model.toml"
# The monolithic oscillator of Haid et al. (2022) (ck = 2e5, dk = 5e2), states s1, v1, s2, v2.
A = np.array(
    [[0, 1, 0, 0], [-1.2e5, -50.1, 2e4, 50], [0, 0, 0, 1], [2e4, 50, -1.02e6, -50.2]], dtype=float
)
X0 = np.array([1.0, 0.0, 0.6, 0.0])


def run(tmp_path: Path, *overrides: str) -> RunResult:
    file = load_session(SESSION, ["session.duration=0.06", *overrides])
    result = run_session(file, options=RunOptions(out=tmp_path))
    assert result.fault is None
    return result


PLAIN = "bonds.coupling.correction.method=none"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """The session without a corrector."""
    return run(tmp_path_factory.mktemp("plain"), PLAIN)


def error(result: RunResult) -> float:
    """RMS deviation of mass 1 from the exact solution, m."""
    log = load_log(result.folder)
    exact = np.array([(expm(A * t) @ X0)[0] for t in log.t])
    return float(np.sqrt(np.mean((log["mass1.s:corrected"] - exact) ** 2)))


def both(value: str) -> list[str]:
    return [f"subsystems.{name}.jacobian.{value}" for name in ("mass1", "mass2")]


def test_every_source_corrects_alike_and_better_than_extrapolation(
    plain: RunResult, tmp_path: Path
) -> None:
    solver = error(run(tmp_path))
    probe = error(run(tmp_path, *both("source=probe")))
    matrices = {
        "mass1": {"A": [[0.0, 1.0], [-1e5, -0.1]], "B": [[0.0], [0.1]], "C": np.eye(2).tolist()},
        "mass2": {
            "A": [[0.0, 1.0], [-1.02e6, -50.2]],
            "B": [[0.0, 0.0], [2e4, 50.0]],
            "C": [[2e5, 500.0], [1.0, 0.0], [0.0, 1.0]],
            "D": [[-2e5, -500.0], [0.0, 0.0], [0.0, 0.0]],
        },
    }
    given = [
        f"subsystems.{name}.jacobian.{key}={json.dumps(matrix)}"
        for name, table in matrices.items()
        for key, matrix in table.items()
    ]
    written = error(run(tmp_path, *both("source=given"), *given))
    assert solver < 0.05 * error(plain)  # a local error of one order more (Haid et al. 2022)
    np.testing.assert_allclose([probe, written], solver, rtol=1e-4)


def test_shadow_computes_the_correction_and_leaves_the_outputs(tmp_path: Path) -> None:
    file = load_session(SESSION, ["session.duration=0.02"])
    result = run_session(file, options=RunOptions(out=tmp_path, shadow=True))
    log = load_log(result.folder)
    np.testing.assert_array_equal(log["mass1.s:corrected"], log["mass1.s"])


def test_identification_without_trust_leaves_plain_extrapolation(
    plain: RunResult, tmp_path: Path
) -> None:
    learning = run(tmp_path, *both("source=identify"))
    assert error(learning) <= 1.05 * error(plain)
    assert learning.summary["flags"]["model_untrusted"]["seconds"] > 0.0


def local_error(result: RunResult) -> float:
    """RMS of the corrected outputs against the exact step from each step's own start, from 0.06 s.

    Over displacement, velocity and force, each in units of its size.
    """
    log = load_log(result.folder)
    states = np.stack([log[f"{name}.{q}"] for name in ("mass1", "mass2") for q in "sv"], axis=1)
    s1, v1, s2, v2 = (states[:-1] @ expm(A * 2e-4).T).T
    exact = np.stack([s1, v1, 2e5 * (s2 - s1) + 500.0 * (v2 - v1)], axis=1)
    names = ("mass1.s", "mass1.v", "mass2.force")
    found = np.stack([log[f"{name}:corrected"][1:] for name in names], axis=1)
    errors = (found - exact) / np.array([0.5, 200.0, 1e5])
    return float(np.sqrt(np.mean(errors[log.t[1:] > 0.06] ** 2)))


def test_identified_jacobians_with_dither_are_as_good_as_exact_ones(tmp_path: Path) -> None:
    long = "session.duration=0.12"
    plain = run(tmp_path, long, PLAIN)
    exact = run(tmp_path, long)
    learned = run(tmp_path, long, *both("source=identify"), *both("dither=0.001"))
    assert local_error(learned) <= 1.1 * local_error(exact) < 0.05 * local_error(plain)
    for cause in ("model_untrusted", "model_unexcited"):  # both may be up at once, of two masses
        assert learned.summary["flags"][cause]["seconds"] < 0.1


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (both("source=given"), "neither A, B, C, D nor gamma"),
        ([*both("source=given"), *both("gamma=[[[1.0]]]")], "has the shape"),
        ([*both("source=given"), *both("A=[[1.0]]"), *both("B=[[1.0]]"), *both("C=[[1.0]]")],
         "the subsystem has shape"),
        (["bonds.coupling.correction.method=feedthrough", *both("source=given"), *both("D=[[1]]")],
         "D: has the shape"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(tmp_path: Path, overrides: list[str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        run_session(load_session(SESSION, overrides), options=RunOptions(out=tmp_path))


def test_a_remote_solver_is_probed_over_the_wire(tmp_path: Path) -> None:
    session = tmp_path / "remote.toml"
    session.write_text(
        """
[session]
name = "remote"
duration = 0.05
pace = "asap"
[master]
step = 0.001
extrapolation = { order = 0 }
[subsystems.mass1]
adapter = "zeromq"
spawn = ["hilrt", "solver", "hilrt.models.two_mass:Mass1"]
[subsystems.mass2]
adapter = "inprocess"
model = "hilrt.models.two_mass:Mass2"
[[bonds]]
name = "spring"
effort = "mass1.force"
flow = "mass2.v"
correction = { method = "feedthrough" }
"""
        + CONNECTIONS
    )
    result = run_session(load_session(session), options=RunOptions(out=tmp_path))
    assert result.fault is None
    log = load_log(result.folder)
    force = 100.0 * (log["mass1.x"] - log["mass2.x"])  # with the displacement of the same time
    np.testing.assert_allclose(log["mass1.force:corrected"], force, atol=1e-4)


class _Hardening(Linear):
    """Mass 1 whose spring changes in the middle of the run."""

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        stiff = LinearSubsystem(
            A=np.array([[0.0, 1.0], [-4e5, -0.1]]),
            B=self.system.B * 3.0,
            C=self.system.C,
            D=self.system.D,
        )
        if t >= 0.02 and self.system.A[1, 0] != -4e5:
            self.system = stiff
            self.steps = ExactSteps(stiff.A, stiff.B)
        return super().advance(t, h, u)


def test_jacobians_are_kept_while_they_predict_and_refreshed_when_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Haid et al. (2022), conclusion: the old Jacobian's prediction decides."""
    seen: list[JacobianRenewal] = []
    monkeypatch.setattr(
        "hilrt.session.assembly.JacobianRenewal",
        lambda *arguments: seen.append(JacobianRenewal(*arguments)) or seen[-1],
    )
    run(tmp_path, *both("source=probe"), *both("refresh=10"))
    assert (seen[-1].checks, seen[-1].refreshed) == (60, 0)  # two subsystems, every 10th of 300
    monkeypatch.setattr("hilrt.models.linear.Linear", _Hardening)
    run(tmp_path, *both("source=probe"), *both("refresh=10"))
    assert seen[-1].refreshed == 2  # both instances change once


class _Noisy(Linear):
    """With noise on its outputs, from a generator that the saved state does not hold."""

    noise, seed = 0.0, 11

    def __init__(self, **params: Any) -> None:
        super().__init__(**params)
        self._random = np.random.default_rng(self.seed)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        sample = super().advance(t, h, u)
        return Sample(sample.y + self.noise * self._random.standard_normal(len(sample.y)))


@pytest.mark.parametrize("seed", [11, 12, 13])
@pytest.mark.parametrize("noise", [1e-7, 1e-4, 1e-2])
def test_noise_of_a_solver_renews_no_jacobian_that_predicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: float, seed: int
) -> None:
    seen: list[JacobianRenewal] = []
    monkeypatch.setattr(
        "hilrt.session.assembly.JacobianRenewal",
        lambda *arguments: seen.append(JacobianRenewal(*arguments)) or seen[-1],
    )
    monkeypatch.setattr("hilrt.models.linear.Linear", _Noisy)
    monkeypatch.setattr(_Noisy, "noise", noise)
    monkeypatch.setattr(_Noisy, "seed", seed)
    run(tmp_path, *both("source=solver"), *both("refresh=10"))
    assert (seen[-1].checks, seen[-1].refreshed) == (60, 0)
