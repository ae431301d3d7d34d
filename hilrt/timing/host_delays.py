"""Delays that a host adds, measured: wake-ups by timer, the loopback, CAN sockets."""

from __future__ import annotations

import socket
import sys
import threading

import numpy as np

from hilrt.solver import Floats
from hilrt.timing.clock import WallClock
from hilrt.timing.monotonic import monotonic_ns

#: Number of wake-ups and of round trips that are measured.
WAKES, TRIPS = 300, 300
INTERVAL_NS = 1_000_000


async def wake_up(spin_ns: int) -> Floats:
    """Lateness of wake-ups 1 ms apart, with a spin over the last stretch, ns, shape (WAKES,)."""
    clock = WallClock(spin_ns)
    lateness = np.empty(WAKES)
    try:
        target = clock.now_ns()
        for k in range(WAKES):
            target = max(target + INTERVAL_NS, clock.now_ns() + INTERVAL_NS // 2)
            lateness[k] = await clock.sleep_until(target) - target
    finally:
        clock.close()
    return lateness


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname(), timeout=2.0)
        far, _ = server.accept()
    for end in (near, far):
        end.settimeout(2.0)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


def loopback_trips() -> Floats:
    """A message to another thread of this process and back, by TCP, ns, shape (TRIPS,)."""
    near, far = _tcp_pair()

    def echo() -> None:
        try:
            while data := far.recv(64):
                far.sendall(data)
        except OSError:
            return

    thread = threading.Thread(target=echo, daemon=True)
    thread.start()
    trips = np.empty(TRIPS)
    try:
        for k in range(TRIPS):
            begun = monotonic_ns()
            near.sendall(b"x" * 16)
            near.recv(64)
            trips[k] = monotonic_ns() - begun
    finally:
        near.close()
        thread.join(timeout=3.0)
        far.close()
    return trips


def can_trips(name: str) -> Floats:
    """From one raw CAN socket to another on a virtual interface, ns, shape (TRIPS,)."""
    if sys.platform != "linux":
        raise OSError(0, "only Linux has SocketCAN")
    frame = (0x7FF).to_bytes(4, "little") + bytes([8, 0, 0, 0]) + bytes(8)
    with (
        socket.socket(socket.PF_CAN, socket.SOCK_RAW, socket.CAN_RAW) as near,
        socket.socket(socket.PF_CAN, socket.SOCK_RAW, socket.CAN_RAW) as far,
    ):
        for end in (near, far):
            end.bind((name,))
            end.settimeout(1.0)
        trips = np.empty(TRIPS)
        for k in range(TRIPS):
            begun = monotonic_ns()
            near.send(frame)
            far.recv(16)
            trips[k] = monotonic_ns() - begun
    return trips
