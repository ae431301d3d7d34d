"""Admission of ZeroMQ connections to the master, by a known key or by the session's token.

ZeroMQ requests authentication before it establishes a connection (ZAP, RFC 27 of ZeroMQ); a refused
connection never delivers a message. The hub answers a few requests per poll, so that a flood delays
pending connections, not ticks. A separate thread would compete with the master's for the
interpreter.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
import secrets
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

import zmq
from zmq.backend import zmq_poll
from zmq.utils import z85

from hilrt.errors import ConfigError
from hilrt.isolation.temporary_folder import PREFIX, TemporaryFolder, remove_abandoned_folders
from hilrt.peers.addresses import LOOPBACK
from hilrt.peers.keys import MASTER, Socket, read_key, refuse_unsafe

_ZAP: Final = "inproc://zeromq.zap.01"
_VERSION: Final = b"1.0"
#: Requests answered per poll.
MAX_PER_POLL: Final = 5


class Authenticator(ABC):
    """Admission of connections.

    Attributes
    ----------
    refused, missing : str
        Kinds of refused connections in counts: with a wrong secret, and without one.
    texts : dict of str to str
        Descriptions of these kinds.
    direct : bool
        Whether processes of this account may also use the direct transport.
    """

    mechanism: ClassVar[bytes]
    refused: ClassVar[str]
    missing: ClassVar[str]
    texts: ClassVar[Mapping[str, str]]
    direct: ClassVar[bool]

    def __init__(self) -> None:
        self._questions: Socket | None = None
        self._readables: list[tuple[Socket, int]] = []

    @abstractmethod
    def configure(self, socket: Socket) -> None:
        """Require the secret on `socket`, which is not bound yet."""

    @abstractmethod
    def user(self, credentials: list[bytes]) -> str | None:
        """User id of the credentials, as in the connection's messages; None without one."""

    def names(self, user: str) -> frozenset[str] | None:
        """Names of subsystems that a user may use; None: any."""
        return None

    def guard(self, context: zmq.Context[Socket], socket: Socket) -> None:
        """Handle the authentication requests of `socket`, which is not bound yet."""
        self._questions = context.socket(zmq.ROUTER)
        self._questions.linger = 0
        self._questions.bind(_ZAP)
        self._readables = [(self._questions, int(zmq.POLLIN))]
        self.configure(socket)

    def bound(self, address: str) -> None:
        """Handle the binding of the socket to the endpoint `address`."""

    def poll(self) -> int:
        """Answer some of the pending requests; return how many connections were refused."""
        refused, questions = 0, self._questions
        for _ in range(MAX_PER_POLL):
            if questions is None or not zmq_poll(self._readables, 0):
                break
            route, empty, version, number, _, _, _, mechanism, *credentials = (
                questions.recv_multipart(zmq.NOBLOCK)
            )
            right = version == _VERSION and mechanism == self.mechanism
            user = self.user(credentials) if right else None
            answer = (b"200", b"OK", user.encode()) if user else (b"400", b"not admitted", b"")
            refused += user is None
            with contextlib.suppress(zmq.ZMQError):  # the connection is gone
                questions.send_multipart([route, empty, _VERSION, number, *answer, b""])
        return refused

    def close(self) -> None:
        """Stop answering; call it before the context is closed."""
        if self._questions is not None:
            self._questions.close(linger=0)
            self._questions = None


class KeyAuthenticator(Authenticator):
    """Admission of known CURVE keys, each only under the name of its file.

    Parameters
    ----------
    folder : Path
        Contains ``master.key`` and the ``.pub`` of every peer. A key with several files has all
        their names.
    """

    mechanism = b"CURVE"
    refused, missing = "unknown_key", "no_key"
    texts: ClassVar = {"unknown_key": "its key is unknown", "no_key": "it has no key"}
    direct = False

    def __init__(self, folder: Path) -> None:
        super().__init__()
        if folder.is_dir():
            refuse_unsafe(folder)
        self._secret = read_key(folder / f"{MASTER}.key")
        names: dict[bytes, set[str]] = {}
        for path in sorted(folder.glob("*.pub")):
            if path.stem != MASTER:
                names.setdefault(z85.decode(read_key(path)), set()).add(path.stem)
        if not names:
            raise ConfigError(f"{folder}: has no peer's .pub; run `hilrt keys {folder} NAME`")
        self._users = {key: " ".join(sorted(admitted)) for key, admitted in names.items()}

    def configure(self, socket: Socket) -> None:
        """See `Authenticator.configure`."""
        socket.curve_server = True
        socket.curve_secretkey = self._secret

    def user(self, credentials: list[bytes]) -> str | None:
        """See `Authenticator.user`: the names that the key admits."""
        return self._users.get(credentials[0]) if len(credentials) == 1 else None

    def names(self, user: str) -> frozenset[str] | None:
        """See `Authenticator.names`."""
        return frozenset(user.split(" "))


class TokenAuthenticator(Authenticator):
    """Admission by the session's token, known only to processes of this account."""

    mechanism = b"PLAIN"
    refused, missing = "unknown_token", "no_token"
    texts: ClassVar = {
        "unknown_token": "its token is not this session's",
        "no_token": "it has no token of this session: only processes of the same account are "
        "admitted",
    }
    direct = True

    def __init__(self, token: SessionToken) -> None:
        super().__init__()
        self.token = token

    def configure(self, socket: Socket) -> None:
        """See `Authenticator.configure`."""
        socket.plain_server = True

    def user(self, credentials: list[bytes]) -> str | None:
        """See `Authenticator.user`; the mechanism's user name is ignored."""
        given = credentials[1] if len(credentials) == 2 else b""
        return "token" if hmac.compare_digest(given, self.token.text.encode()) else None

    def bound(self, address: str) -> None:
        """See `Authenticator.bound`; publish the token for peers started by hand."""
        self.token.publish(address)

    def close(self) -> None:
        """See `Authenticator.close`; remove the token's file."""
        super().close()
        self.token.remove()


#: Environment variable with the token, for processes started by a session.
TOKEN_VARIABLE: Final = "HILRT_PEER_TOKEN"
_TOKEN_FOLDER: Final = "peers"
_TOKEN_BYTES: Final = 24

log = logging.getLogger("hilrt.peers.hub")


class SessionToken:
    """Token by which a peer on a loopback address proves that it belongs to the master's account.

    TCP does not identify the process at the other end. The token is in the environment of processes
    that the session starts and, for those started by hand, in a file that only this account can
    read, named after the master's address. It is valid until the session ends.

    Attributes
    ----------
    text : str
    """

    def __init__(self) -> None:
        self.text = secrets.token_hex(_TOKEN_BYTES)
        self._folder: TemporaryFolder | None = None

    def publish(self, address: str) -> None:
        """Write the token's file for processes of this account that connect to `address`."""
        try:
            self._folder = TemporaryFolder(_TOKEN_FOLDER)
            path = self._folder.path / _file_name(address)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(self.text)
        except (ConfigError, OSError) as error:
            log.warning("solvers started by hand cannot connect by TCP: %s", error)

    def remove(self) -> None:
        """Remove the file; repeated calls have no effect."""
        if self._folder is not None:
            self._folder.remove()
            self._folder = None


class TokenOfPeer(NamedTuple):
    """A peer's credentials: the token, and its own name, which the mechanism requires."""

    name: str
    text: str

    def use(self, socket: Socket) -> None:
        """Present the token on all later connections of `socket`."""
        socket.plain_username = self.name.encode()
        socket.plain_password = self.text.encode()


def find_token(address: str) -> str | None:
    """Token of the session at `address`, from the environment or the account's file; else None."""
    if given := os.environ.get(TOKEN_VARIABLE):
        return given
    name = _file_name(address)
    remove_abandoned_folders()  # such as one of a killed session at this address
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}{_TOKEN_FOLDER}_*"):
        try:  # it may be removed at any time
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
