"""The folder of a run: a new one each time, or an error in words."""

import sys
from pathlib import Path

import pytest

from hilrt.errors import ConfigError
from hilrt.session.run import chosen_folder, make_folder


def test_two_runs_in_one_second_have_two_folders(tmp_path: Path) -> None:
    folders = {make_folder(tmp_path / "runs", "demo") for _ in range(3)}
    assert len(folders) == 3
    assert all(folder.is_dir() and folder.name.startswith("demo-") for folder in folders)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_a_new_folder_is_for_this_account_alone(tmp_path: Path) -> None:
    made = make_folder(tmp_path / "runs", "demo"), chosen_folder(tmp_path / "more" / "chosen")
    assert [folder.stat().st_mode & 0o777 for folder in made] == [0o700] * 2
    shared = tmp_path / "shared"  # whose mode its maker chose
    shared.mkdir(mode=0o755)
    assert chosen_folder(shared).stat().st_mode & 0o777 == shared.stat().st_mode & 0o777
    assert (tmp_path / "runs").stat().st_mode & 0o777 == shared.stat().st_mode & 0o777


@pytest.mark.parametrize("error", [PermissionError(13, "no"), OSError(30, "Read-only file system")])
def test_a_read_only_place_is_an_error_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(
        ConfigError, match=f"--out .*: cannot create a folder there: {error.strerror}"
    ):
        make_folder(tmp_path / "runs", "demo")
