"""Where compiled kernels are kept: in a folder of its own for every state of their sources.

numba takes a kernel from its cache as long as the file that it stands in is the same. But what it
calls from other files has been compiled into it. After an update that changes those alone, results
would still be those of the version before, and nobody would be told.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

#: Begins the names of the folders.
_NAME = "kernels-"
#: What every file with something that is compiled has in it.
_MARK = b"from hilrt.compiled import"


def kernel_folder(package: Path) -> Path:
    """Folder for the kernels of a package as it is now; those of earlier states are deleted.

    In the package where that can be written, else with the user's other caches.
    """
    name = _NAME + _state(package)
    where = hashlib.sha256(bytes(package)).hexdigest()[:16]
    for parent in (package / "__pycache__", _user_cache() / "hilrt" / where):
        folder = parent / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _forget_others(folder)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            break
    return folder


def _state(package: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        if _MARK in text:
            digest.update(hashlib.sha256(text).digest())
    return digest.hexdigest()[:16]


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _forget_others(folder: Path) -> None:
    for other in folder.parent.glob(f"{_NAME}*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
