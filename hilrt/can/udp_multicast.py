"""Frames of python-can's ``udp_multicast`` interface, without the overhead of its messages.

python-can spends a ``select``, a filter and a full message on every datagram. Here datagrams are
read directly, and frames are sent from a separate socket, so that own frames are recognised by
their source port and discarded, as by a CAN controller.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time
from typing import Any

import can
import msgspec
from can.interfaces.udp_multicast.utils import pack_message, unpack_message

from hilrt.can.frame import ERROR, EXTENDED, EXTENDED_MASK, REMOTE, Frame, as_socketcan
from hilrt.files.formats import NOT_MSGPACK


def from_message(message: can.Message, interface: str = "socketcan") -> Frame:
    """Frame for a message from an interface of python-can."""
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
    """python-can message for a frame, without python-can's checks."""
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


_DATAGRAM_BYTES = 4096
_TIMESTAMP = struct.Struct("@ll")  # SO_TIMESTAMPNS: s, ns
_ANCILLARY_BYTES = 64


class _Datagram(msgspec.Struct):
    """A frame as written by python-can on this interface, in its order."""

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
    """The fields of a received frame; all are required."""

    arbitration_id: int
    is_extended_id: bool
    is_remote_frame: bool
    is_error_frame: bool
    data: bytes
    is_fd: bool = False


class UdpFrames:
    """Frames in through the socket of an open ``udp_multicast`` bus, and out through another.

    Parameters
    ----------
    fd : int
        File descriptor of the bus, which still owns it.
    group : str, optional
        Address to send to, with the port of `fd`. Default: sending is not possible.
    hop_limit : int
        Maximum number of routers that a frame passes; 0 keeps it on this machine.

    Attributes
    ----------
    errors : int
        Datagrams that are not frames.
    """

    def __init__(self, fd: int, group: str | None = None, hop_limit: int = 0) -> None:
        self.errors = 0
        self.down = self.gone = False  # a network within one machine is always up
        self._socket = socket.socket(fileno=os.dup(fd))
        self._decode = msgspec.msgpack.Decoder(_Received).decode
        self._encoder = msgspec.msgpack.Encoder()
        self._out: socket.socket | None = None
        self._own_port: int | None = None
        if group is not None:
            self._out = _sending_socket(self._socket, group, hop_limit)
            if hop_limit == 0:  # otherwise another machine could use the same port by chance
                self._own_port = self._out.getsockname()[1]

    @staticmethod
    def available(interface: object) -> bool:
        """Whether this class supports a python-can interface on this system."""
        return interface == "udp_multicast" and hasattr(socket, "MSG_DONTWAIT")

    def drain(self, limit: int = 256) -> list[Frame]:
        """Frames of other senders among at most `limit` received ones; never blocks."""
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
        """Send a frame without waiting; `OSError` if that fails."""
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
    """Connected, non-blocking socket; its messages are also delivered on this machine."""
    family, port = like.family, like.getsockname()[1]
    made = socket.socket(family, socket.SOCK_DGRAM)
    try:
        hops = struct.pack("@I", hop_limit)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, hops)
        else:
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, hops)
            # 4 bytes: the address of the interface, 0 to use the routes
            interface = like.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, 4)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        made.connect((group, port))
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


#: python-can's own default.
DEFAULT_PORT = 43113
_LOOPBACK = socket.inet_aton("127.0.0.1")
_SO_TIMESTAMPNS = 35  # of Linux


class LoopbackBus(can.BusABC):
    """A bus within this machine, with python-can's format of ``udp_multicast``.

    Parameters
    ----------
    channel : str
        The group, an IPv4 address.
    port : int
        Port of the datagrams.
    """

    def __init__(self, channel: str, port: int = DEFAULT_PORT) -> None:
        super().__init__(channel)
        self._can_protocol = can.CanProtocol.CAN_FD
        self._destination = channel, port
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT, _SO_TIMESTAMPNS):
                self._socket.setsockopt(socket.SOL_SOCKET, option, 1)
            for option, value in (
                (socket.IP_MULTICAST_TTL, bytes(1)),
                (socket.IP_MULTICAST_IF, _LOOPBACK),
                (socket.IP_ADD_MEMBERSHIP, socket.inet_aton(channel) + _LOOPBACK),
            ):
                self._socket.setsockopt(socket.IPPROTO_IP, option, value)
            self._socket.bind(("", port))
        except OSError as error:
            self.shutdown()
            raise can.CanInitializationError(f"no multicast on loopback: {error}") from error

    def fileno(self) -> int:
        """File descriptor that is readable when there are frames."""
        return self._socket.fileno()

    def send(self, msg: can.Message, timeout: float | None = None) -> None:
        """Send a frame; the system accepts it immediately."""
        try:
            self._socket.sendto(pack_message(msg), self._destination)
        except OSError as error:
            raise can.CanOperationError(f"cannot be sent: {error}") from error

    def _recv_internal(self, timeout: float | None) -> tuple[can.Message | None, bool]:
        if not select.select([self._socket], [], [], timeout)[0]:
            return None, False
        data, ancillary, _, _ = self._socket.recvmsg(_DATAGRAM_BYTES, _TIMESTAMP.size * 4)
        t = time.time()
        if ancillary and len(ancillary[0][2]) == _TIMESTAMP.size:
            seconds, nanoseconds = _TIMESTAMP.unpack(ancillary[0][2])
            t = seconds + nanoseconds * 1e-9
        try:
            return unpack_message(data, replace={"timestamp": t}, check=True), False
        except Exception as error:  # a datagram may contain anything
            raise can.CanOperationError("could not unpack received message") from error

    def shutdown(self) -> None:
        """Close the socket."""
        super().shutdown()
        self._socket.close()


def open_can(**arguments: Any) -> can.BusABC:
    """Open `can.Bus`, or a `LoopbackBus` if there is no network for local frames.

    ``udp_multicast`` has ``hop_limit = 0`` by default: its frames stay on this machine.
    """
    channel = arguments.get("channel")
    multicast = arguments.get("interface") == "udp_multicast"
    if multicast:
        arguments.setdefault("hop_limit", 0)
    if (
        multicast
        and arguments["hop_limit"] == 0
        and isinstance(channel, str)
        and without_route(channel)
    ):
        return LoopbackBus(channel, int(arguments.get("port", DEFAULT_PORT)))
    return can.Bus(ignore_config=True, **arguments)


def without_route(group: str) -> bool:
    """Whether this machine has no route to an IPv4 group; nothing is sent."""
    try:
        address = socket.inet_aton(group)
    except OSError:  # IPv6, or no address
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        if address[0] >> 4 != 14 or not hasattr(socket, "SO_REUSEPORT"):
            return False
        error = probe.connect_ex((group, DEFAULT_PORT))
    return error in (errno.ENETUNREACH, errno.ENODEV, errno.EHOSTUNREACH)
