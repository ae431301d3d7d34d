"""Frames of python-can's ``udp_multicast`` interface, read and written without its messages.

python-can spends a ``select``, a filter and a full message on every datagram. Here a datagram is
read directly, and frames leave through a socket of their own, so that own frames are known by their
source port and do not come back, as a CAN controller has it.
"""

from __future__ import annotations

import os
import socket
import struct

import msgspec

from hilrt.can.frame import ERROR, EXTENDED, REMOTE, Frame
from hilrt.files.msgpack import NOT_MSGPACK

_DATAGRAM_BYTES = 4096
_TIMESTAMP = struct.Struct("@ll")  # SO_TIMESTAMPNS: s, ns
_ANCILLARY_BYTES = 64


class _Datagram(msgspec.Struct):
    """A frame as python-can writes it on this interface, in its order."""

    timestamp: float = 0.0
    arbitration_id: int = 0
    is_extended_id: bool = False
    is_remote_frame: bool = False
    is_error_frame: bool = False
    channel: str | None = None
    dlc: int = 0
    data: bytes = b""
    is_fd: bool = False
    bitrate_switch: bool = False
    error_state_indicator: bool = False


class _Received(msgspec.Struct):
    """The fields that make a received frame; all must be there."""

    arbitration_id: int
    is_extended_id: bool
    is_remote_frame: bool
    is_error_frame: bool
    data: bytes
    is_fd: bool = False


class UdpFrames:
    """Frames in from the socket of an open ``udp_multicast`` bus, and out through another.

    Parameters
    ----------
    fd : int
        The bus's file descriptor; it stays the bus's.
    group : str, optional
        Address to send to, at the port of `fd`. Default: nothing can be sent.
    hop_limit : int
        How many routers a frame may pass; 0 keeps it on this machine.

    Attributes
    ----------
    errors : int
        Datagrams that are no frames.
    """

    def __init__(self, fd: int, group: str | None = None, hop_limit: int = 0) -> None:
        self.errors = 0
        self.down = self.gone = False  # a network of one machine is always there
        self._socket = socket.socket(fileno=os.dup(fd))
        self._decode = msgspec.msgpack.Decoder(_Received).decode
        self._encoder = msgspec.msgpack.Encoder()
        self._out: socket.socket | None = None
        self._own_port: int | None = None
        if group is not None:
            self._out = _sending_socket(self._socket, group, hop_limit)
            if hop_limit == 0:  # else another machine could send from the same port by chance
                self._own_port = self._out.getsockname()[1]

    @staticmethod
    def available(interface: object) -> bool:
        """Whether that python-can interface can be used so, on this system."""
        return interface == "udp_multicast" and hasattr(socket, "MSG_DONTWAIT")

    def drain(self, limit: int = 256) -> list[Frame]:
        """Frames of others among at most `limit` that have arrived; never blocks."""
        frames: list[Frame] = []
        receive, decode = self._socket.recvmsg, self._decode
        for _ in range(limit):
            try:
                data, ancillary, _, sender = receive(
                    _DATAGRAM_BYTES, _ANCILLARY_BYTES, socket.MSG_DONTWAIT
                )
            except BlockingIOError:
                break
            if sender[1] == self._own_port:
                continue
            try:
                fields = decode(data)
            except NOT_MSGPACK:
                self.errors += 1
                continue
            can_id = fields.arbitration_id
            if fields.is_extended_id:
                can_id |= EXTENDED
            if fields.is_remote_frame:
                can_id |= REMOTE
            if fields.is_error_frame:
                can_id |= ERROR
            t_ns = 0
            if ancillary and len(ancillary[0][2]) == _TIMESTAMP.size:
                seconds, nanoseconds = _TIMESTAMP.unpack(ancillary[0][2])
                t_ns = seconds * 1_000_000_000 + nanoseconds
            frames.append(Frame(can_id, fields.data, t_ns, fields.is_fd))
        return frames

    def send(self, frame: Frame) -> None:
        """Send a frame without waiting; `OSError` if it does not leave."""
        assert self._out is not None
        can_id = frame.can_id
        extended = can_id >= EXTENDED
        datagram = _Datagram(
            arbitration_id=can_id & (0x1FFFFFFF if extended else 0x7FF),
            is_extended_id=extended,
            is_remote_frame=bool(can_id & REMOTE),
            is_error_frame=bool(can_id & ERROR),
            dlc=len(frame.data),
            data=frame.data,
            is_fd=frame.fd,
            bitrate_switch=frame.fd,
        )
        self._out.send(self._encoder.encode(datagram))

    def close(self) -> None:
        """Release the sockets."""
        self._socket.close()
        if self._out is not None:
            self._out.close()


def _sending_socket(like: socket.socket, group: str, hop_limit: int) -> socket.socket:
    """Connected, non-blocking; what it sends is delivered on this machine too."""
    family, port = like.family, like.getsockname()[1]
    made = socket.socket(family, socket.SOCK_DGRAM)
    try:
        hops = struct.pack("@I", hop_limit)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, hops)
        else:
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, hops)
            # 4 bytes: the address of the interface, 0 where the routes name it
            interface = like.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, 4)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        made.connect((group, port))
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made
