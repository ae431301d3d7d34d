"""`hilrt runs`: folders with runs as one table."""

import json
import xml.etree.ElementTree as ET
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from hilrt.analyze.runs import find_runs
from hilrt.cli.main import app

RESULT = {
    **dict.fromkeys(("robustness", "error", "t", "value", "min", "max", "since", "until")),
    **dict.fromkeys(("text", "unit", "of", "reason"), ""),
    **{"name": "settles", "signals": [], "source": "expect"},
}
ALARM = {"name": "overspeed: a.w above 9", "count": 2, "first_t": 0.25, "cleared_t": None}


def make_run(folder: Path, began: str, session: str = "rig", **summary: object) -> Path:
    run = folder / f"{session}-{began}"
    run.mkdir(parents=True)
    (run / "session.mcap").write_bytes(b"never opened")
    if summary:
        text = json.dumps({"session": session, "state": "STOPPED", "time_s": 2.0, **summary})
        (run / "summary.json").write_text(text)
    return run


@pytest.fixture
def folder(tmp_path):
    errors = {"a.x": {"relative": 0.02}, "b.y": {"relative": 0.3}, "b.z": None}
    origin = {"session_file": "rig.toml", "overrides": ["master.step=0.002"]}
    make_run(tmp_path, "20260301-120000", verdict="good", estimated_error=errors, **origin)
    results = [RESULT | {"result": word} for word in ("passed", "passed", "failed")]
    make_run(tmp_path / "nightly", "20260302-080000", verdict="degraded", results=results)
    make_run(tmp_path, "20260303-235959", "other", verdict="unreliable", alarms=[ALARM])
    make_run(tmp_path, "20260304-000000", "other")
    make_run(
        tmp_path, "20260305-101010", verdict="unreliable", state="FAULT", reasons=["engine lost"]
    )
    return tmp_path


def listed(*options):
    result = CliRunner().invoke(app, ["runs", *map(str, options)])
    assert result.exit_code == 0, result.output
    return result.output


def numbers(*options):
    return [run["number"] for run in json.loads(listed(*options, "--json"))]


def test_a_row_per_run_with_what_went_wrong_by_name(folder):
    lines = listed(folder).splitlines()
    assert len(lines) == 6
    first, second, third, fourth, fifth = lines[1:]
    assert "2026-03-01 12:00:00" in first
    assert "b.y 30 %" in first
    assert "2 passed, 1 failed" in second
    assert "overspeed" in third
    assert "no summary" in fourth
    assert "unreliable, fault" in fifth
    assert "rig.toml" in first
    assert "master.step=0.002" in first
    assert "rig.toml" not in second  # a summary of an older version


def test_filters(folder):
    assert numbers(folder) == [1, 2, 3, 4, 5]
    assert numbers(folder, "--session", "other") == [3, 4]
    assert numbers(folder, "--verdict", "unreliable") == [3, 5]
    assert numbers(folder, "--since", "2026-03-03") == [3, 4, 5]
    assert numbers(folder, "--amiss") == [2, 3, 4, 5]
    assert numbers(folder, "--last", 2) == [4, 5]
    assert "no runs" in listed(folder, "--session", "none")


def test_parquet_has_every_column(folder, tmp_path):
    listed(folder, "--parquet", tmp_path / "runs.parquet")
    table = pq.read_table(tmp_path / "runs.parquet").to_pylist()
    assert [row["verdict"] for row in table] == [run.verdict for run in find_runs(folder)]
    assert table[0]["began"] == datetime(2026, 3, 1, 12)
    assert table[0]["worst_error"] == 0.3
    assert table[2]["alarms"] == ["overspeed: a.w above 9: 2 times, first at 0.250 s, still up"]


def test_junit_has_a_suite_per_run(folder, tmp_path):
    listed(folder, "--junit", tmp_path / "runs.xml")
    root = ET.parse(tmp_path / "runs.xml").getroot()
    assert [suite.get("name") for suite in root] == [run.folder.name for run in find_runs(folder)]
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("5", "1", "2")
    (alarm,) = root.iter("property")
    assert alarm.get("value", "").startswith("overspeed")


def test_report_takes_a_number(folder, monkeypatch):
    (folder / "bench").mkdir()
    monkeypatch.chdir(folder / "bench")
    make_run(folder / "bench/runs", "20260301-120000", verdict="good")
    result = CliRunner().invoke(app, ["report", "1", "--json"])
    assert "runs/rig-20260301-120000" in result.output  # it is not a log, and said to be none
    result = CliRunner().invoke(app, ["report", "2"])
    assert "no run of that number; it has 1" in str(result.exception)


def test_expect_takes_a_number(folder, monkeypatch):
    monkeypatch.chdir(folder)
    make_run(folder / "runs", "20260301-120000", verdict="good")
    result = CliRunner().invoke(app, ["expect", "1"])
    assert "run: runs/rig-20260301-120000" in result.output
    assert "runs/rig-20260301-120000/session.mcap" in str(result.exception)  # it is not a log
    result = CliRunner().invoke(app, ["expect", "2"])
    assert "no run of that number; it has 1" in str(result.exception)


def test_what_is_no_folder_is_said(tmp_path):
    result = CliRunner().invoke(app, ["runs", str(tmp_path / "none")])
    assert "is not a folder" in str(result.exception)


def test_a_summary_that_is_cut_off_counts_as_missing(tmp_path):
    run = make_run(tmp_path, "20260301-120000", verdict="good")
    (run / "summary.json").write_text('{"verdict": "go')
    assert [one.verdict for one in find_runs(tmp_path)] == ["no summary"]


def test_a_run_that_lacks_evidence_is_told_apart(tmp_path):
    make_run(tmp_path, "20260301-120000", verdict="degraded", evidence_lacking=True)
    make_run(tmp_path, "20260302-120000", verdict="degraded")
    first, second = listed(tmp_path).splitlines()[1:]
    assert "degraded for lack of evidence" in first
    assert "degraded" in second
    assert "for lack" not in second
    assert numbers(tmp_path, "--verdict", "degraded") == [1, 2]
    told = json.loads(listed(tmp_path, "--json"))
    assert [run["evidence_lacking"] for run in told] == [True, False]


def test_a_quiet_run_says_verdict_and_folder_alone(tmp_path, capsys):
    from hilrt.cli.main import _finish
    from hilrt.session.result import RunResult

    summary = {"session": "two-mass", "verdict": "good", "steps": 5}
    _finish(RunResult(summary, folder=tmp_path), report=False, quiet=True, page="")
    assert capsys.readouterr() == (f"two-mass: good, files in {tmp_path}\n", "")
    _finish(RunResult(fault="no bench", folder=tmp_path), report=True, quiet=True, page="")
    page = 'see "Troubleshooting" in the documentation\n'
    assert capsys.readouterr() == ("", f"session ended in a fault: no bench\n{page}")


def test_a_fault_is_said_once(tmp_path, capsys):
    """Among the reasons of the verdict, where these are printed."""
    from hilrt.cli.main import _finish
    from hilrt.session.result import RunResult

    reasons = ["fault: the session ended with a fault: no bench"]
    summary = {"session": "s", "verdict": "unreliable", "reasons": reasons, "steps": 1}
    result = RunResult(summary, fault="no bench", folder=tmp_path)
    _finish(result, report=False, quiet=False, page="")
    out, err = capsys.readouterr()
    assert (out.count("no bench"), err) == (1, 'see "Troubleshooting" in the documentation\n')
    _finish(result, report=False, quiet=True, page="")
    out, err = capsys.readouterr()
    assert out == f"s: unreliable, files in {tmp_path}\n"
    assert err.startswith("session ended in a fault: no bench\n")
