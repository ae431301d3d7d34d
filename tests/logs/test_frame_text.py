"""Text formats of frames as other tools write them."""

import gzip
from datetime import datetime
from pathlib import Path

import pytest

from hilrt import load_log
from hilrt.errors import ConfigError
from hilrt.logs.decode_frames import BusDatabase
from hilrt.logs.export_file import export_file
from hilrt.logs.import_file import Imported, import_file
from hilrt.logs.log_file import LogFile
from hilrt.logs.playback import load_tape
from hilrt.record.logged_frame import FrameFlag as F
from hilrt.record.logged_frame import LoggedFrame

DBC = """VERSION ""
BU_: Bench
BO_ 256 Status: 2 Bench
 SG_ Speed : 0|16@1+ (0.1,0) [0|6553.5] "rpm" Bench
"""


def brought(folder: Path, name: str, text: str) -> tuple[list[LoggedFrame], Imported]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    done = import_file(path, folder / "log.mcap", replace=True)
    return list(LogFile(folder / "log.mcap").frames()), done


def local_ns(*date: int) -> int:
    return int(datetime(*date).timestamp()) * 10**9


# ---- candump ------------------------------------------------------------------------------------

CANDUMP = """(1700000000.000001) can0 20000004#0004000000000000
(1700000000.000002) can0 2000008C#000402000000600D
(1700000000.000003) can0 20000040#0000000000000000 R
(1700000000.000004) can1 123#R3
(1700000000.000005) can1 12345678#R T
(1700000000.000006) can1 00000123##3AABB
(1700000000.000007) can1 123#0011223344556677_C
(1700000000.000008) can1 123#
"""


def test_error_frames_of_candump_are_error_frames(tmp_path: Path) -> None:
    frames, _ = brought(tmp_path, "bus.log", CANDUMP)
    at = 1_700_000_000_000_001_000
    assert frames[:3] == [
        LoggedFrame(at, "can0", 0x4, F.ERROR, 8, bytes.fromhex("0004000000000000")),
        LoggedFrame(at + 1000, "can0", 0x8C, F.ERROR, 8, bytes.fromhex("000402000000600D")),
        LoggedFrame(at + 2000, "can0", 0x40, F.ERROR, 8, bytes(8)),
    ]
    kinds = [(f.identifier, f.flags, f.dlc, f.data.hex()) for f in frames[3:]]
    assert kinds == [
        (0x123, F.REMOTE, 3, ""),
        (0x12345678, F.REMOTE | F.EXTENDED | F.SENT, 0, ""),
        (0x123, F.EXTENDED | F.FD | F.BIT_RATE_SWITCH | F.ERROR_STATE, 2, "aabb"),
        (0x123, 0, 12, "0011223344556677"),
        (0x123, 0, 0, ""),
    ]


@pytest.mark.parametrize("name", ["bus.log", "log.mcap"])
def test_error_frames_are_not_played(tmp_path: Path, name: str) -> None:
    brought(tmp_path, "bus.log", CANDUMP)
    tape = load_tape(tmp_path / name)
    assert (len(tape.packed), tape.left_out) == (5, 3)
    assert not any(tape.frame(i).flags & F.ERROR for i in range(5))


def test_lines_that_are_no_frames_are_counted(tmp_path: Path) -> None:
    good = "(1700000000.000001) can0 123#00\n"
    xl = "(1700000000.000002) can0 123#81:00:12345678#1122\n"
    frames, done = brought(tmp_path, "cut.log", good + xl + "\n(17000")
    assert len(frames) == 1
    assert done.notes == [
        "1 lines that cannot be read; line 4 is not a line of a candump log",
        "1 CAN XL frames: they are not supported",
    ]
    with pytest.raises(ConfigError, match="is no candump log: line 1 is not a line"):
        brought(tmp_path, "other.log", "nothing of the kind\n" + good)


def test_compressed(tmp_path: Path) -> None:
    (tmp_path / "bus.log.gz").write_bytes(gzip.compress(CANDUMP.encode()))
    assert import_file(tmp_path / "bus.log.gz", tmp_path / "log.mcap").frames == 8


# ---- logs that begin at 0 -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("zero.log", "".join(f"({t}.000000) can0 100#0A00\n" for t in (0, 5, 6))),
        ("zero.asc", "".join(f"{t}.000000 1 100 Rx d 2 0A 00\n" for t in (0, 5, 6))),
        ("zero.csv", "timestamp,arbitration_id,extended,remote,error,dlc,data\n"
         "0.0,0x100,0,0,0,2,CgA=\n5.0,0x100,0,0,0,2,CgE=\n6.0,0x100,0,0,0,2,CgI=\n"),
    ],
)  # fmt: skip
def test_a_log_that_begins_at_0_keeps_its_first_interval(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / "car.dbc").write_text(DBC)
    (tmp_path / name).write_text(text)
    import_file(
        tmp_path / name, tmp_path / "log.mcap", databases=[BusDatabase(tmp_path / "car.dbc")]
    )
    log = load_log(tmp_path / "log.mcap")
    assert log.time("Status.Speed").tolist() == [0.0, 5.0, 6.0]
    # And through every format that holds signals, from the log and from the frames themselves.
    for source in (tmp_path / "log.mcap", tmp_path / name):
        for suffix in ("mf4", "parquet", "csv"):
            out = tmp_path / f"signals.{suffix}"
            decoded = source.suffix != ".mcap"
            databases = [BusDatabase(tmp_path / "car.dbc")] if decoded else []
            export_file(source, suffix, out, databases=databases, replace=True)
            import_file(out, tmp_path / "back.mcap", replace=True)
            back = load_log(tmp_path / "back.mcap")
            assert back.time("Status.Speed").tolist() == [0.0, 5.0, 6.0], suffix
            if suffix != "csv":
                assert back.metadata["epoch_ns"] == "0"


# ---- ASC ----------------------------------------------------------------------------------------

LINES = "   0.000000 1  100             Rx   d 2 0A 00\n   5.000000 1  100  Rx   d 2 0A 01\n"


@pytest.mark.parametrize(
    ("head", "start_ns"),
    [
        ("date Thu Apr 16 10:21:43.631 am 2020\n", local_ns(2020, 4, 16, 10, 21, 43) + 631 * 10**6),
        ("date Thu Apr 16 10:21:43.005 pm 2020\n", local_ns(2020, 4, 16, 22, 21, 43) + 5 * 10**6),
        ("date Don Okt 1 22:21:43 2020\n", local_ns(2020, 10, 1, 22, 21, 43)),
        ("date Sam Sep 30 15:06:13.191 2017\nbase hex  timestamps absolute\n"
         "Begin Triggerblock Sam Sep 30 15:06:20.191 2017\n",  # recorded from 7 s on
         local_ns(2017, 9, 30, 15, 6, 13) + 191 * 10**6),
        ("date Mon Jan 1 00:00:00 2024\nBegin Triggerblock Sat Sep 30 15:06:20.191 2017\n"
         "  0.000000 Start of measurement\n",
         local_ns(2017, 9, 30, 15, 6, 20) + 191 * 10**6),
    ],
)  # fmt: skip
def test_the_date_of_an_asc_log(tmp_path: Path, head: str, start_ns: int) -> None:
    frames, done = brought(tmp_path, "drive.asc", head + LINES)
    assert [f.time_ns - start_ns for f in frames] == [0, 5 * 10**9]
    assert done.notes == []


def test_a_date_that_is_not_understood_is_said(tmp_path: Path) -> None:
    frames, done = brought(tmp_path, "drive.asc", "date yesterday\n" + LINES)
    assert [f.time_ns for f in frames] == [0, 5 * 10**9]
    assert done.notes == ["the date 'yesterday': it cannot be parsed, so times count from 1970"]


def test_lines_of_an_asc_log(tmp_path: Path) -> None:
    text = (
        "base dec  timestamps relative\n"
        "0.5 1 Statistic: D 3 R 0 XD 0 XR 0 E 0 O 0 B 0.05%\n"
        "0.5 2 200x Tx d 3 10 200 255 Length = 100 BitCount = 50 ID = 200x\n"
        "0.25 1 ErrorFrame Flags = 0xe CodeExt = 0x20a2 Code = 0x82 ID = 0 DLC = 0\n"
        "0.25 CANXL 1 Rx 123 whatever\n"
        "0.5 CANFD 1 Rx 31 SomeName 1 0 9 12 1 2 3 4 5 6 7 8 9 10 11 12 130 130 303000 0 0 0 0 0\n"
        "0.5 CANFD 1 Rx 31 0 0 3 3 1 2 3 130 130 200000 0 0 0 0 0\n"
        "0.5 1 31 Rx r Length = 0\n"
        "0.5 J1939TP FEE3p 6 0 0 - Rx d 23 1 2 3\n"
        "0.5 1 31 Rx r 8 Length = 0\n"
    )
    frames, done = brought(tmp_path, "drive.asc", text)
    assert [(f.time_ns // 10**6, f.bus, f.identifier, f.flags, f.dlc, f.data) for f in frames] == [
        (1000, "1", 200, F.EXTENDED | F.SENT, 3, bytes([10, 200, 255])),
        (1250, "0", 0, F.ERROR, 0, b""),
        (2000, "0", 31, F.FD | F.BIT_RATE_SWITCH, 12, bytes(range(1, 13))),
        (2500, "0", 31, 0, 3, b"\1\2\3"),
        (3000, "0", 31, F.REMOTE, 0, b""),
        (4000, "0", 31, F.REMOTE, 8, b""),
    ]
    assert done.notes == ["1 CAN XL frames: they are not supported"]


# ---- TRC ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (";   Start time: 24.09.2020 15:05:37\n"
         "     1)      1059.9  0300  8  00 01 02 03 04 05 06 07\n"
         "     2)      1283.2  00000300  2  RTR\n"
         "     3)      1298.9  FFFFFFFF  4  00 00 00 08 -- -- -- -- BUSHEAVY\n",
         [(1059.9, 0x300, 0, 8), (1283.2, 0x300, F.REMOTE | F.EXTENDED, 2)]),
        (";$FILEVERSION=1.1\n;$STARTTIME=25569.0\n"
         "   1)      1059.9  Rx         0300  1  07\n"
         "   2)      1283.2  Warng  FFFFFFFF  4  00 00 00 08\n"
         "   3)      1283.9  Tx         0301  0\n",
         [(1059.9, 0x300, 0, 1), (1283.9, 0x301, F.SENT, 0)]),
        (";$FILEVERSION=2.0\n;$STARTTIME=25569.5\n;$COLUMNS=N,O,T,I,d,l,D\n"
         "   1   1.058 DT     0300 Rx 2  00 00\n"
         "   2   5.000 FB 00000400 Rx 12 01 02 03 04 05 06 07 08 09 0A 0B 0C\n"
         "   3   6.000 ST          Rx    00 00 00 08\n"
         "   4   7.000 ER     0008 Rx 5  04 00 02 00 00\n"
         "   5   8.000 RR     0100 Rx 3\n",
         [(43_200_001.058, 0x300, 0, 2),
          (43_200_005, 0x400, F.FD | F.BIT_RATE_SWITCH | F.EXTENDED, 12),
          (43_200_007, 0x8, F.ERROR, 5), (43_200_008, 0x100, F.REMOTE, 3)]),
    ],
)  # fmt: skip
def test_versions_of_trc(
    tmp_path: Path, text: str, found: list[tuple[float, int, int, int]]
) -> None:
    frames, _ = brought(tmp_path, "drive.trc", text)
    assert [(f.time_ns / 1e6, f.identifier, f.flags, f.dlc) for f in frames] == found
    assert {f.bus for f in frames} == {"0"}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.log", "(9" + "0" * 30 + ".0) can0 123#11\n", "line 1 has a time that is centuries"),
        ("a.asc", " 9" + "0" * 30 + ".0 1 12x Rx d 1 1\n", "line 1 has a time that is centuries"),
        ("a.trc", ";$STARTTIME=9e99\n", "line 1 has no date"),
        ("b.log", "(1.0) can0 123#11\n(-2.5) can0 123#11\n", "a frame 2.5 s before 1970"),
    ],
)
def test_times_that_a_log_cannot_hold_are_refused(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        brought(tmp_path, name, text)
    assert not (tmp_path / "log.mcap").exists()
