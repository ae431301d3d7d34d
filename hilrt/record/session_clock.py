"""Readings of this machine's monotonic clock as session time."""

from __future__ import annotations


class SessionClock:
    """Maps clock readings to session time, ns.

    Parameters
    ----------
    epoch_ns : int
        Reading at session time 0.
    """

    def __init__(self, epoch_ns: int) -> None:
        self._epoch_ns = self._before_ns = epoch_ns
        self._since_ns = -(1 << 62)

    def stretched(self, since_ns: int, shift_ns: int) -> None:
        """The grid was shifted by `shift_ns` at that reading: session time stood still."""
        self._before_ns, self._since_ns = self._epoch_ns, since_ns
        self._epoch_ns += shift_ns

    def session_ns(self, reading_ns: int) -> int:
        """Session time at a reading of the clock."""
        if reading_ns < self._since_ns:
            return reading_ns - self._before_ns
        return max(reading_ns - self._epoch_ns, self._since_ns - self._before_ns)
