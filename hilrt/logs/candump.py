"""candump's log format (``candump -l``): a line per frame, its time to the microsecond."""

from __future__ import annotations

import re
from typing import TextIO

from hilrt.can.frame import CLASSIC_BYTES
from hilrt.logs.frame_text import (
    NOT_RECORDED,
    FrameTextError,
    NotAFrame,
    microseconds,
    nanoseconds,
)
from hilrt.record.logged_frame import FrameFlag, LoggedFrame

_LINE = re.compile(
    r"\((?P<time>-?\d+\.\d+)\)\s+(?P<bus>\S+)\s+(?P<id>[0-9A-Fa-f]+)#(?P<body>\S*)"
    r"(?:\s+(?P<way>[RrTt])\b.*)?\s*$"
)
_BODY = re.compile(
    r"(?:(?P<fd>#[0-9A-Fa-f])|(?P<remote>[Rr](?P<length>\d?)))?"
    r"(?P<data>(?:[0-9A-Fa-f]{2})*)(?:_(?P<dlc>[0-9A-Fa-f]))?$"
)
#: The identifier of an error frame: linux/can/error.h says what its other bits mean.
_ERROR = 0x20000000
_IDENTIFIER = 0x1FFFFFFF
#: What the digit after the second ``#`` says of a CAN FD frame.
_BIT_RATE_SWITCH, _ERROR_STATE = 1, 2


def read_line(line: str) -> LoggedFrame | None:
    """The frame of a line; None for an empty one.

    Raises
    ------
    NotAFrame
        If the line is of a kind of frame that is not taken (CAN XL).
    FrameTextError
        If it is no line of such a log.
    """
    found = _LINE.match(line)
    if found is None:
        if line.strip():
            raise FrameTextError("is no line of a candump log")
        return None
    body = _BODY.match(found["body"])
    if body is None:
        if ":" in found["body"]:  # 123#81:00:12345678#1122
            raise NotAFrame("CAN XL frames")
        raise FrameTextError(f"has no frame in {found['body']!r}")
    raw, data = int(found["id"], 16), bytes.fromhex(body["data"])
    flags = FrameFlag.SENT if (found["way"] or "R") in "Tt" else FrameFlag(0)
    dlc = len(data)
    if raw & _ERROR:
        flags |= FrameFlag.ERROR
    elif len(found["id"]) > 3:
        flags |= FrameFlag.EXTENDED
    if body["fd"]:
        bits = int(body["fd"][1:], 16)
        flags |= FrameFlag.FD
        flags |= FrameFlag.BIT_RATE_SWITCH if bits & _BIT_RATE_SWITCH else FrameFlag(0)
        flags |= FrameFlag.ERROR_STATE if bits & _ERROR_STATE else FrameFlag(0)
    elif body["remote"]:
        flags |= FrameFlag.REMOTE
        dlc = int(body["length"] or 0)
    if body["dlc"]:
        dlc = int(body["dlc"], 16)
    return LoggedFrame(
        nanoseconds(found["time"]), found["bus"], raw & _IDENTIFIER, int(flags), dlc, data
    )


class CandumpWriter:
    """Writes frames as candump does.

    Parameters
    ----------
    file : TextIO
    """

    def __init__(self, file: TextIO) -> None:
        self.frames = 0
        self._file = file
        self._names: dict[str, str] = {}

    def write(self, frame: LoggedFrame) -> str:
        """Write a frame; what of it the format cannot hold, empty if it holds it."""
        flags, data = frame.flags, frame.data.hex().upper()
        if not frame.whole:
            return NOT_RECORDED
        if flags & FrameFlag.ERROR:
            text = f"{_ERROR | frame.identifier:08X}#{data}"
        else:
            width = 8 if flags & FrameFlag.EXTENDED else 3
            text = f"{frame.identifier:0{width}X}#"
            if flags & FrameFlag.REMOTE:
                text += "R" + (str(min(frame.dlc, CLASSIC_BYTES)) if frame.dlc else "")
            elif flags & FrameFlag.FD:
                bits = _BIT_RATE_SWITCH if flags & FrameFlag.BIT_RATE_SWITCH else 0
                bits |= _ERROR_STATE if flags & FrameFlag.ERROR_STATE else 0
                text += f"#{bits:X}{data}"
            else:
                text += data
            if frame.dlc > CLASSIC_BYTES and not flags & FrameFlag.FD:
                text += f"_{frame.dlc:X}"
        seconds, rest = divmod(microseconds(frame.time_ns), 1_000_000)
        name = self._names.get(frame.bus) or self._name(frame.bus)
        way = "T" if flags & FrameFlag.SENT else "R"
        self._file.write(f"({seconds:010d}.{rest:06d}) {name} {text} {way}\n")
        self.frames += 1
        return ""

    def _name(self, bus: str) -> str:
        """An interface's name for a bus, which no other has."""
        name = f"can{bus}" if bus.isdecimal() else bus.replace(" ", "_") or "can0"
        while name in self._names.values():
            name += "_"
        self._names[bus] = name
        return name

    def finish(self) -> None:
        """Nothing stands at the end."""
