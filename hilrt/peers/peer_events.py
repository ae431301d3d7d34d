"""Changes of a peer that the master's side of the protocol tells its I/O."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from hilrt.peers.origin import Origin
from hilrt.peers.wire import Hello

#: Names a connection; chosen by the I/O, and never used again for another connection.
Connection = Hashable


class Accepted(NamedTuple):
    """The first hello of a peer was accepted."""

    name: str
    hello: Hello
    origin: Origin


class Left(NamedTuple):
    """A peer is lost and may come back."""

    name: str
    reason: str


class CameBack(NamedTuple):
    """A peer that had left is connected again and waits for `RemotePeer.initialize_again`."""

    name: str
    hello: Hello
    origin: Origin


class Contested(NamedTuple):
    """Another connection asked for the place of a peer; `text` says which, and what came of it."""

    name: str
    text: str


class Lost(NamedTuple):
    """A peer is lost for good."""

    name: str
    reason: str


class NotUsed(NamedTuple):
    """A message of a peer, or to it, was not used; `kind` as in `UnusedMessages.counters`."""

    name: str
    kind: str


PeerEvent = Accepted | Left | CameBack | Contested | Lost | NotUsed
