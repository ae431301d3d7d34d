"""Vector's ASC logs: a header with the date of the start, then a line per frame.

Dates are local time without a zone: they are taken, and written, as this machine's.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TextIO

from hilrt.can.frame import CLASSIC_BYTES
from hilrt.logs.frame_text import (
    NOT_RECORDED,
    FrameTextError,
    NotAFrame,
    TimesFromStart,
    code_of,
    length_of,
    nanoseconds,
)
from hilrt.record.logged_frame import FrameFlag, LoggedFrame

_DATE = re.compile(r"(?:date|begin\s+triggerblock)\s+(?P<date>\S.*)", re.IGNORECASE)
_BASE = re.compile(r"base\s+(?P<base>hex|dec)(?:\s+timestamps\s+(?P<times>\w+))?", re.IGNORECASE)
_EVENT = re.compile(r"\s*(?P<time>-?\d+\.\d+)\s+(?P<rest>\S.*)")
_START = re.compile(r"start of measurement", re.IGNORECASE)
#: How dates are written, without the day of the week: 24 hours or 12, with milliseconds or not.
_DATE_FORMATS = (
    "%m %d %H:%M:%S.%f %Y",
    "%m %d %H:%M:%S %Y",
    "%m %d %I:%M:%S.%f %p %Y",
    "%m %d %I:%M:%S %p %Y",
)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: Tools write the months in the language of the system.
_OTHER_MONTHS = {"Mär": 3, "Mrz": 3, "Mai": 5, "Okt": 10, "Dez": 12}
_IDENTIFIER = 0x1FFFFFFF
#: Flags at the end of a line of CAN FD: its format, bit rate switch, error state.
_FD_FLAG, _BRS_FLAG, _ESI_FLAG = 1 << 12, 1 << 13, 1 << 14
_REMOTE_FLAG = 1 << 4


def date_ns(text: str) -> int:
    """Nanoseconds since 1970 (UTC) of a header's date; `ValueError` if it is not understood."""
    words = text.split()
    if words and not words[0][0].isdigit() and len(words) > 4:
        words = words[1:]  # the day of the week
    if not words:
        raise ValueError(text)
    months = {name: i + 1 for i, name in enumerate(_MONTHS)} | _OTHER_MONTHS
    words[0] = str(months.get(words[0].strip(".").capitalize()[:3], words[0]))
    for form in _DATE_FORMATS:
        try:
            found = datetime.strptime(" ".join(words), form).astimezone()
        except ValueError:
            continue
        return int(found.replace(microsecond=0).timestamp()) * 10**9 + found.microsecond * 1000
    raise ValueError(text)


class AscReader:
    """Frames of the lines of a file.

    Parameters
    ----------
    notes : list of str
        Extended by what is doubtful.
    """

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes
        self._start_ns = 0
        self._block_ns: int | None = None
        self._base = 16
        self._relative = False
        self._last_ns = 0

    def read_line(self, line: str) -> LoggedFrame | None:
        """The frame of a line; None for one that holds none.

        Raises
        ------
        NotAFrame, FrameTextError
            As those of `hilrt.logs.candump.read_line`.
        """
        event = _EVENT.match(line)
        if event is None:
            self._header(line.strip())
            return None
        at = nanoseconds(event["time"])
        if self._relative:  # to the event before, of whatever kind
            at += self._last_ns
            self._last_ns = at
        rest = event["rest"]
        if _START.match(rest):
            # The trigger's date is that of time 0 only where the measurement starts with it.
            if self._block_ns is not None:
                self._start_ns = self._block_ns
            return None
        try:
            return self._frame(self._start_ns + at, rest.split())
        except (ValueError, IndexError):
            raise FrameTextError(f"has no frame in {rest.strip()!r}") from None

    def _header(self, line: str) -> None:
        if found := _DATE.match(line):
            try:
                at = date_ns(found["date"])
            except (ValueError, OverflowError):
                note = f"the date {found['date']!r}: it is not understood, times count from 1970"
                if note not in self._notes:
                    self._notes.append(note)
                return
            if line[:4].lower() == "date":
                self._start_ns = at
            else:
                self._block_ns = at
        elif found := _BASE.match(line):
            self._base = 10 if found["base"].lower() == "dec" else 16
            self._relative = (found["times"] or "").lower() == "relative"

    def _frame(self, time_ns: int, words: list[str]) -> LoggedFrame | None:
        kind = words[0].upper()
        if kind == "CANXL":
            raise NotAFrame("CAN XL frames")
        if kind == "CANFD":
            return self._fd_frame(time_ns, words[1:])
        if not kind.isdecimal() or len(words) < 2:
            return None  # statistics, states of the controller, events of other buses
        bus = str(int(kind) - 1)
        if words[1].lower() == "errorframe":
            return LoggedFrame(time_ns, bus, 0, int(FrameFlag.ERROR), 0, b"")
        if len(words) < 4 or words[2].lower() not in ("rx", "tx", "txrq"):
            return None
        identifier, flags = self._identifier(words[1], words[2])
        if words[2].lower() == "txrq":
            return None  # asked for; the line of what was sent follows
        if words[3].lower() == "r":
            has = len(words) > 4 and words[4].isalnum() and len(words[4]) == 1
            dlc = int(words[4], self._base) if has else 0
            flags |= FrameFlag.REMOTE
            return LoggedFrame(time_ns, bus, identifier, int(flags), dlc, b"")
        dlc = int(words[4], self._base)
        data = self._data(words[5 : 5 + min(dlc, CLASSIC_BYTES)])
        return LoggedFrame(time_ns, bus, identifier, int(flags), dlc, data)

    def _fd_frame(self, time_ns: int, words: list[str]) -> LoggedFrame | None:
        bus = str(int(words[0]) - 1)
        if words[2].lower() == "errorframe":
            return LoggedFrame(time_ns, bus, 0, int(FrameFlag.ERROR), 0, b"")
        if words[1].lower() not in ("rx", "tx"):
            return None
        identifier, flags = self._identifier(words[2], words[1])
        # The name of the message may stand between identifier and bit rate switch.
        named = not (words[3] in ("0", "1") and words[4] in ("0", "1"))
        switch, state, code, length, *rest = words[3 + named :]
        data = self._data(rest[: int(length)])
        flags |= self._format(rest[int(length) :], len(data))
        if flags & FrameFlag.FD:
            flags |= FrameFlag.BIT_RATE_SWITCH if switch == "1" else FrameFlag(0)
            flags |= FrameFlag.ERROR_STATE if state == "1" else FrameFlag(0)
        dlc = len(data) or length_of(int(code, 16))
        return LoggedFrame(time_ns, bus, identifier, int(flags), dlc, data)

    @staticmethod
    def _format(tail: list[str], length: int) -> FrameFlag:
        """Tools write classic frames of an FD bus so, too; flags tell, behind duration and bits."""
        known = int(tail[2], 16) if len(tail) > 2 else 0
        if known & _FD_FLAG or length > CLASSIC_BYTES or not known:
            return FrameFlag.FD
        return FrameFlag.REMOTE if known & _REMOTE_FLAG else FrameFlag(0)

    def _identifier(self, text: str, way: str) -> tuple[int, FrameFlag]:
        flags = FrameFlag.SENT if way.lower() == "tx" else FrameFlag(0)
        if text[-1:].lower() == "x":
            text, flags = text[:-1], flags | FrameFlag.EXTENDED
        return int(text, self._base) & _IDENTIFIER, flags

    def _data(self, words: list[str]) -> bytes:
        """Bytes up to the first word that is none: some tools write the length of the frame."""
        found = bytearray()
        for word in words:
            if not word.isalnum() or len(word) > 3:
                break
            found.append(int(word, self._base))
        return bytes(found)


class AscWriter:
    """Writes frames as ASC; time 0 is the whole millisecond before the first frame.

    Parameters
    ----------
    file : TextIO
    """

    def __init__(self, file: TextIO) -> None:
        self.frames = 0
        self._file = file
        self._times = TimesFromStart()

    def write(self, frame: LoggedFrame) -> str:
        """Write a frame; what of it the format cannot hold, empty if it holds it."""
        flags, channel = frame.flags, int(frame.bus) + 1
        if not frame.whole:
            return NOT_RECORDED
        if (start_us := self._times.begin(frame.time_ns)) is not None:
            self._head(start_us)
        offset, left_out = self._times.since(frame.time_ns)
        seconds, rest = divmod(offset, 1_000_000)
        if flags & FrameFlag.ERROR:
            text = f"{channel}  ErrorFrame"
            if frame.identifier or frame.data:
                left_out = "contents of error frames"
        elif flags & FrameFlag.FD:
            text = self._fd_text(frame, channel)
        else:
            kind = "r" if flags & FrameFlag.REMOTE else "d"
            data = frame.data.hex(" ").upper()
            text = f"{channel}  {_name(frame):<15} {_way(frame):<4} {kind} {frame.dlc:x} {data}"
        self.frames += 1
        self._file.write(f" {seconds:2d}.{rest:06d} {text.rstrip()}\n")
        return left_out

    def finish(self) -> None:
        """End the block of lines."""
        self._file.write("End TriggerBlock\n")

    def _head(self, start_us: int) -> None:
        seconds, rest = divmod(start_us, 1_000_000)
        at = datetime.fromtimestamp(seconds)
        clock = f"{at:%H:%M:%S}.{rest // 1000:03d} {at:%Y}"
        date = f"{_DAYS[at.weekday()]} {_MONTHS[at.month - 1]} {at.day:02d} {clock}"
        self._file.write(
            f"date {date}\nbase hex  timestamps absolute\ninternal events logged\n"
            f"Begin Triggerblock {date}\n  0.000000 Start of measurement\n"
        )

    @staticmethod
    def _fd_text(frame: LoggedFrame, channel: int) -> str:
        switch = bool(frame.flags & FrameFlag.BIT_RATE_SWITCH)
        state = bool(frame.flags & FrameFlag.ERROR_STATE)
        flags = _FD_FLAG | _BRS_FLAG * switch | _ESI_FLAG * state
        data = "".join(f"{byte:02X} " for byte in frame.data)
        return (
            f"CANFD {channel:3d} {_way(frame):<4} {_name(frame):>8}  {'':>32} {switch:d} {state:d} "
            f"{code_of(frame.dlc):x} {len(frame.data):2d} {data}{0:>8} {0:>4} {flags:>8X}"
            + f" {0:>8}"
            * 5
        )


def _name(frame: LoggedFrame) -> str:
    return f"{frame.identifier:X}" + ("x" if frame.flags & FrameFlag.EXTENDED else "")


def _way(frame: LoggedFrame) -> str:
    return "Tx" if frame.flags & FrameFlag.SENT else "Rx"
