"""CURVE keys of the master and its peers, in a folder of small text files.

``hilrt keys FOLDER NAME…`` creates a pair for the master and one for each NAME: ``NAME.key`` is
secret and stays on the machine that uses it, ``NAME.pub`` is public. The master's machine needs
``master.key`` and the ``.pub`` of every peer; a peer's machine its own ``.key`` and ``master.pub``.
With keys, all messages between them are encrypted, and other peers are refused.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import zmq

from hilrt.errors import ConfigError
from hilrt.files.text import whole_file
from hilrt.peers.addresses import is_loopback

MASTER = "master"
#: Environment variable: folder of the keys, for processes started by a session and remote peers.
VARIABLE = "HILRT_KEYS"
_KEY = re.compile(r"^[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}$")
_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")

Socket = zmq.Socket[bytes]


def make_keys(folder: Path, names: Sequence[str]) -> list[Path]:
    """Create missing key pairs, the master's and one for each name.

    Existing keys stay unchanged: to renew one, delete its two files. `ConfigError` if the folder is
    not writable or a name is invalid.
    """
    made = []
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
            folder.chmod(FOLDER_MODE)
        refuse_unsafe(folder)
        for name in (MASTER, *names):
            if not _NAME.match(name):
                raise ConfigError(
                    f"keys: {name!r} is not a valid name of a subsystem; remove '/' and ' '"
                )
            secret, public = folder / f"{name}.key", folder / f"{name}.pub"
            if secret.exists() or public.exists():
                continue
            public_key, secret_key = zmq.curve_keypair()
            _write(secret, secret_key, SECRET_MODE)
            _write(public, public_key, PUBLIC_MODE)
            made += [secret, public]
    except OSError as error:
        raise ConfigError(f"{folder}: cannot write keys: {error.strerror}") from None
    return made


def _write(path: Path, key: bytes, mode: int) -> None:
    """Write a new file with a mode that is set before the key is written, whatever the umask."""
    with whole_file(path) as part:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, SECRET_MODE)
        with os.fdopen(descriptor, "wb") as file:
            part.chmod(mode)
            file.write(key + b"\n")


def read_key(path: Path) -> bytes:
    """Key in a file; `ConfigError` if there is none, or from `refuse_unsafe`."""
    try:
        refuse_unsafe(path)
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a key"
        raise ConfigError(
            f"{path}: {reason}; `hilrt keys {path.parent} {path.stem}` creates a pair"
        ) from None
    if not _KEY.match(key):
        raise ConfigError(f"{path}: is not a CURVE key of 40 characters; create a new pair")
    return key.encode()


class PeerKeys(NamedTuple):
    """A peer's keys: its own pair and the master's public one."""

    public: bytes
    secret: bytes
    master: bytes

    def use(self, socket: Socket) -> None:
        """Encrypt all later connections of `socket`."""
        socket.curve_publickey = self.public
        socket.curve_secretkey = self.secret
        socket.curve_serverkey = self.master


def peer_keys(name: str) -> PeerKeys | None:
    """Keys of the peer `name` from the folder in the environment; None without such a folder."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    if Path(folder).is_dir():
        refuse_unsafe(Path(folder))
    secret = read_key(Path(folder) / f"{name}.key")
    return PeerKeys(zmq.curve_public(secret), secret, read_key(Path(folder) / f"{MASTER}.pub"))


def is_local(endpoint: str) -> bool:
    """Whether a ZeroMQ endpoint can be reached only from this machine."""
    transport, _, address = endpoint.partition("://")
    if transport != "tcp":
        return transport in ("ipc", "inproc")
    return is_loopback(address.rpartition(":")[0])  # unlike *, an interface, a host name


#: Modes set by `hilrt keys`, whatever the umask.
FOLDER_MODE, SECRET_MODE, PUBLIC_MODE = 0o700, 0o600, 0o644
_OTHERS, _OTHERS_WRITE = 0o077, 0o022


def refuse_unsafe(path: Path) -> None:
    """Raise `ConfigError`, with a command as remedy, if other accounts have unsafe access.

    Anyone with write access to a folder of keys can admit a peer by another ``NAME.pub``, or make
    peers trust another master by another ``master.pub``. On Windows, which has no such modes, the
    folder's access list is the owner's responsibility.

    Parameters
    ----------
    path : Path
        An existing folder of keys, ``NAME.key`` or ``NAME.pub``.
    """
    if os.name != "posix":
        return
    found, account = path.stat(), os.geteuid()
    folder, secret = path.is_dir(), path.suffix == ".key"
    # Root can act as any account: in a container, files may belong to accounts of the host.
    if account != 0 and found.st_uid not in (0, account):
        raise ConfigError(
            f"{path}: belongs to another account (number {found.st_uid}), which may change it; "
            f"sudo chown {account} {shlex.quote(str(path))}"
        )
    if secret and found.st_mode & _OTHERS:
        what, mode = "can be read by others", SECRET_MODE
    elif found.st_mode & _OTHERS_WRITE and folder:
        what, mode = "others can add and replace keys in it", FOLDER_MODE
    elif found.st_mode & _OTHERS_WRITE:
        what, mode = "others can replace it with their own key", PUBLIC_MODE
    else:
        return
    raise ConfigError(f"{path}: {what}; chmod {mode:o} {shlex.quote(str(path))}")
