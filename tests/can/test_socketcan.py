"""Real SocketCAN: frames, filters, times, and an interface that goes away. Needs vcan0.

``make test-socketcan`` runs these, in an emulated kernel where this one has no CAN.
"""

from __future__ import annotations

import errno
import os
import random
import select
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cantools
import pytest

from hilrt.can.bus import CanBus, open_bus
from hilrt.can.bus_faults import BusWatch
from hilrt.can.frame import (
    BUS_ERROR,
    BUS_OFF,
    CONTROLLER,
    ERROR,
    EXTENDED,
    REMOTE,
    RESTARTED,
    Frame,
)
from hilrt.can.j1939_transport import GroupAssembler
from hilrt.can.receiver import Receiver
from tests.can.small_database import REFS, STATE

VCAN = Path("/sys/class/net/vcan0")
pytestmark = pytest.mark.skipif(not VCAN.exists(), reason="no vcan0; see make test-socketcan")

#: Line discipline of serial CAN adapters (linux/tty.h).
N_SLCAN = 17
TABLE = {"interface": "socketcan", "channel": "vcan0"}
DBC = 'VERSION ""\nBU_: B\nBO_ 256 Fast: 8 B\nBO_ 2147484160 Slow: 8 B\n'
GROUP_DBC = """VERSION ""
BU_: B
BO_ 2566841088 EC1: 39 B
BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";
BA_DEF_DEF_ "VFrameFormat" "StandardCAN";
BA_ "VFrameFormat" BO_ 2566841088 3;
"""
GROUPS = cantools.database.load_string(GROUP_DBC, "dbc").messages
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


@pytest.fixture
def stranger(vcan: None) -> Iterator[socket.socket]:
    """A raw socket of somebody else: it may send what no interface of ours would."""
    with socket.socket(socket.AF_CAN, socket.SOCK_RAW, socket.CAN_RAW) as made:
        made.bind(("vcan0",))
        yield made


def put(stranger: socket.socket, can_id: int, data: bytes = bytes(8)) -> None:
    stranger.send(struct.pack("=IB3x8s", can_id, len(data), data))


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
    assert bus.stamps == "kernel"  # vcan has no hardware


def test_the_kernel_drops_what_is_not_listened_to(vcan: None) -> None:
    bus, other = open_bus(TABLE, MESSAGES, "t"), open_bus(TABLE, [], "t")
    for can_id in (0x100, 0x101, 0x200, EXTENDED | 0x200, EXTENDED | 0x100):
        other.send(Frame(can_id, b"x"))
    assert [f.can_id for f in drain(bus, 2)] == [0x100, EXTENDED | 0x200]
    assert bus.drain() == []
    bus.close()
    other.close()


def test_the_kernel_lets_through_groups_of_several_frames(vcan: None) -> None:
    bus, other = open_bus(TABLE, GROUPS, "t"), open_bus(TABLE, [], "t")
    wanted = [EXTENDED | can_id for can_id in (0x1CECFF05, 0x1CEBFF05, 0x18ECFE07, 0x18FEE305)]
    for can_id in [EXTENDED | 0x18EE0005, *wanted[:3], EXTENDED | 0x18FEE405, wanted[3]]:
        other.send(Frame(can_id, bytes(8)))
    assert [f.can_id for f in drain(bus, 4)] == wanted
    assert bus.drain() == []
    bus.close()
    other.close()


def test_groups_of_the_kernels_own_j1939_stack(vcan: None) -> None:
    """Broadcast, and to a node that the kernel is too: it asks for the packets and acknowledges."""
    if subprocess.run(["modprobe", "can_j1939"], timeout=60, check=False).returncode:
        pytest.skip("no J1939 in this kernel")
    bus, assembler = open_bus(TABLE, GROUPS, "t"), GroupAssembler()
    noise = random.Random(3)
    sent = [(0xFEE3, 0xFF, noise.randbytes(39)), (0xEF00, 0x30, noise.randbytes(500))]
    with j1939_node(0x21) as node, j1939_node(0x30) as peer:
        peer.settimeout(30.0)
        groups = []
        for group, to, body in sent:
            node.sendto(body, ("vcan0", socket.J1939_NO_NAME, group, to))
            while not groups or groups[-1].data != body:
                assert select.select([bus.fileno()], [], [], 30.0)[0]
                taken = [assembler.receive(f.can_id, f.data, f.t_ns) for f in bus.drain()]
                groups += [one for one in taken if one is not None]
            assert peer.recv(2000) == body
    assert [group.can_id & 0x03FFFFFF for group in groups] == [0x00FEE321, 0x00EF3021]
    assert (assembler.complete, assembler.incomplete) == (2, 0)
    bus.close()


def j1939_node(address: int) -> socket.socket:
    made = socket.socket(socket.AF_CAN, socket.SOCK_DGRAM, socket.CAN_J1939)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    made.bind(("vcan0", socket.J1939_NO_NAME, socket.J1939_NO_PGN, address))
    return made


def test_an_interface_without_a_controller_is_not_restarted(vcan: None) -> None:
    bus = open_bus(TABLE, [], "t")
    with pytest.raises(OSError, match=r".+") as caught:
        bus.restart()
    assert caught.value.errno in (errno.EOPNOTSUPP, errno.EPERM)
    bus.close()


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


def test_random_traffic_reaches_no_port_unchecked(
    pair: tuple[CanBus, CanBus], stranger: socket.socket
) -> None:
    bus, _ = pair
    noise = random.Random(13)
    rx = Receiver({"speed": REFS["speed"], "temp": REFS["temp"]}, STATE, "Alive", 0.02)
    good = {0x100, EXTENDED | 0x200}
    for _ in range(40):
        ids = [0x100, EXTENDED | 0x200, 0x200, REMOTE | 0x100, noise.getrandbits(11)]
        ids += [EXTENDED | noise.getrandbits(29), ERROR | 1 << noise.randrange(9)]
        sent = [
            (noise.choice(ids), noise.randbytes(noise.choice((0, 3, 7, 8, 8)))) for _ in range(50)
        ]
        for can_id, data in sent:
            put(stranger, can_id, data)
        got = drain(bus, len(sent))
        assert [(frame.can_id, frame.data) for frame in got] == sent
        before, taken = list(rx.y), dict(rx.counters)
        rx.receive(got)
        whole = sum(can_id in good and len(data) == 8 for can_id, data in sent)
        short = sum(can_id in good and len(data) < 8 for can_id, data in sent)
        assert rx.counters["decode_errors"] - taken["decode_errors"] == short
        assert rx.counters["frames"] - taken["frames"] == whole + short
        assert whole or [*map(str, rx.y)] == [*map(str, before)]
    assert len(rx.error_frames) > 100
    assert bus.errors == 0
    assert -5242.88 <= rx.y[0] <= 5242.87  # what the signals' bits can say, never anything else
    assert -40.0 <= rx.y[1] <= 215.0


def error_frames(bus: CanBus, count: int) -> list[Frame]:
    """As the receiver sorts them out."""
    rx = Receiver({"speed": REFS["speed"]}, None, "Alive", 0.02)
    rx.receive(drain(bus, count))
    assert rx.counters["frames"] == rx.counters["unknown"] == 0
    return rx.error_frames


def test_bus_off_and_restart_are_seen_beside_what_is_listened_to(stranger: socket.socket) -> None:
    """Error frames come although the kernel filters by identifier."""
    bus, watch = open_bus(TABLE, MESSAGES, "t"), BusWatch()
    put(stranger, 0x101)  # filtered out
    put(stranger, ERROR | CONTROLLER, bytes([0, 0x20, 0, 0, 0, 0, 0, 0]))
    put(stranger, ERROR | BUS_OFF)
    watch.errors(0, error_frames(bus, 2))
    changes = watch.update(0, bus.down)
    assert [(c.cause, c.raised) for c in changes] == [("error_passive", True), ("bus_off", True)]
    put(stranger, ERROR | RESTARTED)
    put(stranger, ERROR | CONTROLLER, bytes([0, 0x40, 0, 0, 0, 0, 0, 0]))
    watch.errors(1, error_frames(bus, 2))
    changes = watch.update(1, bus.down)
    assert [(c.cause, c.raised) for c in changes] == [("bus_off", False), ("error_passive", False)]
    assert not bus.down
    assert bus.errors == 0
    bus.close()


def test_a_disturbed_bus_is_seen(stranger: socket.socket) -> None:
    bus, watch = open_bus(TABLE, MESSAGES, "t"), BusWatch()
    for _ in range(20):
        put(stranger, ERROR | BUS_ERROR)
    watch.errors(0, error_frames(bus, 20))
    told, change = watch.update(0, bus.down)
    assert told.text == "error frame: error on the bus"
    assert (change.cause, change.raised) == ("bus_errors", True)
    assert watch.counters["error_frames"] == 20
    bus.close()


@pytest.fixture
def slow_line(vcan: None) -> Iterator[None]:
    """A line on which three frames wait for ever: nobody acknowledges."""
    if not shutil.which("tc") or subprocess.run(["modprobe", "sch_netem"], timeout=60).returncode:
        pytest.skip("no queue that holds frames back: needs tc and the kernel's sch_netem")
    queue = ["tc", "qdisc", "add", "dev", "vcan0", "root", "netem", "delay", "200s", "limit", "3"]
    subprocess.run(queue, check=True, timeout=60)
    yield
    subprocess.run(["tc", "qdisc", "del", "dev", "vcan0", "root"], check=False, timeout=60)


def test_a_full_transmit_buffer(pair: tuple[CanBus, CanBus], slow_line: None) -> None:
    bus, other = pair
    for k in range(3):
        bus.send(Frame(0x100, bytes([k])))
    watch = BusWatch()
    for now in (0, 60_000_000):
        with pytest.raises(OSError, match=os.strerror(errno.ENOBUFS)):
            bus.send(Frame(0x100, b"x"))
        watch.sent(now, ok=False)
    assert not bus.down  # full is not gone
    assert [c.cause for c in watch.update(60_000_000, bus.down)] == ["not_sent"]
    subprocess.run(["tc", "qdisc", "del", "dev", "vcan0", "root"], check=True, timeout=60)
    bus.send(Frame(0x100, b"y"))
    watch.sent(70_000_000, ok=True)
    assert [(c.cause, c.raised) for c in watch.update(70_000_000, bus.down)] == [
        ("not_sent", False)
    ]
    # The kernel shows the others on this machine what waits, but not what it did not take.
    assert [f.data for f in drain(other, 4)] == [b"\0", b"\1", b"\2", b"y"]


# ---- a controller that has states ----------------------------------------------------------------


@pytest.fixture
def controller() -> Iterator[tuple[str, Callable[[bytes], None]]]:
    """An interface of the kernel's slcan, and what its adapter says on the serial line."""
    import fcntl
    import pty
    import termios
    import tty

    if subprocess.run(["modprobe", "slcan"], timeout=60, check=False).returncode:
        pytest.skip("no slcan in this kernel")
    before = set(os.listdir("/sys/class/net"))
    adapter, line = pty.openpty()
    tty.setraw(line)
    fcntl.ioctl(line, termios.TIOCSETD, struct.pack("i", N_SLCAN))
    (name,) = set(os.listdir("/sys/class/net")) - before
    ip("set", name, "type", "can", "bitrate", "500000")
    over = threading.Event()

    def obey() -> None:
        while not over.is_set():  # commands are taken, and not answered
            if select.select([adapter], [], [], 0.05)[0]:
                os.read(adapter, 4096)

    thread = threading.Thread(target=obey)
    thread.start()
    ip("set", name, "up")

    def says(text: bytes) -> None:
        os.write(adapter, text + b"\r")

    yield name, says
    ip("set", name, "down")
    over.set()
    thread.join()
    os.close(line)
    os.close(adapter)


def test_what_the_kernel_says_of_a_controller(
    controller: tuple[str, Callable[[bytes], None]],
) -> None:
    """Errors, error-passive, bus-off: frames that the kernel's driver makes, not this test."""
    name, says = controller
    bus, watch = open_bus({"interface": "socketcan", "channel": name}, MESSAGES, "t"), BusWatch()
    told = []
    for k, text in enumerate([b"e1s", b"e1a", b"e1o", b"sw100000", b"sp130000", b"sb255255"]):
        says(text)
        watch.errors(k * 2 * 10**9, drain(bus, 1))
        told += watch.update(k * 2 * 10**9, bus.down)
    assert [change.text.partition(" (")[0] for change in told[:5]] == [
        "error frame: stuff error",
        "error frame: no acknowledgement; protocol error",
        "the controller's buffer overflowed; frames are lost",
        "error frame: buffer overflow; protocol error",
        "error frame: error warning level",
    ]
    assert "error counters: 0 sending, 100 receiving" in told[4].text
    assert [change.cause for change in told[5:]] == ["error_passive", "bus_off"]
    with pytest.raises(OSError, match=r".+") as caught:  # this driver cannot restart
        bus.restart()
    assert caught.value.errno == errno.EOPNOTSUPP
    bus.close()
