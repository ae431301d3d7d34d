"""A wall clock that can be set for the processes of one session, and not for the machine.

A time namespace of the kernel cannot do it: it moves the monotonic and the boot clock, never the
wall clock. So every Python process that has this folder in PYTHONPATH adds what the file
`CHAOS_CLOCK` says [ns, a little-endian integer] to what it reads of the wall clock, and to
the kernel's times of reception, which are the wall clock's, too.
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
