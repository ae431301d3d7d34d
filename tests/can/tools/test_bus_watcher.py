"""Rows of what is on a bus."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import cantools
import pytest
from cantools.database.can import Message
from rich.console import Console

from hilrt.can.frame import ERROR, EXTENDED, Frame
from hilrt.can.tools import bus_watcher
from hilrt.can.tools.bus_watcher import BusWatcher, live_table, signals_text, stats_table

DATABASE = Path(__file__).parents[3] / "bench_configs" / "engine_bench.dbc"
PLAIN = cantools.database.load_file(DATABASE)
MS = 1_000_000


def slow(count: int, state: int = 3) -> Frame:
    values = {
        "Enabled": 1,
        "State": state,
        "FaultCause": 0,
        "Mode": 0,
        "FuelRate": 1.5,
        "CoolantTemp": 80,
        "OilTemp": 90,
        "ExhaustTemp": 300,
        "Alive": count % 256,
    }
    data = PLAIN.get_message_by_name("EngineSlow").encode(values)
    return Frame(0x110, data, count * 10 * MS + 10**18)


@pytest.fixture
def watcher() -> BusWatcher:
    made = BusWatcher(PLAIN.messages)
    made.receive([slow(0), slow(1), slow(2), Frame(0x110, b"", 10**18), slow(2), slow(5)], 0)
    made.receive([Frame(EXTENDED | 0x123, b"\x01\x02"), Frame(ERROR, b"")], 7)
    return made


def test_rows_have_names_values_and_counts(watcher: BusWatcher) -> None:
    row = watcher.rows[0x110]
    assert row.name == "EngineSlow"
    assert row.values["State"] == "ENABLED"
    assert row.values["FuelRate"] == "1.5 g/s"
    assert (row.stats.lost, row.stats.repeated, row.stats.decode_errors) == (2, 1, 1)
    assert watcher.rows[EXTENDED | 0x123].name == ""
    assert watcher.error_frames == 1


def test_a_j1939_group_of_several_frames_has_a_row_of_its_own() -> None:
    base = cantools.database.load_string(
        """VERSION ""
BU_: Engine
BO_ 2566841088 EC1: 39 Engine
 SG_ IdleSpeed : 0|16@1+ (0.125,0) [0|8031.875] "rpm" Engine
BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";
BA_DEF_DEF_ "VFrameFormat" "StandardCAN";
BA_ "VFrameFormat" BO_ 2566841088 3;
""",
        "dbc",
    )
    watcher = BusWatcher(base.messages)
    begin = Frame(EXTENDED | 0x1CECFF05, bytes([32, 39, 0, 6, 255, 0xE3, 0xFE, 0]), 1)
    body = (650 * 8).to_bytes(2, "little") + bytes(40)
    packets = [
        Frame(EXTENDED | 0x1CEBFF05, bytes([k + 1]) + body[7 * k : 7 * k + 7], k + 2)
        for k in range(6)
    ]
    group = Frame(EXTENDED | 0x1CFEE305, body[:39], 7)
    assert watcher.receive([begin, *packets], 0) == [begin, *packets, group]
    row = watcher.rows[group.can_id]
    assert (row.name, row.values, row.bits) == ("EC1", {"IdleSpeed": "650 rpm"}, 0.0)
    assert watcher.rows[packets[0].can_id].stats.frames == 6
    assert watcher.frames == 7


def test_load_is_about_what_the_wire_carries() -> None:
    watcher = BusWatcher()
    watcher.receive([Frame(0x100, bytes(8), k) for k in range(1, 7001)], 0)
    # 7000 frames of 8 bytes fill 1 Mbit/s to some 85 %
    assert watcher.load(1.0, 1e6) == pytest.approx(0.85, abs=0.05)


def shown(watcher: BusWatcher) -> str:
    console = Console(width=300, record=True, file=None, quiet=True)
    with console.capture() as captured:
        console.quiet = False
        console.print(live_table(watcher))
        console.print(stats_table(watcher))
    return captured.get()


def test_tables_show_what_is_there(watcher: BusWatcher) -> None:
    text = shown(watcher)
    assert "EngineSlow" in text
    assert "State=ENABLED" in text
    assert "0x00000123" in text


# ---- databases and frames with mistakes ----------------------------------------------------------

MISTAKES = """VERSION ""
BU_: A
BO_ 256 Floats: 6 A
 SG_ Torque : 0|32@1- (1,0) [0|0] "N[/s]" A
 SG_ Alive : 32|8@1+ (1,0) [0|255] "" A
 SG_ State : 40|8@1+ (1,0) [0|255] "" A
BO_ 257 Unscaled: 2 A
 SG_ Zero : 0|8@1+ (0,5) [0|0] "" A
 SG_ Whole : 8|8@1+ (1,0) [0|0] "" A
BO_ 258 Beyond: 2 A
 SG_ Big : 7|32@0+ (1,0) [0|0] "" A
 SG_ Little : 8|32@1+ (1,0) [0|0] "" A
 SG_ Whole : 0|4@1+ (1,0) [0|0] "" A
BO_ 259 NoCounter: 2 A
 SG_ Alive : 7|32@0+ (1,0) [0|0] "" A
VAL_ 256 State 1 "ON" ;
SIG_VALTYPE_ 256 Torque : 1;
"""


def mistaken() -> BusWatcher:
    database = cantools.database.load_string(MISTAKES, "dbc", strict=False)
    return BusWatcher(database.messages)


def floats(torque: float, count: int) -> Frame:
    return Frame(0x100, struct.pack("<fBB", torque, count, 1), 10**18 + count)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_values_that_are_no_number_are_shown_and_counted(text: str) -> None:
    watcher = mistaken()
    watcher.receive([floats(1.5, 0), floats(float(text), 1), floats(float(text), 3)], 0)
    row = watcher.rows[0x100]
    assert row.values == {"Torque": text, "Alive": "3", "State": "ON"}
    assert (row.bad_values, row.stats.decode_errors, row.stats.lost) == (2, 0, 1)
    assert f"Torque={text}" in shown(watcher)
    watcher.receive([floats(2.5, 4)], 0)
    assert "Torque=2.5 N[/s]" in shown(watcher)  # brackets are no markup


def test_signals_that_are_described_wrongly_leave_the_others_readable() -> None:
    watcher = mistaken()
    watcher.receive([Frame(can_id, bytes([3, 7])) for can_id in (0x101, 0x102, 0x103)], 1)
    assert watcher.rows[0x101].values == {"Zero": "-", "Whole": "7"}
    assert watcher.rows[0x102].values == {"Big": "-", "Little": "-", "Whole": "3"}
    assert watcher.rows[0x103].values == {"Alive": "-"}
    assert [row.bad_values for row in watcher.rows.values()] == [1, 2, 1]
    assert watcher.problems == []
    assert "Unscaled" in shown(watcher)


def test_a_message_that_cannot_be_decoded_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    make = bus_watcher.codec

    def fails(message: Message, names: list[str], **options: Any) -> object:
        if message.name == "Unscaled":
            raise KeyError("no such float")
        return make(message, names, **options)

    monkeypatch.setattr(bus_watcher, "codec", fails)
    watcher = mistaken()
    watcher.receive([Frame(0x101, bytes(2)), Frame(0x101, bytes(2)), floats(1.0, 0)], 1)
    assert len(watcher.problems) == 1
    assert "message Unscaled cannot be decoded" in watcher.problems[0]
    assert (watcher.rows[0x101].name, watcher.rows[0x101].values) == ("Unscaled", {})
    assert watcher.rows[0x100].values["Torque"] == "1 N[/s]"


def test_a_frame_that_cannot_be_decoded_shows_no_older_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watcher = mistaken()
    watcher.receive([floats(1.0, 0), Frame(0x100, b"\x01", 1)], 1)
    row = watcher.rows[0x100]
    assert signals_text(row) == "undecodable"
    assert (row.stats.decode_errors, watcher.undecodable) == (1, 1)

    def fails(signal: object, value: float) -> str:
        raise OverflowError("whatever")

    monkeypatch.setattr(bus_watcher, "_text", fails)
    watcher.receive([floats(1.0, 1)], 1)
    assert (row.stats.decode_errors, row.stats.frames) == (2, 3)
    monkeypatch.undo()
    watcher.receive([floats(1.0, 2)], 1)
    assert not row.undecodable


def shared_group(*identifiers: int) -> str:
    """A database with J1939 messages A, B, … of one signal each."""
    text = 'VERSION ""\nBU_: Engine\n'
    for name, identifier in zip("ABCDEF", identifiers, strict=False):
        text += f"BO_ {EXTENDED | identifier} {name}: 8 Engine\n"
        text += f' SG_ {name}1 : 0|16@1+ (0.125,0) [0|8031.875] "rpm" Engine\n'
    text += 'BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";\n'
    return text + 'BA_DEF_DEF_ "VFrameFormat" "J1939PG";\n'


def test_messages_of_one_j1939_group_are_told_apart_or_shown_as_bytes() -> None:
    database = cantools.database.load_string(shared_group(0x18EF0001, 0x18EF0002), "dbc")
    watcher = BusWatcher(database.messages)
    data = b"\x08\x00" + bytes(6)
    watcher.receive([Frame(EXTENDED | i, data, 1) for i in (0x18EF0002, 0x0CEF0001, 0x18EF0007)], 1)
    seen = {row.frame.identifier: (row.name, signals_text(row)) for row in watcher.rows.values()}
    assert seen == {
        0x18EF0002: ("B", "B1=1 rpm"),
        0x0CEF0001: ("A", "A1=1 rpm"),
        0x18EF0007: ("A or B", ""),
    }


def test_what_j1939_marks_as_not_available_is_shown_so() -> None:
    watcher = BusWatcher(cantools.database.load_string(shared_group(0x18F00400), "dbc").messages)
    watcher.receive([Frame(EXTENDED | 0x18F00400, b"\xff" * 8, 1)], 1)
    assert signals_text(watcher.rows[EXTENDED | 0x18F00400]) == "A1=n/a"


def test_a_multiplexer_value_without_a_form_leaves_the_rest_of_the_frame() -> None:
    text = """VERSION ""
BU_: A
BO_ 256 Pages: 3 A
 SG_ Page M : 0|8@1+ (1,0) [0|0] "" A
 SG_ Oil m1 : 8|8@1+ (1,0) [0|0] "" A
 SG_ Always : 16|8@1+ (1,0) [0|0] "" A
"""
    watcher = BusWatcher(cantools.database.load_string(text, "dbc").messages)
    watcher.receive([Frame(0x100, b"\x01\x02\x03", 1)], 1)
    assert signals_text(watcher.rows[0x100]) == "Page=1 Oil=2 Always=3"
    watcher.receive([Frame(0x100, b"\x09\x02\x03", 1)], 1)
    assert signals_text(watcher.rows[0x100]) == "Page=9 Always=3"
