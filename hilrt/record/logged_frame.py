"""Raw CAN frames in a log: one channel per bus, one message per frame.

The topic is ``/can/BUS``; the message is CDR with the schema below, so that MCAP viewers read it.
The channel's metadata have the key ``frames``, which distinguishes frames from signals.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

ENCODING = "cdr"
SCHEMA_NAME = "hilrt/msg/CanFrame"
SCHEMA_ENCODING = "ros2msg"
SCHEMA = b"""uint32 id
uint8 flags  # 1 extended, 2 remote, 4 error, 8 FD, 16 bit rate switch, 32 error state, 64 sent
uint8 dlc  # bytes that the frame announces
uint8[] data
"""
TOPIC = "/can/"
#: Bus of a frame whose bus has no name.
UNNAMED = "bus"

#: Maximum data bytes of a classic CAN frame.
CLASSIC_BYTES = 8
#: Largest distance of a time from 1970, ns, so that the difference of two times fits into 64 bits.
LATEST_NS = 1 << 62
_MOST_IDENTIFIER, _MOST_BYTES = (1 << 32) - 1, 255
#: CDR header, id, flags, dlc, alignment, number of bytes.
_HEAD = struct.Struct("<4sIBB2xI")
_CDR = b"\x00\x01\x00\x00"


class FrameFlag(enum.IntFlag):
    """Kind of a frame."""

    EXTENDED = 1
    REMOTE = 2
    ERROR = 4
    FD = 8
    BIT_RATE_SWITCH = 16
    ERROR_STATE = 32
    SENT = 64


class LoggedFrame(NamedTuple):
    """CAN frame: wall clock [ns since 1970, UTC], bus, identifier, flags, length, data."""

    time_ns: int
    bus: str
    identifier: int
    flags: int
    dlc: int
    data: bytes

    @property
    def whole(self) -> bool:
        """Whether all its data were recorded; some tools log only identifiers."""
        if self.flags & (FrameFlag.ERROR | FrameFlag.REMOTE):
            return True
        announced = self.dlc if self.flags & FrameFlag.FD else min(self.dlc, CLASSIC_BYTES)
        return len(self.data) >= announced


def impossible(frame: LoggedFrame) -> str:
    """Reason why a log cannot hold a frame, worded to follow "line 3"; empty if it can."""
    if abs(frame.time_ns) > LATEST_NS:
        return "has a time that is centuries from 1970"
    if not 0 <= frame.identifier <= _MOST_IDENTIFIER:
        return f"has the identifier {frame.identifier:#x}, which does not fit into 32 bits"
    if not 0 <= frame.dlc <= _MOST_BYTES or len(frame.data) > _MOST_BYTES:
        return f"announces more than {_MOST_BYTES} bytes of data"
    return ""


def encode(frame: LoggedFrame) -> bytes:
    """Message of a frame; it does not contain the time and the bus."""
    return (
        _HEAD.pack(_CDR, frame.identifier, int(frame.flags), frame.dlc, len(frame.data))
        + frame.data
    )


def decode(time_ns: int, bus: str, data: bytes) -> LoggedFrame:
    """Frame of a message; `ValueError` for anything else."""
    if len(data) < _HEAD.size:
        raise ValueError(f"a CAN frame of {len(data)} bytes")
    _, identifier, flags, dlc, length = _HEAD.unpack_from(data)
    body = data[_HEAD.size : _HEAD.size + length]
    if len(body) != length:
        raise ValueError(f"a CAN frame with {len(body)} of {length} data bytes")
    frame = LoggedFrame(time_ns, bus, identifier, flags, dlc, body)
    if abs(time_ns) > LATEST_NS:
        raise ValueError(f"a CAN frame that {impossible(frame)}")
    return frame


def topic(bus: str) -> str:
    """Topic of a bus."""
    return TOPIC + (bus or UNNAMED)


def bus_of(topic: str) -> str:
    """Bus of a topic."""
    return topic.removeprefix(TOPIC)
