"""Restart of a SocketCAN controller that is bus-off: what ``ip link set … type can restart`` sends.

One netlink message and its answer, without a process beside the gateway's loop. It needs the
capability CAP_NET_ADMIN.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_LINK = struct.Struct("=BxHiII")  # family, type, index, flags, change
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_NEW_LINK, _ANSWER = 16, 2
_REQUEST_WITH_ANSWER = 0x01 | 0x04
_LINK_INFO, _INFO_KIND, _INFO_DATA, _CAN_RESTART = 18, 1, 2, 7
_NETLINK_ROUTE = 0
#: Bit of CAP_NET_ADMIN.
_NET_ADMIN = 12
#: The kernel answers at once; a loop must not hang on it, s.
_PATIENCE_S = 0.05


def may_restart(status: Path = Path("/proc/self/status")) -> bool:
    """Whether this process has the capability, as Linux says in `status`; True elsewhere."""
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return True
    effective = [line.split()[1] for line in lines if line.startswith("CapEff:")]
    return not effective or bool(int(effective[0], 16) >> _NET_ADMIN & 1)


def restart_message(index: int) -> bytes:
    """The netlink message for the interface of that index."""
    restart = _attribute(_CAN_RESTART, struct.pack("=I", 1))
    info = _attribute(_INFO_KIND, b"can") + _attribute(_INFO_DATA, restart)
    body = _LINK.pack(0, 0, index, 0, 0) + _attribute(_LINK_INFO, info)
    length = _HEADER.size + len(body)
    return _HEADER.pack(length, _NEW_LINK, _REQUEST_WITH_ANSWER, 1, 0) + body


def restart_controller(channel: str) -> None:
    """Restart the controller of an interface, such as ``can0``.

    Raises
    ------
    OSError
        If the kernel refuses: EPERM without the capability, EBUSY for a controller that is not
        bus-off or restarts by itself (``restart-ms``), EOPNOTSUPP where there is none.
    """
    index = socket.if_nametoindex(channel)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_ROUTE) as line:
        line.settimeout(_PATIENCE_S)
        line.send(restart_message(index))
        answer = line.recv(4096)
    kind = _HEADER.unpack_from(answer)[1]
    code = struct.unpack_from("=i", answer, _HEADER.size)[0] if kind == _ANSWER else 0
    if code:
        raise OSError(-code, os.strerror(-code))


def _attribute(kind: int, content: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(content)
    return _ATTRIBUTE.pack(length, kind) + content + bytes(-length % 4)
