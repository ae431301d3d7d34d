import os
from pathlib import Path

import pytest

from hilrt.errors import RecordError
from hilrt.record.find_log import find_log, newest_log


def run(folder: Path, name: str, written_s: float) -> Path:
    log = folder / name / "session.mcap"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"")
    os.utime(log, (written_s, written_s))
    return log


def test_of_several_runs_the_one_that_began_last_is_meant(tmp_path: Path) -> None:
    run(tmp_path, "drive-20260101-100000", 300.0)  # touched later, as by a copy
    run(tmp_path, "drive-20260102-080000", 200.0)
    second = run(tmp_path, "drive-20260102-080000-2", 100.0)  # in the same second
    (tmp_path / "drive-20260103-090000").mkdir()  # has no log
    assert find_log(tmp_path / "drive-*") == second
    assert newest_log(sorted(tmp_path.glob("drive-*"))) == second
    assert find_log(tmp_path / "drive-20260101*") == tmp_path / "drive-20260101-100000/session.mcap"


def test_files_without_a_time_in_their_folders_names_go_by_when_they_were_written(
    tmp_path: Path,
) -> None:
    old, new = run(tmp_path, "b", 100.0), run(tmp_path, "a", 200.0)
    assert newest_log([old, new.parent]) == new
    assert find_log(str(tmp_path / "*" / "session.mcap")) == new


def test_where_there_is_none_the_pattern_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"drive-\*: there is no log"):
        find_log(tmp_path / "drive-*")
    with pytest.raises(RecordError, match="there is no log"):
        newest_log([tmp_path])


def test_a_folder_with_a_wildcard_in_its_name_is_itself(tmp_path: Path) -> None:
    log = run(tmp_path, "drive [hot]", 1.0)
    assert find_log(log.parent) == log
