"""Temporary folders go with the process that uses them, however that ends."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hilrt.errors import ConfigError
from hilrt.isolation.local_sockets import LocalAddresses
from hilrt.isolation.temporary_folder import TemporaryFolder, remove_abandoned_folders

posix = pytest.mark.skipif(sys.platform == "win32", reason="accounts and signals are POSIX")
KILLED = """
import os, signal
from hilrt.isolation.local_sockets import LocalAddresses

addresses = LocalAddresses()
print(addresses.get("rows"), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(monkeypatch):
    """A temporary folder of our own, with a path that leaves room for a socket's name."""
    with tempfile.TemporaryDirectory(dir="/tmp" if os.name == "posix" else None) as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_where_there_can_be_none_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"No such file.*; set TMPDIR"):
        LocalAddresses()


@posix
def test_the_next_session_removes_what_a_killed_one_left(temporary):
    done = subprocess.run(
        [sys.executable, "-c", KILLED],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    (left,) = temporary.iterdir()
    assert str(left) in done.stdout.decode()
    addresses = LocalAddresses()
    assert not left.exists()
    assert len(list(temporary.iterdir())) == 1
    addresses.close()
    assert list(temporary.iterdir()) == []


@posix
def test_only_this_account_can_enter(temporary):
    folder = TemporaryFolder("sockets")
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.remove()


def test_a_folder_in_use_stays(temporary):
    folder = TemporaryFolder("fmu")
    remove_abandoned_folders()
    assert folder.path.is_dir()
    folder.remove()
    folder.remove()
    assert list(temporary.iterdir()) == []


def test_what_is_none_of_ours_stays(temporary):
    """Of the same name, without the lock that tells whether a process uses it."""
    Path(temporary, "hilrt_fmu_notes").mkdir()
    Path(temporary, "hilrt_fmu_notes.txt").write_text("mine")
    remove_abandoned_folders()
    assert len(list(temporary.iterdir())) == 2


@posix
def test_a_folder_of_another_account_stays(temporary, monkeypatch):
    folder = TemporaryFolder("fmu")
    os.close(folder._lock)  # as if its process had been killed
    monkeypatch.setattr(os, "getuid", lambda: folder.path.stat().st_uid + 1)
    remove_abandoned_folders()
    assert folder.path.is_dir()
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    remove_abandoned_folders()
    assert list(temporary.iterdir()) == []
