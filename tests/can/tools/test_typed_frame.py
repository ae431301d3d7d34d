"""Frames from the words of a command line: exactly what was asked for, or an error."""

from __future__ import annotations

from pathlib import Path

import cantools
import pytest

from hilrt.can.frame import EXTENDED
from hilrt.can.tools.typed_frame import frame_of
from hilrt.errors import ConfigError

TEXT = """VERSION ""
BU_: A
BO_ 256 MuxCmd: 8 A
 SG_ Sel M : 0|4@1+ (1,0) [0|0] "" A
 SG_ Pressure m0 : 8|16@1+ (1,0) [0|0] "bar" A
 SG_ Limit m0 : 24|8@1+ (1,0) [0|0] "bar" A
 SG_ Flow m1 : 8|16@1+ (1,0) [0|0] "" A
 SG_ Enable : 40|1@1+ (1,0) [0|0] "" A
BO_ 257 Drive: 8 A
 SG_ SpeedSet : 0|16@1- (0.5,10) [0|0] "rpm" A
 SG_ Torque : 16|32@1- (1,0) [0|0] "Nm" A
 SG_ Mode : 48|4@1+ (2,1) [0|0] "" A
BO_ 258 Nested: 8 A
 SG_ Outer M : 0|4@1+ (1,0) [0|0] "" A
 SG_ Inner m2M : 4|4@1+ (1,0) [0|0] "" A
 SG_ Deep m3 : 8|8@1+ (1,0) [0|0] "" A
 SG_ Shallow m1 : 8|8@1+ (1,0) [0|0] "" A
BO_ 259 Mistakes: 2 A
 SG_ Zero : 0|8@1+ (0,5) [0|0] "" A
 SG_ Beyond : 7|32@0+ (1,0) [0|0] "" A
BO_ 260 Overlap: 2 A
 SG_ Wide : 0|16@1+ (1,0) [0|0] "" A
 SG_ Narrow : 8|4@1+ (1,0) [0|0] "" A
BO_ 262 Short: 8 A
 SG_ Odd : 0|24@1- (1,0) [0|0] "" A
BO_ 261 Wide: 8 A
 SG_ Number : 0|64@1+ (1,0) [0|0] "" A
VAL_ 257 Mode 0 "SPEED" 1 "TORQUE" ;
SIG_VALTYPE_ 257 Torque : 1;
SIG_VALTYPE_ 262 Odd : 1;
SG_MUL_VAL_ 258 Inner Outer 2-2;
SG_MUL_VAL_ 258 Deep Inner 3-4;
SG_MUL_VAL_ 258 Shallow Outer 1-1;
"""
PLAIN = cantools.database.load_string(TEXT, "dbc", strict=False)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "some.dbc"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("MuxCmd Flow=100", {"Sel": 1, "Flow": 100, "Enable": 0}),
        ("MuxCmd Flow=100 Sel=1 Enable=1", {"Sel": 1, "Flow": 100, "Enable": 1}),
        ("MuxCmd Pressure=5 Limit=3", {"Sel": 0, "Pressure": 5, "Limit": 3, "Enable": 0}),
        ("MuxCmd Sel=1", {"Sel": 1, "Flow": 0, "Enable": 0}),
        ("Nested Shallow=5", {"Outer": 1, "Shallow": 5}),
        ("Nested Deep=5 Inner=4", {"Outer": 2, "Inner": 4, "Deep": 5}),
        ("Drive SpeedSet=-16374 Torque=0.5", {"SpeedSet": -16374, "Torque": 0.5, "Mode": "SPEED"}),
        ("Drive Mode=TORQUE", {"SpeedSet": 10, "Torque": 0, "Mode": "TORQUE"}),
        ("Wide Number=18446744073709551615", {"Number": 2**64 - 1}),
    ],
)
def test_a_frame_says_what_was_given(words: str, expected: object, database: Path) -> None:
    frame = frame_of(words.split(), database)
    assert PLAIN.decode_message(frame.can_id, frame.data) == expected


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("MuxCmd", r"multiplexer Sel is missing.*0 \(Pressure, Limit\), 1 \(Flow\)"),
        ("MuxCmd Enable=1", r"multiplexer Sel is missing"),
        ("MuxCmd Sel=7", r"multiplexer Sel has no value 7; give one of 0 \(Pre.*, 1 \(Flow\)"),
        ("MuxCmd Sel=0.5", "Sel has no value 0.5"),
        ("MuxCmd Sel=0 Flow=1", r"Sel is given as 0.*give one of 1 \(Flow\)"),
        ("MuxCmd Pressure=1 Flow=1", "Sel puts the given signals into different frames"),
        ("Nested Deep=1", r"multiplexer Inner is missing.*3 \(Deep\), 4 \(Deep\)"),
        ("Nested Deep=1 Shallow=1", "Outer puts the given signals into different frames"),
        ("Drive SpeedSet=nan", "SpeedSet=nan: cannot be sent"),
        ("Drive SpeedSet=-inf", "SpeedSet=-inf: cannot be sent"),
        ("Drive Torque=nan", "cannot be sent"),
        ("Drive SpeedSet=16394", "can carry -16374 to 16393.5 rpm only"),
        ("Drive Torque=1e39", r"can carry -3.4\d*e\+38 to 3.4\d*e\+38 Nm only"),
        ("Drive SpeedSet", "SpeedSet: give a number$"),
        ("Drive SpeedSet=1 SpeedSet=2", "is given twice"),
        ("Mistakes Zero=5", "signal Zero has the scale 0; correct the database"),
        ("Mistakes Beyond=5", "Beyond extends beyond the message's 2 bytes; correct the database"),
        ("Short Odd=1", "signal Odd is a float of 24 bits; correct"),
        (
            "Overlap Wide=5 Narrow=3",
            "Wide would be 773 instead of 5, because another signal overlaps",
        ),
        ("-1#00", "one identifier of 3 or 8 digits"),
        ("123#" + 9 * "00", "up to 8 bytes, or with CAN FD 12"),
    ],
)
def test_what_cannot_be_sent_so_is_an_error(words: str, text: str, database: Path) -> None:
    with pytest.raises(ConfigError, match=text):
        frame_of(words.split(), database)


def test_raw_frames() -> None:
    frame = frame_of(["00000123#" + 12 * "01"], None)
    assert (frame.can_id, frame.data, frame.fd) == (EXTENDED | 0x123, 12 * b"\x01", True)
