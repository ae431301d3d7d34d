"""The transport between machines: ZeroMQ over TCP, one ROUTER and many DEALER sockets.

The descriptor of a ZeroMQ socket reports *edges*: it becomes readable when something has happened
to the socket and stops being so with the next operation on it, whichever that is, even a send.
"""

from __future__ import annotations

from collections.abc import Iterator

import zmq
from zmq.backend import zmq_poll

from hilrt.errors import ConfigError, ProtocolError
from hilrt.peers.keys import Authenticator, PeerKeys
from hilrt.peers.transport.base import QUEUE_MESSAGES, ClientTransport, ServerTransport
from hilrt.peers.wire import MAX_MESSAGE_BYTES

_NOBLOCK = int(zmq.NOBLOCK)
_NOBLOCK_MORE = _NOBLOCK | int(zmq.SNDMORE)
_POLLIN = int(zmq.POLLIN)
#: Larger than the protocol allows by far: the sender is disconnected, nothing is buffered.
_MAX_BUFFERED_BYTES = 16 * MAX_MESSAGE_BYTES


class Router(ServerTransport):
    """The master's end; a connection's key is its routing id.

    Parameters
    ----------
    listen : str
        Endpoint to bind; a port ``*`` takes a free one.
    authenticator : Authenticator, optional
        Lets only peers with a known key in.

    Attributes
    ----------
    address : str
        The endpoint that was bound.

    Raises
    ------
    ConfigError
        If the endpoint cannot be bound.
    """

    def __init__(self, listen: str, authenticator: Authenticator | None = None) -> None:
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        if authenticator is not None:
            authenticator.guard(self._context, self._socket)
        _bound_queues(self._socket)
        # A send to a peer that has gone fails at once, instead of vanishing.
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # Kept by the I/O thread: finds a dead host even while a solver computes a long step.
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, 1000)
        self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 10_000)
        try:
            self._socket.bind(listen)
        except zmq.ZMQError as error:
            if authenticator is not None:
                authenticator.close()
            self._context.destroy(linger=0)
            raise ConfigError(
                f"[master] listen = {listen!r}: {error.strerror}; "
                "choose a free address of this machine, such as tcp://127.0.0.1:*"
            ) from None
        self.address = self._socket.get_string(zmq.LAST_ENDPOINT)
        # Asking this way is several times cheaper than reading EVENTS, or than catching the
        # exception of a receive that finds nothing, when the processor's caches are cold.
        self._readables = [(self._socket, _POLLIN)]
        self._fd = int(self._socket.get(zmq.FD))

    def fileno(self) -> int:
        """See `ServerTransport.fileno`; edges, see the module's docstring."""
        return self._fd

    def waiting(self) -> bool:
        """See `ServerTransport.waiting`."""
        return bool(zmq_poll(self._readables, 0))

    def take(self) -> Iterator[tuple[bytes, bytes | Exception]]:
        """See `ServerTransport.take`; of a connection that closed, only `send` tells."""
        while zmq_poll(self._readables, 0):
            identity = self._socket.recv(_NOBLOCK)
            frame = self._socket.recv(_NOBLOCK, copy=False)
            if frame.more:
                while self._socket.get(zmq.RCVMORE):
                    self._socket.recv(_NOBLOCK)
                yield identity, ProtocolError("a message of more than one frame")
            else:
                yield identity, frame.bytes

    def send(self, key: bytes, data: bytes) -> None:
        """See `ServerTransport.send`."""
        try:
            self._socket.send(key, _NOBLOCK_MORE)
            self._socket.send(data, _NOBLOCK)
        except zmq.Again:
            raise BlockingIOError from None
        except zmq.ZMQError as error:
            closed = error.errno == zmq.EHOSTUNREACH
            raise (BrokenPipeError if closed else OSError)(error.errno, error.strerror) from None

    def close(self, linger_ms: int) -> None:
        """See `ServerTransport.close`."""
        self._socket.close(linger=linger_ms)
        self._context.term()


class Dealer(ClientTransport):
    """A peer's end; ZeroMQ connects, and connects again, by itself.

    Raises
    ------
    ConfigError
        If the address is not one.
    """

    def __init__(self, address: str, keys: PeerKeys | None = None) -> None:
        self._context = zmq.Context()
        self.pollable: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        _bound_queues(self.pollable)
        if keys is not None:
            keys.use(self.pollable)
        self._readables = [(self.pollable, _POLLIN)]
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
        """See `ClientTransport.receive`; a single blocking call has the least latency."""
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
            self.pollable.send(data, _NOBLOCK)
        except zmq.Again:
            raise BlockingIOError from None

    def close(self, linger_ms: int) -> None:
        """See `ClientTransport.close`."""
        self.pollable.close(linger=linger_ms)
        self._context.term()


def _bound_queues(socket: zmq.Socket[bytes]) -> None:
    socket.setsockopt(zmq.SNDHWM, QUEUE_MESSAGES)
    socket.setsockopt(zmq.RCVHWM, QUEUE_MESSAGES)
    socket.setsockopt(zmq.MAXMSGSIZE, _MAX_BUFFERED_BYTES)
