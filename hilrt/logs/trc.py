"""PEAK's TRC logs: the start as days since 1899-12-30, then a line per frame, times in ms."""

from __future__ import annotations

from typing import TextIO

from hilrt.logs.frame_text import (
    NOT_RECORDED,
    FrameTextError,
    TimesFromStart,
    code_of,
    length_of,
    microseconds,
    nanoseconds,
)
from hilrt.record.logged_frame import FrameFlag, LoggedFrame

#: What the columns of the versions without a line that names them are.
_COLUMNS = {
    "1.0": "N,O,I,l,D",
    "1.1": "N,O,d,I,l,D",
    "1.2": "N,O,B,d,I,l,D",
    "1.3": "N,O,B,d,I,R,l,D",
}
_FD = FrameFlag.FD
#: Types of messages that are frames.
_TYPES = {
    "DT": FrameFlag(0),
    "FD": _FD,
    "FB": _FD | FrameFlag.BIT_RATE_SWITCH,
    "FE": _FD | FrameFlag.BIT_RATE_SWITCH | FrameFlag.ERROR_STATE,
    "BI": _FD | FrameFlag.ERROR_STATE,
    "RR": FrameFlag.REMOTE,
    "ER": FrameFlag.ERROR,
}
_TYPE_OF = {int(flags): name for name, flags in _TYPES.items()}
_KIND = _FD | FrameFlag.BIT_RATE_SWITCH | FrameFlag.ERROR_STATE | FrameFlag.REMOTE
_US_PER_DAY = 86_400_000_000
#: Days from 1899-12-30 to 1970-01-01.
_DAYS = 25_569
#: A bus without a number, and the first one.
_FIRST_BUS = 1


class TrcReader:
    """Frames of the lines of a file."""

    def __init__(self) -> None:
        self._start_ns = 0
        self._columns = _COLUMNS["1.0"].split(",")
        self._named = False

    def read_line(self, line: str) -> LoggedFrame | None:
        """The frame of a line; None for one that holds none.

        Raises
        ------
        FrameTextError
            If it is no line of such a log.
        """
        text = line.strip()
        if not text or text.startswith(";"):
            try:
                self._header(text)
            except ValueError:
                raise FrameTextError(f"has no date in {text!r}") from None
            return None
        # The data may hold no, or many words.
        words = text.split(maxsplit=len(self._columns) - 1)
        try:
            return self._frame(dict(zip(self._columns, words, strict=False)))
        except (KeyError, ValueError):
            raise FrameTextError(f"has no frame in {text!r}") from None

    def _header(self, line: str) -> None:
        key, _, value = line.partition("=")
        if key == ";$FILEVERSION" and value in _COLUMNS:
            self._columns = _COLUMNS[value].split(",")
        elif key == ";$STARTTIME":
            start = microseconds(nanoseconds(value, 1000 * _US_PER_DAY))
            self._start_ns = 1000 * (start - _DAYS * _US_PER_DAY)
        elif key == ";$COLUMNS":
            self._columns, self._named = value.strip().split(","), True

    def _frame(self, words: dict[str, str]) -> LoggedFrame | None:
        way = words.get("d", "Rx")
        flags = _TYPES.get(words["T"]) if self._named else FrameFlag(0)
        if flags is None or way.lower() not in ("rx", "tx") or words["I"].upper() == "FFFFFFFF":
            return None  # states of the bus, warnings, events
        data = words.get("D", "")
        if data.upper().startswith("RTR"):
            flags, data = flags | FrameFlag.REMOTE, ""
        body = bytes.fromhex(data)
        number = int(words["l"] if "l" in words else words["L"])
        dlc = length_of(number) if "L" in words and flags & _FD else number
        if flags & FrameFlag.ERROR:
            dlc = len(body)
        elif len(words["I"]) > 4:
            flags |= FrameFlag.EXTENDED
        if way.lower() == "tx":
            flags |= FrameFlag.SENT
        bus = str(int(words.get("B", _FIRST_BUS)) - _FIRST_BUS)
        at = self._start_ns + nanoseconds(words["O"], 1_000_000)
        return LoggedFrame(at, bus, int(words["I"], 16), int(flags), dlc, body[:dlc])


class TrcWriter:
    """Writes frames as version 2.1; time 0 is the whole millisecond before the first frame.

    Error frames are left out: the format keeps details of PEAK's own controllers about them.

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
        if frame.flags & FrameFlag.ERROR:
            return "error frames"
        if not frame.whole:
            return NOT_RECORDED
        if (start_us := self._times.begin(frame.time_ns)) is not None:
            self._head(start_us)
        offset, left_out = self._times.since(frame.time_ns)
        self.frames += 1
        extended = bool(frame.flags & FrameFlag.EXTENDED)
        way = "Tx" if frame.flags & FrameFlag.SENT else "Rx"
        code = code_of(frame.dlc) if frame.flags & _FD else frame.dlc
        line = (
            f"{self.frames:>7} {offset // 1000:>9}.{offset % 1000:03d} "
            f"{_TYPE_OF[frame.flags & _KIND]} {int(frame.bus) + _FIRST_BUS:>2} "
            f"{frame.identifier:0{8 if extended else 4}X} {way} -  {code:<4} "
        )
        self._line((line + frame.data.hex(" ").upper()).rstrip())
        return left_out

    def finish(self) -> None:
        """Nothing stands at the end."""

    def _head(self, start_us: int) -> None:
        days, rest = divmod(start_us, _US_PER_DAY)
        # 12 decimals of a day are 0.1 µs.
        fraction = f"{rest / _US_PER_DAY:.12f}".removeprefix("0")
        self._line(";$FILEVERSION=2.1")
        self._line(f";$STARTTIME={days + _DAYS}{fraction}")
        self._line(";$COLUMNS=N,O,T,B,I,d,R,L,D")
        self._line(";")
        self._line(";   number, offset in ms, type, bus, identifier, direction, -, length, data")

    def _line(self, text: str) -> None:
        self._file.write(text + "\r\n")
