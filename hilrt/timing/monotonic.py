"""The monotonic clock of sessions, readable without an event loop, and the silence of peers."""

from __future__ import annotations

import sys
import time

#: Reading, ns. On Windows, `time.monotonic_ns` advances in steps of 16 ms.
monotonic_ns = time.perf_counter_ns if sys.platform == "win32" else time.monotonic_ns


# Time since the last message from a peer, without the time in which this process was stalled.
#
# A stalled process (its machine sleeps, or other processes use the processor) receives nothing, so
# a stall looks as if all peers were silent at once. Stalls therefore do not count as silence, up to
# a limit: otherwise a process that keeps stalling could not detect that a peer is gone.

#: Limit of the stalls since the last message that are not counted as silence, ns.
STALL_LIMIT_NS = 1_000_000_000


class LastHeard:
    """Time of the newest message, moved forward by stalls of this process.

    Attributes
    ----------
    at : int
        Start of the message's age, ns; 0 before the first message.
    stalled : int
        Stalls since then that are excluded from its age, ns.
    """

    __slots__ = ("at", "stalled")

    def __init__(self) -> None:
        self.at = self.stalled = 0

    def heard(self, t: int) -> None:
        """Record a message received at `t` [ns]; ignore one from before the end of a stall."""
        if t >= self.at:
            self.at, self.stalled = t, 0

    def leave_out(self, now: int, stall: int) -> None:
        """Exclude a `stall` [ns] that ended at `now` [ns] from the age.

        It is excluded in full, however long, unless earlier stalls have used up the limit.
        """
        if self.stalled < STALL_LIMIT_NS:
            self.at = min(now, self.at + stall)
            self.stalled += stall
