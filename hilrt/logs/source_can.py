"""CAN logs of other tools: candump, ASC and TRC; BLF, CSV and SQLite as python-can reads them.

Text formats are read here, because python-can's readers drop or misread what benches log: error
frames with their contents, dates, frames without data, times relative to the line before.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TextIO

from hilrt.can import can
from hilrt.logs.frame_text import FrameTextError, NotAFrame
from hilrt.logs.source import Source
from hilrt.record.logged_frame import FrameFlag, LoggedFrame
from hilrt.record.messages import Topic
from hilrt.record.reader import Block

#: python-can gives times as seconds since 1970 in a float64: 0.24 µs apart.
RESOLUTION_NS = 1000
#: Times of frames fit into 64 bits, ns.
_LATEST_NS = (1 << 63) - 1
#: Lines without a frame before a file is taken for something else.
_PATIENCE = 1000


class CanSource(Source):
    """A log that holds frames alone."""

    kind = "CAN log"

    def topics(self) -> list[Topic]:
        """None: frames mean nothing without a database."""
        return []

    def blocks(self, wanted: Collection[str] | None = None) -> Iterator[Block]:
        """None."""
        return iter(())

    def frames(self) -> Iterator[LoggedFrame]:
        """Frames in the order of the file, times rounded to microseconds."""
        read = _line_reader(self.path, self.notes)
        if read is None:
            yield from _read_with_library(self)
            return
        name, read_line = read
        try:
            with _open_text(self.path) as file:
                yield from _read_lines(self, name, file, read_line)
        except (OSError, EOFError) as error:
            text = getattr(error, "strerror", None) or error
            raise self.fail(f"cannot be read: {text}; check the path") from None


def format_suffix(path: Path) -> str:
    """Suffix that says the format, whether the file is compressed or not."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix == ".gz" else suffix


def _line_reader(
    path: Path, notes: list[str]
) -> tuple[str, Callable[[str], LoggedFrame | None]] | None:
    """Name of a text format, and what reads a line of it; None for other formats."""
    suffix = format_suffix(path)
    if suffix == ".log":
        from hilrt.logs import candump

        return "candump log", candump.read_line
    if suffix == ".asc":
        from hilrt.logs.asc import AscReader

        return "ASC log", AscReader(notes).read_line
    if suffix == ".trc":
        from hilrt.logs.trc import TrcReader

        return "TRC log", TrcReader().read_line
    return None


def _open_text(path: Path) -> TextIO:
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    file: TextIO = opener(path, "rt", encoding="utf-8", errors="replace")
    return file


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
            if frame is not None and abs(frame.time_ns) > _LATEST_NS:
                raise FrameTextError("has a time that is centuries from 1970")
        except NotAFrame as error:
            skipped[str(error)] += 1
            continue
        except FrameTextError as error:
            unread += 1
            first = first or f"line {number} {error}"
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


def _read_with_library(source: Source) -> Iterator[LoggedFrame]:
    """Frames of a file; whatever a reader raises becomes a `ConfigError`."""
    count = 0
    try:
        with can.LogReader(source.path) as reader:
            for message in reader:
                count += 1
                yield from_message(message)
    except OSError as error:
        raise source.fail(f"cannot be read: {error.strerror or error}; check the path") from None
    except ImportError:
        raise
    except Exception as error:  # the readers of the formats raise all kinds
        text = " ".join(str(error).split()) or type(error).__name__
        raise source.fail(
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
