"""Sequences from pytest, with sessions that stand for real ones: what a test sees of them."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

HERE = Path(__file__).parent
TESTS = """
import sys
import pytest
import hilrt
from hilrt.session import session
from hilrt.session.result import RunResult

sys.path.insert(0, {here!r})
from tip_in_sequence import TipIn


@pytest.fixture(autouse=True)
def no_processes(monkeypatch):
    def run(file, options):
        most = file.tables.subsystems["test"].params["most"]
        assert file.tables.session.duration == 3.0
        word = "passed" if most > 0.2 else "failed"
        entry = dict(name="rise time", result=word, text="0.16 s", of="test")
        options.folder.mkdir()
        for name in file.tables.subsystems["test"].params.get("files", ()):
            (options.folder / name).touch()
        summary = {{"results": [entry], "verdict": "good"}}
        return RunResult(summary, most <= 0.2, folder=options.folder)

    monkeypatch.setattr(session, "run_session", run)


@pytest.mark.hilrt({session!r}, {{"session.duration": 3.0}})
def test_fast(bench):
    assert bench.run(TipIn, most=0.4).verdict == "good"


@pytest.mark.hilrt(session={session!r}, overrides={{"session.duration": 3.0}})
def test_slow(bench):
    assert bench.run(TipIn, check=False, most=0.1).exit_status == 1
    bench.run(TipIn, most=0.1)


@pytest.mark.hilrt({session!r}, {{"session.duration": 3.0}})
@pytest.mark.parametrize("files", [["session.mcap"], ["session.mcap", "report.html"]])
def test_with(bench, files):
    bench.run(TipIn, most=0.1, files=files)
"""


def test_a_result_that_fails_fails_the_test_and_both_are_in_junit_xml(tmp_path):
    text = TESTS.format(here=str(HERE), session=str(HERE / "tip_in.toml"))
    (tmp_path / "test_bench.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "hilrt.cli.pytest_plugin",
        "--strict-markers",
    ]
    command += ["-q", "-p", "no:xdist", "--junit-xml=found.xml", "test_bench.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stdout
    assert "3 failed, 1 passed" in done.stdout
    assert "failed: rise time" in done.stdout
    told = {line.partition(": ")[0] for line in done.stdout.splitlines() if "/run-" in line}
    assert told >= {"neither log nor report", "log", "log and report"}
    cases = {case.get("name"): case for case in ET.parse(tmp_path / "found.xml").iter("testcase")}
    found = {p.get("name"): p.get("value") for p in cases["test_fast"].iter("property")}
    assert found["hilrt_verdict"] == "good"
    assert "rise time" in found["hilrt_passed"]
    assert cases["test_slow"].find("failure") is not None
