"""A table's ``spawn`` command with its program found."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from hilrt.errors import ConfigError


def executable(
    name: str, argv: Sequence[str], cwd: str | Path | None = None, path: str | None = None
) -> list[str]:
    """Command with its program found, as it can be executed; `ConfigError` if there is none.

    Parameters
    ----------
    name : str
        The subsystem's name, for the message.
    argv : sequence of str
        The command; ``hilrt`` becomes this interpreter's.
    cwd : str or Path, optional
        Folder that a relative path to the program starts from.
    path : str, optional
        Search path. Default: that of the environment.
    """
    where = f"[subsystems.{name}] spawn = {list(argv)!r}"
    if not argv:
        raise ConfigError(f"{where}: is empty; give a command, or leave the key out")
    program, *arguments = argv
    if program == "hilrt":
        return [sys.executable, "-P", "-m", "hilrt", *arguments]  # -P: not `cwd`'s modules first
    if os.path.dirname(program):
        program = str(Path(cwd or ".").resolve() / program)
    found = shutil.which(program, path=path)
    if found is None:
        raise ConfigError(
            f"{where}: command {argv[0]!r} is not found, or may not be executed; "
            "install it, or give its path relative to the session file"
        )
    return [found, *arguments]
