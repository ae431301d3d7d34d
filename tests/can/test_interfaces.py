"""One contract for every interface: two ends of a bus, back to back."""

from __future__ import annotations

import math
import os
import random
import select
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from hilrt.can import bus as bus_module
from hilrt.can.bus import CanBus, open_bus
from hilrt.can.frame import EXTENDED, Frame
from hilrt.can.receiver import Receiver
from tests.can.small_database import REFS, STATE

PATIENCE = 10.0


def virtual() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    table = {"interface": "virtual", "channel": uuid.uuid4().hex}
    yield table, table


def udp_multicast() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    table = {"interface": "udp_multicast", "channel": "239.74.163.14", "port": port}
    yield table, table


def slcan() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Two serial adapters at the ends of one cable: what one is told to send, the other reports."""
    pytest.importorskip("serial", reason="slcan needs pyserial")
    pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
    ends = [pty.openpty(), pty.openpty()]
    for end, _ in ends:
        os.set_blocking(end, False)
    over = threading.Event()

    def cable() -> None:
        parts = {ends[0][0]: b"", ends[1][0]: b""}
        other = {ends[0][0]: ends[1][0], ends[1][0]: ends[0][0]}
        while not over.is_set():
            for fd in select.select(list(parts), [], [], 0.05)[0]:
                *whole, parts[fd] = (parts[fd] + os.read(fd, 4096)).split(b"\r")
                for command in whole:
                    if command[:1] in b"tTrRdDbB" and command:
                        with suppress(BlockingIOError):  # full: lost, as on a real line
                            os.write(other[fd], command + b"\r")

    thread = threading.Thread(target=cable)
    thread.start()
    common = {"interface": "slcan", "bitrate": 500000, "sleep_after_open": 0.0}
    yield tuple({**common, "channel": os.ttyname(end)} for _, end in ends)
    over.set()
    thread.join()
    for fds in ends:
        for fd in fds:
            os.close(fd)


@pytest.fixture(params=[virtual, udp_multicast, slcan], ids=lambda made: made.__name__)
def pair(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[CanBus, CanBus]]:
    monkeypatch.setattr(bus_module, "SEND_TIMEOUT", 2.0)  # a busy machine is not what is tested
    if sys.platform == "win32" and request.param is not virtual:
        pytest.skip("needs sockets and terminals of Unix")
    making: Callable[[], Iterator[Any]] = request.param
    for tables in making():
        one, other = (open_bus(table, [], "bus") for table in tables)
        yield one, other
        one.close()
        other.close()


def collect(bus: CanBus, count: int) -> list[Frame]:
    frames: list[Frame] = []
    deadline = time.monotonic() + PATIENCE
    while len(frames) < count and time.monotonic() < deadline:
        select.select([bus.fileno()], [], [], 0.1)
        frames += bus.drain()
    return frames


def bare(frames: list[Frame]) -> list[Frame]:
    return [frame._replace(t_ns=0) for frame in frames]


def test_frames_pass_whole_and_in_order(pair: tuple[CanBus, CanBus]) -> None:
    one, other = pair
    sent = [Frame(0x100 + k, bytes(range(k))) for k in range(9)]
    sent += [
        Frame(EXTENDED | 0x100, b"\x01"),
        Frame(0x7FF, b""),
        Frame(EXTENDED | 0x1FFFFFFF, b"x"),
    ]
    for frame in sent:
        one.send(frame)
    assert bare(collect(other, len(sent))) == sent
    other.send(sent[3])  # and the other way
    assert bare(collect(one, 1)) == [sent[3]]  # own frames do not come back
    assert one.errors == other.errors == 0
    assert not one.down


def test_times_are_of_now(pair: tuple[CanBus, CanBus]) -> None:
    one, other = pair
    before = time.time_ns()
    one.send(Frame(0x123, b"x"))
    (got,) = collect(other, 1)
    if got.t_ns:
        assert before - 50_000_000 <= got.t_ns <= time.time_ns() + 50_000_000


def test_random_traffic_reaches_no_port_unchecked(pair: tuple[CanBus, CanBus]) -> None:
    one, other = pair
    rx = Receiver({"speed": REFS["speed"]}, STATE, "Alive", 0.02)
    noise = random.Random(4)
    for _ in range(30):
        sent = []
        while len(sent) < 10:  # no more at once: a serial line is slow
            extended = noise.random() < 0.5
            can_id = noise.randrange(1 << 29) | EXTENDED if extended else noise.randrange(1 << 11)
            if can_id & 0x7FF not in (0x100, 0x200):
                sent.append(Frame(can_id, noise.randbytes(noise.randrange(9))))
        sent[5] = Frame(0x100, bytes(3))  # the right identifier, too short
        for frame in sent:
            one.send(frame)
        got = collect(other, len(sent))
        assert bare(got) == sent
        rx.receive(got)
    assert rx.t_valid_ns == [0]
    assert rx.counters["decode_errors"] == 30


def assert_unharmed(rx: Receiver, frames: int) -> None:
    """Some frames counted and some did not; what reached the ports is what their bits can say."""
    counted = rx.counters
    assert counted["frames"] + counted["unknown"] <= frames
    reasons = ("decode_errors", "checksum_errors", "repeated", "out_of_order", "held_up")
    assert 0 < sum(counted[name] for name in reasons) < counted["frames"]
    assert -5242.88 <= rx.y[0] <= 5242.87
    assert -40.0 <= rx.y[1] <= 215.0


def test_a_million_random_frames_do_nobody_harm() -> None:
    """Frames as any interface may hand them on: any identifier, flags, length and time."""
    noise = random.Random(11)
    rx = Receiver({"speed": REFS["speed"], "temp": REFS["temp"]}, STATE, "Alive", 0.02)
    sizes = (0, 3, 8, 8, 64)
    for _ in range(1000):
        ids = [0x100, EXTENDED | 0x200, noise.randrange(1 << 32), noise.randrange(1 << 11)]
        data = noise.randbytes(1000 + 64)
        choices = zip(noise.choices(ids, k=1000), noise.choices(sizes, k=1000), strict=True)
        rx.receive(
            [
                Frame(can_id, data[k : k + size], noise.getrandbits(62))
                for k, (can_id, size) in enumerate(choices)
            ]
        )
        rx.error_frames.clear()
    assert_unharmed(rx, 1_000_000)


def random_datagram(noise: random.Random) -> bytes:
    """What anybody may send to the bus's group: frames, frames with odd fields, and no frames."""
    ids = (0x100, 0x200, noise.getrandbits(11), noise.getrandbits(29), noise.getrandbits(40))
    fields: dict[str, Any] = {
        "timestamp": noise.random(),
        "arbitration_id": noise.choice(ids),
        "is_extended_id": noise.random() < 0.5,
        "is_remote_frame": noise.random() < 0.05,
        "is_error_frame": noise.random() < 0.05,
        "channel": None,
        "dlc": noise.getrandbits(4),
        "data": noise.randbytes(noise.choice((0, 3, 8, 8, 8, 64))),
        "is_fd": noise.random() < 0.5,
        "bitrate_switch": False,
        "error_state_indicator": False,
    }
    kind = noise.randrange(20)
    if kind == 0:
        return noise.randbytes(noise.randrange(200))
    if kind == 1:
        name = noise.choice(list(fields))
        fields[name] = noise.choice((None, -1, 1 << 63, 1e300, math.nan, "x", [], {}))
    elif kind == 2:
        del fields[noise.choice(list(fields))]
    elif kind == 3:
        fields = dict(reversed(fields.items()))
    datagram = msgspec.msgpack.encode(fields)
    return datagram[: noise.randrange(len(datagram))] if kind == 4 else datagram


@pytest.mark.skipif(sys.platform == "win32", reason="needs multicast on this machine")
@pytest.mark.parametrize("listening", [True, False], ids=["filtered", "all"])
def test_random_datagrams_do_nobody_harm(listening: bool) -> None:
    """From another's socket through the kernel, its filter, the bus and the receiver."""
    noise = random.Random(12)
    for table, _ in udp_multicast():
        rx = Receiver({"speed": REFS["speed"], "temp": REFS["temp"]}, STATE, "Alive", 0.02)
        bus = open_bus(table, rx.messages if listening else [], "bus")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            taken = 0
            for _ in range(200):
                for _ in range(100):
                    stranger.sendto(random_datagram(noise), (table["channel"], table["port"]))
                while frames := bus.drain():
                    taken += len(frames)
                    rx.receive(frames)
                rx.error_frames.clear()
            # And it still hears: a good frame after all that noise.
            bus_of_a_friend = open_bus(table, [], "bus")
            before = rx.counters["frames"]
            bus_of_a_friend.send(Frame(0x100, bytes(8)))
            rx.receive(collect(bus, 1))
            bus_of_a_friend.close()
        assert rx.counters["frames"] == before + 1
        assert_unharmed(rx, taken + 1)
        assert taken > 1000
        assert bus.errors > 100
        assert not bus.down
        bus.close()
