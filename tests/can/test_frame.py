"""Frames to and from python-can, and which message a frame belongs to."""

from __future__ import annotations

import can
import cantools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilrt.can.frame import ERROR, EXTENDED, REMOTE, Frame
from hilrt.can.id_table import IdTable
from hilrt.can.python_can import from_message, to_message

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
    assert len(table._known) == pytest.approx(4096)
    assert table.find(0x100) == 1
