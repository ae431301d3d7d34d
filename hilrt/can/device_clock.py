"""Ages of frames from their time stamps, by the clock of a device, an interface or the system."""

from __future__ import annotations

#: Maximum age of a frame when it is read, for its time stamp to be trusted, ns …
MAX_AGE_NS = 60_000_000_000
#: … and to be attributed to the system's clock, if the interface does not name the clock.
MAX_SYSTEM_AGE_NS = 1_000_000_000
#: Maximum drift of a device's clock against this machine's.
DRIFT = 2e-4


class DeviceClock:
    """Conversion of a device's clock to this machine's; the shortest delay so far counts as zero.

    Attributes
    ----------
    offset : int or None
        This machine's clock minus the device's, ns; None before the first stamp.
    """

    def __init__(self) -> None:
        self.offset: int | None = None
        self._at = 0

    def age(self, stamp: int, now: int) -> int:
        """Age at `now` [ns] of the frame with that `stamp` [ns], ns."""
        apparent_age = now - stamp
        if self.offset is None:
            self.offset = apparent_age
        else:
            drifted = self.offset + int(DRIFT * (now - self._at))
            # A larger jump of the device's clock counts as a new clock.
            self.offset = (
                apparent_age if apparent_age - drifted > MAX_AGE_NS else min(apparent_age, drifted)
            )
        self._at = now
        return apparent_age - self.offset


class ReceptionTimes:
    """Ages of frames when they are read, for any clock of their time stamps.

    Parameters
    ----------
    system_clock : bool
        Whether frames carry times of this machine's clock; otherwise they may be a device's own.
    """

    def __init__(self, system_clock: bool) -> None:
        self._system_clock = system_clock
        self._device = DeviceClock()

    def age(self, stamp: int, mono: int, real: int) -> int:
        """Time that a frame with that `stamp` [ns] has waited to be read, ns.

        Parameters
        ----------
        stamp : int
            Its time stamp, ns; 0: none.
        mono, real : int
            Monotonic and system clock when it is read, ns.
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

    def reset(self) -> None:
        """Reset the device's clock: after being unplugged, a device counts from zero."""
        self._device = DeviceClock()
