"""What the readers and writers of text formats of CAN frames have in common."""

from __future__ import annotations

from typing import Protocol

from hilrt.can.frame import FD_LENGTHS
from hilrt.record.logged_frame import LoggedFrame

#: What a format that tells no data from zeros leaves out.
NOT_RECORDED = "frames whose data were not recorded"
#: What happens to a frame that is older than the first one, where times count from that.
EARLIER = "frames earlier than the first: their times are its"


class FrameTextError(ValueError):
    """A line that does not follow its format."""


class NotAFrame(Exception):
    """A line about something else than a frame that is taken; its text says what, in the plural."""


class FrameWriter(Protocol):
    """Writes frames one by one.

    Attributes
    ----------
    frames : int
        Written so far.
    """

    frames: int

    def write(self, frame: LoggedFrame) -> str:
        """Write a frame; what of it the format cannot hold, empty if it holds it."""
        ...

    def finish(self) -> None:
        """Write what stands at the end."""
        ...


class TimesFromStart:
    """Times in a file that counts from the whole millisecond before its first frame.

    Attributes
    ----------
    start_us : int or None
        That millisecond, µs since 1970; None before the first frame.
    """

    def __init__(self) -> None:
        self.start_us: int | None = None

    def begin(self, time_ns: int, earliest_us: int | None = None) -> int | None:
        """Start of the file [µs], for its head, if this frame is the first; else None.

        A file that would start before `earliest_us` starts at 0.
        """
        if self.start_us is not None:
            return None
        start = microseconds(time_ns) // 1000 * 1000
        self.start_us = 0 if earliest_us is not None and start < earliest_us else start
        return self.start_us

    def since(self, time_ns: int) -> tuple[int, str]:
        """Time from the start [µs], and what of it cannot be written."""
        assert self.start_us is not None, "a file begins before its frames"
        offset = microseconds(time_ns) - self.start_us
        return (0, EARLIER) if offset < 0 else (offset, "")


def nanoseconds(text: str, factor: int = 1_000_000_000) -> int:
    """A decimal number in units of `factor` ns as integer nanoseconds, without a float between."""
    whole, _, decimals = text.strip().lstrip("+-").partition(".")
    scale = int("1" + "0" * len(decimals))
    found = (int(whole or "0") * scale + int(decimals or "0")) * factor // scale
    return -found if text.strip().startswith("-") else found


def microseconds(time_ns: int) -> int:
    """A time [ns] rounded to µs."""
    return (time_ns + 500) // 1000


def length_of(code: int) -> int:
    """Bytes of a CAN FD frame with that data length code."""
    return FD_LENGTHS[min(code, len(FD_LENGTHS) - 1)]


def code_of(length: int) -> int:
    """Data length code of a CAN FD frame with so many bytes."""
    return next((code for code, n in enumerate(FD_LENGTHS) if n >= length), 15)
