"""The clock that sessions are timed by, alone: reading it takes no event loop."""

from __future__ import annotations

import sys
import time

#: Reading, ns. On Windows, `time.monotonic_ns` advances in steps of 16 ms.
monotonic_ns = time.perf_counter_ns if sys.platform == "win32" else time.monotonic_ns


# Time since something was heard, without the time in which this process was stalled.
#
# While a process is stalled (its machine sleeps, or other processes take the processor) it receives
# nothing, so that a stall looks like the silence of everything at once. Stalls therefore do not
# count as silence, up to a limit: a process that stalls all the time could not tell that a peer is
# gone.

#: Stalls since the last news are left out of an age until they amount to this, ns.
STALL_LIMIT_NS = 1_000_000_000


class LastHeard:
    """Time of the newest message, moved on by stalls of this process.

    Attributes
    ----------
    at : int
        Its age counts from here, ns; 0 before the first.
    stalled : int
        Stalls since then that are left out, ns.
    """

    __slots__ = ("at", "stalled")

    def __init__(self) -> None:
        self.at = self.stalled = 0

    def heard(self, t: int) -> None:
        """Note a message of the time `t` [ns]; one from before the end of a stall is ignored."""
        if t >= self.at:
            self.at, self.stalled = t, 0

    def leave_out(self, now: int, stall: int) -> None:
        """Leave a `stall` [ns] that ended at `now` [ns] out of the age.

        In full, however long, unless those before have used up the limit.
        """
        if self.stalled < STALL_LIMIT_NS:
            self.at = min(now, self.at + stall)
            self.stalled += stall
