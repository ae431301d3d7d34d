"""Checksums and counters against the published vectors of their specifications.

CRC-8: AUTOSAR "Specification of CRC Routines" (SWS_CRCLibrary), tables of test vectors of the
routines with polynomials 0x1D (SAE J1850) and 0x2F (H2F). E2E profiles 1 and 5: worked examples of
AUTOSAR "E2E Protocol Specification" (PRS_E2EProtocol), with data identifiers 0x123 and 0x1234.
Check values of both CRCs: the catalogue of parametrised CRC algorithms (CRC-8/SAE-J1850,
CRC-8/AUTOSAR). Profile 2: no worked example of AUTOSAR's own was at hand, so its numbers are those
of another implementation, the tests of the Rust library ``autosar-e2e`` (src/profiles/profile2.rs
and profile22.rs; profile 22 at offset 0 puts the same bytes on the bus), and it is recomputed from
its definition.
"""

from __future__ import annotations

from typing import Any

import cantools
import msgspec
import pytest
from cantools.database.can import Message, Signal
from e2e import crc
from hypothesis import given, settings
from hypothesis import strategies as st

from hilrt.can.protection import (
    Guarded,
    MessageOptions,
    Protection,
    check_messages,
    counter_of,
    guarded,
)
from hilrt.errors import ConfigError
from tests.can.small_database import PLAIN

VECTORS = [
    ("00000000", 0x59, 0x12),
    ("F20183", 0x37, 0xC2),
    ("0FAA0055", 0x79, 0xC6),
    ("00FF5511", 0xB8, 0x77),
    ("332255AABBCCDDEEFF", 0xCB, 0x11),
    ("926B55", 0x8C, 0x33),
    ("FFFFFFFF", 0x74, 0x6C),
]


@pytest.mark.parametrize(("data", "j1850", "h2f"), VECTORS)
def test_crc_8(data: str, j1850: int, h2f: int) -> None:
    assert crc.calculate_crc8(bytes.fromhex(data)) == j1850
    assert crc.calculate_crc8_h2f(bytes.fromhex(data)) == h2f


def test_crc_8_of_the_catalogue() -> None:
    assert crc.calculate_crc8(b"123456789") == 0x4B
    assert crc.calculate_crc8_h2f(b"123456789") == crc_8_h2f(b"123456789") == 0xDF


def message(length: int = 8) -> Message:
    signals = [
        Signal("Check", 0, 8, "little_endian"),
        Signal("Value", 16, 16, "little_endian"),
        Signal("Nibble", 36, 4, "little_endian"),
    ]
    return Message(0x100, "M", length, [s for s in signals if s.start + s.length <= 8 * length])


def protection(length: int = 8, **keys: Any) -> Guarded:
    options = msgspec.convert(keys, Protection)
    return guarded(options, message(length), "messages.M protection")


@pytest.mark.parametrize(
    ("mode", "first", "second"),
    [
        ("both", "CC00000000000000", "9101000000000000"),
        ("alternating", "CE00000000000000", "0201000000000000"),
        ("low", "CE00000000000000", "9301000000000000"),
        ("nibble", "2A10000000000000", "7711000000000000"),
    ],
)
def test_profile_1(mode: str, first: str, second: str) -> None:
    made = protection(method="e2e1", data_id=0x123, id_mode=mode)
    for count, expected in enumerate((first, second)):
        data = made.protect(bytes(8), count)
        assert data == bytes.fromhex(expected)
        assert made.check(data)
        assert made.counter is not None
        assert made.counter(data) == count
        assert not made.check(data[:5] + b"\x01" + data[6:])
    assert made.modulus == 15


@pytest.mark.parametrize(
    ("length", "offset", "first", "second"),
    [
        (8, 0, "1CCA000000000000", "CF8D010000000000"),
        (16, 8, "00000000000000002891000000000000", "0000000000000000FBD6010000000000"),
    ],
)
def test_profile_5(length: int, offset: int, first: str, second: str) -> None:
    made = protection(length, method="e2e5", data_id=0x1234, offset=offset)
    for count, expected in enumerate((first, second)):
        data = made.protect(bytes(length), count)
        assert data == bytes.fromhex(expected)
        assert made.check(data)
        assert made.counter is not None
        assert made.counter(data) == count
    assert made.modulus == 256


#: First bytes of empty messages with the counters 0 to 15, and the data identifiers 1 to 16.
PROFILE_22 = "0E 1B 98 31 0D 18 9B 65 08 1D 9E 37 0B 1E 9D CD"


def test_profile_2_as_another_implementation_has_it() -> None:
    made = protection(method="e2e2", data_ids=list(range(1, 17)))
    for count, checksum in enumerate(bytes.fromhex(PROFILE_22)):
        data = made.protect(bytes(8), count)
        assert data == bytes([checksum, count, 0, 0, 0, 0, 0, 0])
        assert made.check(data)
        assert made.counter is not None
        assert made.counter(data) == count
    assert made.modulus == 16


@pytest.mark.parametrize(
    ("data_id", "frame"), [(0x12, "5F010203"), (0xFF, "ED010203"), (0xA5, "1A0123456789")]
)
def test_profile_2_over_payload_and_identifier(data_id: int, frame: str) -> None:
    whole = bytes.fromhex(frame)
    made = protection(len(whole), method="e2e2", data_ids=[0, data_id, *[0] * 14])
    assert made.protect(bytes(1) + whole[1:], 1) == whole
    assert made.check(whole)


def crc_8_h2f(data: bytes) -> int:
    """Bit by bit, from the definition: polynomial 0x2F, start and final XOR 0xFF."""
    register = 0xFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register << 1 ^ 0x2F if register & 0x80 else register << 1) & 0xFF
    return register ^ 0xFF


@settings(max_examples=50)
@given(
    payload=st.binary(min_size=8, max_size=8),
    ids=st.lists(st.integers(0, 255), min_size=16, max_size=16),
    count=st.integers(0, 15),
)
def test_profile_2_is_its_definition(payload: bytes, ids: list[int], count: int) -> None:
    made = protection(method="e2e2", data_ids=ids)
    data = made.protect(payload, count)
    assert data[1] == (payload[1] & 0xF0) | count
    assert data[2:] == payload[2:]
    assert data[0] == crc_8_h2f(data[1:] + bytes([ids[count]]))
    assert made.check(data)


@pytest.mark.parametrize("method", ["crc8_j1850", "crc8_h2f", "sum", "xor"])
@settings(max_examples=30)
@given(
    payload=st.binary(min_size=8, max_size=8), flip=st.integers(0, 63), start=st.integers(0, 255)
)
def test_plain_checksums_find_every_single_flip(
    method: str, payload: bytes, flip: int, start: int
) -> None:
    made = protection(method=method, signal="Check", start=start)
    data = made.protect(payload, 0)
    assert data[1:] == payload[1:]
    assert made.check(data)
    damaged = int.from_bytes(data, "little") ^ 1 << flip
    assert not made.check(damaged.to_bytes(8, "little"))
    assert not made.check(data[:7])


def test_sum_and_xor_by_hand() -> None:
    data = bytes([0, 1, 2, 3, 250, 0, 0, 7])
    assert protection(method="sum", signal="Check", start=3).protect(data, 0)[0] == 266 - 256
    assert protection(method="xor", signal="Check").protect(data, 0)[0] == 1 ^ 2 ^ 3 ^ 250 ^ 7


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"method": "e2e1"}, "data_id: is missing"),
        ({"method": "e2e2", "data_ids": [1]}, "list of 16 data identifiers, not 1"),
        ({"method": "e2e5", "data_id": 1, "offset": 6}, "does not fit into the 8 bytes of M"),
        ({"method": "sum"}, "name the signal of M"),
        ({"method": "sum", "signal": "Chek"}, "did you mean 'Check'"),
        ({"method": "sum", "signal": "Nibble"}, "must have 8 bits and fill one byte; it has 4"),
    ],
)
def test_what_does_not_fit_is_named(keys: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        protection(**keys)


MESSAGES = {message.name: message for message in PLAIN.messages}


def problems(name: str, **keys: Any) -> list[str]:
    options = {name: msgspec.convert(keys, MessageOptions)}
    received = [MESSAGES["Fast"], MESSAGES["Slow"]]
    return check_messages("[subsystems.engine]", options, [MESSAGES["Demand"]], received)


def test_good_tables_have_no_problems() -> None:
    assert problems("Fast", timeout=0.1, counter="Alive", max_lost=3) == []
    assert problems("Demand", send="cyclic", cycle=0.1, values={"Mode": 2}) == []
    assert problems("Fast", protection={"method": "e2e1", "data_id": 1}) == []


@pytest.mark.parametrize(
    ("name", "keys", "text"),
    [
        ("Fats", {}, "is neither sent nor received here; did you mean 'Fast'"),
        ("Fast", {"counter": "Aliv"}, "no such signal; did you mean 'Alive'"),
        ("Demand", {"values": {"Mod": 1}}, "no such signal; did you mean 'Mode'"),
        ("Demand", {"last": {"Mod": 1}}, "no such signal; did you mean 'Mode'"),
        ("Demand", {"send": "cyclic"}, "cycle: is missing"),
        ("Demand", {"timeout": 1}, "timeout: is for messages that are received"),
        ("Fast", {"send": "change"}, "send: is for messages that are sent"),
        ("Slow", {"source": 3}, "is not a J1939 message"),
        ("Fast", {"protection": {"method": "e2e1"}}, "protection data_id: is missing"),
    ],
)
def test_problems_are_named(name: str, keys: dict[str, Any], text: str) -> None:
    found = problems(name, **keys)
    assert len(found) == 1, found
    assert text in found[0]
    assert found[0].startswith(f"[subsystems.engine] messages.{name}")


def test_a_floating_point_number_is_no_counter() -> None:
    """Its frames may hold what is no number, which must not end a gateway."""
    message = cantools.database.load_string(
        'VERSION ""\nBU_: A\nBO_ 1 Real: 4 A\n SG_ Alive : 0|32@1- (1,0) [0|0] "" A\n'
        "SIG_VALTYPE_ 1 Alive : 1;\n",
        "dbc",
    ).messages[0]
    assert counter_of(MessageOptions(), message, "Alive") is None
    named = {"Real": MessageOptions(counter="Alive")}
    found = check_messages("[subsystems.engine]", named, [], [message])
    assert len(found) == 1
    assert "messages.Real counter = 'Alive': is a floating-point number" in found[0]
