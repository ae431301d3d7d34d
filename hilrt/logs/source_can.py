"""Read CAN logs by python-can (BLF, SQLite, its CSV), and convert its messages."""

from __future__ import annotations

from collections.abc import Iterator

from hilrt.can import can
from hilrt.logs.source import FrameSource
from hilrt.record.logged_frame import FrameFlag, LoggedFrame

#: Times of python-can are seconds since 1970 in a float64, with a resolution of 0.24 µs.
RESOLUTION_NS = 1000


class LibraryFrames(FrameSource):
    """CAN log read by python-can, with times rounded to microseconds."""

    def frames(self) -> Iterator[LoggedFrame]:
        """Frames in the order of the file; whatever a reader raises becomes a `ConfigError`."""
        count = 0
        try:
            with can.LogReader(self.path) as reader:
                for message in reader:
                    count += 1
                    yield from_message(message)
        except OSError as error:
            raise self.fail(f"cannot be read: {error.strerror or error}; check the path") from None
        except ImportError:
            raise
        except Exception as error:  # the readers may raise any exception
            text = " ".join(str(error).split()) or type(error).__name__
            raise self.fail(
                f"is not a log that python-can reads: after {count} frames: {text}; "
                "the suffix gives the format (.log is candump's), and .mf4 needs hilrt[mdf]"
            ) from None


def from_message(message: can.Message) -> LoggedFrame:
    """Convert a message of python-can to a frame."""
    bits = (
        (message.is_extended_id and not message.is_error_frame, FrameFlag.EXTENDED),
        (message.is_remote_frame, FrameFlag.REMOTE),
        (message.is_error_frame, FrameFlag.ERROR),
        (message.is_fd, FrameFlag.FD),
        (message.bitrate_switch, FrameFlag.BIT_RATE_SWITCH),
        (message.error_state_indicator, FrameFlag.ERROR_STATE),
        (not message.is_rx, FrameFlag.SENT),
    )
    return LoggedFrame(
        time_ns=round(message.timestamp * 1e9 / RESOLUTION_NS) * RESOLUTION_NS,
        bus="" if message.channel is None else str(message.channel),
        identifier=message.arbitration_id,
        flags=sum(flag for on, flag in bits if on),
        dlc=message.dlc,
        data=bytes(message.data),
    )


def to_message(frame: LoggedFrame) -> can.Message:
    """Convert a frame to a message of python-can; a bus named by a number becomes an integer."""
    flags = frame.flags
    return can.Message(
        timestamp=frame.time_ns / 1e9,
        arbitration_id=frame.identifier,
        is_extended_id=bool(flags & FrameFlag.EXTENDED),
        is_remote_frame=bool(flags & FrameFlag.REMOTE),
        is_error_frame=bool(flags & FrameFlag.ERROR),
        is_fd=bool(flags & FrameFlag.FD),
        bitrate_switch=bool(flags & FrameFlag.BIT_RATE_SWITCH),
        error_state_indicator=bool(flags & FrameFlag.ERROR_STATE),
        is_rx=not flags & FrameFlag.SENT,
        channel=int(frame.bus) if frame.bus.isdecimal() else frame.bus or None,
        dlc=frame.dlc,
        data=frame.data,
    )
