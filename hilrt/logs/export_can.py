"""Export of a log's CAN frames to BLF (by python-can), ASC, TRC or candump's format.

`hilrt.logs.frame_text` lists the differences between the text formats.
"""

from __future__ import annotations

import abc
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import ClassVar, TextIO

from hilrt.can import can
from hilrt.can.frame import CLASSIC_BYTES
from hilrt.logs.frame_text import (
    ASC_BIT_RATE_SWITCH,
    ASC_DAYS,
    ASC_ERROR_STATE,
    ASC_FD,
    ASC_MONTHS,
    CANDUMP_BIT_RATE_SWITCH,
    CANDUMP_ERROR,
    CANDUMP_ERROR_STATE,
    TRC_DAYS,
    TRC_FIRST_BUS,
    TRC_TYPES,
    US_PER_DAY,
    code_of,
    microseconds,
)
from hilrt.logs.source import Exported, Source
from hilrt.logs.source_can import to_message
from hilrt.record.logged_frame import FrameFlag, LoggedFrame

#: Largest channel, as MF4 has one byte for it; larger numbers, as in ``bench2026``, are not used.
_MOST = 254


class BusNumbers:
    """Numbers assigned to the buses.

    A bus whose name is or ends with a number gets that number (``can1`` gets 1), or the next free
    one. A bus without a number, or with one above 254, gets the smallest free number.

    Parameters
    ----------
    first : int
        Smallest number.
    """

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._numbers: dict[str, int] = {}
        self._taken: dict[int, str] = {}

    def number(self, bus: str) -> int:
        """Number of a bus."""
        known = self._numbers.get(bus)
        if known is not None:
            return known
        digits = re.search(r"(?<!\d)\d{1,9}$", bus)  # longer numbers are too large
        wanted = self._first if digits is None else int(digits[0])
        if wanted > _MOST:
            wanted = self._first
        while wanted in self._taken:
            wanted += 1
        self._numbers[bus] = wanted
        self._taken[wanted] = bus
        return wanted

    def notes(self, count_from: int = 0) -> list[str]:
        """Note the channels of several buses, if their names do not show them.

        `count_from` is 1 for formats whose channels count from 1: number 0 is then channel 1.
        """
        numbers = self._numbers
        if len(numbers) < 2 or all(bus == str(number) for bus, number in numbers.items()):
            return []
        named = ", ".join(f"{bus or 'unnamed'}: {n + count_from}" for bus, n in numbers.items())
        return [f"names of the buses; they became the channels {named}"]


#: Frames left out by a format that cannot distinguish missing data from zeros.
NOT_RECORDED = "frames whose data were not recorded"
#: Note on frames earlier than the first one, if times are relative to it.
EARLIER = "frames earlier than the first: written with its time"
_TRC_TYPE_OF = {int(flags): name for name, flags in TRC_TYPES.items()}
_TRC_KIND = FrameFlag.FD | FrameFlag.BIT_RATE_SWITCH | FrameFlag.ERROR_STATE | FrameFlag.REMOTE
#: Earliest date that BLF can hold (1990), µs since 1970; earlier times are written unchanged.
_FIRST_DATE_US = 631_152_000_000_000


def export_can(
    source: Source, wanted: Collection[str] | None, span: tuple[int, int], out: Path
) -> Exported:
    """Write all frames in the span, in the order of the log; frames left out are noted."""
    result = Exported(out)
    named = out.suffix == ".log"
    buses = BusNumbers()
    left_out: Counter[str] = Counter()
    with _writer(out) as writer:
        for frame in source.frames():
            if not span[0] <= source.since_start(frame) <= span[1]:
                continue
            if not named:
                frame = frame._replace(bus=str(buses.number(frame.bus)))
            written = writer.frames
            lost = writer.write(frame)
            result.frames += writer.frames - written
            if lost:
                left_out[lost] += 1
    result.notes += [f"{count} {what}" for what, count in left_out.items()]
    result.notes += buses.notes(count_from=1)
    if left_out and not result.frames:
        raise source.fail(f"has no frames that the format supports: {'; '.join(result.notes)}")
    if not result.frames:
        raise source.fail(
            "has no CAN frames in this time; sessions record them if a gateway owns a bus, "
            "imports of CAN logs always do"
        )
    return result


class FrameWriter(abc.ABC):
    """Writer of frames, one by one; each format is a subclass.

    Times in the file count from the whole millisecond before the first frame, unless each line has
    its date.

    Attributes
    ----------
    frames : int
        Frames written so far.
    """

    #: Earliest start that the format can hold, µs since 1970; files with earlier frames start at 0.
    earliest_us: ClassVar[int | None] = None
    #: Parts of error frames that are lost; if `skips_errors`, the frames are left out.
    lost_of_errors: ClassVar[str] = ""
    skips_errors: ClassVar[bool] = False
    #: Whether each line has its date, so that frames may be earlier than the first one.
    dated: ClassVar[bool] = False

    def __init__(self) -> None:
        self.frames = 0
        self._start_us: int | None = None

    def write(self, frame: LoggedFrame) -> str:
        """Write a frame; return what the format cannot hold, empty if it can hold everything."""
        lost = ""
        if frame.flags & FrameFlag.ERROR:
            lost = self.lost_of_errors if frame.identifier or frame.data else ""
            if self.skips_errors:
                return self.lost_of_errors
        if not frame.whole:
            return NOT_RECORDED
        at_us = microseconds(frame.time_ns)
        if self._start_us is None:
            start = at_us // 1000 * 1000
            early = self.earliest_us is not None and start < self.earliest_us
            self._start_us = 0 if early else start
            self._begin(self._start_us)
        if at_us < self._start_us and not self.dated:
            frame, at_us = frame._replace(time_ns=1000 * self._start_us), self._start_us
            lost = lost or EARLIER
        self.frames += 1
        self._put(frame, at_us - self._start_us)
        return lost

    def _begin(self, start_us: int) -> None:
        """Write the file's head; time 0 is `start_us`, µs since 1970."""

    @abc.abstractmethod
    def _put(self, frame: LoggedFrame, offset_us: int) -> None:
        """Write a frame, `offset_us` after the start."""

    def finish(self) -> None:
        """Write the end of the file."""


class _BlfWriter(FrameWriter):
    """Writer of BLF, by python-can."""

    earliest_us = _FIRST_DATE_US

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._library = can.BLFWriter(path)

    def _begin(self, start_us: int) -> None:
        self._library.start_timestamp = start_us / 1e6

    def _put(self, frame: LoggedFrame, offset_us: int) -> None:
        self._library.on_message_received(to_message(frame))

    def finish(self) -> None:
        self._library.stop()


class _TextWriter(FrameWriter):
    """Base class of the writers of text formats."""

    end_of_line: ClassVar[str] = "\n"

    def __init__(self, file: TextIO) -> None:
        super().__init__()
        self._file = file

    def _lines(self, *lines: str) -> None:
        self._file.writelines(line + self.end_of_line for line in lines)


class _CandumpWriter(_TextWriter):
    """Writer of the format of ``candump -l``."""

    dated = True

    def __init__(self, file: TextIO) -> None:
        super().__init__(file)
        self._names: dict[str, str] = {}

    def _put(self, frame: LoggedFrame, offset_us: int) -> None:
        flags, data = frame.flags, frame.data.hex().upper()
        if flags & FrameFlag.ERROR:
            text = f"{CANDUMP_ERROR | frame.identifier:08X}#{data}"
        else:
            width = 8 if flags & FrameFlag.EXTENDED else 3
            text = f"{frame.identifier:0{width}X}#"
            if flags & FrameFlag.REMOTE:
                text += "R" + (str(min(frame.dlc, CLASSIC_BYTES)) if frame.dlc else "")
            elif flags & FrameFlag.FD:
                bits = CANDUMP_BIT_RATE_SWITCH if flags & FrameFlag.BIT_RATE_SWITCH else 0
                bits |= CANDUMP_ERROR_STATE if flags & FrameFlag.ERROR_STATE else 0
                text += f"#{bits:X}{data}"
            else:
                text += data
            if frame.dlc > CLASSIC_BYTES and not flags & FrameFlag.FD:
                text += f"_{frame.dlc:X}"
        seconds, rest = divmod(microseconds(frame.time_ns), 1_000_000)
        name = self._names.get(frame.bus) or self._name(frame.bus)
        way = "T" if flags & FrameFlag.SENT else "R"
        self._lines(f"({seconds:010d}.{rest:06d}) {name} {text} {way}")

    def _name(self, bus: str) -> str:
        """Unique interface name for a bus."""
        name = f"can{bus}" if bus.isdecimal() else bus.replace(" ", "_") or "can0"
        while name in self._names.values():
            name += "_"
        self._names[bus] = name
        return name


class _AscWriter(_TextWriter):
    """Writer of Vector's ASC."""

    lost_of_errors = "contents of error frames"

    def _begin(self, start_us: int) -> None:
        seconds, rest = divmod(start_us, 1_000_000)
        at = datetime.fromtimestamp(seconds)
        clock = f"{at:%H:%M:%S}.{rest // 1000:03d} {at:%Y}"
        date = f"{ASC_DAYS[at.weekday()]} {ASC_MONTHS[at.month - 1]} {at.day:02d} {clock}"
        self._lines(f"date {date}", "base hex  timestamps absolute", "internal events logged")
        self._lines(f"Begin Triggerblock {date}", "  0.000000 Start of measurement")

    def _put(self, frame: LoggedFrame, offset_us: int) -> None:
        flags, channel = frame.flags, int(frame.bus) + 1
        seconds, rest = divmod(offset_us, 1_000_000)
        name = f"{frame.identifier:X}" + ("x" if flags & FrameFlag.EXTENDED else "")
        if flags & FrameFlag.ERROR:
            text = f"{channel}  ErrorFrame"
        elif flags & FrameFlag.FD:
            text = self._fd_text(frame, channel, name)
        else:
            kind = "r" if flags & FrameFlag.REMOTE else "d"
            data = frame.data.hex(" ").upper()
            text = f"{channel}  {name:<15} {_way(frame):<4} {kind} {frame.dlc:x} {data}"
        self._lines(f" {seconds:2d}.{rest:06d} {text.rstrip()}")

    @staticmethod
    def _fd_text(frame: LoggedFrame, channel: int, name: str) -> str:
        switch = bool(frame.flags & FrameFlag.BIT_RATE_SWITCH)
        state = bool(frame.flags & FrameFlag.ERROR_STATE)
        flags = ASC_FD | ASC_BIT_RATE_SWITCH * switch | ASC_ERROR_STATE * state
        data = "".join(f"{byte:02X} " for byte in frame.data)
        return (
            f"CANFD {channel:3d} {_way(frame):<4} {name:>8}  {'':>32} {switch:d} {state:d} "
            f"{code_of(frame.dlc):x} {len(frame.data):2d} {data}{0:>8} {0:>4} {flags:>8X}"
            + 5
            * f" {0:>8}"
        )

    def finish(self) -> None:
        self._lines("End TriggerBlock")


class _TrcWriter(_TextWriter):
    """Writer of PEAK's TRC 2.1, whose error frames have details of PEAK's own controllers."""

    lost_of_errors = "error frames"
    skips_errors = True
    end_of_line = "\r\n"

    def _begin(self, start_us: int) -> None:
        days, rest = divmod(start_us, US_PER_DAY)
        # 12 decimals of a day are 0.1 µs.
        fraction = f"{rest / US_PER_DAY:.12f}".removeprefix("0")
        self._lines(
            ";$FILEVERSION=2.1",
            f";$STARTTIME={days + TRC_DAYS}{fraction}",
            ";$COLUMNS=N,O,T,B,I,d,R,L,D",
            ";",
            ";   number, offset in ms, type, bus, identifier, direction, -, length, data",
        )

    def _put(self, frame: LoggedFrame, offset_us: int) -> None:
        flags = frame.flags
        code = code_of(frame.dlc) if flags & FrameFlag.FD else frame.dlc
        line = (
            f"{self.frames:>7} {offset_us // 1000:>9}.{offset_us % 1000:03d} "
            f"{_TRC_TYPE_OF[flags & _TRC_KIND]} {int(frame.bus) + TRC_FIRST_BUS:>2} "
            f"{frame.identifier:0{8 if flags & FrameFlag.EXTENDED else 4}X} {_way(frame)} -  "
            f"{code:<4} {frame.data.hex(' ').upper()}"
        )
        self._lines(line.rstrip())


def _way(frame: LoggedFrame) -> str:
    return "Tx" if frame.flags & FrameFlag.SENT else "Rx"


_TEXT_WRITERS: dict[str, Callable[[TextIO], FrameWriter]] = {
    ".log": _CandumpWriter,
    ".asc": _AscWriter,
    ".trc": _TrcWriter,
}


@contextmanager
def _writer(out: Path) -> Iterator[FrameWriter]:
    """Writer of the format given by the suffix."""
    if out.suffix == ".blf":
        blf = _BlfWriter(out)
        try:
            yield blf
        finally:
            blf.finish()
        return
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = _TEXT_WRITERS[out.suffix](file)
        yield writer
        writer.finish()
