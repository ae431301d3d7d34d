"""Models whose own integration errs: the estimated error contains that error, too.

The truth has the same equations as one system, by scipy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linear_model import find_linear_model, renew_linear_model
from hilrt.link import LinearModel
from hilrt.replay.replay_log import replay
from hilrt.session.assembly import KnownSensitivities
from hilrt.session.simulate import simulate, simulate_again
from hilrt.solver import Floats, InputPolynomial, Port, Sample
from hilrt.wording import about_errors
from tests.reliability.equations import Restoring, turns
from tests.reliability.test_unseen_sessions import Case, Whole
from tests.replay.recording_tools import record_file


class Euler(Restoring):
    """Explicit Euler steps, `steps` of them in a macro step."""

    inputs, outputs = (Port("force", "N"),), (Port("x", "m"), Port("v", "m/s"))
    start = (1.0, 0.0)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        d = h / self.steps
        for i in range(self.steps):
            s = t + i * d
            self.x = self.x + d * np.array(self.f(s, self.x, u(s)))
        return Sample(np.array(self.g(self.x, u(t + h)), dtype=float))

    def f(self, t: float, x: Floats, u: Floats) -> list[float]:
        """10 rad/s, damped by 2 %: unstable from a step of 4 ms on."""
        return [x[1], u[0] - 100.0 * x[0] - 0.4 * x[1]]

    def g(self, x: Floats, u: Floats) -> Floats:
        return x


class Finer(Euler):
    steps = 5


class Fine(Euler):
    steps = 200


class Pendulum(Euler):
    def f(self, t: float, x: Floats, u: Floats) -> list[float]:
        return [x[1], u[0] - 100.0 * np.sin(x[0]) - 0.4 * x[1]]


class FinePendulum(Pendulum):
    steps = 200


class Shaken(Euler):
    """From within, by what no input tells; near its resonance."""

    start = (0.0, 0.0)

    def f(self, t: float, x: Floats, u: Floats) -> list[float]:
        return [x[1], u[0] - 100.0 * x[0] - 2.0 * x[1] + turns(t, 1.5)]


class Spring(Restoring):
    """It follows the mass, and integrates finely."""

    inputs, outputs = (Port("x", "m"),), (Port("force", "N"),)
    start, steps = (-1.0,), 4

    def f(self, t: float, x: Floats, u: Floats) -> list[float]:
        return [(-u[0] - x[0]) / 0.05]

    def g(self, x: Floats, u: Floats) -> Floats:
        return x


def case(mass: type[Euler], step: float, duration: float = 5.0) -> Case:
    connections = {"mass.x": "spring.x", "spring.force": "mass.force"}
    return Case(step, duration, 1, {"mass": mass, "spring": Spring}, connections, ())


#: Words of these sessions, and the largest factor between the true and the estimated error. What
#: integrates finely counts as exact, and a diverging pendulum is nothing like its tangent: any.
CASES: Final = {
    "unstable": (case(Euler, 0.01), ("unreliable",), 1.2),
    "unstable for long": (case(Euler, 0.01, 60.0), ("unreliable",), 1.2),
    "inaccurate": (case(Finer, 0.02), ("degraded", "unreliable"), 1.3),
    "in small steps": (case(Euler, 2e-4, 2.0), ("good",), 1.3),
    "finely inside": (case(Fine, 0.01), ("good",), np.inf),
    "an unstable pendulum": (case(Pendulum, 0.01), ("unreliable",), np.inf),
    "a pendulum": (case(Pendulum, 0.002), ("unreliable",), 1.2),
    "a pendulum in small steps": (case(Pendulum, 2e-4, 2.0), ("good",), 2.0),
    "a pendulum, finely inside": (case(FinePendulum, 0.01), ("good",), np.inf),
    "shaken from within": (case(Shaken, 0.01), ("degraded", "unreliable"), 3.0),
    "shaken, in small steps": (case(Shaken, 2e-4, 2.0), ("good",), 3.0),
}


@pytest.mark.parametrize("name", CASES)
def test_an_estimate_contains_the_models_own_error(name: str, tmp_path: Path) -> None:
    session, words, factor = CASES[name]
    path = tmp_path / "own.toml"
    path.write_text(session.text(), "utf-8")
    result = simulate(path)
    whole = Whole(session)
    error, told = whole.error(result), result.summary["estimated_error"]
    assert result.verdict in words, (error, told)
    assert (result.verdict == "good") == (error < 0.05)
    t, tight = result.log.t, {"method": "LSODA", "rtol": 1e-10, "atol": 1e-10}
    true = solve_ivp(whole.rates, (0.0, t[-1]), whole.start, t_eval=t, **tight).y[0]
    away = np.sqrt(np.mean((result.log["mass.x"] - true) ** 2))
    assert 1.0 / factor < told["mass.x"]["value"] / away < factor


def test_the_reason_and_the_advice_name_the_models_step(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(case(Finer, 0.02).text(), "utf-8")
    summary = simulate(path).summary
    assert "most of it is the models' own integration error" in summary["reasons"][0]
    assert "a shorter integration step inside the models" in summary["advice"][0]["text"]
    path.write_text(case(Fine, 0.1).text(), "utf-8")  # the coupling's own error
    summary = simulate(path).summary
    assert summary["verdict"] != "good"
    assert "integration" not in str(summary["reasons"] + summary["advice"])


@pytest.mark.parametrize(
    ("mass", "settings", "included"),
    [
        (Euler, {}, ["mass"]),
        (Pendulum, {}, ["mass"]),
        (Fine, {}, []),
        (Euler, {"master.step_control": {"method": "pi", "tolerance": 1e-3}}, []),
    ],
)
def test_a_session_names_the_models_whose_error_is_included(
    mass: type[Euler], settings: dict[str, Any], included: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "own.toml"
    path.write_text(case(mass, 0.002, 0.5).text(), "utf-8")
    summary = simulate(path, settings).summary
    assert summary["own_integration"] == included
    assert ("mass is included" in about_errors(summary)) == bool(included)


def test_a_study_has_the_estimates_of_single_sessions(tmp_path: Path) -> None:
    """Earlier trials are not reused where a later one depends on what the first has found."""
    path, known = tmp_path / "own.toml", KnownSensitivities()
    path.write_text(case(Finer, 0.02).text(), "utf-8")
    alone = simulate(path).summary["estimated_error"]
    for _ in range(2):
        found = simulate_again(path, None, False, known).summary["estimated_error"]
        assert found == alone


@pytest.mark.parametrize("mass", [Euler, Pendulum])
def test_a_session_with_them_is_recorded_and_replayed(mass: type[Euler], tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(case(mass, 0.01).text(), "utf-8")
    log = record_file(str(path), tmp_path / "run", duration=2.0)
    assert replay(log).difference is None


def tried(solver: Euler, h: float, *, again: bool = False) -> LinearModel | None:
    hosted, u = HostedSolver(solver), np.array([0.3])
    hosted.initialize(0.0, u)
    found = find_linear_model(hosted, u, h)
    return renew_linear_model(hosted, 0.0, u, h) if again else found


@pytest.mark.parametrize("again", [False, True])
def test_a_trial_finds_the_error_of_a_step(again: bool) -> None:
    """That of Euler's against the matrix exponential, with the input along a line."""
    h, u, change = 0.01, 0.3, 0.2
    found = tried(Euler(), h, again=again)
    assert found is not None
    assert found.own is not None
    own, A = found.own, np.array([[0.0, 1.0], [-100.0, -0.4]])
    whole = np.zeros((4, 4))  # the state, the input and its slope
    whole[:2, :2], whole[1, 2], whole[2, 3] = A, 1.0, 1.0
    start = np.array([1.0, 0.0, u, change / h])
    exact = (expm(h * whole) @ start)[:2]
    euler = start[:2] + h * (A @ start[:2] + [0.0, u])
    x, step, error = own[:, 0], own[:, 1:6], own[:, 6:]
    about = np.array([*start[:2], u, change, 1.0])
    assert x == pytest.approx(start[:2])
    assert step @ about == pytest.approx(euler, rel=1e-6)
    assert error @ about == pytest.approx(euler - exact, rel=1e-2)


def test_what_integrates_finely_has_no_such_error() -> None:
    found = tried(Fine(), 0.01)
    assert found is not None
    assert found.own is None


def test_what_time_drives_is_not_followed_from_the_start_alone() -> None:
    one, other = tried(Euler(), 0.01), tried(Shaken(), 0.01)
    assert one is not None
    assert other is not None
    assert (one.linear, other.linear) == (True, False)
