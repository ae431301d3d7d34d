"""Frames to and from python-can, and which message a frame belongs to."""

from __future__ import annotations

import select
import uuid

import can
import cantools
import pytest
from cantools.database.can import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from hilrt.can.bus import open_bus
from hilrt.can.bus_faults import BusWatch
from hilrt.can.frame import ERROR, EXTENDED, REMOTE, Frame, controller_off, error_text
from hilrt.can.id_table import IdTable
from hilrt.can.udp_multicast import from_message, to_message

DBC = """VERSION ""
BU_: A B
BO_ 2364540158 EEC1: 8 A
 SG_ EngineSpeed : 24|16@1+ (0.125,0) [0|8031.875] "rpm" B
BO_ 2348810243 TSC1: 8 A
 SG_ Torque : 24|8@1+ (1,-125) [-125|125] "%" B
BO_ 256 Plain: 8 A
 SG_ Speed : 0|16@1+ (1,0) [0|0] "" B
BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";
BA_DEF_DEF_ "VFrameFormat" "StandardCAN";
BA_ "VFrameFormat" BO_ 2364540158 3;
BA_ "VFrameFormat" BO_ 2348810243 3;
"""
MESSAGES = {m.name: m for m in cantools.database.load_string(DBC, "dbc").messages}


@settings(max_examples=30)
@given(
    identifier=st.integers(0, 0x7FF),
    extended=st.booleans(),
    data=st.binary(max_size=8),
    seconds=st.integers(0, 2**31),
)
def test_there_and_back(identifier: int, extended: bool, data: bytes, seconds: int) -> None:
    frame = Frame(identifier | (EXTENDED if extended else 0), data, seconds * 10**9)
    back = from_message(to_message(frame))
    assert back._replace(t_ns=0) == frame._replace(t_ns=0)
    assert back.t_ns == pytest.approx(frame.t_ns, abs=1000)  # python-can has floats
    assert to_message(frame).arbitration_id == identifier


def test_kinds_of_frames_are_kept() -> None:
    remote = can.Message(arbitration_id=5, is_remote_frame=True, is_extended_id=False, dlc=3)
    error = can.Message(arbitration_id=0x40, is_error_frame=True, is_extended_id=False)
    assert from_message(remote).can_id == REMOTE | 5
    assert from_message(error).can_id == ERROR | 0x40
    assert from_message(can.Message(data=bytes(64), is_fd=True)).fd
    assert Frame(EXTENDED | 0x18F, b"").text == "0x0000018F"
    assert Frame(0x18F, b"").text == "0x18F"


def test_j1939_from_any_source_with_any_priority() -> None:
    table = IdTable((m, m.name) for m in MESSAGES.values())
    assert table.find(EXTENDED | 0x0CF00400) == "EEC1"  # source 0
    assert table.find(EXTENDED | 0x18F004FE) == "EEC1"  # other priority and source
    assert table.find(EXTENDED | 0x0CF00300) is None  # EEC2
    assert table.find(EXTENDED | 0x0C000003) == "TSC1"  # to another destination
    assert table.find(0x100) == "Plain"
    assert table.find(REMOTE | 0x100) is None
    assert table.find(EXTENDED | 0x01000100) is None
    assert table.find(EXTENDED | 0x0CF00400) == "EEC1"  # remembered


def test_one_source_alone() -> None:
    table = IdTable([(MESSAGES["EEC1"], 1)], lambda message: 0x21)
    assert table.find(EXTENDED | 0x18F00421) == 1
    assert table.find(EXTENDED | 0x18F00400) is None


def test_filters_let_the_messages_through_and_no_others() -> None:
    table = IdTable((m, m.name) for m in MESSAGES.values())
    assert table.filters() == [
        {"can_id": 0x100, "can_mask": 0x7FF, "extended": False},
        {"can_id": 0x00F00400, "can_mask": 0x03FFFF00, "extended": True},
        {"can_id": 0x00000000, "can_mask": 0x03FF0000, "extended": True},
    ]


def test_noise_does_not_fill_the_memory() -> None:
    table = IdTable([(MESSAGES["Plain"], 1)])
    for can_id in range(0x1000, 0x4000):
        assert table.find(can_id) is None
    assert len(table.remembered) == pytest.approx(4096)
    assert table.find(0x100) == 1


def group_messages(**identifiers: int) -> dict[str, Message]:
    """J1939 messages by their names."""
    text = 'VERSION ""\nBU_: A\n'
    for name, identifier in identifiers.items():
        text += f"BO_ {EXTENDED | identifier} {name}: 8 A\n"
        text += ' SG_ Speed : 0|16@1+ (1,0) [0|0] "" A\n'
    text += 'BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";\n'
    text += 'BA_DEF_DEF_ "VFrameFormat" "J1939PG";\n'
    database = cantools.database.load_string(text, "dbc", strict=False)
    return {message.name: message for message in database.messages}


def table_of(messages: dict[str, Message]) -> IdTable[str]:
    return IdTable((message, message.name) for message in messages.values())


@pytest.mark.parametrize(
    ("identifier", "name"),
    [
        (0x18EF0001, "ToAFrom1"),  # exactly, whatever the order in the file
        (0x0CEF0001, "ToAFrom1"),  # priorities do not tell messages apart
        (0x18EF0002, "ToAFrom2"),
        (0x18EF5502, "ToAFrom2"),  # to another node: by the sender
        (0x18EF5501, None),  # two messages of this sender, to other nodes
        (0x18EF0501, "To5From1"),
        (0x18EF0009, None),  # a sender that no message names
        (0x18FF0107, "OfSeven"),
        (0x18FF0109, "OfAny"),
        (0x18FF0209, "Alone"),  # the only one of its group, from any sender
    ],
)
def test_messages_of_one_group_are_told_by_their_senders(identifier: int, name: str | None) -> None:
    messages = group_messages(
        ToAFrom2=0x18EF0002,
        ToAFrom1=0x18EF0001,
        To5From1=0x18EF0501,
        OfAny=0x18FF01FE,
        OfSeven=0x18FF0107,
        Alone=0x18FF0200,
    )
    assert table_of(messages).find(EXTENDED | identifier) == name


def test_what_may_be_several_messages_is_none_of_them() -> None:
    table = table_of(group_messages(A=0x18EF0001, B=0x0CEF0001, C=0x18FF01FE))
    assert table.find(EXTENDED | 0x18EF0001) is None
    assert table.find(EXTENDED | 0x18FF0203) is None  # this one is unknown
    assert {k: [m.name for m in v] for k, v in table.ambiguous().items()} == {
        EXTENDED | 0x18EF0001: ["A", "B"]
    }


def test_a_frame_of_a_message_that_is_not_listened_to_is_no_other_one() -> None:
    messages = group_messages(A=0x18EF0001, B=0x18EF0002)
    table = IdTable([(messages["A"], "A")], rivals=messages.values())
    assert table.find(EXTENDED | 0x18EF0001) == "A"
    assert table.find(EXTENDED | 0x18EF0002) is None
    assert IdTable([(messages["A"], "A")]).find(EXTENDED | 0x18EF0002) == "A"
    assert len(table.filters()) == 1


def test_a_source_that_was_asked_for_comes_before_the_database() -> None:
    messages = group_messages(A=0x18EF0001, B=0x18EF0002)
    table = IdTable(
        ((m, m.name) for m in messages.values()), lambda m: 2 if m.name == "A" else None
    )
    assert table.find(EXTENDED | 0x18EF0002) == "A"
    assert table.find(EXTENDED | 0x18EF0001) == "B"  # the only one left


def test_two_messages_of_one_identifier_are_ambiguous() -> None:
    text = """VERSION ""
BU_: A
BO_ 256 One: 8 A
 SG_ Speed : 0|16@1+ (1,0) [0|0] "" A
BO_ 256 Other: 8 A
 SG_ Speed : 0|16@1+ (1,0) [0|0] "" A
"""
    messages = cantools.database.load_string(text, "dbc", strict=False).messages
    table = IdTable((m, m.name) for m in messages)
    assert table.find(0x100) is None
    assert [m.name for m in table.candidates(0x100)] == ["One", "Other"]


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
         "error warning level (error counters: 0 sending, 100 receiving)"),
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
        assert controller_off(interface, off) is True
        assert controller_off(interface, on) is False
    assert controller_off("vector", off) is None
    assert controller_off("pcan", object()) is None
