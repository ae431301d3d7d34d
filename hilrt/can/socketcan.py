"""Frames of Linux's SocketCAN, read from and written to the raw socket of a python-can bus.

python-can opens and configures the socket; frames then bypass its messages, its ``select`` before
every call and its logging, which together cost several times the system call.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hilrt.can.device_clock import DeviceClock
from hilrt.can.frame import FD_LENGTHS, Frame

NS = 1_000_000_000

# struct can_frame: identifier, length, 3 bytes, 8 of data; struct canfd_frame: the same with 64
_HEADER = struct.Struct("=IBBBB")
_CLASSIC = struct.Struct("=IB3x8s")
_FD = struct.Struct("=IBB2x64s")
_FD_BYTES = _FD.size
_BIT_RATE_SWITCH = 0x01
_TIMESTAMP = struct.Struct("@ll")  # SO_TIMESTAMPNS: s, ns
_TIMESTAMPS = struct.Struct("@llllll")  # SO_TIMESTAMPING: the kernel's, unused, the hardware's
_ANCILLARY_BYTES = 128
#: SO_TIMESTAMPING, and its flags: raw stamps of kernel and hardware for received frames.
_SO_TIMESTAMPING = 37
_STAMPS = 0x04 | 0x08 | 0x10 | 0x40  # RX_HARDWARE, RX_SOFTWARE, SOFTWARE, RAW_HARDWARE
#: Error numbers of system calls on an interface that is down or missing.
_AWAY = (errno.ENETDOWN, errno.ENODEV, errno.ENXIO)


class SocketCanFrames:
    """Frames in and out through the raw socket of an open ``socketcan`` bus.

    Received frames have times of the system's clock. Hardware stamps, if the interface provides
    them, are converted by the shortest delay to the kernel's stamps; otherwise the kernel's stamps
    are used.

    Parameters
    ----------
    fd : int
        File descriptor of the bus, which still owns it.

    Attributes
    ----------
    errors : int
        Failed reads, and frames of invalid size.
    down : bool
        Whether the interface is down or gone, as of the latest read or write.
    gone : bool
        Whether it is gone: the socket is unbound, and must be reopened.
    stamps : str
        Origin of the frames' time stamps: ``hardware`` or ``kernel``.
    """

    def __init__(self, fd: int) -> None:
        self.errors = 0
        self.down = self.gone = False
        self.stamps = "kernel"
        self._hardware = DeviceClock()
        self._socket = socket.socket(fileno=os.dup(fd))
        with suppress(OSError):  # an old kernel keeps the stamps that python-can requested
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, _STAMPS)

    @staticmethod
    def available(interface: object, channel: object) -> bool:
        """Whether this class supports a python-can interface and channel on this system.

        An empty channel ("all channels") is not supported: its frames would need addresses.
        """
        return interface == "socketcan" and bool(channel) and hasattr(socket, "AF_CAN")

    def drain(self, limit: int = 256) -> list[Frame]:
        """Receive at most `limit` frames; never blocks."""
        frames: list[Frame] = []
        receive = self._socket.recvmsg
        for _ in range(limit):
            try:
                data, ancillary, _, _ = receive(_FD_BYTES, _ANCILLARY_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError as error:  # reported once; the next read continues
                self.errors += 1
                self._update_state(error)
                break
            self.down = False
            if len(data) not in (_CLASSIC.size, _FD_BYTES):
                self.errors += 1
                continue
            can_id, length, _, _, _ = _HEADER.unpack_from(data)
            t_ns = self._time_ns([content for _, _, content in ancillary])
            frames.append(Frame(can_id, data[8 : 8 + length], t_ns, len(data) == _FD_BYTES))
        return frames

    def _time_ns(self, stamps: Sequence[bytes]) -> int:
        """Time of reception on the system's clock from a frame's stamps, ns; 0: unknown."""
        kernel = hardware = 0
        for content in stamps:
            if len(content) == _TIMESTAMP.size:
                seconds, rest = _TIMESTAMP.unpack(content)
                kernel = seconds * NS + rest
            elif len(content) == _TIMESTAMPS.size:
                seconds, rest, _, _, hardware_s, hardware_ns = _TIMESTAMPS.unpack(content)
                kernel = kernel or seconds * NS + rest
                hardware = hardware_s * NS + hardware_ns
        if not (kernel and hardware):
            return kernel
        self.stamps = "hardware"
        return kernel - self._hardware.age(hardware, kernel)

    def send(self, frame: Frame) -> None:
        """Send a frame without waiting; `OSError` if that fails."""
        if frame.fd:
            length = next(n for n in FD_LENGTHS if n >= len(frame.data))
            raw = _FD.pack(frame.can_id, length, _BIT_RATE_SWITCH, frame.data)
        else:
            raw = _CLASSIC.pack(frame.can_id, len(frame.data), frame.data)
        try:
            self._socket.send(raw, socket.MSG_DONTWAIT)
        except BlockingIOError:
            raise OSError(errno.ENOBUFS, "Transmit buffer full") from None
        except OSError as error:
            if error.errno not in _AWAY:
                raise
            # An idle socket may report an old error: only a second failure is current.
            try:
                self._socket.send(raw, socket.MSG_DONTWAIT)
            except OSError as second:
                self._update_state(second)
                raise
        self.down = False

    def close(self) -> None:
        """Release the socket."""
        self._socket.close()

    def _update_state(self, error: OSError) -> None:
        if error.errno in _AWAY:
            self.down = True
            self.gone |= error.errno != errno.ENETDOWN


_NETLINK_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_LINK = struct.Struct("=BxHiII")  # family, type, index, flags, change
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_NEW_LINK, _REPLY = 16, 2
_REQUEST_WITH_REPLY = 0x01 | 0x04
_LINK_INFO, _INFO_KIND, _INFO_DATA, _CAN_RESTART = 18, 1, 2, 7
_NETLINK_ROUTE = 0
#: Bit of CAP_NET_ADMIN.
_NET_ADMIN = 12
#: Time limit for the kernel's immediate reply, s.
_REPLY_TIMEOUT_S = 0.05


def may_restart(status: Path = Path("/proc/self/status")) -> bool:
    """Whether this process has the capability CAP_NET_ADMIN; True if that is not known."""
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return True
    effective = [line.split()[1] for line in lines if line.startswith("CapEff:")]
    return not effective or bool(int(effective[0], 16) >> _NET_ADMIN & 1)


def restart_message(index: int) -> bytes:
    """The netlink message for the interface with that index."""
    restart = _attribute(_CAN_RESTART, struct.pack("=I", 1))
    info = _attribute(_INFO_KIND, b"can") + _attribute(_INFO_DATA, restart)
    body = _LINK.pack(0, 0, index, 0, 0) + _attribute(_LINK_INFO, info)
    length = _NETLINK_HEADER.size + len(body)
    return _NETLINK_HEADER.pack(length, _NEW_LINK, _REQUEST_WITH_REPLY, 1, 0) + body


def restart_controller(channel: str) -> None:
    """Restart the controller of an interface, such as ``can0``.

    Raises
    ------
    OSError
        If the kernel refuses: EPERM without the capability, EBUSY for a controller that is not
        bus-off or restarts itself (``restart-ms``), EOPNOTSUPP without a controller.
    """
    index = socket.if_nametoindex(channel)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_ROUTE) as line:
        line.settimeout(_REPLY_TIMEOUT_S)
        line.send(restart_message(index))
        reply = line.recv(4096)
    kind = _NETLINK_HEADER.unpack_from(reply)[1]
    code = struct.unpack_from("=i", reply, _NETLINK_HEADER.size)[0] if kind == _REPLY else 0
    if code:
        raise OSError(-code, os.strerror(-code))


def _attribute(kind: int, content: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(content)
    return _ATTRIBUTE.pack(length, kind) + content + bytes(-length % 4)
