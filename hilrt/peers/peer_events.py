"""Events that the protocol passes to its I/O: changes of a peer, and unused messages."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import NamedTuple

from hilrt.peers.transport.base import Origin
from hilrt.peers.wire import Hello

#: Key of a connection; chosen by the I/O, and never reused.
Connection = Hashable


class Accepted(NamedTuple):
    """The first hello of a peer was accepted."""

    name: str
    hello: Hello
    origin: Origin


class Left(NamedTuple):
    """A peer is lost and may return."""

    name: str
    reason: str


class CameBack(NamedTuple):
    """A peer that was away has reconnected and waits for `RemotePeer.initialize_again`."""

    name: str
    hello: Hello
    origin: Origin


class Contested(NamedTuple):
    """Another connection requested the name of a peer; `text` describes both and the result."""

    name: str
    text: str


class Lost(NamedTuple):
    """A peer is permanently lost."""

    name: str
    reason: str


class NotUsed(NamedTuple):
    """A message from or to a peer was not used; `kind` as in `UnusedMessages.counters`."""

    name: str
    kind: str


PeerEvent = Accepted | Left | CameBack | Contested | Lost | NotUsed


log = logging.getLogger("hilrt.peers.hub")

#: Name under which messages of connections without a valid hello are counted.
STRANGER = "?"
#: Kinds that count as a lost message of the link.
LOST_KINDS = frozenset({"send_lost"})
#: Kinds that count as a received but unusable message of the link.
DROPPED_KINDS = frozenset({"malformed", "unknown_type", "oversized"})
#: Kinds that explain why a connection without a valid hello was not accepted.
REFUSED_KINDS = DROPPED_KINDS | {
    "rejected",
    "unknown_sender",
    "unknown_key",
    "no_key",
    "unknown_token",
    "no_token",
}


class UnusedMessages:
    """Counts of unused messages, and the newest of each peer and kind; times: master's clock, ns.

    Attributes
    ----------
    counters : Counter of (str, str)
        By peer and kind: ``malformed``, ``unknown_type``, ``oversized``, ``unexpected``,
        ``unknown_sender``, ``rejected``, ``send_lost``, ``flood``; connections
        refused: ``unknown_key``, ``no_key``, ``unknown_token``, ``no_token``.
    """

    def __init__(self) -> None:
        self.counters: Counter[tuple[str, str]] = Counter()
        self._found: dict[tuple[str, str], tuple[int, str]] = {}

    def count(self, name: str, kind: str, text: str, now_ns: int) -> None:
        """Count one message; the first of each peer and kind is logged."""
        self.counters[name, kind] += 1
        self._found[name, kind] = now_ns, text
        if self.counters[name, kind] == 1:
            sender = f"subsystem {name!r}" if name != STRANGER else "a connection"
            log.warning("%s: %s: %s; more of these are only counted", sender, kind, text)

    def why_dropped(self, name: str, now_ns: int) -> str:
        """Newest unusable message of a peer, and the reason; empty if there is none."""
        # A peer of another version may send types that this one does not need.
        newest = self._newest(name, DROPPED_KINDS - {"unknown_type"}, now_ns)
        newest = newest or self._newest(name, {"unknown_type"}, now_ns)
        return newest and f"its newest dropped message arrived {newest}"

    def why_refused(self, name: str, now_ns: int) -> str:
        """Reason why an expected peer, or any connection, was not admitted; empty without one."""
        if newest := self._newest(name, {"rejected"}, now_ns):
            return f"its hello was rejected {newest}"
        newest = self._newest(STRANGER, REFUSED_KINDS, now_ns)
        return newest and f"a connection was refused {newest}"

    def strangers(self) -> dict[str, int]:
        """Numbers of connections that were not admitted, by kind."""
        found: Counter[str] = Counter()
        for (name, kind), number in self.counters.items():
            if name == STRANGER or kind == "rejected":
                found[kind] += number
        return dict(sorted(found.items()))

    def _newest(self, name: str, kinds: Iterable[str], now_ns: int) -> str:
        found = [self._found[name, kind] for kind in kinds if (name, kind) in self._found]
        if not found:
            return ""
        when_ns, text = max(found)
        return f"{(now_ns - when_ns) * 1e-9:.1f} s ago: {text}"
