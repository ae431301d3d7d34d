"""Sweeps of recorded logs: the rows of decisions made again, against the session's own figures."""

import html

import pytest
from typer.testing import CliRunner

import hilrt
from hilrt import SweepOptions
from hilrt.cli.main import app
from hilrt.errors import ConfigError
from hilrt.studies.run_cases import LOG, StudyCase, SweptSession, run_case
from hilrt.studies.sweep_page import write_sweep_page
from hilrt.studies.what_if import what_if
from hilrt.studies.what_if_result import CAVEAT
from tests.replay.recording_tools import record_file

MU, CAP = "bonds.spring.correction.mu", "bonds.spring.correction.cap"
TWO_MASS = "bench_configs/two_mass.toml"


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    return [record_file("two_mass.toml", folder / name, duration=0.3) for name in ("a", "b")]


def decided(log, settings):
    swept = SweptSession(str(log), "", of_logs=True)
    return run_case(swept, StudyCase("c", {LOG: str(log), **settings}))


def test_the_settings_as_recorded_give_the_session_s_own_figures(logs):
    row = decided(logs[0], {MU: 0.5})
    bond = hilrt.simulate(TWO_MASS, {"session.duration": 0.3}).summary["bonds"]["spring"]
    for name in ("residual_energy_j", "corrected_energy_j", "interface_energy_j"):
        assert row[f"bonds.spring.{name}"] == bond[name]
    assert (row["failure"], row["steps"]) == ("", 301)
    assert row["command"] == f"hilrt replay {logs[0]} --set {MU}=0.5"


def test_other_settings_are_those_of_a_what_if(logs):
    row, answer = decided(logs[0], {CAP: 1e-4}), what_if(logs[0], [f"{CAP}=1e-4"])
    assert row["verdict"] == answer.verdicts[1]
    [capped] = [flag for flag in answer.flags if flag.cause == "correction_capped"]
    assert row["flags.correction_capped.seconds"] == pytest.approx(capped.recomputed, abs=2e-3)
    corrected = [one["bonds.spring.corrected_energy_j"] for one in (row, decided(logs[0], {}))]
    assert 0.0 < corrected[0] < 0.01 * corrected[1]


def test_what_a_log_cannot_answer_is_the_row_s_reason(logs):
    row = decided(logs[0], {"master.step": 0.002})
    assert row["verdict"] == ""
    assert "its samples belong to that grid" in row["failure"]


def test_logs_and_settings_are_crossed_and_the_page_says_what_is_not_known(logs, tmp_path):
    done = hilrt.sweep(
        logs[0],
        {MU: [0.0, 0.3]},
        out=tmp_path,
        options=SweepOptions(workers=1, progress=False, logs=[logs[1].parent]),
    )
    frame = done.frame
    assert (done.cases, done.lost) == (4, 0)
    assert frame[LOG].tolist() == [str(logs[0].resolve())] * 2 + [str(logs[1].resolve())] * 2
    assert frame[MU].tolist() == [0.0, 0.3] * 2
    energies = frame["bonds.spring.corrected_energy_j"]
    assert energies[:2].tolist() == energies[2:].tolist()  # the logs are of the same session
    assert energies[0] != energies[1]
    page = html.unescape(write_sweep_page(tmp_path).read_text("utf-8"))
    assert CAVEAT in page


def test_a_wrong_key_or_a_wish_for_signals_fails_before_anything_starts(logs, tmp_path):
    with pytest.raises(ConfigError, match="wide"):
        hilrt.sweep(logs[0], {MU: ["wide"]}, out=tmp_path)
    with pytest.raises(ConfigError, match="keeps no signals"):
        hilrt.sweep(logs[0], {MU: [0.1]}, out=tmp_path, options=SweepOptions(signals=["mass1.x"]))
    with pytest.raises(ConfigError, match="only work with a recorded log"):
        hilrt.sweep(TWO_MASS, {MU: [0.1]}, out=tmp_path, options=SweepOptions(logs=[logs[0]]))
    command = ["sweep", str(logs[0]), "--vary", f"{MU}=0:1", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, command)
    assert done.stdout.startswith(CAVEAT)
    assert "a grid needs a number of values" in str(done.exception)
