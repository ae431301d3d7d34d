from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator

import can
import msgspec
import pytest
from can.interfaces.udp_multicast.utils import pack_message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hilrt.can.frame import Frame
from hilrt.can.udp_multicast import UdpFrames

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
        reader = UdpFrames(owner.fileno())
        yield reader, owner, sender
        reader.close()


def frame(identifier: int, data: bytes = bytes(8), extended: bool = False) -> can.Message:
    return can.Message(arbitration_id=identifier, data=data, is_extended_id=extended)


@given(
    identifier=st.integers(0, 0x1FFFFFFF),
    data=st.binary(max_size=64),
    stamp=st.floats(0.0, 2e9),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_frames_come_whole(
    pair: tuple[UdpFrames, socket.socket, socket.socket], identifier: int, data: bytes, stamp: float
) -> None:
    reader, _, sender = pair
    message = can.Message(
        arbitration_id=identifier,
        is_extended_id=identifier > 0x7FF,
        is_fd=True,
        data=data,
        timestamp=stamp,
        check=False,
    )
    sender.send(pack_message(message))
    (got,) = reader.drain()
    assert (got.identifier, bytes(got.data), got.fd) == (identifier, data, True)
    assert reader.drain() == []
    assert reader.errors == 0


def test_own_frames_do_not_come_back() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as owner:
        owner.bind(("127.0.0.1", 0))
        here = owner.getsockname()[0]
        one = UdpFrames(owner.fileno(), group=here)
        other = UdpFrames(owner.fileno(), group=here)
        own, others = Frame(1, b"own", 0, False), Frame(2, b"other", 0, False)
        one.send(own)
        other.send(others)
        assert [got.can_id for got in one.drain()] == [2]
        one.close()
        other.close()


def test_fields_in_another_order(
    pair: tuple[UdpFrames, socket.socket, socket.socket],
) -> None:
    reader, _, sender = pair
    fields = msgspec.msgpack.decode(pack_message(frame(0x300)))
    sender.send(msgspec.msgpack.encode(dict(reversed(fields.items()))))
    assert [got.can_id for got in reader.drain()] == [0x300]


def test_what_is_no_frame_is_counted(
    pair: tuple[UdpFrames, socket.socket, socket.socket],
) -> None:
    reader, _, sender = pair
    for data in (b"", b"garbage", b"\x80", b"\x8b" + bytes(40), pack_message(frame(128))):
        sender.send(data)
    assert len(reader.drain()) == 1
    assert reader.errors == 4


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
