"""Times of frames by the clock that timestamped them: of a device, an interface, the system."""

from __future__ import annotations

#: A frame's own time is believed if it is at most that much older than its reading, ns …
MAX_AGE_NS = 60_000_000_000
#: … and taken for the system's clock up to this age, if the interface names no clock.
MAX_SYSTEM_AGE_NS = 1_000_000_000
#: A device's clock may drift by that much against this machine's.
DRIFT = 2e-4


class DeviceClock:
    """Times of a device's clock on this machine's: the shortest way to here seen so far is zero.

    Attributes
    ----------
    offset : int or None
        This machine's clock less the device's, ns; None before the first stamp.
    """

    def __init__(self) -> None:
        self.offset: int | None = None
        self._at = 0

    def age(self, stamp: int, now: int) -> int:
        """Age at `now` [ns] of the frame with that `stamp` [ns], ns."""
        seen = now - stamp
        if self.offset is None:
            self.offset = seen
        else:
            crept = self.offset + int(DRIFT * (now - self._at))
            # A jump of the device's clock by so much is a new clock.
            self.offset = seen if seen - crept > MAX_AGE_NS else min(seen, crept)
        self._at = now
        return seen - self.offset


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
        """Time that a frame with that `stamp` [ns] has waited to be read, ns.

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

    @property
    def by_device(self) -> bool:
        """Whether a device's clock has stamped frames."""
        return self._device.offset is not None

    def start_anew(self) -> None:
        """Forget the device's clock: a device that was unplugged counts from zero."""
        self._device = DeviceClock()
