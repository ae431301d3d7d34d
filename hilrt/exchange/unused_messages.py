"""Messages that came to the hub and were not used: how many of which peer and kind, and why."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable

log = logging.getLogger("hilrt.exchange.hub")

#: Counts of messages from connections that never said a valid hello.
STRANGER = "?"
#: Kinds that count as a message of the link that is lost.
LOST_KINDS = frozenset({"inbox_full", "send_lost"})
#: Kinds that count as a message of the link that came and could not be used.
DROPPED_KINDS = frozenset({"malformed", "unknown_type", "oversized"})
#: Kinds for which a connection that never said a valid hello was not let in.
REFUSED_KINDS = DROPPED_KINDS | {"rejected", "unknown_sender", "unknown_key", "no_key"}


class UnusedMessages:
    """Counts them, and remembers the newest of each peer and kind.

    Parameters
    ----------
    clock : callable
        Monotonic clock, integer ns.

    Attributes
    ----------
    counters : Counter of (str, str)
        By peer and kind.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.counters: Counter[tuple[str, str]] = Counter()
        self._clock = clock
        self._found: dict[tuple[str, str], tuple[int, str]] = {}

    def count(self, name: str, kind: str, text: str) -> None:
        """Count one; the first of each peer and kind is logged."""
        self.counters[name, kind] += 1
        self._found[name, kind] = self._clock(), text
        if self.counters[name, kind] == 1:
            who = f"subsystem {name!r}" if name != STRANGER else "a connection"
            log.warning("%s: %s: %s; more of these are only counted", who, kind, text)

    def why_dropped(self, name: str) -> str:
        """The newest message of a peer that could not be used, and why; empty if there is none."""
        # A peer of another version may well send types that nobody here misses.
        newest = self._newest(name, DROPPED_KINDS - {"unknown_type"})
        newest = newest or self._newest(name, {"unknown_type"})
        return newest and f"the newest message of it that was dropped came {newest}"

    def why_refused(self, name: str) -> str:
        """Why a peer that is waited for, or else some connection, was not let in; or empty."""
        if newest := self._newest(name, {"rejected"}):
            return f"its hello was rejected {newest}"
        newest = self._newest(STRANGER, REFUSED_KINDS)
        return newest and f"a connection was refused {newest}"

    def _newest(self, name: str, kinds: Iterable[str]) -> str:
        found = [self._found[name, kind] for kind in kinds if (name, kind) in self._found]
        if not found:
            return ""
        when_ns, text = max(found)
        return f"{(self._clock() - when_ns) * 1e-9:.1f} s ago: {text}"
