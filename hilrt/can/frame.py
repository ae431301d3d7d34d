"""A CAN frame in a compact form, the same for every interface.

Identifier and kind share one number, laid out as in Linux's ``struct can_frame``: a frame needs a
single dictionary look-up, and remote and error frames never look like data.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import can
from cantools.database import DecodeError

EXTENDED = 1 << 31
REMOTE = 1 << 30
ERROR = 1 << 29
STANDARD_MASK = 0x7FF
EXTENDED_MASK = 0x1FFFFFFF

#: Maximum bytes of a frame without and with CAN FD.
CLASSIC_BYTES = 8
FD_BYTES = 64
#: Bytes of a CAN FD frame by its data length code; other lengths are padded.
FD_LENGTHS: tuple[int, ...] = (*range(9), 12, 16, 20, 24, 32, 48, 64)


class Frame(NamedTuple):
    """One frame.

    Parameters
    ----------
    can_id : int
        Identifier, with `EXTENDED`, `REMOTE` and `ERROR` as they apply.
    data : bytes
        Up to 8 bytes, up to 64 with CAN FD.
    t_ns : int
        Time of reception on the system's clock, ns; 0 if unknown.
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
        """Identifier in the usual notation; extended ones with all digits."""
        return f"0x{self.identifier:08X}" if self.can_id & EXTENDED else f"0x{self.identifier:X}"


#: PCAN-Basic's status of a bus-off controller.
_PCAN_BUS_OFF = 0x10


def controller_off(interface: str, bus: can.BusABC) -> bool | None:
    """Whether the controller of a bus is bus-off; None if its driver does not report it."""
    try:
        if interface == "pcan":
            return bool(bus.status() & _PCAN_BUS_OFF)  # type: ignore[attr-defined]
        if interface == "ixxat":
            return bool(bus.state is can.BusState.ERROR)
    except Exception:  # drivers may raise any exception, and the interface may be gone
        return None
    return None


# Classes, in the identifier.
TIMED_OUT = 0x001
LOST_ARBITRATION = 0x002
CONTROLLER = 0x004
PROTOCOL = 0x008
TRANSCEIVER = 0x010
NO_ACKNOWLEDGE = 0x020
BUS_OFF = 0x040
BUS_ERROR = 0x080
RESTARTED = 0x100
#: Not a class of errors: data bytes 6 and 7 are the error counters, of sending and receiving.
COUNTERS = 0x200
# Details of the controller, in data byte 1.
OVERFLOW = 0x03
WARNING = 0x0C
PASSIVE = 0x30
ACTIVE = 0x40
#: Kinds of a protocol error, in data byte 2.
_PROTOCOL_KINDS = {
    0x01: "bit error",
    0x02: "form error",
    0x04: "stuff error",
    0x08: "a dominant bit was not sent",
    0x10: "a recessive bit was not sent",
    0x20: "overload",
    0x40: "active error announced",
}
_SENDING = 0x80
_CLASSES = {
    TIMED_OUT: "a frame was not sent in time",
    LOST_ARBITRATION: "arbitration lost",
    TRANSCEIVER: "error of the transceiver",
    NO_ACKNOWLEDGE: "no acknowledgement",
    BUS_OFF: "bus-off",
    RESTARTED: "controller restarted",
}
_CONTROLLER_DETAILS = {
    OVERFLOW: "buffer overflow",
    WARNING: "error warning level",
    PASSIVE: "error-passive",
    ACTIVE: "error-active again",
}

#: Interfaces of python-can whose error frames have SocketCAN's layout; two of them forward frames
#: of another program.
_SAME_LAYOUT = frozenset({"socketcan", "socketcand", "gs_usb", "udp_multicast", "virtual"})


def as_socketcan(interface: str, frame: Frame) -> Frame:
    """An interface's error frame in SocketCAN's layout; other frames unchanged."""
    if not frame.can_id & ERROR or interface in _SAME_LAYOUT:
        return frame
    if interface == "pcan" and frame.identifier & 0x07:  # bit, form and stuff errors have the
        kind = frame.identifier & 0x07  # same numbers there
        data = bytes([0, 0, kind, 0, 0, 0, 0, 0])
        return Frame(ERROR | PROTOCOL | BUS_ERROR, data, frame.t_ns)
    return Frame(ERROR | BUS_ERROR, bytes(8), frame.t_ns)


def error_text(frame: Frame) -> str:
    """Meaning of an error frame, as text."""
    data = frame.data.ljust(8, b"\0")
    parts = [text for kind, text in _CLASSES.items() if frame.can_id & kind]
    if frame.can_id & CONTROLLER:
        details = [text for bits, text in _CONTROLLER_DETAILS.items() if data[1] & bits]
        parts += details or ["the controller reports an error"]
    if frame.can_id & PROTOCOL:
        kinds = [text for bit, text in _PROTOCOL_KINDS.items() if data[2] & bit]
        way = " while sending" if data[2] & _SENDING else ""
        parts.append((", ".join(kinds) or "protocol error") + way)
    text = "; ".join(parts) or "error on the bus"
    if frame.can_id & COUNTERS:
        text += f" (error counters: {data[6]} sending, {data[7]} receiving)"
    return text


#: Errors of a bus that cannot be opened, is off, or has a full queue.
BUS_ERRORS: Final = (can.CanError, OSError)
#: Errors for data that do not fit their message.
DECODE_ERRORS: Final = (DecodeError, ValueError)
