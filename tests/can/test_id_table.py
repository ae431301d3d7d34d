"""Containers of AUTOSAR: taken apart as cantools packs them, for measurements and for a view."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from cantools.database.can import Message
from hypothesis import given
from hypothesis import strategies as st

from hilrt.can.database import SignalRef, find_signal, load_database
from hilrt.can.frame import Frame
from hilrt.can.id_table import unpack
from hilrt.can.protection import MessageOptions
from hilrt.can.receiver import Receiver
from hilrt.can.tools.bus_watcher import BusWatcher
from hilrt.errors import ConfigError
from tests.can.container_database import CONTAINER, container_arxml
from tests.can.small_database import Clock


@pytest.fixture(params=["FIRST", "LAST"])
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Message:
    (message,) = load_database(container_arxml(tmp_path, request.param), "t").messages
    return message


def fast(torque: int, alive: int) -> tuple[str, dict[str, float]]:
    return "Fast", {"Torque": torque, "Alive": alive}


def slow(temp: int, enabled: int = 1) -> tuple[str, dict[str, float]]:
    return "Slow", {"Temp": temp, "Enabled": enabled}


def test_messages_come_out_as_cantools_packed_them(box: Message) -> None:
    """In any order, several of one kind, and with padding behind them."""
    inner = {message.name: message for message in box.contained_messages or ()}
    sent = [slow(5), fast(300, 7), fast(301, 8)]
    data = box.encode(sent)
    expected = [(inner[name], inner[name].encode(values)) for name, values in sent]
    assert unpack(box, data) == expected
    assert unpack(box, data + bytes(64 - len(data))) == expected
    assert unpack(box, b"") == unpack(box, bytes(64)) == []
    stranger = (0x777777).to_bytes(3, "little" if "little" in box.header_byte_order else "big")
    assert unpack(box, stranger + b"\x02xy" + data) == [(0x777777, b"xy"), *expected]
    with pytest.raises(ValueError, match="of container Box extends beyond the frame"):
        unpack(box, data[:-1])


def test_cantools_unpacks_the_same(tmp_path: Path) -> None:
    """Its `unpack_container` reads headers with the most significant byte first alone."""
    (box,) = load_database(container_arxml(tmp_path), "t").messages
    data = box.encode([slow(5), (0x777777, b"xyz"), fast(300, 7)])
    assert unpack(box, data) == box.unpack_container(data)


@given(data=st.binary(max_size=64))
def test_noise(data: bytes) -> None:
    inner = [Message(1, "A", 2, [], header_id=0x010203), Message(1, "B", 1, [], header_id=0)]
    for message in (Message(1, "Box", 64, [], inner), Message(1, "Box", 64, [], inner[:1])):
        try:
            found = unpack(message, data)
        except ValueError:
            continue
        assert sum(4 + len(part) for _, part in found) <= len(data)


def refs(box: Message, *names: str) -> dict[str, SignalRef]:
    from cantools.database.can import Database

    base = Database([box])
    return {name: find_signal(base, name, "t") for name in names}


def test_messages_in_a_container_are_measurements_each_for_itself(box: Message) -> None:
    clock = Clock()
    outputs = refs(box, "Fast.Torque", "Box.Slow.Temp")
    state = refs(box, "Slow.Enabled")["Slow.Enabled"]
    options = {"Slow": MessageOptions(timeout=0.5)}
    rx = Receiver(outputs, state, "Alive", 0.02, clock=clock, options=options)
    assert rx.missing() == ["Fast (0x66)", "Slow (0x66)"]

    def take(*content: tuple[str, dict[str, float]]) -> bool:
        return rx.receive([Frame(CONTAINER, box.encode(list(content)), 0, True)])

    assert take(fast(300, 1))
    assert math.isnan(rx.y[1])
    assert take(fast(301, 2), slow(90), fast(302, 3))
    assert rx.y == [302.0, 90.0]
    assert rx.enabled
    assert rx.complete()
    assert not take(fast(400, 3))  # the counter of the one before
    clock.pass_(0.1)
    ratio, text = rx.overdue(clock.now)
    assert ratio > 1.0
    assert "Fast" in text
    rx.receive([Frame(CONTAINER, box.encode([slow(1)])[:-1], 0, True)])
    counted = {name: n for name, n in rx.counters.items() if n}
    assert counted == {"frames": 5, "repeated": 1, "decode_errors": 1}


def test_names_that_no_container_has(box: Message) -> None:
    with pytest.raises(
        ConfigError, match="message Box contains other messages; choose one of Fast, Slow"
    ):
        refs(box, "Box.Torque")
    with pytest.raises(ConfigError, match="no message 'Fats'; did you mean 'Fast'"):
        refs(box, "Fats.Torque")
    with pytest.raises(ConfigError, match=r"message Box\.Fast has no signal 'Torqe'"):
        refs(box, "Box.Fast.Torqe")


def test_one_message_in_two_containers_needs_the_containers_name(box: Message) -> None:
    from cantools.database.can import Database

    other = Message(0x67, "Other", 64, [], list(box.contained_messages or ()))
    base = Database([box, other])
    with pytest.raises(ConfigError, match=r"write Box\.Fast or Other\.Fast"):
        find_signal(base, "Fast.Torque", "t")
    assert find_signal(base, "Other.Fast.Torque", "t").carrier is other


def test_a_view_shows_what_is_in_a_container(box: Message) -> None:
    watcher = BusWatcher([box])
    watcher.receive([Frame(CONTAINER, box.encode([slow(90), fast(300, 7)]), 1, True)], 0)
    row = watcher.rows[CONTAINER]
    assert (row.name, row.undecodable) == ("Box", False)
    assert row.values == {
        "Slow.Temp": "90",
        "Slow.Enabled": "1",
        "Fast.Torque": "300",
        "Fast.Alive": "7",
    }
    watcher.receive([Frame(CONTAINER, box.encode([slow(90)])[:-1], 2, True)], 0)
    assert row.undecodable


def test_containers_without_a_header_hold_nothing_that_could_be_read(tmp_path: Path) -> None:
    (message,) = load_database(container_arxml(tmp_path, header="NO-HEADER"), "t").messages
    assert not message.is_container
    assert message.signals == []
