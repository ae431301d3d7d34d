"""Opening, draining and waiting for a bus."""

from __future__ import annotations

import errno
import os
import re
import select
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import can
import cantools
import pytest

from hilrt.can.bus import DRAIN_LIMIT, CanBus, check_bus, open_bus
from hilrt.can.frame import Frame
from hilrt.errors import ConfigError


def message(i: int = 0x123) -> can.Message:
    return can.Message(arbitration_id=i, data=b"\x01\x02", is_extended_id=False)


@pytest.fixture
def pair() -> Iterator[tuple[CanBus, can.BusABC]]:
    channel = uuid.uuid4().hex
    bus = open_bus({"interface": "virtual", "channel": channel}, [], "t")
    other = can.Bus(interface="virtual", channel=channel)
    yield bus, other
    other.shutdown()
    bus.close()


def drain(bus: CanBus, count: int) -> list[Frame]:
    """Wait, with a deadline, until `count` frames have come."""
    frames: list[Frame] = []
    while len(frames) < count:
        assert select.select([bus.fileno()], [], [], 5.0)[0], "nothing arrived"
        frames += bus.drain()
    return frames


def test_frames_make_the_descriptor_readable(pair: tuple[CanBus, can.BusABC]) -> None:
    bus, other = pair
    assert bus.drain() == []
    other.send(message())
    assert drain(bus, 1)[0].data == b"\x01\x02"
    bus.send(Frame(0x77, b"\x01"))
    received = other.recv(5.0)
    assert received is not None
    assert received.arbitration_id == 0x77


def test_a_flood_is_drained_in_parts(pair: tuple[CanBus, can.BusABC]) -> None:
    bus, other = pair
    for i in range(2 * DRAIN_LIMIT + 10):
        other.send(message(i))
    frames = drain(bus, 2 * DRAIN_LIMIT + 10)
    assert [f.can_id for f in frames] == list(range(2 * DRAIN_LIMIT + 10))


class FlakyBus(can.BusABC):
    """A bus whose second reading fails; without a descriptor, a thread reads it."""

    def __init__(self, fd: int | None, error: Exception) -> None:
        self.calls = 0
        self.fd, self.error = fd, error
        super().__init__("flaky")

    def fileno(self) -> int:
        if self.fd is None:
            raise NotImplementedError
        return self.fd

    def recv(self, timeout: float | None = None) -> can.Message | None:
        self.calls += 1
        if self.calls == 2:
            raise self.error
        return message() if self.calls < 5 else None

    def send(self, msg: can.Message, timeout: float | None = None) -> None:
        raise self.error


#: The second is pyserial's, for a port that another thread closes.
ERRORS = [can.CanOperationError("could not unpack"), TypeError("'NoneType' object cannot be read")]


@pytest.mark.parametrize("error", ERRORS)
def test_errors_of_reading_are_counted_and_the_rest_is_read(
    tmp_path: Path, error: Exception
) -> None:
    with (tmp_path / "file").open("w") as nothing:
        bus = CanBus(FlakyBus(nothing.fileno(), error))
        assert len(bus.drain()) == 1
        assert len(bus.drain()) == 2
        assert bus.errors == 1
        bus.close()


@pytest.mark.parametrize("error", ERRORS)
def test_every_error_of_sending_is_one_of_the_bus(tmp_path: Path, error: Exception) -> None:
    """The gateway counts those; any other would end it, and its safe profile."""
    with (tmp_path / "file").open("w") as nothing:
        bus = CanBus(FlakyBus(nothing.fileno(), error))
        with pytest.raises(can.CanError, match=re.escape(str(error))):
            bus.send(Frame(0x100, b""))
        bus.close()


@pytest.mark.parametrize("error", ERRORS)
def test_a_thread_that_reads_goes_on_after_errors(error: Exception) -> None:
    bus = CanBus(FlakyBus(None, error))
    assert len(drain(bus, 3)) == 3
    assert bus.errors == 1
    bus.close()


def test_multicast_stays_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[dict[str, object]] = []

    def record(**arguments: object) -> None:
        opened.append(arguments)
        raise OSError("no network")

    monkeypatch.setattr(can, "Bus", record)
    monkeypatch.setattr("hilrt.can.udp_multicast.without_route", lambda group: False)
    table = {"interface": "udp_multicast", "channel": "239.74.163.2"}
    for extra, expected in (({}, 0), ({"hop_limit": 1}, 1)):
        with pytest.raises(ConfigError, match="no network"):
            open_bus({**table, **extra}, [], "t")
        assert opened[-1]["hop_limit"] == expected


def test_socketcan_filters_in_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[dict[str, object]] = []

    def record(**arguments: object) -> None:
        opened.append(arguments)
        raise OSError("no such device")

    monkeypatch.setattr(can, "Bus", record)
    database = cantools.database.load_string(
        'VERSION ""\nBU_: B\nBO_ 256 Fast: 8 B\nBO_ 2147484160 Slow: 8 B\n', "dbc"
    )
    with pytest.raises(ConfigError):
        open_bus({"interface": "socketcan", "channel": "can0"}, database.messages, "t")
    assert opened[0]["can_filters"] == [
        {"can_id": 0x100, "can_mask": 0x7FF, "extended": False},
        {"can_id": 0x200, "can_mask": 0x1FFFFFFF, "extended": True},
    ]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({}, "'interface' is missing"),
        ({"interface": "socketcam"}, "did you mean 'socketcan'"),
        ({"interface": "socketcan", "channel": "nocan9"}, r"nocan9.*cannot be opened"),
        ({"interface": "udp_multicast", "channel": "10.0.0.1"}, "cannot be opened"),
    ],
)
def test_buses_that_cannot_be_opened_say_why(table: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        open_bus(table, [], "[subsystems.engine] bus")


def test_without_a_network_it_says_how_frames_can_pass_within_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(**_: object) -> None:
        raise can.CanInitializationError("no socket") from OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr(can, "Bus", fail)
    table = {"interface": "udp_multicast", "channel": "239.74.163.2", "hop_limit": 1}
    with pytest.raises(ConfigError, match="ip route add"):
        open_bus(table, [], "t")


def test_check_finds_nothing_in_a_good_table() -> None:
    assert check_bus({"interface": "socketcan", "channel": "can0"}, "t") == []


def test_a_serial_adapter_that_was_unplugged_is_used_again(tmp_path: Path) -> None:
    """The descriptor that is waited for stays the same; opening does not hold up whoever asks."""
    pytest.importorskip("serial", reason="slcan needs pyserial")
    pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
    link = tmp_path / "tty"

    def plug_in() -> tuple[int, int]:
        ends: tuple[int, int] = pty.openpty()
        link.unlink(missing_ok=True)
        link.symlink_to(os.ttyname(ends[1]))
        return ends

    def heard(far: int) -> list[int]:
        os.write(far, b"t10021122\r")
        assert select.select([fd], [], [], 5.0)[0]
        return [frame.can_id for frame in bus.drain()]

    ends = plug_in()
    options = {"interface": "slcan", "channel": str(link), "sleep_after_open": 0.0}
    bus = open_bus({**options, "bitrate": 500000}, [], "bus")
    fd = bus.fileno()
    try:
        assert heard(ends[0]) == [0x100]
        for end in ends:
            os.close(end)
        deadline = time.monotonic() + 10.0
        while not bus.down:
            assert time.monotonic() < deadline
            bus.drain()
        for _ in range(5):  # nothing to open yet
            assert not bus.revive()
            time.sleep(0.02)
            assert bus.drain() == []
        with pytest.raises(OSError, match="missing"):
            bus.send(Frame(0x100, b""))
        ends = plug_in()
        while not bus.revive():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert not bus.down
        assert bus.fileno() == fd
        assert heard(ends[0]) == [0x100]
    finally:
        bus.close()
        for end in ends:
            os.close(end)


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """python-can ends in a NameError where a vendor's library is missing."""

    def broken(**arguments: Any) -> None:
        raise NameError("name 'canOpenChannel' is not defined")

    monkeypatch.setattr(can, "Bus", broken)
    with pytest.raises(ConfigError, match="library of the interface's vendor is not installed"):
        open_bus({"interface": "kvaser", "channel": 0}, [], "bus")
