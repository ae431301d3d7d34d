"""The transport between machines: ZeroMQ over TCP, one ROUTER and many DEALER sockets.

The descriptor of a ZeroMQ socket is edge-triggered: it becomes readable at an event of the socket,
and stops being readable with the next operation on the socket, even a send.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from typing import Protocol

import zmq
from zmq.backend import zmq_poll

from hilrt.errors import ConfigError, ProtocolError
from hilrt.peers.addresses import is_loopback
from hilrt.peers.authenticator import Authenticator
from hilrt.peers.transport.base import (
    QUEUE_MESSAGES,
    SPARE_CONNECTIONS,
    ClientTransport,
    Origin,
    ServerTransport,
)
from hilrt.peers.transport.connection_limiter import REFUSED, ConnectionLimiter
from hilrt.peers.wire import MAX_MESSAGE_BYTES

_NOBLOCK = int(zmq.NOBLOCK)
_NOBLOCK_MORE = _NOBLOCK | int(zmq.SNDMORE)
_POLLIN = int(zmq.POLLIN)
#: Larger messages are not buffered, and their sender is disconnected.
_MAX_BUFFERED_BYTES = 2 * MAX_MESSAGE_BYTES
#: Time limit for establishing a connection, ms.
_HANDSHAKE_MS = 5000
#: Number of ended connections to remember, because more of their messages may be queued.
_CUT_OFF = 64


class Router(ServerTransport):
    """The master's end; a connection's key is its routing id.

    Parameters
    ----------
    listen : str
        Endpoint to bind; a port ``*`` takes a free one.
    authenticator : Authenticator, optional
        Admits only peers with a known key.

    Attributes
    ----------
    address : str
        The bound endpoint.

    Raises
    ------
    ConfigError
        If the endpoint cannot be bound.
    """

    def __init__(self, listen: str, authenticator: Authenticator | None = None) -> None:
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._authenticator = authenticator
        if authenticator is not None:
            authenticator.guard(self._context, self._socket)
        self._connections = ConnectionLimiter(self._context, self._socket)
        self._newest: zmq.Frame | None = None
        #: Ended connections, of which more messages may be queued.
        self._cut_off: dict[bytes, None] = {}
        self._socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        _bound_queues(self._socket)
        # Sending to a lost peer fails at once; otherwise the message would be dropped silently.
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # Runs in the I/O thread: detects a dead host even while a solver computes a long step.
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, 1000)
        self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 10_000)
        try:
            self._socket.bind(listen)
        except zmq.ZMQError as error:
            self._close_guards()
            self._context.destroy(linger=0)
            raise ConfigError(
                f"[master] listen = {listen!r}: {error.strerror}; "
                "choose a free address of this machine, such as tcp://127.0.0.1:*"
            ) from None
        self._connections.bound()
        self.address = self._socket.get_string(zmq.LAST_ENDPOINT)
        if authenticator is not None:
            authenticator.bound(self.address)
        # With cold processor caches, this call is several times cheaper than reading EVENTS, or
        # than catching the exception of a receive that finds nothing.
        self._readables = [(self._socket, _POLLIN)]
        self._send = _plain_send(self._socket)
        self._fd = int(self._socket.get(zmq.FD))

    def fileno(self) -> int:
        """See `ServerTransport.fileno`; edge-triggered, see the module's docstring."""
        return self._fd

    def waiting(self) -> bool:
        """See `ServerTransport.waiting`."""
        return bool(zmq_poll(self._readables, 0))

    def receive(self, accept: bool = True) -> Iterator[tuple[bytes, bytes | Exception]]:
        """See `ServerTransport.receive`; ZeroMQ accepts, only `send` detects closed connections."""
        while zmq_poll(self._readables, 0):
            identity = self._socket.recv(_NOBLOCK)
            frame = self._socket.recv(_NOBLOCK, copy=False)
            self._newest, several = frame, frame.more
            if several:
                while self._socket.get(zmq.RCVMORE):
                    self._socket.recv(_NOBLOCK, copy=False)
            if identity in self._cut_off:
                continue
            if several or len(frame) > MAX_MESSAGE_BYTES or identity[0]:
                yield identity, _why_unusable(several, len(frame))
            else:
                yield identity, frame.bytes

    def origin(self) -> Origin:
        """See `ServerTransport.origin`: the address, and the owner of its key or token."""
        address, user = self._said("Peer-Address"), self._said("User-Id")
        names, where = None, f"{address or 'this machine'} by TCP"
        if self._authenticator is not None and user:
            names = self._authenticator.names(user)
        if names is not None:
            where += f" with the key of {' and '.join(sorted(names))}"
        return Origin(where, names, local=not address or is_loopback(address))

    def _said(self, what: str) -> str:
        """A property of the newest message's connection, from ZeroMQ; empty if it has none."""
        with contextlib.suppress(zmq.ZMQError):
            return "" if self._newest is None else str(self._newest.get(what))
        return ""

    def end(self, key: bytes) -> None:
        """See `ServerTransport.end`: shut down its descriptor, as ZeroMQ has no call for it."""
        self._cut_off[key] = None
        if len(self._cut_off) > _CUT_OFF:
            del self._cut_off[next(iter(self._cut_off))]
        with contextlib.suppress(zmq.ZMQError, OSError):
            if self._newest is not None:
                descriptor = os.dup(int(self._newest.get(zmq.SRCFD)))
                with socket.socket(fileno=descriptor) as connection:
                    if self._is_of_newest(connection):
                        connection.shutdown(socket.SHUT_RDWR)

    def _is_of_newest(self, connection: socket.socket) -> bool:
        """Whether a descriptor may still belong to the newest message's connection.

        The connection may have been closed, and its number reused for another socket.
        """
        here = connection.getsockname()
        if not isinstance(here, tuple):
            return self.address == f"ipc://{os.fsdecode(here)}"
        port = self.address.rpartition(":")[2]
        return str(here[1]) == port and connection.getpeername()[0] == self._said("Peer-Address")

    def expect(self, expected: bool, peers: int) -> None:
        """See `ServerTransport.expect`."""
        self._connections.limit = peers + SPARE_CONNECTIONS
        self._connections.expect(expected)

    def poll(self) -> list[ProtocolError]:
        """See `ServerTransport.poll`."""
        events, authenticator = self._connections.poll(), self._authenticator
        if authenticator is None:
            return []
        kinds = [authenticator.refused] * authenticator.poll()
        # ZeroMQ also reports a wrong secret, after the answer.
        kinds += [authenticator.missing for event in events if event != REFUSED]
        return [ProtocolError(f"refused: {authenticator.texts[k]}", k) for k in kinds]

    def send(self, key: bytes, data: bytes) -> None:
        """See `ServerTransport.send`."""
        try:
            self._send(key, _NOBLOCK_MORE)
            self._send(data, _NOBLOCK)
        except zmq.Again:
            raise BlockingIOError from None
        except zmq.ZMQError as error:
            closed = error.errno == zmq.EHOSTUNREACH
            raise (BrokenPipeError if closed else OSError)(error.errno, error.strerror) from None

    def close(self, linger_ms: int) -> None:
        """See `ServerTransport.close`."""
        self._close_guards()
        self._newest = None
        self._socket.close(linger=linger_ms)
        self._context.term()

    def _close_guards(self) -> None:
        self._connections.close()
        if self._authenticator is not None:
            self._authenticator.close()


class ClientCredentials(Protocol):
    """Credentials that a peer presents to the master: its keys, or the session's token."""

    def use(self, socket: zmq.Socket[bytes]) -> None:
        """Present them on all later connections of `socket`."""


class Dealer(ClientTransport):
    """A peer's end; ZeroMQ connects and reconnects on its own.

    Raises
    ------
    ConfigError
        If the address is invalid.
    """

    def __init__(self, address: str, credentials: ClientCredentials | None = None) -> None:
        self._context = zmq.Context()
        self.pollable: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        _bound_queues(self.pollable)
        if credentials is not None:
            credentials.use(self.pollable)
        self._readables = [(self.pollable, _POLLIN)]
        self._send = _plain_send(self.pollable)
        self._timeout_ms = -1
        try:
            self.pollable.connect(address)
        except zmq.ZMQError as error:
            self.close(0)
            raise ConfigError(
                f"--connect {address}: {error.strerror}; "
                "write the master's address as tcp://HOST:PORT"
            ) from None

    def receive(self, timeout_ms: int) -> bytes | None:
        """See `ClientTransport.receive`; a single blocking call has the lowest latency."""
        if timeout_ms == 0:
            return self.pollable.recv(_NOBLOCK) if zmq_poll(self._readables, 0) else None
        if timeout_ms != self._timeout_ms:
            self.pollable.setsockopt(zmq.RCVTIMEO, timeout_ms)
            self._timeout_ms = timeout_ms
        try:
            return self.pollable.recv()
        except zmq.Again:
            return None

    def send(self, data: bytes) -> None:
        """See `ClientTransport.send`."""
        try:
            self._send(data, _NOBLOCK)
        except zmq.Again:
            raise BlockingIOError from None

    def close(self, linger_ms: int) -> None:
        """See `ClientTransport.close`."""
        self.pollable.close(linger=linger_ms)
        self._context.term()


def _plain_send(socket: zmq.Socket[bytes]) -> Callable[[bytes, int], object]:
    """The compiled `send` of a socket.

    `zmq.Socket.send` wraps it for the options of draft sockets, which doubles its time.
    """
    return super(zmq.Socket, socket).send


def _why_unusable(several: bool, size: int) -> ProtocolError:
    """Reason why a message is rejected before decoding."""
    if several:
        return ProtocolError("a message of more than one frame")
    if size > MAX_MESSAGE_BYTES:  # not worth a copy
        text = f"message of {size} bytes; at most {MAX_MESSAGE_BYTES} are accepted"
        return ProtocolError(text, "oversized")
    # After this connection has ended, another one could use the same id.
    return ProtocolError("it has set a routing id; leave it unset", "rejected")


def _bound_queues(socket: zmq.Socket[bytes]) -> None:
    socket.setsockopt(zmq.SNDHWM, QUEUE_MESSAGES)
    socket.setsockopt(zmq.RCVHWM, QUEUE_MESSAGES)
    socket.setsockopt(zmq.MAXMSGSIZE, _MAX_BUFFERED_BYTES)
