"""Where compiled kernels are kept: in a folder of its own for every state of their sources.

numba takes a kernel from its cache as long as the file that it stands in is the same. But what it
calls from other files has been compiled into it. After an update that changes those alone, results
would still be those of the version before, and nobody would be told.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
from pathlib import Path

#: In every file that compiled code depends on.
_MARK = "compiled"
_IMPORT = re.compile(r"^\s*from (hilrt[\w.]*) import (\([^)]*\)|[^(\n]+)", re.MULTILINE)
_PACKAGE = Path(__file__).parent


@functools.cache
def kernel_folder(file: Path, package: Path = _PACKAGE) -> Path:
    """Folder for the kernels of a file as it is now, with all files whose kernels it may call.

    In the package where that can be written, else with the user's other caches. Those of earlier
    states of the file are deleted. `ValueError` for a file that does not say it is compiled: others
    would not notice that it has changed.
    """
    if not _says_so(file):
        raise ValueError(f"{file}: something of it is {_MARK}; say so there")
    text = "".join(path.read_text("utf-8") for path in _sources(file, package))
    name, state = (_digest(part) for part in (str(file), text))
    for parent in (package / "__pycache__", _user_cache() / "hilrt"):
        folder = parent / "kernels" / name / state
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            _forget_others(folder)
            break
    return folder


def _sources(file: Path, package: Path) -> list[Path]:
    """The file, and those that say they are compiled which it imports, or which these import."""
    found, todo = set(), {file}
    while todo:
        path = todo.pop()
        found.add(path)
        for module, names in _IMPORT.findall(path.read_text("utf-8")):
            within = package.joinpath(*module.split(".")[1:])
            for place in (within, *(within / name for name in re.findall(r"\w+", names))):
                source = place.with_suffix(".py")
                if source not in found and source.is_file() and _says_so(source):
                    todo.add(source)
    return sorted(found)


def _says_so(file: Path) -> bool:
    return _MARK in file.read_text("utf-8").lower()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]  # paths must not become too long


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))


def _forget_others(folder: Path) -> None:
    for other in folder.parent.iterdir():
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
