"""Frames of python-can's ``udp_multicast`` interface, read at a third of its cost.

python-can spends a ``select``, a filter and a full message on every datagram, wanted or not, and
`udp_multicast` also delivers a sender its own. At 1 kHz that is half of a process's work. Here a
datagram is read directly and looked at only as far as its identifier before it is dropped.
Sending stays with python-can; so does reading on every other interface.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable

import can
import msgspec
from cantools.database.can import Message

_DATAGRAM_BYTES = 4096
_TIMESTAMP = struct.Struct("@ll")  # SO_TIMESTAMPNS: s, ns
_ANCILLARY_BYTES = 64


class _Datagram(msgspec.Struct):
    """The fields of python-can's datagram that make a received frame."""

    arbitration_id: int
    is_extended_id: bool
    is_remote_frame: bool
    is_error_frame: bool
    data: bytes


class UdpReader:
    """Wanted frames from the socket of an open ``udp_multicast`` bus.

    Parameters
    ----------
    fd : int
        The bus's file descriptor; it stays the bus's.
    wanted : iterable of Message
        Messages that are listened to; other frames are dropped.

    Attributes
    ----------
    errors : int
        Datagrams that are no frames.
    """

    def __init__(self, fd: int, wanted: Iterable[Message]) -> None:
        self.errors = 0
        self._socket = socket.socket(fileno=os.dup(fd))
        self._wanted = {(m.frame_id, m.is_extended_frame) for m in wanted}
        self._decode = msgspec.msgpack.Decoder(_Datagram).decode

    @staticmethod
    def available(interface: object) -> bool:
        """Whether frames of that python-can interface can be read so, on this system."""
        return interface == "udp_multicast" and hasattr(socket, "MSG_DONTWAIT")

    def drain(self, limit: int = 256) -> list[can.Message]:
        """Wanted frames among at most `limit` that have arrived; never blocks."""
        frames: list[can.Message] = []
        receive, wanted, decode = self._socket.recvmsg, self._wanted, self._decode
        for _ in range(limit):
            try:
                data, ancillary, _, _ = receive(
                    _DATAGRAM_BYTES, _ANCILLARY_BYTES, socket.MSG_DONTWAIT
                )
            except BlockingIOError:
                break
            try:
                fields = decode(data)
            except msgspec.DecodeError:
                self.errors += 1
                continue
            if (fields.arbitration_id, fields.is_extended_id) not in wanted:
                continue
            timestamp = 0.0
            if ancillary and len(ancillary[0][2]) == _TIMESTAMP.size:
                seconds, nanoseconds = _TIMESTAMP.unpack(ancillary[0][2])
                timestamp = seconds + 1e-9 * nanoseconds
            frames.append(
                can.Message(
                    timestamp=timestamp,
                    arbitration_id=fields.arbitration_id,
                    is_extended_id=fields.is_extended_id,
                    is_remote_frame=fields.is_remote_frame,
                    is_error_frame=fields.is_error_frame,
                    data=fields.data,
                )
            )
        return frames

    def close(self) -> None:
        """Release the socket."""
        self._socket.close()
