"""Frames from and to the messages of python-can."""

from __future__ import annotations

import can

from hilrt.can.error_frames import as_socketcan
from hilrt.can.frame import ERROR, EXTENDED, EXTENDED_MASK, REMOTE, Frame


def from_message(message: can.Message, interface: str = "socketcan") -> Frame:
    """Frame of a message from an interface of python-can."""
    can_id = message.arbitration_id
    if message.is_extended_id:
        can_id |= EXTENDED
    if message.is_remote_frame:
        can_id |= REMOTE
    if message.is_error_frame:
        can_id = message.arbitration_id & EXTENDED_MASK | ERROR
    frame = Frame(can_id, bytes(message.data), round(message.timestamp * 1e9), message.is_fd)
    return as_socketcan(interface, frame) if message.is_error_frame else frame


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
