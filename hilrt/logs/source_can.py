"""CAN logs of other tools as text: candump, ASC and TRC.

They are read here, because python-can's readers drop or misread what benches log: error frames with
their contents, dates, frames without data, times relative to the line before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from hilrt.can import can
from hilrt.files.text import open_lines
from hilrt.logs.frame_text import FrameTextError, NotAFrame
from hilrt.logs.source import FrameSource, Source, format_suffix
from hilrt.record.logged_frame import FrameFlag, LoggedFrame, impossible

#: Characters of a line: a frame takes some 300, statistics of a bus a few more.
MAX_LINE = 1 << 14
#: Lines without a frame before a file is taken for something else.
_PATIENCE = 1000


class CanSource(FrameSource):
    """A text log."""

    def frames(self) -> Iterator[LoggedFrame]:
        """Frames in the order of the file, times rounded to microseconds."""
        name, read_line = _line_reader(self.path, self.notes)
        try:
            with open_lines(self.path, longest=MAX_LINE) as lines:
                yield from _read_lines(self, name, lines, read_line)
        except OSError as error:
            text = error.strerror or error
            raise self.fail(f"cannot be read: {text}; check the path") from None


def _line_reader(path: Path, notes: list[str]) -> tuple[str, Callable[[str], LoggedFrame | None]]:
    """Name of a format, and what reads a line of it."""
    suffix = format_suffix(path)
    if suffix == ".log":
        from hilrt.logs import candump

        return "candump log", candump.read_line
    if suffix == ".asc":
        from hilrt.logs.asc import AscReader

        return "ASC log", AscReader(notes).read_line
    from hilrt.logs.trc import TrcReader

    return "TRC log", TrcReader().read_line


def _read_lines(
    source: Source,
    name: str,
    lines: Iterable[str],
    read_line: Callable[[str], LoggedFrame | None],
) -> Iterator[LoggedFrame]:
    """Frames of the lines; what is none is counted, and too much of it is another format."""
    found, unread = 0, 0
    skipped: Counter[str] = Counter()
    first = ""
    for number, line in enumerate(lines, 1):
        try:
            frame = read_line(line)
            if frame is not None and (problem := impossible(frame)):
                raise FrameTextError(problem)
        except NotAFrame as error:
            skipped[str(error)] += 1
            continue
        except (ValueError, LookupError, OverflowError) as error:
            known = isinstance(error, FrameTextError)
            unread += 1
            first = first or f"line {number} {error if known else 'has a number that is none'}"
            if not found or unread > _PATIENCE + found:
                raise source.fail(f"is no {name}: {first}; the suffix says the format") from None
            continue
        if frame is not None:
            found += 1
            yield frame
    if unread:
        source.notes.append(f"{unread} lines that cannot be read; {first}")
    for what, count in skipped.items():
        source.notes.append(f"{count} {what}: they are not supported")


#: python-can gives times as seconds since 1970 in a float64: 0.24 µs apart.
RESOLUTION_NS = 1000


class LibraryFrames(FrameSource):
    """A log of another format, times rounded to microseconds."""

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
        except Exception as error:  # the readers of the formats raise all kinds
            text = " ".join(str(error).split()) or type(error).__name__
            raise self.fail(
                f"is not a log that python-can reads: after {count} frames: {text}; "
                "the suffix says the format (.log is candump's), and .mf4 needs hilrt[mdf]"
            ) from None


def from_message(message: can.Message) -> LoggedFrame:
    """A frame of python-can's as ours."""
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
    """A frame of ours as python-can's; buses with a number as name get the number."""
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
