"""A session at three steps, extrapolated: held to closed forms and to scipy."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from typer.testing import CliRunner

from hilrt.cli import main as cli
from hilrt.errors import ConfigError
from hilrt.session.repeat import extrapolated, repeat
from tests.reliability.test_estimates import EXACT, TWO_MASS, order

T = np.linspace(0.0, 1.0, 201)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_a_power_of_the_step_is_extrapolated(p: float) -> None:
    truth, course = np.sin(5.0 * T), 0.1 * np.cos(3.0 * T)
    whole, half, quarter = (truth + course * h**p for h in (1.0, 0.5, 0.25))
    found = extrapolated(whole, half, quarter, "m")
    assert found.order == pytest.approx(p)
    np.testing.assert_allclose(found.limit, truth, atol=1e-12)
    assert found.error == pytest.approx(np.sqrt(np.mean(course**2)))


def test_what_is_no_power_of_the_step_is_said() -> None:
    random = np.random.default_rng(1)
    noise = [0.1 * h * random.standard_normal(len(T)) for h in (1.0, 0.5, 0.25)]
    found = extrapolated(*(np.sin(5.0 * T) + part for part in noise))
    assert "correlate" in found.why_not
    assert np.isnan(found.error)
    stays = extrapolated(*(np.sin(5.0 * T + phase) for phase in (0.1, 0.2, 0.3)))
    assert "observed order" in stays.why_not
    same = extrapolated(T, T, T)
    assert (same.error, same.why_not) == (0.0, "")


@pytest.mark.parametrize(("p", "step", "observed"), [(0, 1e-3, 1), (1, 2e-3, 2), (1, 1e-3, 2)])
def test_two_masses_have_their_error_and_their_order(p: int, step: float, observed: int) -> None:
    """Order p + 1 with exact subsystems; the truth is the coupled system's, by scipy."""
    settings = order(p, step) | EXACT | {"session.duration": 1.0}
    found = repeat(TWO_MASS, settings)["mass2.v"]
    assert found.order == pytest.approx(observed, abs=0.25)
    rates = np.array([[0, 1, 0, 0], [-110, 0, 100, 0], [0, 0, 0, 1], [100, 0, -1100, 0]])
    t = step * np.arange(len(found.limit))
    start = np.array([0.0, 100.0, 0.0, -100.0])
    motion = solve_ivp(lambda _, x: rates @ x, (0.0, t[-1]), start, "DOP853", t, rtol=1e-11)
    assert np.sqrt(np.mean((found.limit - motion.y[3]) ** 2)) < 0.2 * found.error


def test_the_command_prints_signals_as_json_and_refuses_a_variable_step(tmp_path: Path) -> None:
    short = ["--set", "session.duration=0.5", "--set", "bonds.spring.correction.method=none"]
    said = CliRunner().invoke(cli.app, ["analyze", "repeat", str(TWO_MASS), *short, "--json"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert found["mass2.v"]["unit"] == "m/s"
    assert found["mass2.v"]["order"] == pytest.approx(1.0, abs=0.25)
    said = CliRunner().invoke(cli.app, ["analyze", "repeat", str(TWO_MASS), *short])
    assert "mass1.force" in said.output
    with pytest.raises(ConfigError, match="variable step"):
        repeat(TWO_MASS, {"master.step_control.method": "local"})
