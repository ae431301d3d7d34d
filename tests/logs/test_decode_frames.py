"""Signals of frames: which message a frame is, what it carries, and what is said of the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from hilrt import load_log
from hilrt.can.database import load_database
from hilrt.errors import ConfigError
from hilrt.logs.decode_frames import BusDatabase, bus_databases
from hilrt.logs.export_file import export_file
from hilrt.logs.import_file import Imported, import_file
from hilrt.logs.log_file import read_contents
from hilrt.record.logged_frame import FrameFlag, LoggedFrame
from tests.can.container_database import CONTAINER, container_arxml
from tests.logs.made import EPOCH_NS, frame_log

WIDE = 1 << 31
J1939 = """VERSION ""
BU_: A
{messages}BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";
BA_DEF_DEF_ "VFrameFormat" "{kind}";
"""
MESSAGE = """BO_ {number} {name}: 8 A
 SG_ Speed : 0|16@1+ (0.125,0) [0|8031.875] "rpm" A
"""


def database(folder: Path, name: str, kind: str = "J1939PG", **messages: int) -> Path:
    """A database with messages of these identifiers, extended ones with `WIDE`."""
    lines = "".join(MESSAGE.format(name=n, number=i) for n, i in messages.items())
    path = folder / name
    path.write_text(J1939.format(messages=lines, kind=kind))
    return path


def frames_of(*sent: tuple[int, int, str]) -> list[LoggedFrame]:
    """Frames of identifier, first two bytes and bus, 1 ms apart."""
    return [
        LoggedFrame(
            EPOCH_NS // 1000 * 1000 + 1_000_000 * i,
            bus,
            identifier & ~WIDE,
            int(FrameFlag.EXTENDED) if identifier & WIDE else 0,
            8,
            raw.to_bytes(2, "little") + bytes(6),
        )
        for i, (identifier, raw, bus) in enumerate(sent)
    ]


def imported(
    folder: Path, frames: Sequence[LoggedFrame], *databases: BusDatabase
) -> tuple[Imported, dict[str, list[float]]]:
    """What an import says, and the values of every signal."""
    frame_log(folder / "raw.mcap", list(frames))
    done = import_file(folder / "raw.mcap", folder / "log.mcap", databases=databases, replace=True)
    if not done.rows:
        return done, {}
    log = load_log(folder / "log.mcap")
    return done, {name: log[name].tolist() for name in log.names}


def test_a_j1939_frame_is_the_message_of_its_group_that_it_fits_best(tmp_path: Path) -> None:
    base = database(tmp_path, "a.dbc", Mine=WIDE | 0x18EF0001, Other=WIDE | 0x18EF0002)
    sent = [(0x18EF0002, 16), (0x18EF0001, 8), (0x0CEF0002, 24), (0x18EF0009, 800)]
    frames = frames_of(*((WIDE | i, raw, "0") for i, raw in sent))
    done, values = imported(tmp_path, frames, BusDatabase(base))
    assert values == {"Mine.Speed": [1.0], "Other.Speed": [2.0, 3.0]}
    assert done.frames == 4
    (note,) = done.notes
    assert note.startswith("1 frames that may be message Mine or Other")


def test_two_messages_of_one_identifier_stay_frames(tmp_path: Path) -> None:
    base = database(tmp_path, "a.dbc", "StandardCAN", One=0x100, Same=0x100, Two=0x101)
    done, values = imported(
        tmp_path, frames_of((0x100, 8, "0"), (0x101, 16, "0")), BusDatabase(base)
    )
    assert values == {"Two.Speed": [2.0]}
    assert done.notes[0].startswith("1 frames that may be message One or Same")


def test_what_is_marked_as_not_available_is_no_value(tmp_path: Path) -> None:
    base = database(tmp_path, "a.dbc", EEC1=WIDE | 0x0CF004FE)
    frames = frames_of(*((WIDE | 0x18F00400, raw, "0") for raw in (8, 0xFFFF, 0xFE00, 16)))
    done, values = imported(tmp_path, frames, BusDatabase(base))
    first, *missing, last = values["EEC1.Speed"]
    assert (first, last) == (1.0, 2.0)
    assert all(map(math.isnan, missing))
    assert done.notes == [
        "2 values of message EEC1 that J1939 marks as not available or an error are missing values"
    ]


def test_signals_name_the_identifiers_that_came(tmp_path: Path) -> None:
    base = database(tmp_path, "a.dbc", EEC1=WIDE | 0x0CF004FE, ETC1=WIDE | 0x0CF002FE)
    sent = (WIDE | 0x18F00421, 8, "0"), (WIDE | 0x18F00403, 16, "0"), (WIDE | 0x08F00421, 24, "0")
    _, values = imported(tmp_path, frames_of(*sent), BusDatabase(base))
    assert values == {"EEC1.Speed": [1.0, 3.0], "EEC1@18F00403.Speed": [2.0]}
    topics = read_contents(tmp_path / "log.mcap").topics
    sources = {s.name: s.source for topic in topics for s in topic.signals}
    assert sources == {
        "EEC1.Speed": "EEC1 0x18F00421",
        "EEC1@18F00403.Speed": "EEC1 0x18F00403",
    }
    # So does an export, in which a second sender has its column.
    export_file(tmp_path / "raw.mcap", "csv", databases=[BusDatabase(base)])
    head, *rows = (tmp_path / "raw.csv").read_text().splitlines()
    assert head == "time [s],EEC1.Speed [rpm],EEC1@18F00403.Speed [rpm],ETC1.Speed [rpm]"
    assert [row.split(",")[1:] for row in rows] == [
        ["1.0", "", ""],
        ["", "2.0", ""],
        ["3.0", "", ""],
    ]


def test_each_bus_has_its_database(tmp_path: Path) -> None:
    engine = database(tmp_path, "engine.dbc", "StandardCAN", Engine=0x100)
    body = database(tmp_path, "body.dbc", "StandardCAN", Door=0x100, Engine=0x101)
    sent = (0x100, 8, "can0"), (0x100, 16, "can1"), (0x101, 24, "can1"), (0x100, 32, "x")
    texts = [f"can0={engine}", f"can1={body}", f"y={body}"]
    done, values = imported(tmp_path, frames_of(*sent), *bus_databases(texts))
    assert values == {
        "Engine.Speed": [1.0],
        "Door.Speed": [2.0],
        "Engine@can1.Speed": [3.0],
    }
    assert done.notes == [
        "there is no frame on bus 'y', for which a database was given; there is can0, can1, x",
        "1 frames on bus 'x', for which no database was given",
    ]
    # One for a bus, another for the rest.
    _, values = imported(tmp_path, frames_of(*sent[:2]), *bus_databases([str(body), texts[0]]))
    assert values == {"Engine.Speed": [1.0], "Door.Speed": [2.0]}
    with pytest.raises(ConfigError, match="write it as FILE, or as BUS=FILE"):
        bus_databases(["can0="])


KCD = """<NetworkDefinition xmlns="http://kayak.2codeornot2code.org/1.0"><Document/>
<Bus name="Motor"><Message id="0x100" name="Engine" length="8">
<Signal name="Speed" offset="0" length="16"><Value slope="0.125"/></Signal></Message></Bus>
<Bus name="Comfort"><Message id="0x100" name="Door" length="8">
<Signal name="Open" offset="0" length="16"/></Message>
<Message id="0x101" name="Engine" length="8">
<Signal name="Warm" offset="0" length="16"/></Message></Bus></NetworkDefinition>
"""


def test_a_file_with_several_buses_names_the_messages_of_the_bus(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "car.kcd"
    path.write_text(KCD)
    both = frames_of((0x100, 8, "Motor"), (0x100, 9, "Comfort"), (0x101, 7, "Comfort"))
    _, values = imported(tmp_path, both, BusDatabase(path))
    assert values == {
        "Engine.Speed": [1.0],
        "Door.Open": [9.0],
        "Engine@Comfort.Warm": [7.0],
    }
    # Buses that are called otherwise: what is on both stays a frame, until somebody says which.
    other = [frame._replace(bus="0") for frame in both]
    done, values = imported(tmp_path, other, BusDatabase(path))
    assert values == {"Engine.Warm": [7.0]}
    assert done.notes[0].startswith("2 frames that may be message Engine or Door")
    _, values = imported(tmp_path, other, *bus_databases([f"0={path}:Comfort"]))
    assert values == {"Door.Open": [8.0, 9.0], "Engine.Warm": [7.0]}
    with pytest.raises(ConfigError, match=r"describes no bus 'Moto'; did you mean 'Motor'"):
        imported(tmp_path, other, *bus_databases([f"{path}:Moto"]))
    assert not caplog.records  # the same identifier on two buses is no reason to warn


def test_frames_that_the_database_does_not_know_are_counted(tmp_path: Path) -> None:
    base = database(tmp_path, "a.dbc", "StandardCAN", Engine=0x100)
    few = frames_of((0x100, 8, "0"), (0x100, 8, "0"), (0x200, 8, "0"))
    done, _ = imported(tmp_path, few, BusDatabase(base))
    assert (done.unknown_frames, done.notes) == (1, [])
    most = frames_of((0x100, 8, "0"), *((0x200 + i, 8, "0") for i in range(8)))
    done, _ = imported(tmp_path, most, BusDatabase(base))
    assert done.unknown_frames == 8
    assert done.notes == [
        "8 of 9 frames are of messages that the database does not know (0x200, 0x201, 0x202, "
        "0x203, 0x204 and 3 more): does it belong to this log?"
    ]


MULTIPLEXED = """VERSION ""
BU_: A
BO_ 256 Pages: 4 A
 SG_ Page M : 0|8@1+ (1,0) [0|0] "" A
 SG_ Oil m1 : 8|8@1+ (1,0) [0|0] "" A
 SG_ Water m2 : 8|8@1+ (1,0) [0|0] "" A
 SG_ Always : 16|8@1+ (1,0) [0|0] "" A
 SG_ Last : 24|8@1+ (1,0) [0|0] "" A
"""


def test_a_multiplexer_value_without_a_form_costs_only_its_form(tmp_path: Path) -> None:
    (tmp_path / "a.dbc").write_text(MULTIPLEXED)
    payloads = [bytes([1, 10, 20, 30]), bytes([9, 11, 21, 31]), bytes([2, 12, 22])]
    frames = [
        frame._replace(data=data, dlc=len(data))
        for frame, data in zip(frames_of(*[(0x100, 0, "0")] * 3), payloads, strict=True)
    ]
    done, values = imported(tmp_path, frames, BusDatabase(tmp_path / "a.dbc"))
    nan = None
    rows = {k: [nan if math.isnan(x) else x for x in v] for k, v in values.items()}
    assert rows == {
        "Pages.Page": [1, 9, 2],
        "Pages.Oil": [10, nan, nan],
        "Pages.Water": [nan, nan, 12],
        "Pages.Always": [20, 21, 22],
        "Pages.Last": [30, 31, nan],
    }
    assert done.notes == [
        "1 frames of message Pages that are shorter than in its database",
        "1 frames of message Pages with a multiplexer value that its database does not know; "
        "signals that do not depend on it are kept",
    ]


# ---- what takes several frames, and what shares one ----------------------------------------------

EC1 = """VERSION ""
BU_: A
BO_ 2566841088 EC1: 39 A
 SG_ IdleSpeed : 0|16@1+ (0.125,0) [0|8031.875] "rpm" A
 SG_ Last : 304|8@1+ (1,0) [0|250] "" A
BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";
BA_DEF_DEF_ "VFrameFormat" "StandardCAN";
BA_ "VFrameFormat" BO_ 2566841088 3;
"""


def broadcast(body: bytes, bus: str, start_ns: int) -> list[LoggedFrame]:
    """A broadcast of group 0xFEE3 by node 0x21, a packet every 60 ms."""
    head = bytes([32, len(body), 0, 6, 0xFF, 0xE3, 0xFE, 0])
    packets = [bytes([k + 1]) + body[7 * k : 7 * k + 7].ljust(7, b"\xff") for k in range(6)]
    sent = [(0x1CECFF21, head), *((0x1CEBFF21, packet) for packet in packets)]
    return [
        LoggedFrame(start_ns + 60_000_000 * k, bus, identifier, int(FrameFlag.EXTENDED), 8, data)
        for k, (identifier, data) in enumerate(sent)
    ]


def test_groups_of_several_frames_on_two_buses_at_once(tmp_path: Path) -> None:
    (tmp_path / "ec1.dbc").write_text(EC1)
    first, second = (
        (n * 8).to_bytes(2, "little") + bytes(36) + bytes([n % 251]) for n in (650, 700)
    )
    start = EPOCH_NS // 1000 * 1000
    one, other = broadcast(first, "0", start), broadcast(second, "1", start + 1_000_000)
    lost = broadcast(first, "0", start + 10**9)
    frames = sorted([*one, *other, *lost[:3], *lost[4:]], key=lambda f: f.time_ns)
    done, values = imported(tmp_path, frames, BusDatabase(tmp_path / "ec1.dbc"))
    assert values == {
        "EC1.IdleSpeed": [650.0], "EC1.Last": [148.0],
        "EC1@1.IdleSpeed": [700.0], "EC1@1.Last": [198.0],
    }  # fmt: skip
    assert load_log(tmp_path / "log.mcap").time("EC1.IdleSpeed").tolist() == [0.36]
    assert done.notes == ["1 J1939 groups of several frames of which some are missing"]
    assert (done.frames, done.unknown_frames) == (20, 0)


def test_messages_of_a_container(tmp_path: Path) -> None:
    path = container_arxml(tmp_path)
    (box,) = load_database(path, "t").messages
    contents = [
        box.encode([("Slow", {"Temp": 90, "Enabled": 1}), ("Fast", {"Torque": 300, "Alive": 1})]),
        box.encode([("Fast", {"Torque": 301, "Alive": 2}), (0x777777, b"xyz")]),
        b"\x0a\x0b\x0c\x09\x01",  # beyond the frame
    ]
    frames = [
        LoggedFrame(EPOCH_NS + k, "0", CONTAINER, int(FrameFlag.FD), len(data), data)
        for k, data in enumerate(contents)
    ]
    done, values = imported(tmp_path, frames, BusDatabase(path))
    assert values == {
        "Fast.Torque": [300.0, 301.0], "Fast.Alive": [1.0, 2.0],
        "Slow.Temp": [90.0], "Slow.Enabled": [1.0],
    }  # fmt: skip
    assert done.notes == [
        "1 frames of container Box whose messages extend beyond them",
        "1 messages in container Box that the database does not know",
    ]
