"""Folders for what lives as long as a process, removed after it has ended, however it ended.

A process that is killed cannot remove its folder. Each therefore holds a lock on a file in its
folder, which the operating system releases with the process, and the next process removes all
folders of its account without a lock. The process number in the folder's name would not do: numbers
are reused, and differ between containers; nor would the folder's age, for a session may last days.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from hilrt.errors import ConfigError

if sys.platform != "win32":
    import fcntl

#: Beginning of the names of all of them.
PREFIX = "hilrt_"
_LOCK = ".in_use"


class TemporaryFolder:
    """A new folder that only this account can use; those that others abandoned are removed.

    Parameters
    ----------
    purpose : str
        A part of its name.
    within : str, optional
        Where it is made; default: the system's folder for such.

    Attributes
    ----------
    path : Path

    Raises
    ------
    ConfigError
        If there can be none.
    """

    def __init__(self, purpose: str, within: str | None = None) -> None:
        remove_abandoned_folders(within)
        try:
            self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}_", dir=within))
            self._lock = _locked(self.path)
        except OSError as error:
            raise ConfigError(
                f"no temporary folder can be made ({error.strerror}); "
                "set TMPDIR to a folder that can be written"
            ) from None

    def remove(self) -> None:
        """Remove it with all that is in it; once."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
            shutil.rmtree(self.path, ignore_errors=True)


def remove_abandoned_folders(within: str | None = None) -> None:
    """Remove folders of processes that ended without doing so; others' are left alone."""
    folders: list[Path] = []
    with contextlib.suppress(OSError):  # there may be no temporary folder at all
        folders += Path(within or tempfile.gettempdir()).glob(f"{PREFIX}*")
    for folder in folders:
        with contextlib.suppress(OSError):  # in use, another account's, or removed meanwhile
            _remove_if_abandoned(folder)


def _locked(folder: Path) -> int:
    """Descriptor of the folder's lock, held; a process that this one starts does not get it."""
    if sys.platform == "win32":  # there, a file that is open cannot be removed
        return os.open(folder / _LOCK, os.O_CREAT | os.O_EXCL | os.O_RDWR)
    # The lock file gets its name once it is locked, so that no process takes the folder as
    # abandoned.
    lock, name = tempfile.mkstemp(dir=folder)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.rename(name, folder / _LOCK)
    return lock


def _remove_if_abandoned(folder: Path) -> None:
    if sys.platform == "win32":
        (folder / _LOCK).unlink()
        shutil.rmtree(folder, ignore_errors=True)
        return
    if folder.lstat().st_uid != os.getuid():
        return
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
