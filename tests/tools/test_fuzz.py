"""The tool that mutates files: some cases of every reader that needs no child, with fixed seeds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hilrt.errors import HilrtError
from tools.qualification import fuzz
from tools.qualification.fuzzing.readers import all_readers

ROOT = Path(__file__).parents[2]
CASES = 12
#: Readers in this process, without the libraries of FMUs and of other tools' binary formats.
HERE = ("session", "kcd", "sym", "candump", "asc", "trc", "mcap", "csv", "wire", "command")


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """All readers of the tool by name, with samples of their own."""
    monkeypatch.setenv("HILRT_FUZZ_SAMPLES", str(tmp_path / "samples"))
    return {reader.name: reader for reader in all_readers()}


def test_readers_refuse_what_they_do_not_take_and_raise_nothing_else(readers, tmp_path) -> None:
    for name in HERE:
        refused = 0
        for seed in range(CASES):
            folder = tmp_path / f"{name}{seed}"
            folder.mkdir()
            refused += bool(readers[name].case(seed, folder))
        assert refused < CASES, name  # the samples are accepted, and not everything is broken


def test_a_case_is_always_the_same_and_a_traceback_is_no_refusal(readers, tmp_path) -> None:
    reader = readers["csv"]
    assert reader.make(7) == reader.make(7)
    assert reader.make(7) != reader.make(8)

    def broken(path: Path, sample: bytes) -> None:
        raise (HilrtError if sample else KeyError)("x")

    assert reader._replace(read=broken).case(7, tmp_path) == "x"
    with pytest.raises(KeyError):
        reader._replace(read=broken, samples=lambda: [b""], name="empty").case(7, tmp_path)


def test_a_file_is_read_again_and_coverage_needs_its_library(
    readers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.toml").write_text("[session")
    common = ["--readers", "session", "--folder", str(tmp_path)]
    assert fuzz.main([*common, "--file", str(tmp_path / "bad.toml")]) == 0
    assert "bad.toml" in capsys.readouterr().out
    monkeypatch.setattr(fuzz, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        fuzz.main([*common, "--guided"])
    assert "pip install atheris" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="limits are those of Linux")
def test_it_goes_on_where_it_ended_and_says_what_came_of_its_cases(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.qualification.fuzz", "--readers", "command"]
    (tmp_path / "state.json").write_text('{"command": 1000}')
    done = subprocess.run(
        [*command, "--cases", "40", "--folder", str(tmp_path), "--first", "7"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "state.json").read_text()) == {"command": 1040}
    figures = json.loads((tmp_path / "figures.json").read_text())["command"]
    assert figures["cases"] == figures["accepted"] + figures["refused"] == 40
    assert "command" in done.stdout
