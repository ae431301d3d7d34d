"""Writes down every frame of a UDP multicast bus: an independent node, in a separate process.

    python -m tools.qualification.chaos_listener CHANNEL PORT FILE

Nothing here is of the package: frames are taken by python-can. The process also notes when it was
itself not let run, because then the machine stood still, or was too busy, for everything on it.
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
#: In place of an identifier: the record is a stall, its time the end, its data the length in s.
STALL = 0xFFFFFFFF
WAIT_S = 0.005
#: Longer than that without a pass of the loop is a stall, s.
STALL_S = 0.02


class Heard(NamedTuple):
    """One frame, or one stall."""

    t: float
    can_id: int
    data: bytes


def read(file: Path) -> Iterator[Heard]:
    """Read the lines that a listener has written so far."""
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tool, which then ends this
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
