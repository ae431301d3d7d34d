"""The session's token: shows on a loopback address that a peer is of the master's account.

TCP does not tell whose process is at the other end. The token is in the environment of processes
that the session starts, and, for those started by hand, in a file that only this account can read,
named after the master's address. It ends with the session.
"""

from __future__ import annotations

import logging
import os
import secrets
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from hilrt.errors import ConfigError
from hilrt.isolation.temporary_folder import PREFIX, TemporaryFolder, remove_abandoned_folders
from hilrt.peers.addresses import LOOPBACK
from hilrt.peers.keys import Socket

#: Has the token, for processes that a session starts.
VARIABLE: Final = "HILRT_PEER_TOKEN"
_PURPOSE: Final = "peers"
_BYTES: Final = 24

log = logging.getLogger("hilrt.peers.hub")


class SessionToken:
    """A new token.

    Attributes
    ----------
    text : str
    """

    def __init__(self) -> None:
        self.text = secrets.token_hex(_BYTES)
        self._folder: TemporaryFolder | None = None

    def publish(self, address: str) -> None:
        """Write it for processes of this account that connect to `address`."""
        try:
            self._folder = TemporaryFolder(_PURPOSE)
            path = self._folder.path / _file_name(address)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(self.text)
        except (ConfigError, OSError) as error:
            log.warning("solvers that are started by hand cannot connect by TCP: %s", error)

    def remove(self) -> None:
        """Remove the file; may be called twice."""
        if self._folder is not None:
            self._folder.remove()
            self._folder = None


class TokenOfPeer(NamedTuple):
    """What a peer needs: the token and its own name, which the mechanism asks for."""

    name: str
    text: str

    def use(self, socket: Socket) -> None:
        """Show the token on the connections that `socket` makes from now on."""
        socket.plain_username = self.name.encode()
        socket.plain_password = self.text.encode()


def find_token(address: str) -> str | None:
    """Token of the session at `address`, given to this process or to its account; None: neither."""
    if given := os.environ.get(VARIABLE):
        return given
    name = _file_name(address)
    remove_abandoned_folders()  # with the token of a session that was killed at this address
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}{_PURPOSE}_*"):
        try:  # it may be removed meanwhile
            status = folder.lstat()
            if os.name == "nt" or (status.st_uid == os.geteuid() and not status.st_mode & 0o077):
                return (folder / name).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            continue
    return None


def _file_name(address: str) -> str:
    """The address without its transport, as a file's name: ``127.0.0.1_5555``."""
    host, colon, port = address.partition("://")[2].rpartition(":")
    host = LOOPBACK if host == "localhost" else host
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in f"{host}{colon}{port}")
