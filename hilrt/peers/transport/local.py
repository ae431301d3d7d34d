"""The transport within a machine (Linux): Unix sockets with message boundaries (SOCK_SEQPACKET).

A ZeroMQ socket has its own I/O thread, so that a message wakes three threads in turn; here it wakes
only the thread that waits for it. With fewer processors than processes, waking threads dominates
the time of an exchange: with 4 solver processes on 2 processors, 103 µs were measured instead of
244 µs over TCP (`tools/benchmarks/bench_exchange.py`).

A hub listens at its endpoint and also under the same name in the abstract namespace, which can be
reached like the loopback interface. A peer of the same user tries the abstract name first, and
uses the endpoint if no hub listens there. No configuration is needed.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from collections.abc import Iterator

from hilrt.errors import ProtocolError
from hilrt.peers.transport.base import SPARE_CONNECTIONS, ClientTransport, Origin, ServerTransport
from hilrt.peers.wire import MAX_MESSAGE_BYTES

#: Requested buffer of each connection and direction, bytes; the kernel may grant less.
QUEUE_BYTES = 1 << 20
#: Maximum message size, because a message must fit in the queue; peers with larger ones use ZeroMQ.
MAX_BYTES = 100_000
#: Connections accepted per poll, which limits the time that a flood takes from a tick.
MAX_ACCEPTED = 4
_BACKLOG = 64
#: User whose processes are trusted in addition to this user's.
ROOT = 0
# A message truncated at this length is rejected as too large when decoded.
BUFFER_BYTES = MAX_MESSAGE_BYTES + 1
_NOWAIT = getattr(socket, "MSG_DONTWAIT", 0)
_SEND = _NOWAIT | int(getattr(socket, "MSG_NOSIGNAL", 0))


def available() -> bool:
    """Whether this system supports the transport."""
    return sys.platform == "linux"


class LocalServer(ServerTransport):
    """The master's end; a connection's key is its socket.

    Parameters
    ----------
    address : str
        Endpoint of the ZeroMQ transport, by which peers find this one.

    Attributes
    ----------
    connections : dict of int to socket
        Accepted connections, by descriptor.

    Raises
    ------
    OSError
        If another process already uses that name.
    """

    def __init__(self, address: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._listener.bind(abstract_name(address))
        except OSError:
            self._listener.close()
            raise
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        self._epoll = select.epoll()
        self._epoll.register(self._listener, select.EPOLLIN)
        # Polling is several times cheaper than an accept that finds nothing and raises.
        self._accept_poll = select.poll()
        self._accept_poll.register(self._listener, select.POLLIN)
        self.connections: dict[int, socket.socket] = {}
        self._newest: socket.socket | None = None
        self._limit = SPARE_CONNECTIONS
        self._expected = True
        self._refused: list[ProtocolError] = []
        self._buffer = bytearray(BUFFER_BYTES)

    def fileno(self) -> int:
        """See `ServerTransport.fileno`; readable as long as there is something to read."""
        return self._epoll.fileno()

    def waiting(self) -> bool:
        """See `ServerTransport.waiting`."""
        return bool(self._epoll.poll(0, 1))

    def receive(self, accept: bool = True) -> Iterator[tuple[socket.socket, bytes | Exception]]:
        """See `ServerTransport.receive`."""
        accepted = 0 if accept else MAX_ACCEPTED
        while ready := self._epoll.poll(0):
            for fd, _ in ready:
                connection = self.connections.get(fd)
                if connection is None:
                    accepted += 1
                    if accepted <= MAX_ACCEPTED:
                        self._accept()
                    elif len(ready) == 1:  # all other messages have been read
                        return
                elif (message := _receive(connection, self._buffer, _NOWAIT)) is not None:
                    if isinstance(message, BrokenPipeError):
                        self._forget(connection)
                    self._newest = connection
                    yield connection, message

    def origin(self) -> Origin:
        """See `ServerTransport.origin`: process data from the kernel."""
        if self._newest is None or self._newest.fileno() < 0:
            return Origin("a process of this machine that has ended", local=True)
        pid, user = _process_and_user(self._newest)
        account = "this account" if user == os.geteuid() else "root"
        return Origin(f"process {pid} of {account}", local=True, pid=pid)

    def end(self, key: socket.socket) -> None:
        """See `ServerTransport.end`."""
        if key.fileno() >= 0:
            self._forget(key)

    def expect(self, expected: bool, peers: int) -> None:
        """See `ServerTransport.expect`: without it, only `poll` accepts connections."""
        self._limit = peers + SPARE_CONNECTIONS
        if expected != self._expected and self._listener.fileno() >= 0:  # it may be closed
            self._expected = expected
            if expected:
                self._epoll.register(self._listener, select.EPOLLIN)
            else:
                self._epoll.unregister(self._listener)

    def poll(self) -> list[ProtocolError]:
        """See `ServerTransport.poll`."""
        for _ in range(MAX_ACCEPTED):
            if not self._accept_poll.poll(0):
                break
            self._accept()
        refused, self._refused = self._refused, []
        return refused

    def send(self, key: socket.socket, data: bytes) -> None:
        """See `ServerTransport.send`."""
        if key.fileno() < 0:
            raise BrokenPipeError
        _send(key, data)

    def close(self, linger_ms: int) -> None:
        """See `ServerTransport.close`; sent messages can still be received afterwards."""
        self._epoll.close()
        self._listener.close()
        for connection in self.connections.values():
            connection.close()
        self.connections.clear()

    def _accept(self) -> None:
        """Accept a new connection, or refuse it."""
        try:
            connection, _ = self._listener.accept()
        except OSError:  # the peer has given up, or descriptors are exhausted
            return
        if len(self.connections) >= self._limit:
            refused = f"more than {self._limit} connections"
        elif not _is_trusted(connection):
            refused = "a process of another user"
        else:
            _make_room(connection)
            self._epoll.register(connection, select.EPOLLIN)
            self.connections[connection.fileno()] = connection
            return
        connection.close()
        self._refused.append(ProtocolError(refused, "rejected"))

    def _forget(self, connection: socket.socket) -> None:
        self._epoll.unregister(connection)
        del self.connections[connection.fileno()]
        connection.close()


class LocalClient(ClientTransport):
    """A peer's end."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.pollable: int = connection.fileno()
        self._buffer = bytearray(BUFFER_BYTES)
        self._timeout_ms = 0

    def receive(self, timeout_ms: int) -> bytes | None:
        """See `ClientTransport.receive`."""
        if timeout_ms and timeout_ms != self._timeout_ms:
            whole, rest = divmod(timeout_ms, 1000)
            timeval = struct.pack("@ll", whole, rest * 1000)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)
            self._timeout_ms = timeout_ms
        message = _receive(self._socket, self._buffer, 0 if timeout_ms else _NOWAIT)
        if isinstance(message, BrokenPipeError):
            self.broken = True
            return None
        return message

    def send(self, data: bytes) -> None:
        """See `ClientTransport.send`."""
        _send(self._socket, data)

    def close(self, linger_ms: int) -> None:
        """See `ClientTransport.close`; sent messages can still be received afterwards."""
        self._socket.close()


def connect(address: str) -> LocalClient | None:
    """Connect to the hub with this endpoint, if it belongs to the same machine and user."""
    if not available():
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.setblocking(False)
        connection.connect(abstract_name(address))
        if not _is_trusted(connection):
            raise PermissionError
        connection.setblocking(True)
        _make_room(connection)
    except OSError:
        connection.close()
        return None
    return LocalClient(connection)


def abstract_name(address: str) -> bytes:
    """Name under which a hub with this endpoint listens."""
    return b"\0hilrt " + address.encode()


def _is_trusted(connection: socket.socket) -> bool:
    """Whether the other end belongs to this user or root: abstract names have no permissions."""
    return _process_and_user(connection)[1] in (os.geteuid(), ROOT)


def _process_and_user(connection: socket.socket) -> tuple[int, int]:
    """Process and account of the other end, from the kernel."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, user, _ = struct.unpack("3i", data)
    return pid, user


def _make_room(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, QUEUE_BYTES)


def _send(connection: socket.socket, data: bytes) -> None:
    try:
        connection.send(data, _SEND)
    except ConnectionResetError:
        raise BrokenPipeError from None


def _receive(
    connection: socket.socket, buffer: bytearray, flags: int
) -> bytes | BrokenPipeError | None:
    """The next message; None if there is none, the error if the connection is closed."""
    while True:
        try:
            size = connection.recv_into(buffer, 0, flags)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            continue  # reported once, ahead of messages sent before
        except OSError as error:
            return BrokenPipeError(error.errno, error.strerror)
        if size == 0:
            return BrokenPipeError("the connection closed")
        return bytes(memoryview(buffer)[:size])
