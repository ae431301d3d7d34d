"""The folder in which an FMU is unpacked, removed after the process that uses it has ended.

A process that is killed, or crashes in the FMU's binary, cannot remove its folder. Each process
therefore holds a lock on a file in its folder, which the operating system releases with the
process, and the next process removes all folders without a lock. The process number in the folder's
name would not do: numbers are reused, and differ between containers.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from hilrt.temporary_folder import make_temporary_folder

if sys.platform != "win32":
    import fcntl

_PREFIX = "hilrt_fmu_"
_LOCK = ".in_use"


class UnpackedFolder:
    """A new folder below the temporary one; `ConfigError` if none can be made.

    Attributes
    ----------
    path : Path
    """

    def __init__(self) -> None:
        remove_abandoned_folders()
        self.path = make_temporary_folder(_PREFIX)
        if sys.platform == "win32":  # there, a file that is open cannot be removed
            self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_EXCL | os.O_RDWR)
            return
        # The lock file gets its name once it is locked, so that no process takes the folder as
        # abandoned.
        self._lock, name = tempfile.mkstemp(dir=self.path)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.rename(name, self.path / _LOCK)

    def remove(self) -> None:
        """Remove it with all that is in it; once."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
            shutil.rmtree(self.path, ignore_errors=True)


def remove_abandoned_folders() -> None:
    """Remove folders of processes that ended without doing so; others' are left alone."""
    folders: list[Path] = []
    with contextlib.suppress(OSError):  # there may be no temporary folder at all
        folders += Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")
    for folder in folders:
        with contextlib.suppress(OSError):  # in use, another user's, or removed meanwhile
            _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    if sys.platform == "win32":
        (folder / _LOCK).unlink()
        shutil.rmtree(folder, ignore_errors=True)
        return
    if folder.lstat().st_uid != os.getuid():
        return
    lock = os.open(folder / _LOCK, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
