"""Every format that frames are exported to gives them back: all kinds, whatever the start time."""

from pathlib import Path

import can
import pytest

from hilrt.logs.export_file import export_file
from hilrt.logs.import_file import import_file
from hilrt.logs.log_file import LogFile
from hilrt.logs.source_can import from_message
from hilrt.record.logged_frame import FrameFlag as F
from hilrt.record.logged_frame import LoggedFrame
from tests.logs.made import frame_log

_FD = F.FD | F.BIT_RATE_SWITCH
#: Identifier, flags, DLC, data.
KINDS = {
    "data": (0x123, F(0), 3, b"\x01\x02\x03"),
    "empty": (0x7FF, F(0), 0, b""),
    "sent": (0x123, F.SENT, 8, bytes(range(8))),
    "extended": (0x18FEF100, F.EXTENDED, 8, bytes(8)),
    "extended with a small identifier": (0x12, F.EXTENDED, 1, b"\xff"),
    "remote": (0x321, F.REMOTE, 5, b""),
    "remote without a length": (0x1ABCDEF0, F.REMOTE | F.EXTENDED, 0, b""),
    "FD": (0x45, _FD, 64, bytes(range(64))),
    "short FD": (0x45, F.FD, 2, b"\x07\x08"),
    "empty FD": (0x45, F.FD, 0, b""),
    "FD in error state": (0x1234567, _FD | F.ERROR_STATE | F.EXTENDED, 12, bytes(12)),
    "passive FD": (0x45, F.FD | F.ERROR_STATE | F.SENT, 20, bytes(20)),
    "error": (0x0, F.ERROR, 0, b""),
    "error with contents": (0x8C, F.ERROR, 8, b"\x00\x04\x02\x00\x00\x00\x60\x00"),
    "not recorded": (0x55, F(0), 8, b""),
}
#: What a format cannot hold, by kind: None is left out, else what is left of it. Both are noted.
LOSES = {
    "mf4": {},
    "blf": {"not recorded": None},
    "asc": {"error with contents": (0, F.ERROR, 0, b""), "not recorded": None},
    "trc": {"error": None, "error with contents": None, "not recorded": None},
    "log": {"not recorded": None},
}
NOTES = {
    "mf4": [],
    "blf": ["1 frames whose data were not recorded"],
    "asc": ["1 contents of error frames", "1 frames whose data were not recorded"],
    "trc": ["2 error frames", "1 frames whose data were not recorded"],
    "log": ["1 frames whose data were not recorded"],
}
#: Time of the first frame, ns: relative logs, before there were dates in BLF, any microsecond.
STARTS = [0, 1_000, 5_000_000_000, 500_000_000_123_000, 1_780_000_000_005_678_000]


def frames_of_all_kinds(start_ns: int) -> list[LoggedFrame]:
    steps = [0, 5, 1, 0, 17, 1_000_000, 333_333]  # µs
    at, found = start_ns, []
    for i, (identifier, flags, dlc, data) in enumerate(KINDS.values()):
        at += 1000 * steps[i % len(steps)]
        found.append(LoggedFrame(at, str(i % 2), identifier, int(flags), dlc, data))
    return found


def expected(frames: list[LoggedFrame], suffix: str) -> list[LoggedFrame]:
    found = []
    for kind, frame in zip(KINDS, frames, strict=True):
        left = LOSES[suffix].get(kind, KINDS[kind])
        if left is not None:
            identifier, flags, dlc, data = left
            prefix = "can" if suffix == "log" else ""  # candump names interfaces
            bus = prefix + frame.bus
            found.append(LoggedFrame(frame.time_ns, bus, identifier, int(flags), dlc, data))
    return found


@pytest.mark.parametrize("start_ns", STARTS)
@pytest.mark.parametrize("suffix", LOSES)
def test_frames_come_back(tmp_path: Path, suffix: str, start_ns: int) -> None:
    frames = frames_of_all_kinds(start_ns)
    done = export_file(frame_log(tmp_path / "log.mcap", frames), suffix)
    wanted = expected(frames, suffix)
    assert done.notes == NOTES[suffix]
    assert done.frames == len(wanted)
    import_file(tmp_path / f"log.{suffix}", tmp_path / "back.mcap")
    back = list(LogFile(tmp_path / "back.mcap").frames())
    assert sorted(back) == sorted(wanted)  # MF4 has a group for each kind
    assert [f.time_ns for f in back] == [f.time_ns for f in wanted]


@pytest.mark.parametrize("suffix", ["asc", "trc", "log"])
def test_python_can_reads_what_is_written(tmp_path: Path, suffix: str) -> None:
    frames = frames_of_all_kinds(1_780_000_000_005_000_000)
    export_file(frame_log(tmp_path / "log.mcap", frames), suffix)
    options = {"relative_timestamp": False} if suffix == "asc" else {}
    with can.LogReader(tmp_path / f"log.{suffix}", **options) as reader:
        read = {(f.time_ns, f.identifier, f.data) for f in map(from_message, reader)}
    wanted = [f for f in expected(frames, suffix) if not f.flags & F.ERROR]
    assert {(f.time_ns, f.identifier, f.data) for f in wanted} <= read


@pytest.mark.parametrize("suffix", ["mf4", "blf", "asc", "trc"])
def test_a_year_at_the_end_of_a_name_is_no_channel(tmp_path: Path, suffix: str) -> None:
    frames = [
        LoggedFrame(1000 * i, bus, 1, 0, 1, b"\0")
        for i, bus in enumerate(("bench20261123", "bench2"))
    ]
    done = export_file(frame_log(tmp_path / "log.mcap", frames), suffix)
    assert any("bench20261123: 1" in note for note in done.notes)
    import_file(tmp_path / f"log.{suffix}", tmp_path / "back.mcap")
    buses = [frame.bus for frame in LogFile(tmp_path / "back.mcap").frames()]
    assert buses == (["1", "2"] if suffix == "mf4" else ["0", "2"])
