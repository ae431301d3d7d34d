"""Records every frame of a UDP multicast bus: an independent node, in a separate process.

    python -m tools.qualification.chaos_listener CHANNEL PORT FILE

Nothing of the package is used: python-can receives the frames. The process also records when it did
not run itself, because the machine was then paused or too busy.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

#: Time of reception, s since 1970; identifier; length; data.
RECORD = struct.Struct("<dIB8s")
#: Special identifier: the record is a stall, with its time, and its length [s] as data.
STALL = 0xFFFFFFFF
WAIT_S = 0.005
#: Minimum time between two passes of the loop that counts as a stall, s.
STALL_S = 0.02


class Heard(NamedTuple):
    """A frame or a stall."""

    t: float
    can_id: int
    data: bytes


def read(file: Path) -> Iterator[Heard]:
    """Read the records written by a listener so far."""
    data = file.read_bytes() if file.exists() else b""
    for t, can_id, n, payload in RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size]):
        yield Heard(t, can_id, payload[:n])


def stall_s(heard: Heard) -> float:
    """Length of a stall, s."""
    (length,) = struct.unpack("<d", heard.data)
    return float(length)


def main() -> None:
    import can  # the tool itself reads the file without it

    channel, port, file = sys.argv[1:]
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: ended.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tool handles Ctrl-C, and then ends this
    bus = can.Bus(
        interface="udp_multicast", channel=channel, port=int(port), hop_limit=0, ignore_config=True
    )
    with socket.socket(fileno=os.dup(bus.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    with Path(file).open("wb", buffering=0) as out:
        passed = time.monotonic()
        while not ended:
            frame = bus.recv(timeout=WAIT_S)
            now = time.monotonic()
            if now - passed > STALL_S + WAIT_S:
                length = struct.pack("<d", now - passed - WAIT_S)
                out.write(RECORD.pack(time.time(), STALL, len(length), length))
            passed = now
            if frame is not None:
                data = bytes(frame.data)
                out.write(RECORD.pack(frame.timestamp, frame.arbitration_id, len(data), data))
    bus.shutdown()


if __name__ == "__main__":
    main()
