"""ZeroMQ sockets between the processes of one session, which no other account can reach.

On POSIX they are Unix sockets in a folder that only this account can enter, and the end that is
bound takes connections of this account's processes alone. Windows' ZeroMQ has no such folder and
no such account: there they are TCP sockets on the loopback with CURVE, whose keys the session makes
and gives to its processes. Rejected: CURVE everywhere, which encrypts every row for the recorder.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping

import zmq

from hilrt.isolation.temporary_folder import TemporaryFolder

#: Environment variable with the session's key, for the processes that it starts; Windows alone.
KEY_VARIABLE = "HILRT_SOCKETS_KEY"
#: The longest name that a socket gets.
MAX_NAME = 16
UNIX = os.name == "posix"
_CURVE = "curve+"
#: Of the sessions that this process runs: secret keys by address.
_secrets: dict[str, str] = {}

Socket = zmq.Socket[bytes]


class LocalAddresses:
    """Addresses for `bind` and `connect`, of one session.

    `ConfigError` if no folder can be made.

    Attributes
    ----------
    environment : mapping
        What a process needs to use them.
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
    """Bind a socket to an address of a session, or to any other; where to connect to it.

    An address that is no session's is bound as it stands, whatever the socket was bound to before.
    """
    if address.startswith("ipc:") and sys.platform == "linux":
        bound.setsockopt(zmq.IPC_FILTER_UID, os.geteuid())
    secret = _secret_of(address)
    if secret:  # peers need its public half, which this session's processes alone have
        bound.curve_secretkey = secret.encode()
        bound.curve_server = True
    bound.bind(address.removeprefix(_CURVE))
    if secret:
        bound.curve_server = False  # for what it is bound to next
        return address
    return bound.getsockopt_string(zmq.LAST_ENDPOINT)


def connect(connecting: Socket, address: str) -> None:
    """Connect a socket to an address of a session, or to any other."""
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
    """A folder whose path is short enough for a Unix socket in it."""
    folder = TemporaryFolder("sockets")
    if len(str(folder.path)) + 1 + MAX_NAME <= zmq.IPC_PATH_MAX_LEN:
        return folder
    folder.remove()
    return TemporaryFolder("sockets", within="/tmp")
