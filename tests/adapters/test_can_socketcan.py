"""Real SocketCAN: frames, filters, times, and an interface that goes away. Needs vcan0.

``make test-socketcan`` runs these, in an emulated kernel where this one has no CAN.
"""

from __future__ import annotations

import errno
import os
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import cantools
import pytest

from hilrt_adapters.can_bus import CanBus, open_bus
from hilrt_adapters.can_frame import EXTENDED, Frame

VCAN = Path("/sys/class/net/vcan0")
pytestmark = pytest.mark.skipif(not VCAN.exists(), reason="no vcan0; see make test-socketcan")

TABLE = {"interface": "socketcan", "channel": "vcan0"}
DBC = 'VERSION ""\nBU_: B\nBO_ 256 Fast: 8 B\nBO_ 2147484160 Slow: 8 B\n'
MESSAGES = cantools.database.load_string(DBC, "dbc").messages


def ip(*words: str) -> None:
    subprocess.run(["ip", "link", *words], check=True, timeout=30)


@pytest.fixture
def vcan() -> Iterator[None]:
    """The interface as it was before."""
    yield
    if not VCAN.exists():
        ip("add", "dev", "vcan0", "type", "vcan")
    ip("set", "vcan0", "up")


@pytest.fixture
def pair(vcan: None) -> Iterator[tuple[CanBus, CanBus]]:
    bus, other = open_bus({**TABLE, "fd": True}, [], "t"), open_bus({**TABLE, "fd": True}, [], "t")
    yield bus, other
    bus.close()
    other.close()


def drain(bus: CanBus, count: int, patience: float = 20.0) -> list[Frame]:
    frames: list[Frame] = []
    deadline = time.monotonic() + patience
    while len(frames) < count and time.monotonic() < deadline:
        select.select([bus.fileno()], [], [], 0.2)
        frames += bus.drain()
    return frames


def test_frames_of_every_kind_come_as_they_were_sent(pair: tuple[CanBus, CanBus]) -> None:
    bus, other = pair
    sent = [
        Frame(0x100, b""),
        Frame(0x7FF, b"12345678"),
        Frame(EXTENDED | 0x1FFFFFFF, b"\x01"),
        Frame(0x123, bytes(range(64)), 0, True),
        Frame(0x123, bytes(10), 0, True),  # filled up to 12
    ]
    for frame in sent:
        other.send(frame)
    got = drain(bus, len(sent))
    assert [f._replace(t_ns=0) for f in got[:4]] == sent[:4]
    assert got[4].data == bytes(12)
    assert all(abs(time.time_ns() - f.t_ns) < 60e9 for f in got)
    assert other.drain() == []  # own frames do not come back
    assert bus.system_clock


def test_the_kernel_drops_what_is_not_listened_to(vcan: None) -> None:
    bus, other = open_bus(TABLE, MESSAGES, "t"), open_bus(TABLE, [], "t")
    for can_id in (0x100, 0x101, 0x200, EXTENDED | 0x200, EXTENDED | 0x100):
        other.send(Frame(can_id, b"x"))
    assert [f.can_id for f in drain(bus, 2)] == [0x100, EXTENDED | 0x200]
    assert bus.drain() == []
    bus.close()
    other.close()


def test_a_burst_is_not_lost(pair: tuple[CanBus, CanBus]) -> None:
    bus, other = pair
    for k in range(1000):
        other.send(Frame(0x100, k.to_bytes(2, "big")))
    assert [int.from_bytes(f.data, "big") for f in drain(bus, 1000)] == list(range(1000))


def test_an_interface_that_is_down_and_up_again(pair: tuple[CanBus, CanBus]) -> None:
    bus, other = pair
    ip("set", "vcan0", "down")
    with pytest.raises(OSError, match=os.strerror(errno.ENETDOWN)):
        other.send(Frame(0x100, b"x"))
    assert other.down
    drain(bus, 1, patience=1.0)
    assert bus.down
    ip("set", "vcan0", "up")
    other.send(Frame(0x100, b"y"))  # the first one, although the socket still has an old error
    assert not other.down
    assert [f.data for f in drain(bus, 1)] == [b"y"]
    assert not bus.down


def test_an_interface_that_is_gone_and_back(pair: tuple[CanBus, CanBus]) -> None:
    bus, other = pair
    fd = bus.fileno()
    ip("del", "vcan0")
    for one in pair:
        drain(one, 1, patience=1.0)
        assert one.down
        assert not one.revive()
    ip("add", "dev", "vcan0", "type", "vcan")
    ip("set", "vcan0", "up")
    for one in pair:
        assert one.revive()
        assert not one.down
    other.send(Frame(0x100, b"z"))
    assert [f.data for f in drain(bus, 1)] == [b"z"]
    assert bus.fileno() == fd
