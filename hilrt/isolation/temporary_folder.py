"""Private temporary folders, and the addresses of a session's local sockets."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import zmq

from hilrt.errors import ConfigError

if sys.platform != "win32":
    import fcntl

#: Prefix of the folders' names.
PREFIX = "hilrt_"
_LOCK = ".in_use"


class TemporaryFolder:
    """A new folder that only this account can use; folders of ended processes are removed.

    Parameters
    ----------
    purpose : str
        Part of its name.
    within : str, optional
        Parent folder; default: the system's folder for temporary files.

    Attributes
    ----------
    path : Path

    Raises
    ------
    ConfigError
        If the folder cannot be created.
    """

    def __init__(self, purpose: str, within: str | None = None) -> None:
        remove_abandoned_folders(within)
        try:
            self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}_", dir=within))
            self._lock = _locked(self.path)
        except OSError as error:
            raise ConfigError(
                f"cannot create a temporary folder ({error.strerror}); "
                "set TMPDIR to a writable folder"
            ) from None

    def remove(self) -> None:
        """Remove the folder and its content, once."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
            shutil.rmtree(self.path, ignore_errors=True)


def remove_abandoned_folders(within: str | None = None) -> None:
    """Remove folders left behind by processes of this account that have ended."""
    folders: list[Path] = []
    with contextlib.suppress(OSError):  # there may be no temporary folder at all
        folders += Path(within or tempfile.gettempdir()).glob(f"{PREFIX}*")
    for folder in folders:
        with contextlib.suppress(OSError):  # in use, another account's, or removed meanwhile
            _remove_if_abandoned(folder)


def _locked(folder: Path) -> int:
    """Lock the folder; return the lock's descriptor, which child processes do not inherit."""
    if sys.platform == "win32":  # an open file cannot be removed there
        return os.open(folder / _LOCK, os.O_CREAT | os.O_EXCL | os.O_RDWR)
    # A folder without a lock file is never removed: the file gets its name only once it is locked.
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


#: Environment variable with a session's secret key, for its processes; only on Windows.
KEY_VARIABLE = "HILRT_SOCKETS_KEY"
#: Maximum length of a socket's name.
MAX_NAME = 16
UNIX = os.name == "posix"
_CURVE = "curve+"
#: Secret keys of the sessions run by this process, by address.
_secrets: dict[str, str] = {}

Socket = zmq.Socket[bytes]


class LocalAddresses:
    """Addresses of one session for `bind` and `connect`.

    `ConfigError` if no folder can be created.

    Attributes
    ----------
    environment : mapping
        Environment variables that a process needs to use them.
    """

    def __init__(self, unix: bool = UNIX) -> None:
        self._folder = _make_folder() if unix else None
        self._secret = "" if unix else zmq.curve_keypair()[1].decode()
        self._given: list[str] = []
        self.environment: Mapping[str, str] = {} if unix else {KEY_VARIABLE: self._secret}

    def get(self, name: str) -> str:
        """An unused address."""
        if self._folder is not None:
            return f"ipc://{self._folder.path}/{name}"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"{_CURVE}tcp://127.0.0.1:{probe.getsockname()[1]}"
        _secrets[address] = self._secret
        self._given.append(address)
        return address

    def close(self) -> None:
        """Remove the folder."""
        for address in self._given:
            _secrets.pop(address, None)
        if self._folder is not None:
            self._folder.remove()


def bind(bound: Socket, address: str) -> str:
    """Bind a socket to a session's or any other address; return the address to connect to.

    Only addresses of a session are encrypted, even if the socket is bound to both kinds.
    """
    if address.startswith("ipc:") and sys.platform == "linux":
        bound.setsockopt(zmq.IPC_FILTER_UID, os.geteuid())
    secret = _secret_of(address)
    if secret:  # peers need its public half, known only to this session's processes
        bound.curve_secretkey = secret.encode()
        bound.curve_server = True
    bound.bind(address.removeprefix(_CURVE))
    if secret:
        bound.curve_server = False  # for the next address
        return address
    return bound.getsockopt_string(zmq.LAST_ENDPOINT)


def connect(connecting: Socket, address: str) -> None:
    """Connect a socket to a session's or any other address."""
    secret = _secret_of(address)
    if secret:
        connecting.curve_serverkey = zmq.curve_public(secret.encode())
        connecting.curve_publickey, connecting.curve_secretkey = zmq.curve_keypair()
    connecting.connect(address.removeprefix(_CURVE))


def _secret_of(address: str) -> str:
    if not address.startswith(_CURVE):
        return ""
    return _secrets.get(address) or os.environ.get(KEY_VARIABLE, "")


def _make_folder() -> TemporaryFolder:
    """A folder whose path is short enough for a Unix socket."""
    folder = TemporaryFolder("sockets")
    if len(os.fsencode(folder.path)) + 1 + MAX_NAME <= zmq.IPC_PATH_MAX_LEN:
        return folder
    folder.remove()
    return TemporaryFolder("sockets", within="/tmp")
