"""A ``udp_multicast`` bus on a machine without a network.

python-can joins a multicast group on the interface that the routes name, and cannot be told another
one. Without a network no route leads to the group; frames that are not to leave the machine then
take the loopback interface.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import time
from typing import Any

import can
from can.interfaces.udp_multicast.utils import pack_message, unpack_message

#: python-can's own default.
DEFAULT_PORT = 43113
_LOOPBACK = socket.inet_aton("127.0.0.1")
_DATAGRAM_BYTES = 4096
_TIMESTAMP = struct.Struct("@ll")  # s, ns
_SO_TIMESTAMPNS = 35  # of Linux


class LoopbackBus(can.BusABC):
    """A bus whose frames pass within this machine, in python-can's format of ``udp_multicast``.

    Parameters
    ----------
    channel : str
        The group, an IPv4 address.
    port : int
        Of the datagrams.
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
        """Send a frame; the system takes it at once."""
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
        except Exception as error:  # a datagram may hold anything
            raise can.CanOperationError("could not unpack received message") from error

    def shutdown(self) -> None:
        """Close the socket."""
        super().shutdown()
        self._socket.close()


def open_can(**arguments: Any) -> can.BusABC:
    """`can.Bus`, or a `LoopbackBus` where that would find no network for what stays here."""
    channel = arguments.get("channel")
    stays = arguments.get("interface") == "udp_multicast" and arguments.get("hop_limit") == 0
    if stays and isinstance(channel, str) and without_route(channel):
        return LoopbackBus(channel, int(arguments.get("port", DEFAULT_PORT)))
    return can.Bus(ignore_config=True, **arguments)


def without_route(group: str) -> bool:
    """Whether no interface of this machine leads to an IPv4 group; sends nothing."""
    try:
        address = socket.inet_aton(group)
    except OSError:  # IPv6, or no address
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        if address[0] >> 4 != 14 or not hasattr(socket, "SO_REUSEPORT"):
            return False
        error = probe.connect_ex((group, DEFAULT_PORT))
    return error in (errno.ENETUNREACH, errno.ENODEV, errno.EHOSTUNREACH)
