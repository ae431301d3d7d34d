"""Wrong session files and arguments: status 2 and one line per problem, before anything starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest

from hilrt.cli.main import main
from hilrt.timing import host
from tests.scenarios.sessions import CONFIGS, TIMEOUT

ENGINE = CONFIGS / "engine_in_the_loop.toml"
MASSES = CONFIGS / "two_mass.toml"


class Refused(Protocol):
    """Lines on standard error of a ``hilrt run`` that must be refused and record nothing."""

    def __call__(self, out: Path, session: Path, *options: str) -> list[str]: ...


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """In this process: dozens of interpreters would take their time."""

    def run(out: Path, session: Path, *options: str) -> list[str]:
        command = ["hilrt", "run", str(session), "--out", str(out), *options]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        assert not list(out.glob("*/*.mcap"))
        lines = capsys.readouterr().err.splitlines()
        return [line for line in lines if not line.endswith("in the documentation")]

    return run


def test_as_a_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hilrt", "run", str(ENGINE), "--out", str(tmp_path)]
    options = ["--set", "master.stepp=1"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 2  # what is wrong, and the page about it
    assert list(tmp_path.iterdir()) == []


def test_too_few_descriptors(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host.resource, "getrlimit", lambda which: (40, 40))
    [line] = refused(tmp_path, MASSES)
    assert "may open 40 files and sockets" in line
    assert "ulimit -n" in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, ["missing.toml", "cannot be read"]),
        ("[master\nstep = 0.1", ["is not TOML", "line 1"]),
        ("", ["master", "is missing"]),
    ],
    ids=["no file", "not TOML", "empty"],
)
def test_session_file_is_unreadable(
    refused: Refused, tmp_path: Path, text: str | None, words: list[str]
) -> None:
    session = tmp_path / "missing.toml"
    if text is not None:
        session.write_text(text)
    lines = refused(tmp_path / "runs", session)
    assert any(all(word in line for word in words) for line in lines), lines


@pytest.mark.parametrize("duration", ["0", "-1"])
def test_every_problem_has_its_line(refused: Refused, tmp_path: Path, duration: str) -> None:
    options = ["--duration", duration, "--set", "master.stepp=1", "--set", "nonsense"]
    lines = refused(tmp_path, ENGINE, *options)
    assert len(lines) == 3, lines
    for words in (("duration", "> 0"), ("stepp", "did you mean 'step'"), ("nonsense", "key=value")):
        assert sum(all(word in line for word in words) for line in lines) == 1, lines


@pytest.mark.parametrize("pace", ["asap", "2.0"])
def test_a_bench_keeps_real_time(refused: Refused, tmp_path: Path, pace: str) -> None:
    (line,) = refused(tmp_path, ENGINE, "--pace", pace)
    assert "'engine'" in line
    assert "realtime" in line


@pytest.mark.parametrize(
    ("session", "override", "words"),
    [
        (ENGINE, 'subsystems.engine.database="no.dbc"', ["[subsystems.engine]", "no.dbc"]),
        (ENGINE, 'subsystems.vehicle.spawn=["no-such-program"]', ["spawn", "no-such-program"]),
        (ENGINE, 'master.listen="tcp://192.0.2.1:1"', ["listen", "192.0.2.1"]),
        (MASSES, 'subsystems.mass1.model="nowhere:Thing"', ["[subsystems.mass1]", "nowhere"]),
        (MASSES, "subsystems.mass1.params={q=1}", ["[subsystems.mass1]", "'q'"]),
        (
            CONFIGS / "recorded_pedal.toml",
            "session.duration=1.0",
            ["[subsystems.pedal]", "car.dbc"],
        ),
    ],
)
def test_something_named_in_the_file_is_missing(
    refused: Refused, tmp_path: Path, session: Path, override: str, words: list[str]
) -> None:
    lines = refused(tmp_path, session, "--set", override)
    assert any(all(word in line for word in words) for line in lines), lines


def test_the_runs_folder_cannot_be_made(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    (line,) = refused(tmp_path / "file", MASSES)
    assert "--out" in line


def test_arguments(refused: Refused, tmp_path: Path) -> None:
    for options in (["--pace", "fast"], ["--duration", "long"], ["--no-such-option"]):
        said = refused(tmp_path, MASSES, *options)
        assert any(options[0] in line for line in said)
