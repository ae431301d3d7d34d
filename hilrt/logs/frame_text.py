r"""Readers of CAN logs in text formats: candump, ASC and TRC.

python-can's readers are not used, because they drop or misread what benches log: error frames with
their contents, dates, frames without data, times relative to the previous line. The formats differ:

========  ====================  ===============================  ==============================
\         candump               ASC (Vector)                     TRC (PEAK)
========  ====================  ===============================  ==============================
times     s since 1970          s since a date in the head, or   ms since a start that is given
                                since the line before            in days since 1899-12-30
zone      UTC                   none: taken as this machine's    none: taken as UTC
buses     interfaces' names     channels from 1                  channels from 1
numbers   hexadecimal           as the head says                 hexadecimal
columns   fixed                 fixed, others for CAN FD         named in the head, or by version
errors    with contents         without                          PEAK's own
========  ====================  ===============================  ==============================
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path

from hilrt.can.frame import CLASSIC_BYTES, FD_LENGTHS
from hilrt.files.text import open_lines
from hilrt.logs.source import FrameSource, Source, format_suffix
from hilrt.record.logged_frame import FrameFlag, LoggedFrame, impossible

#: Maximum characters of a line: a frame takes some 300, statistics of a bus a few more.
MAX_LINE = 1 << 14
#: Maximum lines without a frame at the start; with more, the file has another format.
_PATIENCE = 1000
_IDENTIFIER = 0x1FFFFFFF


class FrameTextError(ValueError):
    """Error for a line that does not follow its format."""


class NotAFrame(Exception):
    """Exception for a line that is not a supported frame; its text names the kind, in plural."""


class CanSource(FrameSource):
    """CAN log in one of these formats."""

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
    """Name of a file's format, and the function that reads a line of it.

    That function returns None for a line without a frame. It raises `NotAFrame` for a kind of frame
    that is not supported, and `FrameTextError` for an invalid line of such a log.
    """
    match format_suffix(path):
        case ".log":
            return "candump log", read_candump
        case ".asc":
            return "ASC log", AscReader(notes).read_line
    return "TRC log", TrcReader().read_line


def _read_lines(
    source: Source,
    name: str,
    lines: Iterable[str],
    read_line: Callable[[str], LoggedFrame | None],
) -> Iterator[LoggedFrame]:
    """Yield the frames of the lines, and count other lines; too many mean another format."""
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
            first = first or f"line {number} {error if known else 'has an invalid number'}"
            if not found or unread > _PATIENCE + found:
                raise source.fail(f"is no {name}: {first}; the suffix gives the format") from None
            continue
        if frame is not None:
            found += 1
            yield frame
    if unread:
        source.notes.append(f"{unread} lines that cannot be read; {first}")
    for what, count in skipped.items():
        source.notes.append(f"{count} {what}: they are not supported")


def nanoseconds(text: str, factor: int = 1_000_000_000) -> int:
    """Convert a decimal number in units of `factor` ns to integer ns, without using a float."""
    whole, _, decimals = text.strip().lstrip("+-").partition(".")
    scale = int("1" + "0" * len(decimals))
    found = (int(whole or "0") * scale + int(decimals or "0")) * factor // scale
    return -found if text.strip().startswith("-") else found


def microseconds(time_ns: int) -> int:
    """Round a time [ns] to µs."""
    return (time_ns + 500) // 1000


def length_of(code: int) -> int:
    """Number of data bytes of a CAN FD frame with this data length code."""
    return FD_LENGTHS[min(code, len(FD_LENGTHS) - 1)]


def code_of(length: int) -> int:
    """Data length code of a CAN FD frame with this number of data bytes."""
    return next((code for code, n in enumerate(FD_LENGTHS) if n >= length), 15)


# -- candump --------------------------------------------------------------------------------------

_CANDUMP_LINE = re.compile(
    r"\((?P<time>-?\d+\.\d+)\)\s+(?P<bus>\S+)\s+(?P<id>[0-9A-Fa-f]+)#(?P<body>\S*)"
    r"(?:\s+(?P<way>[RrTt])\b.*)?\s*$"
)
_CANDUMP_BODY = re.compile(
    r"(?:(?P<fd>#[0-9A-Fa-f])|(?P<remote>[Rr](?P<length>\d?)))?"
    r"(?P<data>(?:[0-9A-Fa-f]{2})*)(?:_(?P<dlc>[0-9A-Fa-f]))?$"
)
#: Bit that marks an error frame's identifier; linux/can/error.h explains the other bits.
CANDUMP_ERROR = 0x20000000
#: Meaning of the digit after the second ``#`` of a CAN FD frame.
CANDUMP_BIT_RATE_SWITCH, CANDUMP_ERROR_STATE = 1, 2


def read_candump(line: str) -> LoggedFrame | None:
    """Return the frame of a line; None for an empty one."""
    found = _CANDUMP_LINE.match(line)
    if found is None:
        if line.strip():
            raise FrameTextError("is not a line of a candump log")
        return None
    body = _CANDUMP_BODY.match(found["body"])
    if body is None:
        if ":" in found["body"]:  # 123#81:00:12345678#1122
            raise NotAFrame("CAN XL frames")
        raise FrameTextError(f"has no frame in {found['body']!r}")
    raw, data = int(found["id"], 16), bytes.fromhex(body["data"])
    flags = FrameFlag.SENT if (found["way"] or "R") in "Tt" else FrameFlag(0)
    dlc = len(data)
    if raw & CANDUMP_ERROR:
        flags |= FrameFlag.ERROR
    elif len(found["id"]) > 3:
        flags |= FrameFlag.EXTENDED
    if body["fd"]:
        bits = int(body["fd"][1:], 16)
        flags |= FrameFlag.FD
        flags |= FrameFlag.BIT_RATE_SWITCH if bits & CANDUMP_BIT_RATE_SWITCH else FrameFlag(0)
        flags |= FrameFlag.ERROR_STATE if bits & CANDUMP_ERROR_STATE else FrameFlag(0)
    elif body["remote"]:
        flags |= FrameFlag.REMOTE
        dlc = int(body["length"] or 0)
    if body["dlc"]:
        dlc = int(body["dlc"], 16)
    return LoggedFrame(
        nanoseconds(found["time"]), found["bus"], raw & _IDENTIFIER, int(flags), dlc, data
    )


# -- ASC ------------------------------------------------------------------------------------------

_DATE = re.compile(r"(?:date|begin\s+triggerblock)\s+(?P<date>\S.*)", re.IGNORECASE)
_BASE = re.compile(r"base\s+(?P<base>hex|dec)(?:\s+timestamps\s+(?P<times>\w+))?", re.IGNORECASE)
_EVENT = re.compile(r"\s*(?P<time>-?\d+\.\d+)\s+(?P<rest>\S.*)")
_START = re.compile(r"start of measurement", re.IGNORECASE)
#: Formats of dates, without the day of the week: 24 or 12 hours, with or without milliseconds.
_DATE_FORMATS = (
    "%m %d %H:%M:%S.%f %Y",
    "%m %d %H:%M:%S %Y",
    "%m %d %I:%M:%S.%f %p %Y",
    "%m %d %I:%M:%S %p %Y",
)
ASC_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
ASC_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: Names of months; tools write them in the language of the system.
_OTHER_MONTHS = {"Mär": 3, "Mrz": 3, "Mai": 5, "Okt": 10, "Dez": 12}
#: Flags at the end of a line of CAN FD: its format, bit rate switch, error state.
ASC_FD, ASC_BIT_RATE_SWITCH, ASC_ERROR_STATE = 1 << 12, 1 << 13, 1 << 14
_ASC_REMOTE = 1 << 4


def date_ns(text: str) -> int:
    """Nanoseconds since 1970 (UTC) of a header's date; `ValueError` if it cannot be parsed."""
    words = text.split()
    if words and not words[0][0].isdigit() and len(words) > 4:
        words = words[1:]  # without the day of the week
    if not words:
        raise ValueError(text)
    months = {name: i + 1 for i, name in enumerate(ASC_MONTHS)} | _OTHER_MONTHS
    words[0] = str(months.get(words[0].strip(".").capitalize()[:3], words[0]))
    for form in _DATE_FORMATS:
        try:
            found = datetime.strptime(" ".join(words), form).astimezone()
        except ValueError:
            continue
        return int(found.replace(microsecond=0).timestamp()) * 10**9 + found.microsecond * 1000
    raise ValueError(text)


class AscReader:
    """Reader of the lines of an ASC file.

    Parameters
    ----------
    notes : list of str
        Notes on dubious points are appended.
    """

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes
        self._start_ns = 0
        self._block_ns: int | None = None
        self._base = 16
        self._relative = False
        self._last_ns = 0

    def read_line(self, line: str) -> LoggedFrame | None:
        """Return the frame of a line; None for a line without one."""
        event = _EVENT.match(line)
        if event is None:
            self._header(line.strip())
            return None
        at = nanoseconds(event["time"])
        if self._relative:  # relative to the previous event of any kind
            at += self._last_ns
            self._last_ns = at
        rest = event["rest"]
        if _START.match(rest):
            # The trigger's date is the date of time 0 only if the measurement starts with it.
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
                note = f"the date {found['date']!r}: it cannot be parsed, so times count from 1970"
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
            return None  # a request to send; the line of the sent frame follows
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
        # The message's name may come between identifier and bit rate switch.
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
        """Format by the flags after duration and bits; the line may also be a classic frame."""
        known = int(tail[2], 16) if len(tail) > 2 else 0
        if known & ASC_FD or length > CLASSIC_BYTES or not known:
            return FrameFlag.FD
        return FrameFlag.REMOTE if known & _ASC_REMOTE else FrameFlag(0)

    def _identifier(self, text: str, way: str) -> tuple[int, FrameFlag]:
        flags = FrameFlag.SENT if way.lower() == "tx" else FrameFlag(0)
        if text[-1:].lower() == "x":
            text, flags = text[:-1], flags | FrameFlag.EXTENDED
        return int(text, self._base) & _IDENTIFIER, flags

    def _data(self, words: list[str]) -> bytes:
        """Data bytes up to the first other word: some tools write the frame's length after them."""
        found = bytearray()
        for word in words:
            if not word.isalnum() or len(word) > 3:
                break
            found.append(int(word, self._base))
        return bytes(found)


# -- TRC ------------------------------------------------------------------------------------------

#: Columns by version, for versions whose files do not name them.
_TRC_COLUMNS = {
    "1.0": "N,O,I,l,D",
    "1.1": "N,O,d,I,l,D",
    "1.2": "N,O,B,d,I,l,D",
    "1.3": "N,O,B,d,I,R,l,D",
}
_FD = FrameFlag.FD
#: Message types that are frames.
TRC_TYPES = {
    "DT": FrameFlag(0),
    "FD": _FD,
    "FB": _FD | FrameFlag.BIT_RATE_SWITCH,
    "FE": _FD | FrameFlag.BIT_RATE_SWITCH | FrameFlag.ERROR_STATE,
    "BI": _FD | FrameFlag.ERROR_STATE,
    "RR": FrameFlag.REMOTE,
    "ER": FrameFlag.ERROR,
}
US_PER_DAY = 86_400_000_000
#: Days from 1899-12-30 to 1970-01-01.
TRC_DAYS = 25_569
#: Bus of a frame without a number, and number of the first bus.
TRC_FIRST_BUS = 1


class TrcReader:
    """Reader of the lines of a TRC file."""

    def __init__(self) -> None:
        self._start_ns = 0
        self._columns = _TRC_COLUMNS["1.0"].split(",")
        self._named = False

    def read_line(self, line: str) -> LoggedFrame | None:
        """Return the frame of a line; None for a line without one."""
        text = line.strip()
        if not text or text.startswith(";"):
            try:
                self._header(text)
            except ValueError:
                raise FrameTextError(f"has no date in {text!r}") from None
            return None
        # The data may have any number of words.
        words = text.split(maxsplit=len(self._columns) - 1)
        try:
            return self._frame(dict(zip(self._columns, words, strict=False)))
        except (KeyError, ValueError):
            raise FrameTextError(f"has no frame in {text!r}") from None

    def _header(self, line: str) -> None:
        key, _, value = line.partition("=")
        if key == ";$FILEVERSION" and value in _TRC_COLUMNS:
            self._columns = _TRC_COLUMNS[value].split(",")
        elif key == ";$STARTTIME":
            start = microseconds(nanoseconds(value, 1000 * US_PER_DAY))
            self._start_ns = 1000 * (start - TRC_DAYS * US_PER_DAY)
        elif key == ";$COLUMNS":
            self._columns, self._named = value.strip().split(","), True

    def _frame(self, words: dict[str, str]) -> LoggedFrame | None:
        way = words.get("d", "Rx")
        flags = TRC_TYPES.get(words["T"]) if self._named else FrameFlag(0)
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
        bus = str(int(words.get("B", TRC_FIRST_BUS)) - TRC_FIRST_BUS)
        at = self._start_ns + nanoseconds(words["O"], 1_000_000)
        return LoggedFrame(at, bus, int(words["I"], 16), int(flags), dlc, body[:dlc])
