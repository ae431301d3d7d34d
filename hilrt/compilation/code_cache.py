"""Folder that stores compiled functions between starts, with fallbacks if it is not writable.

Compiled code is trusted like the package itself, so folders that other accounts can write to are
never used. Without a usable folder, functions are compiled at every start, which is reported.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hilrt.compilation.numba_inside import cache_in_folder
from hilrt.version import VERSION

#: The only packages with compiled functions.
COMPILED_PACKAGES = (
    "tables",
    "expressions",
    "coupling",
    "reliability",
    "step",
    "exchange",
    "timing",
    "step_log",
)
PACKAGE = Path(__file__).parents[1]
#: Messages about the cache; a session forwards them.
problems: list[str] = []

log = logging.getLogger("hilrt.compilation.code_cache")


def cache_of(function: Callable[..., Any], folder: str | None) -> Any:
    """Cache of one function in the folder `numba.config.CACHE_DIR`; None without a folder."""
    if folder is None:
        return None
    try:
        return cache_in_folder(function, _warn_once)
    except RuntimeError:  # the folder was writable before
        _warn_once(f"{folder} is no longer writable: functions are compiled again")
        return None


@functools.cache
def cache_folder() -> str | None:
    """Folder of the compiled code of these sources; outdated code is deleted.

    It is in the package, in the user's cache, or in a temporary folder of this account, whichever
    is the first that is writable. Code shipped with a read-only installation is copied there. None
    if nothing is writable.
    """
    name = f"{VERSION}-{_digest()}"  # path lengths are limited on Windows
    shipped = PACKAGE / "__pycache__" / "compiled" / name
    user = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    parents = [PACKAGE / "__pycache__"]
    if user.is_absolute():  # without a home directory this is "~"
        parents.append(user / "hilrt")
    for parent in parents:
        folder = _create(parent / "compiled" / name, shipped)
        if folder is not None:
            return str(folder)
    unwritable = f"neither {PACKAGE} nor {user} is writable"
    temporary = _temporary_folder()
    folder = None if temporary is None else _create(temporary / "compiled" / name, shipped)
    if folder is not None:
        _warn_once(
            f"{unwritable}: compiled code is stored in {temporary}; set XDG_CACHE_HOME to a "
            "permanent folder, or code is compiled again each time this one is emptied"
        )
        return str(folder)
    _warn_once(
        f"{unwritable}, nor a temporary folder: the macro step is compiled at every start, "
        "which takes half a minute; set XDG_CACHE_HOME to a writable folder"
    )
    return None


def _digest() -> str:
    """Digest of all sources that may be compiled into a function.

    numba considers a function up to date as long as its own file is unchanged, although code from
    other files is compiled into it.
    """
    digest = hashlib.sha256()
    folders = (PACKAGE / name for name in (*COMPILED_PACKAGES, Path(__file__).parent.name))
    for source in sorted(file for folder in folders for file in folder.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:10]


def _create(folder: Path, shipped: Path) -> Path | None:
    """Create the folder and delete others beside it; None if it is not writable."""
    try:
        new = not folder.is_dir()
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    if new and shipped.is_dir():
        with contextlib.suppress(OSError):  # also `shutil.Error`: missing code is compiled
            shutil.copytree(shipped, folder, dirs_exist_ok=True, copy_function=shutil.copyfile)
    for other in folder.parent.iterdir():
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    return folder


def _temporary_folder() -> Path | None:
    """A folder below the temporary one that no other account can write to."""
    try:
        if not hasattr(os, "getuid"):  # on Windows, each account has a temporary folder
            return Path(tempfile.gettempdir()) / "hilrt"
        folder = Path(tempfile.gettempdir()) / f"hilrt-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    return folder if private and found.st_uid == os.getuid() else None


def _warn_once(text: str) -> None:
    """Report the first problem of a start, in one line."""
    if not problems:
        problems.append(text)
        log.warning("%s", text)
