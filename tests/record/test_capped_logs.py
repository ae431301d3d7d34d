"""The output of the session's processes is bounded, and its writers go on undisturbed."""

import os

import pytest

from hilrt.record import recorder
from hilrt.record.recorder import CappedLogs


@pytest.fixture
def logs(tmp_path, monkeypatch):
    for name, value in {"LARGEST": 1000, "FIRST": 100, "LAST": 50, "PERIOD_S": 0.0}.items():
        monkeypatch.setattr(recorder, name, value)
    return CappedLogs(tmp_path)


def test_begin_and_end_of_a_log_stay_and_what_is_left_out_is_counted(logs, tmp_path):
    path = tmp_path / "plant.log"
    printed = 0
    with path.open("ab", buffering=0) as solver:
        solver.write(b"begin\n")
        for _ in range(400):
            solver.write(b"x" * 9 + b"\n")
            printed += 10
            logs.check()
        solver.write(b"last line\n")
    text = path.read_bytes()
    assert len(text) < 1100
    assert text.startswith(b"begin\nxxx")
    assert text.endswith(b"x\nlast line\n")
    assert b"bytes omitted here: too many lines" in text
    left = printed - text.count(b"x" * 9 + b"\n") * 10
    assert left - 200 <= logs.left_out["plant"] <= left + 400  # its own line was cut, too


def test_small_logs_and_what_is_no_file_stay(logs, tmp_path):
    (tmp_path / "small.log").write_bytes(b"x" * 1000)
    (tmp_path / "folder").mkdir()
    large = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    large.write_bytes(b"x" * 5000)
    os.symlink(large, tmp_path / "link.log")
    logs.check()
    assert (tmp_path / "small.log").stat().st_size == 1000
    assert large.stat().st_size == 5000
    assert logs.left_out == {}


def test_a_folder_that_is_not_there_yet_is_no_error(tmp_path):
    logs = CappedLogs(tmp_path / "logs")
    logs.check()
    assert logs.left_out == {}
