"""Error frames of different interfaces, in words. Numbers are those of linux/can/error.h."""

from __future__ import annotations

import select
import uuid

import can
import pytest

from hilrt.can.bus import open_bus
from hilrt.can.bus_faults import BusWatch
from hilrt.can.controller_state import controller_off
from hilrt.can.error_frames import error_text
from hilrt.can.frame import ERROR, EXTENDED, Frame
from hilrt.can.python_can import from_message


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        (0x20, "0000000000000000", "no acknowledgement"),
        (0x88, "0000040000000000", "stuff error"),
        (0x88, "0000820300000000", "form error while sending"),
        (0x04, "0010000000000000", "error-passive"),
        (0x04, "0001000000000000", "buffer overflow"),
        (0x40, "", "bus-off"),
        (0x100, "", "controller restarted"),
        (0x80, "", "error on the bus"),
        (0x204, "0004000000000064",
         "warning level of errors (error counters: 0 sending, 100 receiving)"),
        (0x2C, "0030090000000000",
         "no acknowledgement; error-passive; bit error, a dominant bit was not sent"),
    ],
)  # fmt: skip
def test_what_they_say(kind: int, data: str, text: str) -> None:
    assert error_text(Frame(ERROR | kind, bytes.fromhex(data))) == text


def message(identifier: int, data: bytes = b"") -> can.Message:
    return can.Message(arbitration_id=identifier, data=data, is_error_frame=True)


def test_interfaces_with_a_layout_of_their_own_are_not_misread() -> None:
    """PEAK's stuff error has the number of SocketCAN's class of controller problems."""
    stuff = from_message(message(4, b"\x01\x20\x00\x00"), "pcan")
    assert error_text(stuff) == "stuff error"
    assert error_text(from_message(message(0x41, b"\x30" * 8), "vector")) == "error on the bus"
    same = from_message(message(0x44, bytes([0, 0x30, 0, 0, 0, 0, 0, 0])), "gs_usb")
    assert error_text(same) == "bus-off; error-passive"
    assert not same.can_id & EXTENDED
    watch = BusWatch()
    watch.errors(0, [stuff])
    assert [change.text for change in watch.update(0, False)] == ["error frame: stuff error"]


def test_error_frames_come_from_a_bus_beside_good_ones() -> None:
    channel = {"interface": "virtual", "channel": uuid.uuid4().hex}
    bus, other = open_bus(channel, [], "t"), can.Bus(**channel)
    other.send(message(0x88, bytes([0, 0, 0x84, 0, 0, 0, 0, 0])))
    other.send(can.Message(arbitration_id=0x100, is_extended_id=False, data=b"x"))
    frames: list[Frame] = []
    while len(frames) < 2:
        select.select([bus.fileno()], [], [])
        frames += bus.drain()
    bus.close()
    other.shutdown()
    assert error_text(frames[0]) == "stuff error while sending"
    assert frames[1].can_id == 0x100


class Driver:
    """Stands for a driver's bus: python-can gives these two away."""

    def __init__(self, status: int, state: can.BusState) -> None:
        self.state = state
        self._status = status

    def status(self) -> int:
        return self._status


def test_what_drivers_say_of_their_controller() -> None:
    off, on = Driver(0x1C, can.BusState.ERROR), Driver(0x0C, can.BusState.ACTIVE)
    for interface in ("pcan", "ixxat"):
        assert controller_off(interface, off) is True  # type: ignore[arg-type]
        assert controller_off(interface, on) is False  # type: ignore[arg-type]
    assert controller_off("vector", off) is None  # type: ignore[arg-type]
    assert controller_off("pcan", object()) is None  # type: ignore[arg-type]
