"""Whether the system's clock was set while a session ran.

Session times come from the monotonic clock, which cannot be set; the wall clock stands in a log
once, at its beginning. For a comparison with other logs it must be known that it was set since.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from hilrt.timing.monotonic import monotonic_ns

#: A smaller step is not told from a process that was held up between two readings; synchronisation
#: that slews the clock by 0.05 % is no step, ns.
SMALLEST_NS = 100_000_000


class ClockWatch:
    """Compares the wall clock with the monotonic one.

    Parameters
    ----------
    wall, steady : callable
        The two clocks, ns.
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, steady: Callable[[], int] = monotonic_ns
    ) -> None:
        self._wall, self._steady = wall, steady
        self._ahead = self._read()

    def step_ns(self) -> int:
        """By how much the wall clock was set since the last call, ns; 0 if it was not."""
        # Of two readings, the one that was less disturbed.
        step = min(self._read() - self._ahead, self._read() - self._ahead, key=abs)
        self._ahead += step
        return step if abs(step) >= SMALLEST_NS else 0

    def _read(self) -> int:
        return self._wall() - self._steady()
