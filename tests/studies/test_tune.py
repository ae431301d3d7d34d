"""Tuning: a μ that the true energy confirms, and no recommendation that does not hold."""

import math
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import hilrt
from hilrt.errors import ConfigError
from hilrt.studies.objective import (
    NEEDED,
    allowed_verdicts,
    figure_of,
    grows_at_longer_step,
    oscillations,
    score,
)
from hilrt.studies.tune import axes_of_parts, tune
from hilrt.studies.what_if_result import CAVEAT
from tests.replay.recording_tools import record_file
from tests.studies.test_settings_advice import true_error

TWO_MASS = Path(__file__).resolve().parents[2] / "bench_configs" / "two_mass.toml"
MU = "bonds.spring.correction.mu"
CAP = "bonds.spring.correction.cap"
#: k1 = kc = k2 = 100 N/m, where the usual 0.5 takes 8 % of the energy away in 2 s.
STIFFNESS = {
    "session.duration": 2.0,
    "subsystems.mass1.params.k": 100.0,
    "subsystems.mass2.params.k": 100.0,
}


def energy_error(settings, system=STIFFNESS, springs=(100.0, 100.0, 100.0), m2=1.0):
    """True energy of the undamped system at the end, relative to the start: mean of 0.5 s."""
    log = hilrt.simulate(TWO_MASS, system | settings).log
    x1, v1, x2, v2 = (log[name] for name in ("mass1.x", "mass1.v", "mass2.x", "mass2.v"))
    k1, kc, k2 = springs
    energy = v1**2 + m2 * v2**2 + k1 * x1**2 + k2 * x2**2 + kc * (x1 - x2) ** 2
    return float(np.mean(energy[-500:]) / energy[0] - 1.0)


def test_a_tuned_mu_keeps_the_energy_of_a_heavy_second_mass(tmp_path):
    """Ten times the mass: 0.5 turns the energy that is made into one that is lost."""
    system = {"session.duration": 2.0, "subsystems.mass2.params.m": 10.0}
    file = hilrt.load_session(TWO_MASS, system)
    others = {"subsystems.mass1.params.v": [80.0, 100.0], "subsystems.mass2.params.v": [-60.0]}
    found = tune(file, "energy", (), vary={MU: "0:1"}, validate=others, trials=25, out=tmp_path)
    assert found.validations == 2
    fresh = {"subsystems.mass1.params.v": 30.0, "subsystems.mass2.params.v": -90.0}
    own, tuned, elsewhere = (
        energy_error(settings, system, (10.0, 100.0, 1000.0), 10.0)
        for settings in ({}, found.settings, found.settings | fresh)
    )
    assert own < -0.01
    assert abs(tuned) < 0.002
    assert abs(elsewhere) < 0.005


def test_a_tuned_mu_keeps_the_energy_also_from_other_initial_values(tmp_path):
    """μ = ⟨v2²⟩ / (2 (⟨v2²⟩ − ⟨v1 v2⟩)) is 0.25 there; with it nothing is gained or lost."""
    file = hilrt.load_session(TWO_MASS, STIFFNESS)
    others = {"subsystems.mass1.params.v": [80.0, 100.0], "subsystems.mass2.params.v": [-60.0]}
    vary = {MU: "0:1"}
    found = tune(file, "energy", (), vary=vary, validate=others, trials=25, out=tmp_path)
    assert found.validations == 2
    assert found.settings[MU] == pytest.approx(0.25, abs=0.05)
    assert abs(energy_error({MU: 0.5})) > 0.05
    assert abs(energy_error(found.settings)) < 0.02
    fresh = {"subsystems.mass1.params.v": 30.0, "subsystems.mass2.params.v": -90.0}
    assert abs(energy_error(found.settings | fresh)) < 0.02
    patch = tomllib.loads((tmp_path / "tune.toml").read_text("utf-8"))
    assert patch["settings"] == found.settings
    assert patch["gain"]["after"] == found.after < 0.02
    again = tune(file, "energy", (), vary=vary, validate=others, trials=25, out=tmp_path)
    assert (again.settings, again.trials) == (found.settings, 25)


def test_a_tuned_step_and_order_lower_the_true_error(tmp_path):
    """The objective is an estimate; the matrix exponential confirms it."""
    plain = {"session.duration": 0.5, "bonds.spring.correction.method": "none"}
    plain |= {f"subsystems.mass{i}.params.integrator": "exact" for i in (1, 2)}
    file = hilrt.load_session(TWO_MASS, plain)
    found = tune(file, "error", ("step", "order"), trials=14, out=tmp_path)
    assert found.settings.keys() == {"master.step", "master.extrapolation.order"}
    before, after = (true_error(settings, file) for settings in ({}, found.settings))
    assert after < 0.1 * before
    assert 0.2 * found.after < after < 2.0 * found.after
    said = (tmp_path / "tune.toml").read_text("utf-8")
    assert tomllib.loads(said)["settings"] == found.settings
    assert "confidence: low, because it was tuned on one session" in said
    assert "the true error, of which the objective is an estimate" in said


def test_several_tunings_share_a_journal(tmp_path):
    """Two processes make the trials that one would make, at most one more, and agree."""
    command = [sys.executable, "-m", "hilrt", "tune", str(TWO_MASS), "--objective", "energy"]
    command += ["--over", "", "--vary", f"{MU}=0:1", "--trials", "12", "--out", str(tmp_path)]
    sets = (STIFFNESS | {"session.duration": 0.2}).items()
    command += [word for key, value in sets for word in ("--set", f"{key}={value}")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate()[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    file = hilrt.load_session(TWO_MASS, dict(sets))
    found = tune(file, "energy", (), vary={MU: "0:1"}, trials=12, out=tmp_path)
    assert found.trials in (12, 13)
    assert f"{MU}={found.settings[MU]}" in said[0] + said[1]  # of the one that ended last


def test_a_recommendation_that_holds_nowhere_else_is_none(tmp_path):
    """Another stiffness needs another μ."""
    file = hilrt.load_session(TWO_MASS, STIFFNESS | {MU: 0.4})
    others = {"subsystems.mass2.params.k": [1000.0], "subsystems.mass1.params.k": [10.0]}
    found = tune(file, "energy", (), vary={MU: "0.2:0.3"}, validate=others, trials=5, out=tmp_path)
    assert found.settings == {}
    assert found.after == found.before
    assert "better in all validations" in found.notes[-1]


#: k1, kc, k2 [N/m] and m2 [kg] for which μ = 0.5 fails.
FAILING = [
    (100.0, 100.0, 100.0, 1.0),
    (1000.0, 1000.0, 1000.0, 1.0),
    (10.0, 100.0, 1000.0, 10.0),
    (10.0, 100.0, 10.0, 1.0),
]


@pytest.mark.parametrize("values", FAILING)
def test_a_mu_from_a_log_without_correction_keeps_the_energy_of_another_run(values, tmp_path):
    """From 2 s recorded with μ = 0: at most 2 % in runs of 2 s from other initial values.

    Where these move the masses more alike, the second set needs another μ, see the next test.
    """
    k1, kc, k2, m2 = values
    system = {
        "session.duration": 2.0,
        "subsystems.mass1.params.k": k1,
        "subsystems.mass1.params.kc": kc,
        "subsystems.mass2.params.k": k2,
        "subsystems.mass2.params.m": m2,
    }
    sets = [f"{key}={value}" for key, value in (system | {MU: 0.0, CAP: 0.5}).items()]
    log = record_file("two_mass.toml", tmp_path / "log", *sets, duration=2.0)
    found = tune([log], "energy", (), vary={MU: "0:1"}, trials=26, out=tmp_path / "tuned")
    one, two = "subsystems.mass1.params", "subsystems.mass2.params"
    for fresh in ({f"{one}.v": 80.0, f"{two}.v": -90.0}, {f"{one}.x": 1.0, f"{two}.x": -0.5}):
        plain, half, tuned = (
            abs(energy_error({MU: mu, CAP: 0.5} | fresh, system, (k1, kc, k2), m2))
            for mu in (0.0, 0.5, found.settings[MU])
        )
        assert tuned <= 0.02
        assert tuned < 0.3 * min(plain, half)


#: Three equal springs of 1000 N/m and equal masses: they move alike at 5.03 Hz, or opposed at 8.72.
ALIKE = {
    "session.duration": 2.0,
    "subsystems.mass1.params.k": 1000.0,
    "subsystems.mass1.params.kc": 1000.0,
    "subsystems.mass2.params.k": 1000.0,
}
MODES = np.array([[1.0, 1.0], [1.0, -1.0]])  # of x1 and x2, for both frequencies
OMEGA = np.sqrt([1000.0, 3000.0])


def initial(x1, v1, x2, v2):
    one, two = "subsystems.mass1.params", "subsystems.mass2.params"
    return {f"{one}.x": x1, f"{one}.v": v1, f"{two}.x": x2, f"{two}.v": v2}


def test_a_log_has_the_mu_of_its_own_mixture_of_oscillations(tmp_path):
    """Moving alike, the masses gain energy that no μ takes: 0.25 opposed, 0.312 for 30 and -90 m/s.

    ⟨v2²⟩ / (2 (⟨v2²⟩ - ⟨v1 v2⟩)) of the modes' amplitudes. From a log of that motion, recorded with
    about that μ, a run keeps 2 %, too, that begins with displacements and the same shares; from a
    log of the opposed motion it does not.
    """
    amplitudes = np.linalg.solve(MODES, [30.0, -90.0])
    v1, v2 = MODES * amplitudes
    needed = (v2 @ v2) / (2.0 * (v2 @ v2 - v1 @ v2))
    assert needed == pytest.approx(0.3125)
    x1, x2 = MODES @ (amplitudes / OMEGA)
    logs = {}
    for name, start, mu in (("mixed", (30.0, -90.0), needed), ("opposed", (100.0, -100.0), 0.25)):
        values = ALIKE | initial(0.0, start[0], 0.0, start[1]) | {MU: mu, CAP: 0.5}
        sets = [f"{key}={value}" for key, value in values.items()]
        logs[name] = record_file("two_mass.toml", tmp_path / name, *sets, duration=2.0)
    options = {"vary": {MU: "0:1"}, "trials": 20}
    mixed, opposed = (
        tune([logs[name]], "energy", (), out=tmp_path / f"{name}_tuned", **options)
        for name in ("mixed", "opposed")
    )
    fresh = initial(float(x1), 0.0, float(x2), 0.0) | {CAP: 0.5}
    error, other = (
        abs(energy_error({MU: found.settings.get(MU, 0.25)} | fresh, ALIKE, (1000.0,) * 3))
        for found in (mixed, opposed)
    )
    assert mixed.settings[MU] == pytest.approx(needed, rel=0.1)
    assert error <= 0.02
    assert other > 0.1
    assert any("mass2.v oscillates at 8.7" in n and "5.0" in n for n in mixed.notes)
    assert NEEDED in mixed.notes
    # No μ serves both: with either, one log's verdict is worse than as recorded.
    both = tune(list(logs.values()), "energy", (), out=tmp_path / "both", **options)
    assert both.settings == {}
    alone = next(note for note in both.notes if f"{MU} for each log alone" in note)
    of_mixed, of_opposed = map(float, alone.partition(": ")[2].split(", "))
    assert (of_mixed, of_opposed) == pytest.approx((needed, 0.25), rel=0.1)


def test_a_motion_unlike_the_log_s_is_followed_by_an_adaptive_mu_and_the_feedthrough():
    """30 and -90 m/s need 0.31, and all logs of the opposed motion say 0.25."""
    start, correction = ALIKE | initial(0.0, 30.0, 0.0, -90.0), "bonds.spring.correction"
    fixed, adaptive, direct = (
        abs(energy_error(own, start, (1000.0, 1000.0, 1000.0)))
        for own in (
            {MU: 0.25},
            {f"{correction}.mu_range": [0.0, 1.0]},
            {f"{correction}.method": "feedthrough"},
        )
    )
    assert fixed > 0.2
    assert adaptive < 0.03
    assert direct < 0.002


def test_oscillations_of_a_signal_are_found_with_their_shares():
    t = np.arange(0.0, 4.0, 1e-3)
    log = FakeLog(t, {"a.v": 3.0 * np.sin(40.0 * t) + 1.0 * np.sin(100.0 * t + 0.3) + 5.0})
    (first, most), (second, least) = oscillations(log, "a.v")
    assert (first, second) == pytest.approx((40.0 / (2.0 * np.pi), 100.0 / (2.0 * np.pi)), rel=0.01)
    assert (most, least) == pytest.approx((0.9, 0.1), abs=0.005)
    assert oscillations(FakeLog(t, {"a.v": np.full(len(t), 2.0)}), "a.v") == []


class FakeLog(dict):
    """Signals at the same times."""

    def __init__(self, t, signals):
        super().__init__(signals)
        self.t = t

    def time(self, name):
        del name
        return self.t


@pytest.mark.parametrize(
    ("own", "allowed"),
    [("good", ["good"]), ("degraded", ["good", "unverified", "degraded"]), ("", [])],
)
def test_a_log_s_verdict_must_not_become_worse(own, allowed):
    """That of a session must be good."""

    class Repeated:
        logs = ("one.mcap",)

        def rows(self, settings):
            assert settings == {}
            return [{"verdict": own}]

    assert [list(one) for one in allowed_verdicts(Repeated())] == [allowed]
    Repeated.logs = ()
    assert allowed_verdicts(Repeated()) == [("good",)]


def test_a_tuning_of_logs_says_what_it_rests_on_and_holds_in_others(tmp_path):
    sets = [f"{key}={value}" for key, value in (STIFFNESS | {MU: 0.0}).items()]
    log = record_file("two_mass.toml", tmp_path / "log", *sets, duration=2.0)
    moved = [*sets, "subsystems.mass1.params.v=80.0", "subsystems.mass2.params.v=-60.0"]
    other = record_file("two_mass.toml", tmp_path / "other", *moved, duration=2.0)
    validate = {"log": [str(other)], "subsystems.mass1.params.v": [30.0]}
    options = {"vary": {MU: "0:1"}, "validate": validate, "trials": 25, "out": tmp_path}
    found = tune([log], "energy", (), **options)
    assert found.validations == 2
    assert found.settings[MU] == pytest.approx(0.25, abs=0.02)
    said = (tmp_path / "tune.toml").read_text("utf-8")
    assert CAVEAT in said
    assert str(log) in said
    with pytest.raises(ConfigError, match="a log has its own step"):
        tune([log], "energy", ("step",), out=tmp_path)
    for wrong in ([log, TWO_MASS], []):
        with pytest.raises(ConfigError, match="and not both"):
            tune(wrong, out=tmp_path)


def test_settings_whose_coupling_grows_faster_at_a_longer_step_are_forbidden(tmp_path):
    """Undamped and held: it grows by half the step times a constant, at any step."""
    file = hilrt.load_session(TWO_MASS, {"session.duration": 0.2, "bonds.0.correction.mu": 0.0})
    now, shorter, longer = (
        grows_at_longer_step(file, {"master.step": step}) for step in (1e-3, 0.5e-3, 2e-3)
    )
    assert 0.0 < shorter < now < longer
    assert grows_at_longer_step(file, {"master.step": 1e-4}) < 0.2 * now
    found = tune(file, "cost", ("step",), trials=8, out=tmp_path)
    assert found.settings.get("master.step", 1e-3) <= 1e-3
    assert "growing no faster" in " ".join(found.notes)


def test_constraints_are_a_good_verdict_and_a_cap_that_seldom_acts():
    row = {"verdict": "good", "failure": "", "steps": 10, "time_s": 2.0, "error": 0.01}
    row |= {"bonds.b.cap_share": 0.04}
    assert score(row, "error") == 0.01
    assert score(row, "cost") == 5.0
    assert score(row | {"bonds.b.cap_share": 0.06}, "error") == math.inf
    assert score(row | {"verdict": "degraded"}, "error") == math.inf
    assert figure_of(row | {"verdict": "degraded"}, "error") == 0.01
    assert figure_of(row | {"failure": "it broke"}, "error") == math.inf
    energies = {"bonds.b.interface_energy_j": -3.0, "bonds.b.carried_energy_j": 60.0}
    assert score(row | energies, "energy") == 0.05


def test_parts_of_a_session_become_axes(tmp_path):
    tables = hilrt.load_session(TWO_MASS).tables
    keys = [axis.key for axis in axes_of_parts(tables, ["correction", "step", "order"])]
    cap = "bonds.spring.correction.cap"
    assert keys == [MU, cap, "master.step", "master.extrapolation.order"]
    with pytest.raises(ConfigError, match="choose from correction, step, order"):
        axes_of_parts(tables, ["speed"])
    with pytest.raises(ConfigError, match="choose from error, energy, cost"):
        tune(TWO_MASS, "speed", out=tmp_path)
    with pytest.raises(ConfigError, match="nothing to tune"):
        tune(TWO_MASS, "error", (), out=tmp_path)
