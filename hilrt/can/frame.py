"""A CAN frame as the gateway handles it: small, and the same from every interface.

Identifier and kind share one number, laid out as in Linux's ``struct can_frame``: a frame is looked
up by a single dictionary access, and remote and error frames never look like data.
"""

from __future__ import annotations

from typing import NamedTuple

import can
from cantools.database.can import Message

EXTENDED = 1 << 31
REMOTE = 1 << 30
ERROR = 1 << 29
STANDARD_MASK = 0x7FF
EXTENDED_MASK = 0x1FFFFFFF

#: Bytes of a frame without CAN FD, and of one with it.
CLASSIC_BYTES = 8
FD_BYTES = 64


class Frame(NamedTuple):
    """One frame.

    Parameters
    ----------
    can_id : int
        Identifier, with `EXTENDED`, `REMOTE` and `ERROR` as they apply.
    data : bytes
        Up to 8 bytes, up to 64 with CAN FD.
    t_ns : int
        When it was received on the system's clock, ns; 0 where nobody says.
    fd : bool
        CAN FD frame format.
    """

    can_id: int
    data: bytes
    t_ns: int = 0
    fd: bool = False

    @property
    def identifier(self) -> int:
        """Arbitration identifier alone."""
        return self.can_id & (EXTENDED_MASK if self.can_id & EXTENDED else STANDARD_MASK)

    @property
    def text(self) -> str:
        """Identifier as engineers write it; extended ones with all digits."""
        return f"0x{self.identifier:08X}" if self.can_id & EXTENDED else f"0x{self.identifier:X}"


def can_id_of(message: Message) -> int:
    """Number under which data frames of a database message are found."""
    return int(message.frame_id) | (EXTENDED if message.is_extended_frame else 0)


def from_message(message: can.Message) -> Frame:
    """Frame of a python-can message."""
    can_id = message.arbitration_id
    if message.is_extended_id:
        can_id |= EXTENDED
    if message.is_remote_frame:
        can_id |= REMOTE
    if message.is_error_frame:
        can_id |= ERROR
    return Frame(can_id, bytes(message.data), round(message.timestamp * 1e9), message.is_fd)


def to_message(frame: Frame) -> can.Message:
    """python-can message of a frame, without python-can's checks."""
    return can.Message(
        timestamp=frame.t_ns * 1e-9,
        arbitration_id=frame.identifier,
        is_extended_id=bool(frame.can_id & EXTENDED),
        is_remote_frame=bool(frame.can_id & REMOTE),
        is_error_frame=bool(frame.can_id & ERROR),
        is_fd=frame.fd,
        bitrate_switch=frame.fd,
        data=frame.data,
    )
