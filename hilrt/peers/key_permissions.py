"""Whether other accounts could read a secret key, or change whose keys are admitted.

Who may write to a folder of keys decides who takes part: a further ``NAME.pub`` admits its owner,
and another ``master.pub`` makes peers trust another master. Windows has no such modes; there, the
folder's access list is for its owner to keep.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from hilrt.errors import ConfigError

#: Modes that `hilrt keys` makes, whatever the umask is.
FOLDER_MODE, SECRET_MODE, PUBLIC_MODE = 0o700, 0o600, 0o644
_OTHERS, _OTHERS_WRITE = 0o077, 0o022


def refuse_unsafe(path: Path) -> None:
    """`ConfigError`, with the command that mends it, if other accounts may do what they must not.

    Parameters
    ----------
    path : Path
        A folder of keys, a ``NAME.key`` or a ``NAME.pub``, which exists.
    """
    if os.name != "posix":
        return
    found, account = path.stat(), os.geteuid()
    folder, secret = path.is_dir(), path.suffix == ".key"
    # Root trusts accounts that it could be anyway, as where a container's files are the host's.
    if account != 0 and found.st_uid not in (0, account):
        raise ConfigError(
            f"{path}: belongs to another account (number {found.st_uid}), which may change it; "
            f"sudo chown {account} {shlex.quote(str(path))}"
        )
    if secret and found.st_mode & _OTHERS:
        what, mode = "may be read by others", SECRET_MODE
    elif found.st_mode & _OTHERS_WRITE and folder:
        what, mode = "others may add and exchange keys in it", FOLDER_MODE
    elif found.st_mode & _OTHERS_WRITE:
        what, mode = "others may put their own key in its place", PUBLIC_MODE
    else:
        return
    raise ConfigError(f"{path}: {what}; chmod {mode:o} {shlex.quote(str(path))}")
