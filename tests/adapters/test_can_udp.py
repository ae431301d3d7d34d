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

from hilrt_adapters import udp_filter
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


@pytest.fixture
def filtered() -> Iterator[tuple[UdpFrames, socket.socket]]:
    """A reader of 0x11, 0xC8, 0x123 and of parameter group 0xFEF1 from any source."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as owner,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        owner.bind(("127.0.0.1", 0))
        sender.connect(owner.getsockname())
        kept = [(0x11, 0x7FF), (0xC8, 0x7FF), (0x123, 0x7FF), (0x00FEF100, 0x03FFFF00)]
        reader = UdpFrames(owner.fileno(), identifiers=kept)
        yield reader, sender
        reader.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the filter is Linux's")
class TestKernelFilter:
    """Without `wanted`, everything that the kernel lets through comes out."""

    @given(
        identifier=st.sampled_from(
            [0x11, 0xC8, 0x123, 0x18FEF100, 0x0CFEF1FE, 0x7F, 0x80, 0x18FEF200]
        )
        | st.integers(0, 0x1FFFFFFF),
        data=st.binary(max_size=64),
        stamp=st.floats(0.0, 2e9),
    )
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_exactly_what_is_asked_for_comes(
        self,
        filtered: tuple[UdpFrames, socket.socket],
        identifier: int,
        data: bytes,
        stamp: float,
    ) -> None:
        reader, sender = filtered
        extended = identifier > 0x7FF
        message = can.Message(
            arbitration_id=identifier,
            is_extended_id=extended,
            is_fd=True,
            data=data,
            timestamp=stamp,
            check=False,
        )
        sender.send(pack_message(message))
        wanted = identifier & 0x7FF in (0x11, 0xC8, 0x123) or identifier & 0x03FFFF00 == 0x00FEF100
        assert [frame.identifier for frame in reader.drain()] == [identifier] * wanted

    def test_what_is_not_laid_out_as_expected_is_for_the_reader_to_judge(
        self, filtered: tuple[UdpFrames, socket.socket]
    ) -> None:
        reader, sender = filtered
        fields = msgspec.msgpack.decode(pack_message(frame(0x300)))
        other = msgspec.msgpack.encode(dict(reversed(fields.items())))
        for data in (b"", b"garbage", b"\x8b" + bytes(40), bytes(100), other):
            sender.send(data)
        assert [f.can_id for f in reader.drain()] == [0x300]
        assert reader.errors == 4

    def test_a_program_that_is_too_long_is_left_out(self) -> None:
        long = udp_filter.program(None, [(i, 0x7FF) for i in range(2000)])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
            assert not udp_filter.attach(receiver, long)
            assert udp_filter.attach(receiver, udp_filter.program(1234, None))
