"""The true error of a session, held to closed forms and to scipy."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from typer.testing import CliRunner

from bench_configs.models import hydraulic_crane as crane
from hilrt.check.check import check_file
from hilrt.cli import main as cli
from hilrt.errors import ConfigError, HilrtError
from hilrt.session.run import RunOptions
from hilrt.session.session import run_session
from hilrt.session.simulate import reference, simulate
from hilrt.solver import Floats

CONFIGS = Path(__file__).parents[2] / "bench_configs"
Rates = Callable[[float, Floats], Any]
Signals = Callable[[Floats], dict[str, Floats]]


def linear(A: list[list[float]]) -> Rates:
    matrix = np.array(A)
    return lambda _, x: matrix @ x


def pendula(t: float, x: Floats) -> list[float]:
    """Two rods with point masses, their tips 10 m apart joined by a spring of 10 N/m."""
    a, wa, b, wb = x
    natural = math.hypot(10.1736481777 - math.sin(math.pi / 4), 0.984807753 - math.cos(math.pi / 4))
    dx = 10.0 + math.sin(b) - math.sin(a)
    dy = math.cos(a) - math.cos(b)
    distance = math.hypot(dx, dy)
    pull = 10.0 * (distance - natural) / distance
    along_a = pull * (dx * math.cos(a) + dy * math.sin(a))
    along_b = -pull * (dx * math.cos(b) + dy * math.sin(b))
    return [wa, along_a - 9.81 * math.sin(a), wb, along_b - 9.81 * math.sin(b)]


def tips(x: Floats) -> dict[str, Floats]:
    b, wb = x[2:]
    return {
        "pendulum2.x[0]": 10.0 + np.sin(b),
        "pendulum2.x[1]": -np.cos(b),
        "pendulum2.v[0]": wb * np.cos(b),
        "pendulum2.v[1]": wb * np.sin(b),
    }


def root_springs(t: float, x: Floats) -> list[float]:
    """Springs that pull with the square root of their elongation."""
    s1, v1, s2, v2 = x

    def root(e: float) -> float:
        return math.copysign(math.sqrt(abs(e)), e)

    force = 100.0 * root(s1 - s2)
    return [v1, -10.0 * root(s1) - force, v2, force - 1000.0 * root(s2)]


def rising_damper(t: float, x: Floats) -> list[float]:
    s1, v1, s2, v2 = x
    w = v2 - v1
    d = max(min(500.0 * abs(w) ** 0.25, 1e4), 10.0)
    force = 2e5 * (s2 - s1) + d * w
    return [v1, (-1e6 * s1 - v1 + force) / 10.0, v2, (-1e7 * s2 - 2.0 * v2 - force) / 10.0]


def chain(t: float, x: Floats) -> Floats:
    """Six masses between two walls, the third one hit by smooth impulses."""
    at, v = np.concatenate(([0.0], x[:6], [0.0])), np.concatenate(([0.0], x[6:], [0.0]))
    e, de = np.diff(at), np.diff(v)
    pull = 1e4 * e + 500.0 * de + 1e6 * e**3 + de**3
    force = np.diff(pull)
    begun = t - 0.1 - 0.4 * np.arange(3)
    force[2] += 2000.0 * np.sum(np.tanh(begun / 0.005) - np.tanh((begun - 0.05) / 0.005))
    return np.concatenate((x[6:], force))


def contact_masses(t: float, x: Floats) -> list[float]:
    """Two masses coupled by a nonlinear force, the first one with a wall at 0."""
    x1, v1, x2, v2 = x.tolist()
    wall = -1e-2 * math.exp(min(1e4 * x1, 30.0))
    f = contact_force(x)
    return [v1, (f - 1e5 * x1 + wall) / 50.0, v2, -f - 1e3 * x2]


def contact_force(x: Floats) -> Any:
    e, w = x[2] - x[0], x[3] - x[1]
    return 1e5 * e + 1e5 * e**3 + 1e-2 * w**3


def crane_rates(t: float, x: Floats) -> list[float]:
    """Angles, their rates, and the two pressures."""
    a, b, wa, wb, p1, p2 = x.tolist()
    s, ds = crane.lever(a)
    force = crane.PISTON * (p2 - p1) - crane.DAMPING * ds * wa
    spool = crane.pressures_at_rest()[2] * (1.0 - crane.amplitude(t) * math.sin(4.0 * math.pi * t))
    turned = crane.angular_acceleration(a, b, wa, wb, force)
    return [wa, wb, *turned, *crane.pressure_rates(p1, p2, s, ds * wa, spool)]


def crane_signals(x: Floats) -> dict[str, Floats]:
    s, ds = np.array([crane.lever(angle) for angle in x[0]]).T
    force = crane.PISTON * (x[5] - x[4]) - crane.DAMPING * ds * x[2]
    return {"hydraulics.force": force, "mechanics.rate": ds * x[2], "mechanics.length": s}


CASES: dict[str, tuple[str, dict[str, Any], list[float], Rates, Signals]] = {
    "two_mass": (
        "two_mass",
        {"session.duration": 1.0},
        [0.0, 100.0, 0.0, -100.0],
        linear([[0, 1, 0, 0], [-110, 0, 100, 0], [0, 0, 0, 1], [100, 0, -1100, 0]]),
        lambda x: {"mass1.force": 100.0 * (x[0] - x[2]), "mass2.x": x[2], "mass2.v": x[3]},
    ),
    "three_mass": (
        "three_mass",
        {"session.duration": 0.5},
        [0.0, 100.0, 0.0, 100.0, 0.0, -100.0],
        linear(
            [
                [0, 1, 0, 0, 0, 0],
                [-156, 0, 0, 0, 140, 0],
                [0, 0, 0, 1, 0, 0],
                [0, 0, -64, 0, 60, 0],
                [0, 0, 0, 0, 0, 1],
                [70, 0, 30, 0, -1100, 0],
            ]
        ),
        lambda x: {"mass1.force": 70.0 * (x[0] - x[4]), "last.x": x[4], "last.v": x[5]},
    ),
    "two_mass_rotational": (
        "two_mass_rotational",
        {"session.duration": 5.0},
        [0.1, 0.1, 0.2, 0.1],
        linear([[0, 1, 0, 0], [-0.2, -0.3, 0.1, 0.2], [0, 0, 0, 1], [0.1, 0.2, -0.2, -0.4]]),
        lambda x: {"side1.torque": x[0] - x[2] + 2.0 * (x[1] - x[3]), "side2.omega": x[3]},
    ),
    "two_mass_model": (
        "two_mass_model",
        {"session.duration": 0.05},
        [1.0, 0.0, 0.6, 0.0],
        linear(
            [
                [0, 1, 0, 0],
                [-1e5 - 2e4, -0.1 - 50, 2e4, 50],
                [0, 0, 0, 1],
                [2e4, 50, -1.02e6, -50.2],
            ]
        ),
        lambda x: {"mass1.s": x[0], "mass1.v": x[1]},
    ),
    "coupled_pendula": (
        "coupled_pendula",
        {"session.duration": 1.0},
        [math.pi / 4, 0.0, math.pi / 18, 0.0],
        pendula,
        tips,
    ),
    "nonlinear_coupling": (
        "nonlinear_coupling",
        {"session.duration": 0.04, "master.step": 2e-4},
        [1.0, 0.0, 0.6, 0.0],
        rising_damper,
        lambda x: {"mass1.s": x[0], "mass1.v": x[1]},
    ),
    "nonlinear_oscillator": (
        "nonlinear_oscillator",
        {"session.duration": 0.5},
        [0.0, 100.0, 0.0, -100.0],
        root_springs,
        lambda x: {"mass2.x": x[2], "mass2.v": x[3]},
    ),
    "variable step": (
        "nonlinear_chain",
        {"session.duration": 0.15, "master.step_control.maximum": 2e-4},
        [0.0, 0.009, -0.004, -0.002, 0.001, -0.009, -0.71, 0.90, 0.65, -0.18, 0.51, 0.08],
        chain,
        lambda x: {"left.x_last": x[1], "left.v_last": x[7], "middle.v_last": x[9]},
    ),
    "repeated steps": (
        "contact_oscillator",
        {"session.duration": 0.02},  # with a contact after 16 ms
        [-2.0, 100.0, 0.0, -200.0],
        contact_masses,
        lambda x: {"calculated.f": contact_force(x)},
    ),
    "several rates": (
        "hydraulic_crane",
        {"session.duration": 0.15},
        [crane.THETA1, crane.THETA2, 0.0, 0.0, *crane.pressures_at_rest()[:2]],
        crane_rates,
        crane_signals,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_error_is_right_within_one_percent(name: str) -> None:
    config, settings, start, rates, signals = CASES[name]
    session = CONFIGS / f"{config}.toml"
    log = simulate(session, settings).log
    span = (0.0, float(log.t[-1]))
    longest = 2e-5 if rates is contact_masses else 0.01  # sees the contact
    x = solve_ivp(rates, span, start, "DOP853", log.t, rtol=1e-11, atol=1e-12, max_step=longest).y
    found = reference(session, settings)
    assert found.converged, found.lines()
    seconds = np.diff(log.t, prepend=-log.t[1])  # an error over time: long steps count more
    for signal, truth in signals(x).items():
        known = np.isfinite(log[signal])  # NaN between samples
        squares = (log[signal] - truth)[known] ** 2
        error = np.sqrt(np.average(squares, weights=seconds[known]))
        assert found.signals[signal].error == pytest.approx(error, rel=0.01), signal


def test_the_command_prints_the_error_beside_the_estimate() -> None:
    session = str(CONFIGS / "two_mass.toml")
    changes = ["session.duration=0.5", "bonds.spring.correction.method=none"]
    changes += [f"subsystems.mass{k}.params.integrator=exact" for k in (1, 2)]
    short = [part for change in changes for part in ("--set", change)]
    said = CliRunner().invoke(cli.app, ["analyze", "reference", session, *short, "--json"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    speed = found["signals"]["mass2.v"]
    assert found["steps"][:2] == [0.0005, 0.00025]
    assert speed["unit"] == "m/s"
    assert speed["uncertainty"] <= 0.01 * speed["error"]
    assert speed["estimate"]["value"] == pytest.approx(speed["error"], rel=0.2)
    said = CliRunner().invoke(cli.app, ["analyze", "reference", session, *short])
    assert "mass2.v: error " in said.output
    few = [*short, "--most-steps", "1000"]
    said = CliRunner().invoke(cli.app, ["analyze", "reference", session, *few])
    assert said.exit_code == 4
    assert "NOT CONVERGED" in said.output


def test_a_step_that_is_too_long_for_stability_has_an_error_too() -> None:
    """At 20 ms the two masses gain energy without bound, and so does the run at half of that."""
    found = reference(
        CONFIGS / "two_mass.toml",
        {
            "session.duration": 1.0,
            "master.step": 0.02,
            "bonds.spring.correction.method": "none",
        },
    )
    assert found.converged
    assert found.signals["mass2.v"].relative > 1.0


def test_the_verdict_rests_on_the_true_error(tmp_path: Path) -> None:
    session = CONFIGS / "two_mass.toml"
    for step, word in ((1e-3, "good"), (4e-3, "degraded"), (8e-3, "unreliable")):
        settings = {
            "session.duration": 1.0,
            "master.step": step,
            "master.extrapolation.order": 1 if step < 2e-3 else 0,
            "bonds.spring.correction.method": "none",
            "reliability.reference": "before",
        }
        found = simulate(session, settings)
        estimate = found.summary["estimated_error"]["mass2.v"]
        assert estimate["how"] == "against a converged reference"
        assert found.verdict == word, estimate
    options = RunOptions(out=tmp_path / "runs", record=False)
    summary = run_session(session, settings, options=options).summary
    assert summary["estimated_error"] == found.summary["estimated_error"]
    with pytest.raises(ConfigError, match="cannot be repeated"):
        run_session(session, settings, options=RunOptions(out=tmp_path / "runs", shadow=True))


def test_what_has_no_reference_is_refused() -> None:
    session = CONFIGS / "two_mass.toml"
    asked = "reliability.reference='before'"
    for change, said in (
        ("session.pace='realtime'", "against the clock"),
        ("subsystems.mass2.adapter='zeromq'", "mass2 does not run in this process"),
        ("reliability.repeat='half'", "cannot be combined with reference"),
    ):
        found = [str(p) for p in check_file(session, [asked, change]) if "re" in str(p)]
        assert any(said in problem for problem in found), found
    varies = "master.step_control={method='local', rtol=1e-3}"
    assert "repeated" not in " ".join(map(str, check_file(session, [asked, varies])))


def test_a_session_shorter_than_a_step_of_its_slowest_subsystem_is_refused() -> None:
    """The crane's mechanics report every 10 ms."""
    with pytest.raises(HilrtError, match=r"fewer than four samples; raise session\.duration"):
        reference(CONFIGS / "hydraulic_crane.toml", {"session.duration": 0.009})
    assert reference(CONFIGS / "hydraulic_crane.toml", {"session.duration": 0.01}).steps


def test_the_command_tells_its_runs_and_names_the_options_where_it_stops() -> None:
    options = ["--set", "session.duration=0.2", "--most-steps", "700"]
    session = str(CONFIGS / "two_mass.toml")
    said = CliRunner().invoke(cli.app, ["analyze", "reference", session, *options])
    assert said.exit_code == 4
    assert "NOT CONVERGED: raise --most-steps, --tolerance, or both" in said.stdout
    runs = [line for line in said.stderr.splitlines() if "signals have converged" in line]
    assert runs[0].startswith("step 0.5 ms, 400 steps; 0 of 3")
