"""Shifts and masks against plain cantools, for any layout of a message."""

from __future__ import annotations

import math
import struct
import sys
from pathlib import Path
from typing import Any

import cantools
import pytest
from cantools.database.can import Database, Message, Signal
from cantools.database.conversion import BaseConversion
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hilrt.can.codec import CompiledCodec, bits, codec, fits, start_values
from hilrt.can.database import load_database

SCALES = st.sampled_from([1, 0.01, 0.0001, 0.5, 2, -0.25, 3.7])
OFFSETS = st.sampled_from([0, -40, 5, 0.3, -1000])


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """A message of plain integers, in either byte order, that cantools accepts."""
    size = draw(st.sampled_from([1, 4, 8, 64]))
    signals = []
    for i in range(draw(st.integers(1, 4))):
        length = draw(st.integers(1, min(8 * size, 40)))
        signals.append(
            Signal(
                f"S{i}",
                start=draw(st.integers(0, 8 * size - 1)),
                length=length,
                byte_order=draw(st.sampled_from(["little_endian", "big_endian"])),
                is_signed=draw(st.booleans()),
                raw_initial=draw(st.integers(0, 2 ** (length - 1) - 1)),
                conversion=BaseConversion.factory(draw(SCALES), draw(OFFSETS)),
            )
        )
    try:
        return Message(1, "M", size, signals, is_fd=size > 8, strict=True)
    except cantools.database.Error:
        assume(False)
        raise


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(message=messages(), data=st.data())
def test_plain_codec_agrees_with_cantools(message: Message, data: st.DataObject) -> None:
    names = [signal.name for signal in message.signals]
    chosen = data.draw(st.permutations(names))[: data.draw(st.integers(1, len(names)))]
    plain = CompiledCodec(message, chosen, {})

    frame = data.draw(st.binary(min_size=message.length, max_size=message.length))
    expected: Any = message.decode(frame, decode_choices=False)
    assert list(plain.decode(frame)) == [expected[name] for name in chosen]

    values = start_values(message)
    for name in chosen:
        signal = message.get_signal_by_name(name)
        half = 1 << (signal.length - 1)
        low, high = (-half, half - 1) if signal.is_signed else (0, 2 * half - 1)
        raw = data.draw(st.integers(low, high))
        part = data.draw(st.floats(-0.4, 0.4))  # of a bit: rounding
        values[name] = (raw + part) * signal.scale + signal.offset
        # Where the two ways of rounding differ by a bit in the last digit is nobody's error.
        assume(round((values[name] - signal.offset) / signal.scale) == raw)
    ours = plain.encode([values[name] for name in chosen])
    theirs: Any = message.decode(message.encode(values, strict=False), decode_choices=False)
    assert message.decode(ours, decode_choices=False) == theirs
    assert ours == message.encode(values, strict=False)


def message_of(*signals: Signal) -> Message:
    return Message(1, "M", 8, list(signals), strict=True)


def test_values_beyond_the_bits_become_the_nearest() -> None:
    conversion = BaseConversion.factory(0.5, 10)
    signal = Signal("S", 0, 8, "little_endian", is_signed=True, conversion=conversion)
    plain = codec(message_of(signal), ["S"])
    for value, nearest in ((1e9, 73.5), (-1e9, -54.0), (73.5, 73.5)):
        assert list(plain.decode(plain.encode([value]))) == [nearest]


@pytest.mark.parametrize("order", ["little_endian", "big_endian"])
@pytest.mark.parametrize("scale", [1, 1e-3, -2])
@pytest.mark.parametrize(
    ("length", "largest"), [(16, 65504.0), (32, 3.4028234663852886e38), (64, sys.float_info.max)]
)
def test_values_beyond_a_float_become_its_largest(
    order: Any, scale: float, length: int, largest: float
) -> None:
    conversion = BaseConversion.factory(scale, 5, is_float=True)
    start = 7 if order == "big_endian" else 0
    signal = Signal("S", start, length, order, conversion=conversion)
    plain, bare = codec(message_of(signal), ["S"]), f"<{ {16: 'e', 32: 'f', 64: 'd'}[length] }"

    def raw(value: float) -> Any:
        data = plain.encode([value])[: length // 8]
        return struct.unpack(bare, data if order == "little_endian" else data[::-1])[0]

    sign = math.copysign(1.0, scale)
    beyond = 1e306 if length == 64 else 1e200
    if length < 64 or abs(scale) < 1:
        assert (raw(beyond), raw(-beyond)) == (sign * largest, -sign * largest)
    assert (raw(math.inf), raw(-math.inf)) == (sign * math.inf, -sign * math.inf)
    assert math.isnan(raw(math.nan))
    assert raw(5.0 + scale) == pytest.approx(1.0)


def test_a_start_value_beyond_a_float_becomes_its_largest() -> None:
    conversion = BaseConversion.factory(1, 0, is_float=True)
    signal = Signal("S", 0, 16, conversion=conversion, raw_initial=70000)
    (value,) = codec(message_of(signal), ["S"]).decode(codec(message_of(signal), []).encode([]))
    assert value == 65504.0


def test_too_short_data_are_refused_and_longer_ones_cut() -> None:
    plain = codec(message_of(Signal("S", 56, 8, "little_endian")), ["S"])
    with pytest.raises(ValueError, match="7 bytes instead of 8"):
        plain.decode(bytes(7))
    assert list(plain.decode(bytes([0, 0, 0, 0, 0, 0, 0, 9, 1]))) == [9]


def test_multiplexers_that_the_database_does_not_know_are_errors() -> None:
    switched = message_of(
        Signal("Which", 0, 8, "little_endian", is_multiplexer=True),
        Signal("A", 8, 8, multiplexer_ids=[0], multiplexer_signal="Which"),
        Signal("B", 8, 8, multiplexer_ids=[1], multiplexer_signal="Which"),
    )
    coded = codec(switched, ["A", "B"])
    assert list(coded.decode(bytes([1, 7, 0, 0, 0, 0, 0, 0]))) == [None, 7]
    with pytest.raises(ValueError, match="no multiplexer value 2"):
        coded.decode(bytes([2, 7, 0, 0, 0, 0, 0, 0]))
    assert codec(switched, ["B"], {"Which": 1}).encode([7]) == bytes([1, 7, 0, 0, 0, 0, 0, 0])


NESTED = """VERSION ""
BU_: B
BO_ 256 M: 8 B
 SG_ Outer M : 0|2@1+ (1,0) [0|3] "" B
 SG_ Inner m1M : 2|2@1+ (1,0) [0|3] "" B
 SG_ A m0 : 8|16@1- (0.5,0) [0|0] "" B
 SG_ B m0 : 24|16@1+ (1,3) [0|0] "" B
 SG_ C m2 : 8|32@1- (0.25,1) [0|0] "" B
 SG_ D m3 : 15|16@0- (0.1,0) [0|0] "" B
BO_ 257 F: 8 B
 SG_ R : 0|32@1- (1,0) [0|0] "" B
 SG_ S : 39|32@0- (2,1) [0|0] "" B
SIG_VALTYPE_ 257 R : 1;
SIG_VALTYPE_ 257 S : 1;
SG_MUL_VAL_ 256 Inner Outer 1-1;
SG_MUL_VAL_ 256 A Outer 0-0;
SG_MUL_VAL_ 256 B Outer 0-0;
SG_MUL_VAL_ 256 C Inner 2-2;
SG_MUL_VAL_ 256 D Inner 3-3;
"""
FIXED = cantools.database.load_string(NESTED, "dbc")


@given(payload=st.binary(min_size=8, max_size=8))
def test_multiplexed_and_real_signals_agree_with_cantools(payload: bytes) -> None:
    for message in FIXED.messages:
        names = [signal.name for signal in message.signals]
        coded = codec(message, names)
        try:
            plain: Any = message.decode(payload, decode_choices=False)
        except cantools.database.DecodeError:
            with pytest.raises(ValueError, match="no multiplexer value"):
                coded.decode(payload)
            continue
        # repr: a float that is not a number equals itself
        assert repr(list(coded.decode(payload))) == repr([plain.get(name) for name in names])


@given(r=st.floats(width=32, allow_nan=False), s=st.floats(-1e6, 1e6))
def test_reals_are_encoded_as_cantools_does(r: float, s: float) -> None:
    message = FIXED.get_message_by_name("F")
    assert codec(message, ["S", "R"]).encode([s, r]) == message.encode({"R": r, "S": s})


def one(signals: str, length: int = 8) -> Message:
    text = f'VERSION ""\nBU_: A B\nBO_ 256 M: {length} A\n{signals}'
    loaded = cantools.database.load_string(text, "dbc", strict=False)
    assert isinstance(loaded, Database)
    return loaded.messages[0]


def test_a_multiplexer_need_not_know_the_value_0() -> None:
    """The start frame has it at 0, unless a set-point chooses another one."""
    message = one(
        ' SG_ Mode M : 0|8@1+ (1,0) [0|0] "" B\n'
        ' SG_ Torque m1 : 8|16@1- (0.1,0) [0|0] "N*m" B\n'
        ' SG_ Speed m2 : 8|16@1+ (1,0) [0|0] "rpm" B\n'
    )
    received = codec(message, ["Torque", "Speed"])
    assert received.decode(bytes([1, 100, 0, 0, 0, 0, 0, 0])) == (10.0, None)
    assert received.decode(bytes([2, 100, 0, 0, 0, 0, 0, 0])) == (None, 100)
    sent = codec(message, ["Torque"], {"Mode": 1}).encode([-10.0])
    assert message.decode(sent) == {"Mode": 1, "Torque": -10.0}
    assert codec(message, ["Mode"]).encode([2.0]) == bytes([2, *bytes(7)])


def test_defective_neighbours_do_no_harm() -> None:
    """A scale of 0, and a big-endian signal that ends beyond the message."""
    message = one(
        ' SG_ Good : 0|16@1+ (0.5,0) [0|0] "" B\n'
        ' SG_ Flat : 16|8@1+ (0,3) [0|0] "" B\n'
        ' SG_ Beyond : 55|16@0+ (1,0) [0|0] "" B\n',
        length=7,
    )
    plain = codec(message, ["Good", "Flat", "Beyond"])
    assert plain.decode(bytes([4, 0, 9, 0, 0, 0, 0])) == (2.0, 3, None)
    assert codec(message, ["Good"]).encode([2.0]) == bytes([4, 0, 0, 0, 0, 0, 0])


def test_a_multiplexer_beyond_its_message_harms_only_what_it_selects() -> None:
    message = one(
        ' SG_ Page M : 56|8@1+ (1,0) [0|0] "" B\n'
        ' SG_ Always : 0|8@1+ (1,0) [0|0] "" B\n'
        ' SG_ Sometimes m1 : 8|8@1+ (1,0) [0|0] "" B\n'
        ' SG_ Row m0M : 16|8@1+ (1,0) [0|0] "" B\n'
        ' SG_ Below m3 : 24|8@1+ (1,0) [0|0] "" B\n'
        "SG_MUL_VAL_ 256 Sometimes Page 1-1;\n"
        "SG_MUL_VAL_ 256 Row Page 0-0;\n"
        "SG_MUL_VAL_ 256 Below Row 3-3;\n",
        length=7,
    )
    names = ["Always", "Sometimes", "Row", "Below"]
    assert [fits(message, message.get_signal_by_name(name)) for name in ("Page", *names)] == [
        False,
        *4 * [True],
    ]
    decoded = codec(message, names).decode(bytes([5, 6, 9, 3, 0, 0, 0]))
    assert decoded == (5, None, None, None)


def test_marks_of_j1939_are_no_values() -> None:
    """SAE J1939-71, 5.1.4: the highest byte 0xFE an error, 0xFF not available."""
    message = one(
        ' SG_ Byte : 0|8@1+ (1,-125) [0|0] "" B\n'
        ' SG_ Word : 8|16@1+ (0.125,0) [0|0] "rpm" B\n'
        ' SG_ Switch : 24|2@1+ (1,0) [0|0] "" B\n'
        ' SG_ Long : 32|32@1+ (1,0) [0|0] "" B\n'
    )
    names = ["Byte", "Word", "Switch", "Long"]
    marked = codec(message, names, marked=names).decode
    assert marked(bytes(8 * [0xFF])) == (None, None, None, None)
    assert marked(bytes([0xFE, 0, 0xFE, 2, 0, 0, 0, 0xFE])) == (None, None, None, None)
    top = bytes([0xFA, 0xFF, 0xFA, 1, 0xFF, 0xFF, 0xFF, 0xFA])
    assert marked(top) == (125, 8031.875, 1, 0xFAFFFFFF)
    assert codec(message, names).decode(bytes(8 * [0xFF]))[1] == 8191.875


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(message=messages())
def test_bits_of_a_signal_are_those_that_change_with_it(message: Message) -> None:
    for signal in message.signals:
        encode = codec(message, [signal.name]).encode
        ones = -1 if signal.is_signed else (1 << signal.length) - 1
        ends = [encode([raw * signal.scale + signal.offset]) for raw in (0, ones)]
        none, all_ = (int.from_bytes(data, "little") for data in ends)
        assert none ^ all_ == bits(message, signal)


@pytest.mark.parametrize("mark", ["M", "m", "m0", ""])
def test_a_multiplexer_is_one_however_it_is_marked(mark: str, tmp_path: Path) -> None:
    """By ``SG_MUL_VAL_`` alone, as in databases of Volkswagen; plain cantools is blind to it."""
    text = f"""VERSION ""
BU_: A
BO_ 256 Pages: 4 A
 SG_ Page {mark} : 0|8@1+ (1,0) [0|0] "" A
 SG_ Oil m1 : 8|8@1+ (1,0) [0|0] "" A
 SG_ Water m2 : 8|8@1+ (1,0) [0|0] "" A
 SG_ Always : 16|8@1+ (1,0) [0|0] "" A

SG_MUL_VAL_ 256 Oil Page 1-1, 5-6;
SG_MUL_VAL_ 256 Water Page 2-2;
"""
    (tmp_path / "a.dbc").write_text(text)
    message = load_database(tmp_path / "a.dbc", "t").messages[0]
    names = ["Page", "Oil", "Water", "Always"]
    made = codec(message, names)
    assert made.decode(b"\x05\x07\x08\x00") == (5, 7, None, 8)
    assert made.decode(b"\x02\x07\x08\x00") == (2, None, 7, 8)
    for data in (b"\x05\x07\x08\x00", b"\x02\x07\x08\x00"):
        expected: Any = message.decode(data, decode_choices=False)
        found = dict(zip(names, made.decode(data), strict=True))
        assert {n: v for n, v in found.items() if v is not None} == expected
    with pytest.raises(ValueError, match="no multiplexer value 4"):
        made.decode(b"\x04\x07\x08\x00")
    assert codec(message, names, strict=False).decode(b"\x04\x07\x08\x00") == (4, None, None, 8)
    plain = cantools.database.load_string(text, "dbc").messages[0]  # as its user may load it
    assert codec(plain, names).decode(b"\x05\x07\x08\x00") == (5, 7, None, 8)


def test_multiplexers_that_cannot_be_select_nothing() -> None:
    """One that the message does not have, and two that select each other."""
    text = """VERSION ""
BU_: A
BO_ 256 Odd: 4 A
 SG_ One m1M : 0|8@1+ (1,0) [0|0] "" A
 SG_ Two m1M : 8|8@1+ (1,0) [0|0] "" A
 SG_ Lost m3 : 16|8@1+ (1,0) [0|0] "" A
 SG_ Always : 24|8@1+ (1,0) [0|0] "" A

SG_MUL_VAL_ 256 One Two 1-1;
SG_MUL_VAL_ 256 Two One 1-1;
SG_MUL_VAL_ 256 Lost Nowhere 3-3;
"""
    message = cantools.database.load_string(text, "dbc", strict=False).messages[0]
    made = codec(message, ["One", "Two", "Lost", "Always"])
    assert made.decode(b"\x01\x01\x01\x07") == (None, None, None, 7)
    assert made.encode([1, 1, 1, 7])[3] == 7


def test_a_multiplexer_value_that_has_a_name_needs_no_signals() -> None:
    text = """VERSION ""
BU_: A
BO_ 256 Pages: 3 A
 SG_ Page M : 0|8@1+ (1,0) [0|0] "" A
 SG_ Oil m1 : 8|8@1+ (1,0) [0|0] "" A

VAL_ 256 Page 0 "Nothing" 1 "Oil" ;
"""
    message = cantools.database.load_string(text, "dbc").messages[0]
    assert codec(message, ["Page", "Oil"]).decode(bytes(3)) == (0, None)
    assert message.decode(bytes(3), decode_choices=False) == {"Page": 0}


def test_a_name_of_any_characters_has_a_codec() -> None:
    message = Message(1, "Sta\0tus\n", 1, [Signal("S\0", 0, 8)])
    assert codec(message, ["S\0"]).decode(b"\x07") == (7,)


@pytest.mark.parametrize(("scale", "offset"), [("1", "1e18"), ("2", "0"), ("3.0", "-5")])
@pytest.mark.parametrize("choices", ["", 'VAL_ 256 S 0 "Off" ;\n'])
def test_whole_numbers_are_exact_beyond_2_to_the_53(scale: str, offset: str, choices: str) -> None:
    message = one(f' SG_ S : 0|64@1+ ({scale},{offset}) [0|0] "" B\n\n{choices}')
    for data in (b"\xff" * 8, b"\x01" + bytes(6) + b"\x40"):
        expected: Any = message.decode(data, decode_choices=False)
        assert codec(message, ["S"]).decode(data) == (expected["S"],)
