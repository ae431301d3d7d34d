"""A session at three steps, extrapolated: held to closed forms and to scipy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from typer.testing import CliRunner

from hilrt import InputPolynomial, Port, Sample, SessionBuilder, Solver
from hilrt.check.check import check_file
from hilrt.cli import main as cli
from hilrt.config.session_file import SessionFile
from hilrt.errors import ConfigError, HilrtError
from hilrt.session.repeat import Reference, compare_with_reference, extrapolated
from hilrt.session.run import RunOptions
from hilrt.session.session import run_session
from hilrt.session.simulate import repeat, simulate
from hilrt.solver import Floats
from hilrt.wording import flag_rows
from tests.reliability.test_estimates import EXACT, TWO_MASS, order

Truth = Callable[[Floats], Floats]
T = np.linspace(0.0, 1.0, 201)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_a_power_of_the_step_is_extrapolated(p: float) -> None:
    truth, course = np.sin(5.0 * T), 0.1 * np.cos(3.0 * T)
    whole, half, quarter = (truth + course * h**p for h in (1.0, 0.5, 0.25))
    found = extrapolated(whole, half, quarter, "m")
    assert found.order == pytest.approx(p)
    np.testing.assert_allclose(found.limit, truth, atol=1e-12)
    assert found.error == pytest.approx(np.sqrt(np.mean(course**2)))
    lengths = np.linspace(1e-6, 1e-2, len(T))  # of a variable step
    found = extrapolated(whole, half, quarter, "m", lengths)
    assert found.error == pytest.approx(np.sqrt(np.average(course**2, weights=lengths)))
    mean = np.average(truth, weights=lengths)
    spread = np.sqrt(np.average((truth - mean) ** 2, weights=lengths))
    assert found.spread == pytest.approx(spread)


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


def test_a_signal_without_common_values_is_unknown() -> None:
    lacking = np.full(len(T), np.nan)
    for values in ((T, T, lacking), (lacking, lacking, lacking), (T, lacking, T)):
        found = extrapolated(*values, unit="m")
        assert found.why_not == "no time has a value at all three steps"
        assert np.isnan([found.order, found.error, found.relative, found.change]).all()
        estimate = found.estimate
        assert estimate.how == "unknown: no time has a value at all three steps"
        assert np.isnan([estimate.value, estimate.low, estimate.high]).all()


class Run:
    """A run of made-up values, in place of a session's: `log` and `summary`."""

    summary: ClassVar = {"estimated_error": {"y": {"unit": "m", "value": 0.1, "how": "tried"}}}

    def __init__(self, step: float, values: Truth) -> None:
        self.t = step * np.arange(round(2.1 / step))
        self.values = values(self.t)
        self.log = self

    def __getitem__(self, name: str) -> Floats:
        return self.values


def compared(run: Callable[[float], Run], **options: Any) -> Reference:
    """Comparison of a session with a step of 25 ms; `run` makes the run of a step."""
    return compare_with_reference(
        wheels(0.025),
        lambda settings: cast(Any, run(settings.get("master.step", 0.025))),
        **options,
    )


def test_a_reference_continues_after_a_run_that_failed_in_between() -> None:
    """Three steps that are not each half of the one before give no limit."""

    def run(step: float) -> Run:
        if step == 0.025 / 4:
            raise HilrtError("too long for stability")
        return Run(step, lambda t: np.sin(t) + step * np.cos(t))

    found = compared(run, tolerance=0.1)
    t = Run(0.025, np.sin).t
    assert found.converged
    assert found.steps == [0.025 / 2, 0.025 / 8, 0.025 / 16, 0.025 / 32]
    error = 0.025 * np.sqrt(np.mean(np.cos(t) ** 2))
    assert found.signals["y"].error == pytest.approx(error, rel=1e-6)


def test_a_reference_without_common_values_is_unknown() -> None:
    def run(step: float) -> Run:
        return Run(step, lambda t: np.sin(t) if step < 0.025 else np.full(len(t), np.nan))

    found = compared(run, most_steps=2000)
    assert not found.converged
    assert np.isnan(found.signals["y"].as_estimate.value)
    assert found.as_json()["signals"]["y"]["error"] is None


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


def session_of(folder: Path, first: str, second: str, step: float, duration: float) -> Path:
    """Two models of `repeated_models` that drive each other, to be repeated."""
    a, port = first.split(":")
    b, other = second.split()[0].split(":")
    text = f"""
[session]
name = "repeated"
duration = {duration}
pace = "asap"

[master]
step = {step}
extrapolation = {{ order = 0 }}

[reliability]
repeat = "half"

[subsystems.a]
adapter = "inprocess"
model = "repeated_models:{a}"
path = {str(MODELS)!r}
params = {{ {PARAMS[first]} }}

[subsystems.b]
adapter = "inprocess"
model = "repeated_models:{b}"
path = {str(MODELS)!r}
params = {{ {PARAMS[second]} }}

[[connections]]
from = "a.{port}"
to = "b.{other.split(">")[1]}"

[[connections]]
from = "b.{other.split(">")[0]}"
to = "a.{other.split(">")[1]}"
"""
    path = folder / "session.toml"
    path.write_text(text, encoding="utf-8")
    return path


MODELS = Path(__file__).parent
PARAMS = {
    "Prey:n": "n = 10.0",
    "Predator:n>others": "n = 5.0",
    "Swing:x": "x = 1.0",
    "Swing:x>u": "rate = -100.0",
    "Swing:x>u late": "rate = -100.0, on = 2.0",
}


def relative_error(found: Floats, truth: Floats) -> float:
    spread = max(truth.std(), 0.05 * np.sqrt(np.mean(truth**2)))
    return float(np.sqrt(np.mean((found - truth) ** 2)) / spread)


def volterra(t: Floats) -> Floats:
    def rates(_: float, x: Floats) -> list[float]:
        return [x[0] * (1.0 - 0.1 * x[1]), x[1] * (-1.5 + 0.075 * x[0])]

    return solve_ivp(rates, (0.0, t[-1]), [10.0, 5.0], "DOP853", t, rtol=1e-11, atol=1e-11).y


def swinging(t: Floats, on: float = 0.0) -> Floats:
    """``a' = b``, ``b' = -100 a`` from `on`; b stands before."""
    angle = 10.0 * np.maximum(t - on, 0.0)
    return np.array([np.cos(angle), -10.0 * np.sin(angle)])


CASES = [  # models, step, duration, truth, the word
    ("Prey:n", "Predator:n>others", 5e-3, 100.0, volterra, "unreliable"),
    ("Prey:n", "Predator:n>others", 1e-3, 10.0, volterra, "good"),
    ("Swing:x", "Swing:x>u", 1e-3, 5.0, swinging, "degraded"),
    ("Swing:x", "Swing:x>u", 1e-4, 2.0, swinging, "good"),
    ("Swing:x", "Swing:x>u late", 1e-3, 12.0, lambda t: swinging(t, 2.0), "unreliable"),
]


@pytest.mark.parametrize(("first", "second", "step", "duration", "true", "word"), CASES)
def test_the_verdict_rests_on_the_repeated_session(
    first: str, second: str, step: float, duration: float, true: Truth, word: str, tmp_path: Path
) -> None:
    """Physics that trials at the start misjudge; the truth is scipy's or a closed form."""
    found = simulate(session_of(tmp_path, first, second, step, duration))
    port = first.split(":")[1]
    names = [f"a.{port}", f"b.{port}"]
    truths = dict(zip(names, true(found.log.t), strict=True))
    errors = {name: relative_error(found.log[name], truths[name]) for name in names}
    assert found.verdict == word, (errors, found.summary["estimated_error"])
    assert (max(errors.values()) > 0.2) == (word == "unreliable")
    assert (max(errors.values()) < 0.05) == (word == "good")
    for name in names:
        estimate = found.summary["estimated_error"][name]
        assert estimate["how"].startswith("repeated at shorter steps")
        error = np.sqrt(np.mean((found.log[name] - truths[name]) ** 2))
        assert estimate["low"] <= error <= estimate["high"]


@pytest.mark.parametrize(("step", "duration"), [(1e-3, 5.0), (1e-4, 2.0)])
def test_holding_the_inputs_of_exact_solvers_is_an_error_of_the_coupling(
    step: float, duration: float, tmp_path: Path
) -> None:
    """They read their inputs once in a step: without this, 16 % were estimated as 2e-9."""
    session = session_of(tmp_path, "Swing:x", "Swing:x>u", step, duration)
    found = simulate(session, {"reliability.repeat": "off"})
    for name, truth in zip(("a.x", "b.x"), swinging(found.log.t), strict=True):
        error = np.sqrt(np.mean((found.log[name] - truth) ** 2))
        estimate = found.summary["estimated_error"][name]
        assert estimate["how"] == "sensitivities"
        assert estimate["value"] == pytest.approx(error, rel=0.25)
        assert estimate["low"] < error < estimate["high"]
    assert found.verdict == ("good" if step < 1e-3 else "degraded")


def test_hilrt_run_repeats_too(tmp_path: Path) -> None:
    session = session_of(tmp_path, "Swing:x", "Swing:x>u", 1e-3, 1.0)
    options = RunOptions(out=tmp_path / "runs", record=False)
    summary = run_session(session, options=options).summary
    assert summary["estimated_error"] == simulate(session).summary["estimated_error"]
    with pytest.raises(ConfigError, match="cannot be repeated"):
        run_session(session, options=RunOptions(out=tmp_path / "runs", shadow=True))


def test_what_cannot_be_repeated_is_refused(tmp_path: Path) -> None:
    session = session_of(tmp_path, "Swing:x", "Swing:x>u", 1e-3, 1.0)
    for change, said in (
        ("session.pace='realtime'", "against the clock"),
        ("master.step_control.method='local'", 'its step varies: use reference = "before"'),
        ("subsystems.b.adapter='zeromq'", "b does not run in this process"),
    ):
        found = [str(p) for p in check_file(session, [change]) if "repeat" in str(p)]
        assert said in found[0]


class Wheel(Solver):
    """``J w' = d (other - w)``, by explicit Euler: of order 1, whatever the extrapolation."""

    inputs, outputs = (Port("other", "rad/s"),), (Port("speed", "rad/s"),)

    def __init__(self, inertia: float = 1.0, speed: float = 0.0) -> None:
        self.inertia, self.speed = inertia, speed

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return Sample(np.array([self.speed]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.speed += h * 5.0 * (u(t)[0] - self.speed) / self.inertia
        return Sample(np.array([self.speed]))


def wheels(step: float) -> SessionFile:
    builder = SessionBuilder("wheels", duration=2.0, step=step, pace="asap")
    for name, inertia, speed in (("left", 1.0, 100.0), ("right", 2.0, 0.0)):
        params = {"inertia": inertia, "speed": speed}
        builder.subsystem(name, "inprocess", model=f"{__name__}:Wheel", params=params)
    builder.connect("left.speed", "right.other").connect("right.speed", "left.other")
    return builder.set("reliability", repeat="half").build()


def test_the_advised_step_is_expected_by_the_observed_order() -> None:
    """With the order of the extrapolation, 2, it was half of the true one."""
    before = simulate(wheels(0.025))
    assert before.verdict == "degraded"
    advised = [one for one in before.summary["advice"] if "master.step" in one["settings"]]
    after = simulate(wheels(advised[0]["settings"]["master.step"]))
    errors = after.summary["estimated_error"].values()
    worst = max(error["value"] / error["high"] * error["relative"] for error in errors)
    assert worst == pytest.approx(advised[0]["expected"], rel=0.15)


def test_what_a_repetition_has_shown_is_no_flag_beside_good() -> None:
    """Nothing else shows the wheels inside a step: they neither save their state nor give y_mid."""
    shown = simulate(wheels(0.005)).summary
    assert shown["verdict"] == "good"
    assert shown["flags"]["inside_unknown"]["count"] > 0
    assert not [row for row in flag_rows(shown) if row[0] == "inside unknown"]
    alone = simulate(wheels(0.005), {"reliability.repeat": "off"}).summary
    assert [row for row in flag_rows(alone) if row[0] == "inside unknown"]
    assert any("half_steps of an FMU" in reason for reason in alone["reasons"])
