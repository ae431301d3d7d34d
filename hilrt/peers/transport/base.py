"""Interfaces of transports: the hub's end, a peer's end, and the process behind a message."""

from __future__ import annotations

import abc
import os
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from hilrt.errors import ProtocolError

#: Messages queued per connection in each direction before more are refused.
QUEUE_MESSAGES = 1000
#: Connections that each transport holds beside those of the session's peers; where a connection is
#: unknown until its first message, also the number accepted within a second.
SPARE_CONNECTIONS = 64


class ServerTransport(abc.ABC):
    """Server side of a transport: accepts peers and receives their messages; never blocks.

    A connection is known by a key of the transport's choice, which is never used again for another.
    """

    @abc.abstractmethod
    def fileno(self) -> int:
        """Descriptor to watch; it may be readable, once, although there is nothing to take."""

    @abc.abstractmethod
    def waiting(self) -> bool:
        """Whether there is something to take. It must be asked before the descriptor is watched."""

    @abc.abstractmethod
    def take(self, accept: bool = True) -> Iterator[tuple[Hashable, bytes | Exception]]:
        """Yield received messages, with their connections' keys, until there are no more.

        Connections take turns. Without `accept`, new ones stay where they are.

        In place of a message there may be a `ProtocolError` (it was invalid) or a
        `BrokenPipeError` (the connection is closed; all it had sent has been taken).
        """

    @abc.abstractmethod
    def origin(self) -> Origin:
        """Origin of the last message taken."""

    @abc.abstractmethod
    def end(self, key: Any) -> None:
        """End the connection from which a message was just taken; it is not reported as closed."""

    @abc.abstractmethod
    def expect(self, expected: bool, peers: int) -> None:
        """Say whether a peer is missing, and how many the session has: both limit connections."""

    @abc.abstractmethod
    def look(self) -> list[ProtocolError]:
        """Accept pending connections, a few at a time; return those refused.

        To be called now and then, not at every tick.
        """

    @abc.abstractmethod
    def send(self, key: Any, data: bytes) -> None:
        """Send a message.

        Raises
        ------
        BlockingIOError
            If the peer does not read, and its queue is full.
        BrokenPipeError
            If the connection is closed. What it had sent before may still be there to take.
        OSError
            If it cannot be sent for another reason.
        """

    @abc.abstractmethod
    def close(self, linger_ms: int) -> None:
        """Close all connections; sent messages get a moment to leave."""


class ClientTransport(abc.ABC):
    """A peer's connection to the master.

    Attributes
    ----------
    pollable : object
        For `zmq.Poller` and `zmq_poll`: a socket or a descriptor.
    broken : bool
        Set when the master's end is closed and everything it had sent was received. Nothing will
        come any more, and `pollable` is readable for ever.
    """

    pollable: Any
    broken: bool = False

    @abc.abstractmethod
    def receive(self, timeout_ms: int) -> bytes | None:
        """The next message; None when none comes in time. Does not block with 0."""

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
        """Close; sent messages get a moment to leave. May be called twice."""


class Origin(NamedTuple):
    """Origin of a message.

    Attributes
    ----------
    where : str
        For people: process and account, or address and key.
    names : frozenset of str, optional
        Subsystems that its key admits; None: its transport admits it under any name.
    local : bool
        Whether it is on this machine, so that process numbers mean something here.
    pid : int
        Its process, told by the kernel; 0 if the transport does not know it.
    """

    where: str
    names: frozenset[str] | None = None
    local: bool = False
    pid: int = 0

    def described(self, said_pid: int) -> str:
        """Text on where a message came from, with the process that it claims (0: none)."""
        claims = said_pid and not self.pid
        return self.where + (f" (according to itself, process {said_pid})" if claims else "")


UNKNOWN = Origin("an unknown address")


def process_group(origin: Origin, said_pid: int) -> int | None:
    """Number of its process group; 0 on another machine, None if it cannot be told.

    `said_pid` is what the other side says of itself, which counts where the kernel says nothing.
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
