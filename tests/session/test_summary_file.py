"""A session leaves its summary however it ends, also where disk and descriptors have run out."""

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import hilrt
import hilrt.session.running  # else the fixture `own_modules` would forget numpy
from hilrt import RunOptions
from hilrt.errors import ConfigError
from hilrt.session.reserved_file import ReservedFile

SESSION = """
session = { name = "full", duration = 0.02, pace = "asap" }
master.step = 0.001
[subsystems.a]
adapter = "inprocess"
model = "models:Model"
params = { folder = "FOLDER" }
"""
MODEL = """
import resource
from pathlib import Path
import numpy as np
from hilrt import Port, Sample, Solver

class Model(Solver):
    inputs, outputs = (), (Port("y"),)

    def __init__(self, folder: str):
        self.folder = Path(folder)

    def initialize(self, t0, u0):
        return Sample(np.zeros(1))

    def advance(self, t, h, u):
        if abs(t - 0.01) < 1e-6:
            self.exhaust()
        return Sample(np.ones(1))

    def exhaust(self):
        "Leave no room in the folder, and no descriptor."
"""
EXHAUSTED = """
        if not (self.folder / "full").exists():
            return
        with (self.folder / "filler").open("wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
"""


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)]
    if sys.platform != "linux" or os.geteuid() or subprocess.run(mount, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def descriptors():
    """The limit is what it was, afterwards."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def make_session(folder: Path, disk: Path, happens: str) -> Path:
    (folder / "models.py").write_text(MODEL + happens)
    session = folder / "session.toml"
    session.write_text(SESSION.replace("FOLDER", str(disk)))
    return session


def read(folder: Path) -> dict[str, object]:
    summary: dict[str, object] = json.loads((folder / "summary.json").read_text())
    return summary


def test_without_room_and_descriptors(tmp_path, small_disk, descriptors, own_modules):
    session = make_session(tmp_path, small_disk, EXHAUSTED)
    # What is compiled and loaded on first use needs descriptors, and is there after this.
    hilrt.run_session(session, options=RunOptions(folder=tmp_path / "first", record=False))
    (small_disk / "full").touch()
    options = RunOptions(folder=small_disk / "run", record=False)
    result = hilrt.run_session(session, options=options)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    assert os.statvfs(small_disk).f_bavail <= 256  # what the reserve was
    assert read(small_disk / "run") == result.summary
    assert (result.fault, result.summary["steps"], result.exit_status) == (None, 20, 0)


def test_after_a_defect(tmp_path, monkeypatch, own_modules):
    session = make_session(tmp_path, tmp_path, "")

    def defect(*_: object) -> None:
        raise ZeroDivisionError("in the timing")

    monkeypatch.setattr("hilrt.exchange.master.Master._note_timing", defect)
    with pytest.raises(ZeroDivisionError):
        hilrt.run_session(session, options=RunOptions(folder=tmp_path / "run", record=False))
    summary = read(tmp_path / "run")
    assert (
        summary["reasons"][0]
        == "fault: the session ended with a fault: ZeroDivisionError: in the timing"
    )
    assert "ports" in summary


def test_before_the_first_step(tmp_path, own_modules):
    session = make_session(tmp_path, tmp_path, "    def initialize(self, t0, u0):\n        1 / 0\n")
    result = hilrt.run_session(session, options=RunOptions(folder=tmp_path / "run", record=False))
    summary = read(tmp_path / "run")
    assert (summary["state"], summary["steps"], summary["verdict"]) == ("FAULT", 0, "unreliable")
    assert summary["reasons"] == [f"no step was made: {result.fault}"]
    assert not [*(tmp_path / "run").glob(".*")]


def test_a_disk_without_room_is_refused_before_anything_starts(small_disk):
    with pytest.raises(ConfigError, match="No space left on device: there is no room for"):
        ReservedFile(small_disk / "summary.json", 4 << 20)
    assert [*small_disk.iterdir()] == []


def test_what_a_killed_session_left_is_taken_over_and_what_another_writes_is_not(tmp_path):
    (tmp_path / ".summary.part.json").write_bytes(b"left by a session that was killed" * 10_000)
    file = ReservedFile(tmp_path / "summary.json", 1 << 16)
    with pytest.raises(ConfigError, match=r"holds \.summary\.part\.json, from another session"):
        ReservedFile(tmp_path / "summary.json", 1 << 16)
    file.write(b"{}")  # the other one has removed nothing
    assert (tmp_path / "summary.json").read_bytes() == b"{}"
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_a_file_that_cannot_be_written_again_stays_and_leaves_no_part(tmp_path, monkeypatch):
    file = ReservedFile(tmp_path / "summary.json", 1 << 16)
    file.write(b"{}")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            file.write(b'{"more": 1}')
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
    assert (tmp_path / "summary.json").read_bytes() == b"{}"


def test_a_file_has_its_name_when_it_is_whole(tmp_path):
    file = ReservedFile(tmp_path / "summary.json", 1 << 16)
    assert not (tmp_path / "summary.json").exists()
    for text in (b"{}", b'{"longer": 1}', b"{}"):
        file.write(text)
        assert (tmp_path / "summary.json").read_bytes() == text
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]
