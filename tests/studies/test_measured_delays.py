"""Delays for the advice: measured, kept, and used where they bound a step."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import hilrt
from hilrt.cli.main import app
from hilrt.errors import ConfigError, HilrtError
from hilrt.studies.advise_session import advise_session
from hilrt.studies.measured_delays import (
    MeasuredDelays,
    lateness_of,
    measure_session,
    read_delays,
    write_delays,
)

CONFIGS = Path(__file__).resolve().parents[2] / "bench_configs"
TWO_MASS = CONFIGS / "two_mass.toml"
SPAWNED = """adapter = "zeromq"
spawn = ["hilrt", "solver", "hilrt.models.two_mass:Mass2", "--param", "k=1000.0", "--param", \
"v=-100.0"]
"""


def delays(late_us=20.0, answers=None):
    return MeasuredDelays("hilrt-delays-1", "here", "two-mass", [late_us] * 1000, answers or {})


def spawned(tmp_path):
    """The two masses, the second in a process of its own."""
    text = TWO_MASS.read_text("utf-8")
    first, second = text.index("[subsystems.mass2]"), text.index("[[connections]]")
    path = tmp_path / "session.toml"
    path.write_text(
        f"{text[:first]}[subsystems.mass2]\n{SPAWNED.replace(chr(92) + chr(10), '')}\n"
        f"{text[second:]}",
        "utf-8",
    )
    return hilrt.load_session(path, {"session.duration": 0.5})


class Run:
    """Stands for `run_session`: lateness of three ticks, and answers of the peer."""

    def __init__(self, fault=None, lateness=(np.nan, 12.0, 30.04)):
        self.fault, self.file, self.options, self.lateness = fault, None, None, lateness

    def __call__(self, file, options):
        self.file, self.options = file, options
        log = {
            "master:lateness": np.array(self.lateness),
            "master:skipped": np.zeros(len(self.lateness)),
            "mass2:compute": np.array([np.nan, 100.0, 110.0]),
            "mass2:wire": np.array([np.nan, 20.0, 30.0]),
        }
        return SimpleNamespace(fault=self.fault, log=log)


def test_a_run_in_real_time_gives_the_delays_of_host_and_peers(tmp_path):
    run = Run()
    found = measure_session(spawned(tmp_path), 0.2, run)
    assert found.lateness_us == [12.0, 30.0]
    assert found.answers_us == {"mass2": [140.0, 170.0]}
    assert run.options.pace == "realtime"
    assert run.file.tables.session.duration == 0.2
    assert run.file.tables.subsystems["mass2"].adapter == "zeromq"
    with pytest.raises(HilrtError, match="could not be measured: mass2 is lost"):
        measure_session(spawned(tmp_path), 0.2, Run("mass2 is lost"))
    with pytest.raises(HilrtError, match="could not be measured: no tick was recorded"):
        measure_session(spawned(tmp_path), 0.2, Run(lateness=[np.nan]))


def test_skipped_ticks_are_late_until_the_next_one_is_sent():
    """A stall of 3.4 ms at a step of 1 ms: the tick after it is 0.4 ms late, three before more."""
    log = {"master:lateness": np.array([10.0, 400.0, 20.0]), "master:skipped": np.array([0, 3, 0])}
    found = lateness_of(log, 1e-3)
    np.testing.assert_allclose(found, [10.0, 3400.0, 2400.0, 1400.0, 400.0, 20.0])
    twice = {"master:lateness": np.array([1.0, 2.0]), "master:skipped": np.array([1.0, 2.0])}
    np.testing.assert_allclose(lateness_of(twice, 1e-3), [1001, 1, 2002, 1002, 2])


def test_a_session_that_records_around_triggers_is_measured_whole():
    trigger = [{"signal": "mass1.x", "above": 1e9}]
    run = Run()
    measure_session(hilrt.load_session(TWO_MASS, {"record.trigger": trigger}), 0.2, run)
    assert run.file.tables.record.trigger == []


def test_no_bench_is_in_the_run():
    """Its reference model stands for it."""
    run = Run()
    measure_session(hilrt.load_session(CONFIGS / "engine_in_the_loop.toml"), 0.2, run)
    found = run.file.tables.subsystems
    assert {name: options.adapter for name, options in found.items()} == {
        "vehicle": "zeromq",
        "engine": "inprocess",
    }


def test_delays_survive_their_file_and_nothing_else_is_taken_for_them(tmp_path):
    path = tmp_path / "delays.json"
    write_delays(path, delays(answers={"mass2": [1.0, 2.0]}))
    assert read_delays(path) == delays(answers={"mass2": [1.0, 2.0]})
    for text in ("{}", "[", '{"format": "other"}', "\xff"):
        path.write_text(text, "latin-1")
        with pytest.raises(ConfigError, match="hilrt doctor --measure"):
            read_delays(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_delays(tmp_path / "none.json")


def test_the_delays_of_a_file_bound_the_step_and_predict_missed_ticks(tmp_path):
    """A peer that takes 0.8 s needs steps of 1 s; without one that is late, 0.3 % may be missed."""
    file = hilrt.load_session(TWO_MASS, {"session.duration": 1.0, "session.pace": "realtime"})
    calm = {"budget": 1e6, "search_s": 1e6}
    found = advise_session(file, 0.05, delays=delays(), **calm)
    assert found.missed == pytest.approx(0.0030, abs=1e-4)  # Clopper and Pearson of 0 in 1000
    assert "delays: 1000 ticks of two-mass on here" in found.notes
    slow = advise_session(file, 0.05, delays=delays(answers={"mass2": [8e5] * 10}), **calm)
    assert slow.settings == {}
    assert "at least 1,000 ms: mass2 needs 800,000 µs a step" in " ".join(slow.notes)


def test_the_command_measures_wake_ups_and_a_session_needs_measure(tmp_path):
    out = tmp_path / "delays.json"
    done = CliRunner().invoke(app, ["doctor", "--measure", "--seconds", "0.3", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "wake-ups: " in done.output
    found = read_delays(out)
    assert len(found.lateness_us) == 300
    assert found.session == ""
    assert CliRunner().invoke(app, ["doctor", str(TWO_MASS)]).exit_code == 2
    for seconds in ("nan", "inf", "0.1"):
        done = CliRunner().invoke(app, ["doctor", "--measure", "--seconds", seconds])
        assert done.exit_code == 2
        assert "must be 0.3 to 600" in done.output


@pytest.mark.real_time
def test_a_session_with_a_solver_in_another_process_is_measured(tmp_path):
    found = measure_session(spawned(tmp_path), 0.5)
    assert found.session == "two-mass"
    assert len(found.lateness_us) > 100
    assert min(found.answers_us["mass2"]) > 0.0
