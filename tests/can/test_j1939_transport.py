"""Groups of several frames: the transfers that SAE J1939-21 draws, and what goes wrong with them.

Figures C1 to C3 of its appendix have these transfers; the packets' contents are made up here.
"""

from __future__ import annotations

import math
from pathlib import Path

import cantools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.can.database import find_signal
from hilrt.can.frame import EXTENDED, Frame
from hilrt.can.j1939_transport import (
    BROADCAST_NS,
    CONNECTION_NS,
    GroupAssembler,
    ParameterGroup,
    transfer_time,
)
from hilrt.can.protection import MessageOptions
from hilrt.can.receiver import Receiver
from hilrt.logs.open_source import open_source
from hilrt.record.logged_frame import FrameFlag
from tests.can.small_database import Clock

MS = 1_000_000
A, B = 0x80, 0x90  # sender and receiver
DATA = Path(__file__).parents[3] / "shared" / "data"


def management(source: int, destination: int, *content: int, group: int) -> Frame:
    data = bytes([*content, group & 0xFF, group >> 8 & 0xFF, group >> 16])
    return Frame(EXTENDED | 0x1CEC0000 | destination << 8 | source, data)


def packet(source: int, destination: int, number: int, body: bytes) -> Frame:
    part = body[7 * (number - 1) : 7 * number].ljust(7, b"\xff")
    return Frame(EXTENDED | 0x1CEB0000 | destination << 8 | source, bytes([number]) + part)


def rts(length: int, group: int, source: int = A, destination: int = B) -> Frame:
    content = 16, length & 0xFF, length >> 8, -(-length // 7), 255
    return management(source, destination, *content, group=group)


def cts(count: int, first: int, group: int) -> Frame:
    return management(B, A, 17, count, first, 255, 255, group=group)


def acknowledged(length: int, group: int) -> Frame:
    return management(B, A, 19, length & 0xFF, length >> 8, -(-length // 7), 255, group=group)


def broadcast(body: bytes, group: int, source: int = A) -> list[Frame]:
    n = -(-len(body) // 7)
    begin = management(source, 0xFF, 32, len(body) & 0xFF, len(body) >> 8, n, 255, group=group)
    return [begin, *(packet(source, 0xFF, k, body) for k in range(1, n + 1))]


def heard(
    assembler: GroupAssembler, frames: list[Frame], step_ns: int = 50 * MS
) -> list[ParameterGroup]:
    groups = [assembler.receive(f.can_id, f.data, i * step_ns) for i, f in enumerate(frames)]
    return [group for group in groups if group is not None]


def test_connection_without_errors() -> None:
    """Figure C1: 23 bytes of group 65259, two packets after each clear-to-send."""
    body, group = bytes(range(1, 24)), 65259
    frames = [
        rts(23, group), cts(2, 1, group), packet(A, B, 1, body), packet(A, B, 2, body),
        cts(2, 3, group), packet(A, B, 3, body), packet(A, B, 4, body), acknowledged(23, group),
    ]  # fmt: skip
    assembler = GroupAssembler()
    assert heard(assembler, frames) == [ParameterGroup(EXTENDED | 0x1CFEEB80, body, 0, 6 * 50 * MS)]
    assert (assembler.complete, assembler.incomplete, assembler.strays) == (1, 0, 0)


def test_connection_with_a_pause_and_a_packet_sent_again() -> None:
    """Figure C2: the receiver holds the sender, and asks for packet 4 again."""
    body, group = bytes(range(1, 24)), 65259
    frames = [
        rts(23, group), cts(2, 1, group), packet(A, B, 1, body), packet(A, B, 2, body),
        cts(0, 255, group), cts(0, 255, group), cts(2, 3, group), packet(A, B, 3, body),
        cts(1, 4, group), packet(A, B, 4, body), acknowledged(23, group),
    ]  # fmt: skip
    assembler = GroupAssembler()
    (found,) = heard(assembler, frames, 500 * MS)
    assert (found.data, found.announced_ns, found.complete_ns) == (body, 0, 4500 * MS)
    assert (assembler.incomplete, assembler.strays) == (0, 0)


def test_broadcast() -> None:
    """Figure C3: 17 bytes of group 65260."""
    body = bytes(range(17))
    (found,) = heard(GroupAssembler(), broadcast(body, 65260))
    assert found == ParameterGroup(EXTENDED | 0x1CFEEC80, body, 0, 3 * 50 * MS)


def test_a_group_to_one_node_bears_its_address() -> None:
    body = bytes(100)
    frames = [rts(100, 0xEF00), *(packet(A, B, k, body) for k in range(1, 16))]
    (found,) = heard(GroupAssembler(), frames)
    assert found.can_id == EXTENDED | 0x1CEF9080
    (found,) = heard(GroupAssembler(), broadcast(body, 0xEF00))
    assert found.can_id == EXTENDED | 0x1CEFFF80


def test_packets_that_are_lost_aborted_or_late_give_no_group() -> None:
    body, group = bytes(30), 65259
    begin, *packets = broadcast(body, group)
    abort = management(B, A, 255, 3, 255, 255, 255, group=group)
    directed = [packet(A, B, k, body) for k in range(1, 6)]
    for frames, step, expected in [
        ([begin, *packets[:2], *packets[3:]], 50 * MS, (0, 1, 1)),  # one lost
        ([begin, *packets], BROADCAST_NS + 1, (0, 1, 5)),
        ([rts(30, group), *directed], CONNECTION_NS + 1, (0, 1, 5)),
        ([rts(30, group), *directed[:3], abort, *directed[3:]], 50 * MS, (0, 1, 2)),
        ([rts(30, group), *directed[:3], acknowledged(30, group)], 50 * MS, (0, 1, 0)),
        ([*packets, begin, *packets], 50 * MS, (1, 0, 5)),  # heard from the middle on
        ([begin, packets[0], begin, *packets], 50 * MS, (1, 1, 0)),  # begun again
        ([begin, packets[0], packets[0], *packets[1:]], 50 * MS, (1, 0, 0)),  # twice
        ([rts(30, group), directed[2], directed[0], *directed[1:]], 50 * MS, (1, 0, 0)),
        ([begin, *packets[:4], Frame(packets[4].can_id, b"\x05\x00")], 50 * MS, (0, 1, 0)),
    ]:
        assembler = GroupAssembler()
        heard(assembler, frames, step)
        assert (assembler.complete, assembler.incomplete, assembler.strays) == expected


@pytest.mark.parametrize(
    "content",
    [
        (32, 8, 0, 2, 255),  # one frame would do
        (32, 30, 0, 4, 255),  # too few packets
        (32, 250, 6, 0, 255),  # 1786 bytes
        (16, 30, 0, 5, 255),  # a request to all
        (99, 30, 0, 5, 255),
    ],
)
def test_announcements_that_contradict_themselves(content: tuple[int, ...]) -> None:
    assembler = GroupAssembler()
    frame = management(A, 0xFF, *content, group=65259)
    assert assembler.receive(frame.can_id, frame.data, 0) is None
    assert assembler.receive(frame.can_id, frame.data[:5], 0) is None
    assert (assembler.incomplete, assembler.strays) == (0, 2)


@given(st.data())
def test_transfers_of_many_nodes_at_once(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6))
    bodies = [data.draw(st.binary(min_size=9, max_size=60)) for _ in range(count)]
    transfers = [broadcast(body, 0xFE00 + k, source=k) for k, body in enumerate(bodies)]
    frames = []
    while any(transfers):
        chosen = data.draw(st.sampled_from([t for t in transfers if t]))
        frames.append(chosen.pop(0))
    groups = heard(GroupAssembler(), frames, 1 * MS)
    assert {(g.can_id & 0xFF, g.data) for g in groups} == set(enumerate(bodies))


@given(
    st.lists(st.tuples(st.sampled_from([0x1CEC, 0x1CEB]), st.integers(0, 3), st.binary(max_size=8)))
)
def test_noise(noise: list[tuple[int, int, bytes]]) -> None:
    assembler = GroupAssembler()
    for k, (head, addresses, data) in enumerate(noise):
        can_id = EXTENDED | head << 16 | (0xFF, A, B, A)[addresses] << 8 | A
        group = assembler.receive(can_id, data, k)
        assert group is None or 9 <= len(group.data) <= 1785


def test_noise_does_not_fill_the_memory() -> None:
    assembler = GroupAssembler()
    for source in range(256):
        for destination in range(8):
            frame = rts(100, 65259, source, destination)
            assembler.receive(frame.can_id, frame.data, 0)
    assert assembler.incomplete == 256 * 7


# ---- in the gateway ------------------------------------------------------------------------------

DBC = """VERSION ""
BU_: Engine
BO_ 2566841088 EC1: 39 Engine
 SG_ IdleSpeed : 0|16@1+ (0.125,0) [0|8031.875] "rpm" Engine
 SG_ Last : 304|8@1+ (1,0) [0|250] "" Engine
BO_ 2566834944 Short: 8 Engine
 SG_ Value : 0|8@1+ (1,0) [0|250] "" Engine
BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";
BA_DEF_ BO_ "GenMsgCycleTime" INT 0 10000;
BA_DEF_DEF_ "VFrameFormat" "StandardCAN";
BA_DEF_DEF_ "GenMsgCycleTime" 0;
BA_ "VFrameFormat" BO_ 2566841088 3;
BA_ "VFrameFormat" BO_ 2566834944 3;
BA_ "GenMsgCycleTime" BO_ 2566841088 5000;
"""
EC1, SHORT = 0xFEE3, 0xFECB
BASE = cantools.database.load_string(DBC, "dbc")


def receiver(clock: Clock, **options: MessageOptions) -> Receiver:
    outputs = {name: find_signal(BASE, name, "t") for name in ("EC1.IdleSpeed", "EC1.Last")}
    return Receiver(outputs, None, "Alive", 0.02, clock=clock, options=options)


def config(speed: float, last: int = 7) -> bytes:
    return BASE.get_message_by_name("EC1").encode({"IdleSpeed": speed, "Last": last}, padding=True)


def test_a_group_of_several_frames_is_a_measurement() -> None:
    clock = Clock()
    rx = receiver(clock)
    begin, *packets = broadcast(config(650.0), EC1)
    assert not rx.receive([begin])
    announced = clock.now
    for one in packets[:-1]:
        clock.pass_(0.05)
        assert not rx.receive([one])
    assert math.isnan(rx.y[0])
    clock.pass_(0.05)
    assert rx.receive([packets[-1]])
    assert rx.y == [650.0, 7.0]
    assert rx.t_valid_ns == [announced] * 2  # no younger than its announcement
    assert {k: n for k, n in rx.counters.items() if n} == {"frames": 1}


def test_a_group_may_take_its_time_before_the_message_is_late() -> None:
    clock = Clock()
    rx = receiver(clock)
    for one in broadcast(config(650.0), EC1):
        rx.receive([one])
        clock.pass_(0.2)
    assert transfer_time(39) == pytest.approx(1.2)
    clock.pass_(3 * 5.0 - 0.3)
    assert rx.overdue(clock.now)[0] < 1.0
    clock.pass_(0.2)
    assert rx.overdue(clock.now)[0] > 1.0


def test_what_is_lost_of_a_group_is_counted_and_other_groups_are_not() -> None:
    clock = Clock()
    rx = receiver(clock)
    begin, *packets = broadcast(config(650.0), EC1)
    rx.receive([begin, *packets[:3], *packets[4:]])
    rx.receive(broadcast(bytes(20), SHORT)[:2])  # not listened to
    rx.receive([*broadcast(config(700.0), EC1), *broadcast(bytes(20), SHORT)])
    assert rx.y[0] == 700.0
    assert {k: n for k, n in rx.counters.items() if n} == {"frames": 1, "incomplete": 1}


def test_a_group_of_one_sender_alone() -> None:
    rx = receiver(Clock(), EC1=MessageOptions(source=3))
    rx.receive([*broadcast(config(1.0), EC1, source=4), *broadcast(config(2.0), EC1, source=3)])
    assert rx.y[0] == 2.0
    assert rx.counters["frames"] == 1


# ---- a recording ---------------------------------------------------------------------------------


@pytest.mark.skipif(not DATA.exists(), reason="the recordings are not on this machine")
def test_every_broadcast_of_a_truck_comes_whole() -> None:
    pytest.importorskip("asammdf")
    source = open_source(DATA / "truck_j1939.mf4")
    assembler, found = GroupAssembler(), []
    for frame in source.frames():
        if frame.flags & FrameFlag.EXTENDED:
            group = assembler.receive(EXTENDED | frame.identifier, frame.data, frame.time_ns)
            found += [] if group is None else [group]
    source.close()
    assert (assembler.complete, assembler.incomplete) == (152, 0)
    # Group 0xFEE3 begins with the idle speed, which EEC1 says is some 650 rpm.
    speeds = [
        int.from_bytes(g.data[:2], "little") / 8 for g in found if g.can_id >> 8 & 0xFFFF == EC1
    ]
    assert len(speeds) == 25
    assert all(640 < speed < 660 for speed in speeds)
