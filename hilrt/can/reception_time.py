"""When a frame was received, on this machine's monotonic clock.

Some interfaces stamp frames with the system's clock, others with a clock of their own, which counts
from anything and drifts, and some not at all.
"""

from __future__ import annotations

#: A frame's own time is believed if it is at most that much older than its reading, ns …
MAX_AGE_NS = 60_000_000_000
#: … and taken for the system's clock up to this age, if the interface names no clock.
MAX_SYSTEM_AGE_NS = 1_000_000_000
#: A device's clock may drift by that much against this machine's.
DRIFT = 2e-4


class DeviceClock:
    """Times of a device's clock on this machine's: the shortest way to here seen so far is zero."""

    def __init__(self) -> None:
        self._offset: int | None = None
        self._at = 0

    def age(self, stamp: int, now: int) -> int:
        """How long before `now` [ns] the frame with that `stamp` [ns] was received, ns."""
        seen = now - stamp
        if self._offset is None:
            self._offset = seen
        else:
            crept = self._offset + int(DRIFT * (now - self._at))
            # A jump of the device's clock by so much is a new clock.
            self._offset = seen if seen - crept > MAX_AGE_NS else min(seen, crept)
        self._at = now
        return seen - self._offset


class ReceptionTimes:
    """Ages of frames at their reading, by whatever clock stamped them.

    Parameters
    ----------
    system_clock : bool
        Whether frames bear times of this machine's clock; otherwise they may be a device's own.
    """

    def __init__(self, system_clock: bool) -> None:
        self._system_clock = system_clock
        self._device = DeviceClock()

    def age(self, stamp: int, mono: int, real: int) -> int:
        """How long a frame with that `stamp` [ns] has been waiting to be read, ns.

        Parameters
        ----------
        stamp : int
            Its own time, ns; 0: none.
        mono, real : int
            The monotonic and the system's clock at the reading, ns.
        """
        if not stamp:
            return 0
        age = real - stamp
        if 0 <= age <= (MAX_AGE_NS if self._system_clock else MAX_SYSTEM_AGE_NS):
            return age
        return 0 if self._system_clock else self._device.age(stamp, mono)

    def start_anew(self) -> None:
        """Forget the device's clock: a device that was unplugged counts from zero."""
        self._device = DeviceClock()
