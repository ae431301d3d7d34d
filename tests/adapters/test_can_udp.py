from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator

import can
import pytest
from can.interfaces.udp_multicast.utils import pack_message

from hilrt_adapters.can_udp import UdpFrames

pytestmark = pytest.mark.skipif(
    not UdpFrames.available("udp_multicast"), reason="needs MSG_DONTWAIT"
)


@pytest.fixture
def pair() -> Iterator[tuple[UdpFrames, socket.socket, socket.socket]]:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as owner,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        owner.bind(("127.0.0.1", 0))
        sender.connect(owner.getsockname())
        reader = UdpFrames(owner.fileno(), lambda can_id: can_id == 128)
        yield reader, owner, sender
        reader.close()


def frame(identifier: int, data: bytes = bytes(8), extended: bool = False) -> can.Message:
    return can.Message(arbitration_id=identifier, data=data, is_extended_id=extended)


def test_wanted_frames_come_whole_and_others_are_dropped(
    pair: tuple[UdpFrames, socket.socket, socket.socket],
) -> None:
    reader, _, sender = pair
    for message in (frame(128, b"12345678"), frame(256), frame(128, extended=True), frame(128)):
        sender.send(pack_message(message))
    frames = reader.drain()
    assert [bytes(f.data) for f in frames] == [b"12345678", bytes(8)]
    assert all(f.can_id == 128 for f in frames)
    assert reader.drain() == []
    assert reader.errors == 0


def test_what_is_no_frame_is_counted(
    pair: tuple[UdpFrames, socket.socket, socket.socket],
) -> None:
    reader, _, sender = pair
    for data in (b"", b"garbage", b"\x80", pack_message(frame(128))):
        sender.send(data)
    assert len(reader.drain()) == 1
    assert reader.errors == 3


def test_drain_is_bounded(pair: tuple[UdpFrames, socket.socket, socket.socket]) -> None:
    reader, _, sender = pair
    for _ in range(5):
        sender.send(pack_message(frame(128)))
    assert [len(reader.drain(limit=3)) for _ in range(3)] == [3, 2, 0]


def test_the_owner_keeps_its_socket(
    pair: tuple[UdpFrames, socket.socket, socket.socket],
) -> None:
    reader, owner, sender = pair
    reader.close()
    sender.send(b"x")
    owner.settimeout(1.0)
    assert owner.recv(10) == b"x"


@pytest.mark.skipif(sys.platform != "linux", reason="the socket option is Linux's")
def test_kernel_timestamps_are_kept(
    pair: tuple[UdpFrames, socket.socket, socket.socket],
) -> None:
    reader, owner, sender = pair
    owner.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS, as python-can asks for it
    sender.send(pack_message(frame(128)))
    (got,) = reader.drain()
    assert got.t_ns * 1e-9 == pytest.approx(time.time(), abs=60.0)
