"""Interfaces of transports: the hub's side, a peer's side, and the origin of a message."""

from __future__ import annotations

import abc
import os
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from hilrt.errors import ProtocolError

#: Maximum messages queued per connection and direction; more are refused.
QUEUE_MESSAGES = 1000
#: Number of connections that each transport permits beyond the session's peers.
SPARE_CONNECTIONS = 64


class ServerTransport(abc.ABC):
    """Server side of a transport: accepts peers and receives their messages; never blocks.

    A connection is identified by a key of the transport's choice, which is never reused.
    """

    @abc.abstractmethod
    def fileno(self) -> int:
        """Descriptor to watch; it may be reported readable once without anything to read."""

    @abc.abstractmethod
    def waiting(self) -> bool:
        """Whether there is something to read; call it before watching the descriptor."""

    @abc.abstractmethod
    def receive(self, accept: bool = True) -> Iterator[tuple[Hashable, bytes | Exception]]:
        """Yield received messages, with their connections' keys, until there are no more.

        Connections are served in turn. Without `accept`, new connections stay pending.

        Instead of a message there may be a `ProtocolError` (it was invalid) or a `BrokenPipeError`
        (the connection is closed, and all its messages have been read).
        """

    @abc.abstractmethod
    def origin(self) -> Origin:
        """Origin of the last message received."""

    @abc.abstractmethod
    def end(self, key: Any) -> None:
        """End the connection `key`, that of the last message; it is not reported as closed."""

    @abc.abstractmethod
    def expect(self, expected: bool, peers: int) -> None:
        """Set whether a peer is missing, and the number of peers; both limit connections."""

    @abc.abstractmethod
    def poll(self) -> list[ProtocolError]:
        """Accept pending connections, a few at a time; return those refused.

        To be called occasionally, not at every tick.
        """

    @abc.abstractmethod
    def send(self, key: Any, data: bytes) -> None:
        """Send a message.

        Raises
        ------
        BlockingIOError
            If the peer does not read, and its queue is full.
        BrokenPipeError
            If the connection is closed. Messages that it sent before may still be pending.
        OSError
            If it cannot be sent for another reason.
        """

    @abc.abstractmethod
    def close(self, linger_ms: int) -> None:
        """Close all connections after up to `linger_ms` [ms] for messages still to be sent."""


class ClientTransport(abc.ABC):
    """A peer's connection to the master.

    Attributes
    ----------
    pollable : object
        For `zmq.Poller` and `zmq_poll`: a socket or a descriptor.
    broken : bool
        Set when the master's end is closed and all its messages were received. Nothing more will
        arrive, and `pollable` stays readable.
    """

    pollable: Any
    broken: bool = False

    @abc.abstractmethod
    def receive(self, timeout_ms: int) -> bytes | None:
        """Next message; None if none arrives within `timeout_ms` [ms]. Does not block with 0."""

    @abc.abstractmethod
    def send(self, data: bytes) -> None:
        """Send without waiting.

        Raises
        ------
        BlockingIOError
            If the master does not read, and the queue is full.
        BrokenPipeError
            If the master's end is closed.
        OSError
            If it cannot be sent for another reason.
        """

    @abc.abstractmethod
    def close(self, linger_ms: int) -> None:
        """Close after up to `linger_ms` [ms] for messages still to be sent; may be repeated."""


class Origin(NamedTuple):
    """Origin of a message.

    Attributes
    ----------
    where : str
        Text for messages: process and account, or address and key.
    names : frozenset of str, optional
        Subsystems that its key admits; None: any name.
    local : bool
        Whether its process is on this machine, so that process numbers are meaningful.
    pid : int
        Number of its process, from the kernel; 0 if the transport does not provide it.
    """

    where: str
    names: frozenset[str] | None = None
    local: bool = False
    pid: int = 0

    def described(self, said_pid: int) -> str:
        """Describe the origin, with the process number claimed by the message (0: none)."""
        claims = said_pid and not self.pid
        return self.where + (f" (according to itself, process {said_pid})" if claims else "")


UNKNOWN = Origin("an unknown address")


def process_group(origin: Origin, said_pid: int) -> int | None:
    """Number of the origin's process group; 0 on another machine, None if unknown.

    `said_pid` is the number stated by the peer itself, used where the kernel gives none.
    """
    if not origin.local:
        return 0
    pid = origin.pid or said_pid
    if pid <= 0 or not hasattr(os, "getpgid"):
        return None
    try:
        return os.getpgid(pid)
    except OSError:
        return None
