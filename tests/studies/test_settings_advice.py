"""Advice before the first run: what it predicts is held against the exact solution."""

import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import expm
from typer.testing import CliRunner

import hilrt
from hilrt.cli.main import app
from hilrt.errors import ConfigError, HilrtError
from hilrt.reliability.choose_settings import STEP
from hilrt.studies.advise_session import ModelRun, advice_patch, advise_session
from hilrt.studies.measured_delays import missed_share
from hilrt.studies.model_trials import ModelTrial, errors_of, ladder, reference_of
from hilrt.studies.settings_advice import Wish, advise_settings

TWO_MASS = Path(__file__).resolve().parents[2] / "bench_configs" / "two_mass.toml"
#: However busy the host is.
CALM = {"budget": 1e6, "search_s": 1e6}
#: x1, v1, x2, v2 of both masses on their three springs.
WHOLE = np.array(
    [[0, 1, 0, 0], [-110, 0, 100, 0], [0, 0, 0, 1], [100, 0, -1100, 0]], dtype=np.float64
)


@pytest.fixture(scope="module")
def file():
    return hilrt.load_session(TWO_MASS, {"session.duration": 1.0})


def true_error(settings, file):
    """Error of the worst coupling signal against the matrix exponential, as it is advised on."""
    log = hilrt.simulate(file, settings).log
    found = []
    for name, row in (("mass1.force", None), ("mass2.x", 2), ("mass2.v", 3)):
        t = log.time(name)
        z = np.array([expm(WHOLE * at) @ [0.0, 100.0, 0.0, -100.0] for at in t])
        exact = 100.0 * (z[:, 0] - z[:, 2]) if row is None else z[:, row]
        found.append(np.sqrt(np.mean((log[name] - exact) ** 2)) / exact.std())
    return max(found)


@pytest.mark.parametrize("target", [0.05, 0.005])
def test_an_advised_run_meets_its_target_and_the_predicted_interval(file, target):
    found = advise_session(file, target, **CALM)
    error = true_error(found.settings, file)
    assert error <= target
    low, high = found.error
    assert low <= error <= high
    longer = found.settings | {STEP: 2.0 * found.settings[STEP]}
    assert true_error(longer, file) > 0.8 * target
    assert found.processor > 0.0
    assert math.isnan(found.missed)
    patch = tomllib.loads(advice_patch(found))
    assert patch["settings"] == found.settings
    assert patch["predicted"]["signal"] == found.signal
    names = " ".join(found.rejected)
    assert "order 0" in names or "order 1" in names


def test_a_variable_step_begins_where_a_held_input_errs_by_its_target(file):
    control = {"master.step_control.method": "ecco", "master.step_control.rtol": 1e-3}
    variable = hilrt.load_session(TWO_MASS, {"session.duration": 1.0, **control})
    found = advise_session(variable, 0.01, **CALM)
    start = np.array([0.0, 100.0, 0.0, -100.0])
    # mass1.force, mass2.x and mass2.v of the exact solution.
    signals = np.array([[100.0, 0.0, -100.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    whole = np.array([signals @ expm(WHOLE * at) @ start for at in np.arange(0.0, 1.0, 1e-3)])
    moved = np.abs(signals @ (expm(WHOLE * found.first_step) @ start - start))
    assert np.max(moved / whole.std(axis=0)) == pytest.approx(0.01, rel=0.05)
    assert tomllib.loads(advice_patch(found))["variable_step"]["initial"] == found.first_step
    assert found.settings["master.step_control.method"] == "fixed"
    assert "begin with one of" in found.notes[-1]
    assert math.isnan(advise_session(file, 0.05, **CALM).first_step)


def test_a_processor_s_budget_forbids_short_steps(file):
    found = advise_session(file, 0.005, **CALM | {"budget": 1e-6})
    assert found.settings == {}
    assert "too short" in found.notes[-1]
    assert "of a processor are allowed" in found.notes[-2]


def test_the_command_writes_and_prints_the_advice(file, tmp_path):
    out = tmp_path / "advice.toml"
    command = ["advise", str(TWO_MASS), "--set", "session.duration=1.0", "--search", "1e6"]
    command += ["--target", "0.05", "--target", "mass2.x=0.02", "--out", str(out)]
    done = CliRunner().invoke(app, [*command, "--budget", "1e6"])
    assert done.exit_code == 0, done.output
    patch = tomllib.loads(out.read_text("utf-8"))
    found = advise_session(file, 0.05, targets={"mass2.x": 0.02}, **CALM)
    assert patch["settings"] == found.settings
    assert f"--set {STEP}={found.settings[STEP]}" in done.stdout.splitlines()[-1]
    assert all(f"rejected: {reason}" in out.read_text("utf-8") for reason in found.rejected)
    assert found.rejected
    none = CliRunner().invoke(app, [*command, "--budget", "1e-6"])
    assert none.exit_code == 1
    assert tomllib.loads(out.read_text("utf-8"))["settings"] == {}
    wrong = CliRunner().invoke(app, ["advise", str(TWO_MASS), "--target", "small"])
    assert wrong.exit_code == 2
    assert "--target small: write a share" in wrong.output


def with_mass2(tmp_path, lines):
    """The session with another table for its second mass."""
    text = TWO_MASS.read_text("utf-8")
    first, second = text.index("[subsystems.mass2]"), text.index("[[connections]]")
    path = tmp_path / "session.toml"
    path.write_text(f"{text[:first]}[subsystems.mass2]\n{lines}\n{text[second:]}", "utf-8")
    return hilrt.load_session(path, {"session.duration": 1.0})


def test_what_has_no_model_is_named(tmp_path):
    other = with_mass2(tmp_path, 'adapter = "zeromq"\nspawn = ["./mass2"]')
    with pytest.raises(
        ConfigError, match=r"\[subsystems.mass2\].* name an approximate reference_model"
    ):
        advise_session(other, 0.01)


@pytest.mark.parametrize(
    "table",
    [
        'spawn = ["hilrt", "solver", "hilrt.models.two_mass:Mass2", "--param", "k=1000.0", '
        '"--param", "v=-100.0"]',
        'reference_model = "hilrt.models.two_mass:Mass2"\nreference_params = '
        "{ k = 1000.0, v = -100.0 }",
    ],
)
def test_a_solver_of_another_process_is_tried_in_this_one(tmp_path, file, table):
    """Spawned by `hilrt solver`, or with a reference model: the same system, the same errors."""
    run = ModelRun(with_mass2(tmp_path, f'adapter = "zeromq"\n{table}'))
    settings = {STEP: 1e-3, "master.extrapolation.order": 1}
    here, there = ModelRun(file)(settings, False), run(settings, False)
    assert here.signals.keys() == there.signals.keys()
    for name, (times, values) in here.signals.items():
        np.testing.assert_array_equal(there.signals[name], (times, values))


def test_wishes_that_nothing_meets_are_refused(file):
    with pytest.raises(ConfigError, match=r"target = 0: must be a share above 0"):
        advise_session(file, 0.0)
    with pytest.raises(
        ConfigError, match=r"mass1.speed: is not a coupling signal; choose from mass1"
    ):
        advise_session(file, 0.01, targets={"mass1.speed": 0.01})


def test_a_target_of_one_signal_counts_for_that(file):
    strict = advise_session(file, 0.05, targets={"mass2.x": 0.002}, **CALM)
    assert strict.settings[STEP] < advise_session(file, 0.05, **CALM).settings[STEP]


class Decaying:
    """``exp(-t)`` as if coupled with an error of a share, ``1 + noise + gain h^(order + 1)``."""

    def __init__(self, gain, floor=0.0, fault=""):
        self.gain, self.floor, self.fault, self.runs = gain, floor, fault, []

    def __call__(self, settings, ideal):
        h, order = settings[STEP], settings["master.extrapolation.order"]
        self.runs.append((h, order, ideal))
        t = np.arange(round(1.0 / h) + 1) * h
        wrong = self.gain * h ** (order + 1) + (0.0 if ideal else self.floor)
        return ModelTrial({"a.y": (t, np.exp(-t) * (1.0 + wrong))}, 1e-5, self.fault)


def decaying_tables(step=0.01):
    tables = hilrt.load_session(TWO_MASS, {"session.duration": 1.0, STEP: step}).tables
    tables.bonds.clear()
    return tables


@pytest.mark.parametrize("step", [1e-4, 1e-2])
def test_the_longest_step_of_the_ladder_is_found_from_anywhere(step):
    """At order 2 the error is 800 h³ of the signal, and 80 % of the target are aimed at."""
    found = advise_settings(Decaying(800.0), decaying_tables(step), Wish(0.02, search_s=1e6))
    assert found.settings["master.extrapolation.order"] == 2
    t = np.arange(0.0, 1.0, 1e-4)
    scale = np.exp(-t).std() / np.sqrt(np.mean(np.exp(-2.0 * t)))
    longest = (0.8 * 0.02 * scale / 800.0) ** (1.0 / 3.0)
    assert 0.6 * longest < found.settings[STEP] <= longest


def test_an_error_that_is_not_the_step_s_is_not_hunted():
    run = Decaying(8.0, floor=0.5)
    found = advise_settings(run, decaying_tables(), Wish(0.02))
    assert found.settings == {}
    assert all("its error is" in reason for reason in found.rejected)
    assert len(run.runs) < 40


def test_no_run_is_begun_that_would_end_too_late():
    """A clock that only runs advance: 0.1 ms per step, so that the shortest steps take 4 s."""

    class Slow(Decaying):
        now = 0.0

        def __call__(self, settings, ideal):
            self.now += 1e-4 / settings[STEP]
            return super().__call__(settings, ideal)

    free = Slow(8.0)
    found = advise_settings(
        free, decaying_tables(), Wish(1e-4, search_s=1e3, clock=lambda: free.now)
    )
    assert found.settings
    most = 0.9 * free.now
    run = Slow(8.0)
    found = advise_settings(
        run, decaying_tables(), Wish(1e-4, search_s=most, clock=lambda: run.now)
    )
    assert run.now <= most + 1e-4 / 0.01
    assert any("because the time was up" in reason for reason in found.rejected)


def test_models_that_fail_say_why():
    with pytest.raises(HilrtError, match=r"at any step .*\(it broke\)"):
        advise_settings(
            Decaying(1.0, fault="it broke"), decaying_tables(), Wish(0.02, search_s=1e6)
        )


def test_late_wakes_forbid_steps_and_predict_missed_ticks():
    """One of 1000 wakes is 1 ms late. Clopper and Pearson of 1 in 1000: 0.0047."""
    lateness = np.full(1000, 1e-5)
    lateness[0] = 1e-3
    assert missed_share(lateness, 0.2e-3) == pytest.approx(0.0047, abs=1e-4)
    assert missed_share(lateness, 2e-3) == pytest.approx(0.0030, abs=1e-4)
    late = Wish(0.02, search_s=1e6, lateness=np.full(1000, 0.1))
    found = advise_settings(Decaying(8.0), decaying_tables(), late)
    assert found.settings == {}
    assert "after the tick" in " ".join(found.notes)


def test_late_ticks_in_a_row_are_one_pause_of_the_host():
    """Poisson's upper limit for one event is 4.744: one pause of 20 ticks in 5000, 20 in 20."""
    together, apart = np.zeros(5000), np.zeros(5000)
    together[100:120] = apart[::250] = 1e-3
    assert missed_share(together, 0.2e-3) == pytest.approx(4.744 * 20 / 5000, rel=0.01)
    assert missed_share(apart, 0.2e-3) == pytest.approx(29.06 / 5000, rel=0.01)
    assert missed_share(np.ones(50), 0.2e-3) == 1.0


def test_ladder_and_errors():
    assert ladder(0.9e-3, 3e-3) == [0.001, 0.0012, 0.0015, 0.002, 0.0025, 0.003]
    assert ladder(1.1e-3, 1.15e-3) == [0.00115]
    t = np.linspace(0.0, 1.0, 101)
    reference = reference_of(ModelTrial({"a.y": (t, t**2)}, 1e-5), 0.01)
    coarse = np.linspace(0.0, 1.0, 11)
    wrong = ModelTrial({"a.y": (coarse, coarse**2 + 0.03)}, 1e-5)
    assert errors_of(wrong, reference)["a.y"] == pytest.approx(0.03 / (t**2).std(), rel=1e-3)
    run = ModelRun(hilrt.load_session(TWO_MASS))
    assert run.signals == ["mass1.force", "mass2.v", "mass2.x"]
