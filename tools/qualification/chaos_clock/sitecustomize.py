"""Wall clock that can be set for the processes of one session instead of the machine.

A time namespace of the kernel moves only the monotonic and the boot clock, not the wall clock.
Therefore every Python process with this folder in PYTHONPATH adds the content of the file
`CHAOS_CLOCK` [ns, a little-endian integer] to readings of the wall clock and to the kernel's times
of reception, which use the same clock.
"""

import mmap
import os
import socket
import struct
import time
from typing import Any

SO_TIMESTAMPNS = 35
_STAMP = struct.Struct("@ll")
_NS = 1_000_000_000

if "CHAOS_CLOCK" in os.environ:
    with open(os.environ["CHAOS_CLOCK"], "rb") as _file:
        _ahead = mmap.mmap(_file.fileno(), 8, prot=mmap.PROT_READ)
    _time_ns, _recvmsg = time.time_ns, socket.socket.recvmsg

    def _ahead_ns() -> int:
        return int.from_bytes(_ahead[:8], "little", signed=True)

    def _recvmsg_then(self: socket.socket, *arguments: Any) -> Any:
        data, ancillary, flags, address = _recvmsg(self, *arguments)
        shifted = []
        for level, kind, value in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                s, ns = _STAMP.unpack(value)
                value = _STAMP.pack(*divmod(s * _NS + ns + _ahead_ns(), _NS))
            shifted.append((level, kind, value))
        return data, shifted, flags, address

    time.time_ns = lambda: _time_ns() + _ahead_ns()
    time.time = lambda: (_time_ns() + _ahead_ns()) / _NS
    setattr(socket.socket, "recvmsg", _recvmsg_then)  # noqa: B010 - a method is replaced
