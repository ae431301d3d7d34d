"""What the commands for logs make of the CAN frames in a session's own log."""

from __future__ import annotations

import io
from pathlib import Path

import can
import numpy as np
import pytest

from hilrt import load_log
from hilrt.logs.cut import cut
from hilrt.logs.export_file import export_file
from hilrt.logs.log_file import LogFile, read_contents
from hilrt.logs.open_source import open_source
from hilrt.logs.playback import bus_sender, load_tape, play
from hilrt.logs.show import cat_frames
from hilrt.logs.source_can import from_message
from hilrt.record.frame_feed import Pass, RawFrame, encode
from hilrt.record.logged_frame import FrameFlag, LoggedFrame
from hilrt.record.messages import Begin, RecordEnd
from hilrt.record.recording import Recording
from tests.logs.made import EPOCH_NS, TOPICS
from tests.virtual_clock import VirtualClock

MS = 1_000_000
COUNT = 300
BUSES = ("engine", "brake")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A session of 0.3 s whose two benches have sent and received a frame every millisecond."""
    head = Begin(str(tmp_path / "run"), "drive", EPOCH_NS, TOPICS, [], {}, buses=list(BUSES))
    recording = Recording(head)
    rng = np.random.default_rng(4)
    for ms in range(0, COUNT, 20):
        recording.batch(ms, np.arange(ms, ms + 20) * MS, rng.normal(size=(20, 4)))
        for bus in BUSES:
            passes = []
            for at in range(ms, ms + 20):
                frame: RawFrame = (0x100 + at, rng.bytes(8), 0, False)
                passes.append(Pass(at % 2 == 1, at * MS + 1000, 0, [frame]))
            recording.raw_frames(encode(bus, ms, passes))
    recording.finish(RecordEnd(b"{}", COUNT, 0))
    return recording.path


def frames_of(log: Path, bus: str | None = None) -> list[LoggedFrame]:
    return [frame for frame in LogFile(log).frames() if bus in (None, frame.bus)]


def in_order(frames: list[LoggedFrame]) -> list[LoggedFrame]:
    return sorted(frames, key=lambda frame: (frame.time_ns, frame.bus))


def test_rows_and_frames_do_not_disturb_each_other(log: Path) -> None:
    assert len(load_log(log).t) == COUNT
    assert len(frames_of(log)) == 2 * COUNT
    contents = {topic.name: topic.messages for topic in read_contents(log).topics if topic.frames}
    assert contents == {"can/engine": COUNT, "can/brake": COUNT}
    assert read_contents(log).start_ns == 0


def test_frames_are_shown_with_session_time_and_direction(log: Path) -> None:
    file = io.StringIO()
    cat_frames(open_source(log), file, (1 * MS, 2 * MS))
    lines = [line for line in file.getvalue().splitlines() if " engine " in line]
    assert len(lines) == 1
    assert lines[0].startswith("0.001001000 engine 101 [8]")
    assert lines[0].endswith("sent")


@pytest.mark.parametrize(("suffix", "resolution_ns"), [("blf", 1_000), ("asc", 2_000)])
def test_python_can_reads_what_was_exported(log: Path, suffix: str, resolution_ns: int) -> None:
    done = export_file(log, suffix)
    assert done.frames == 2 * COUNT
    assert "engine: 1, brake: 2" in done.notes[0]
    with can.LogReader(done.path) as reader:
        read = [from_message(message) for message in reader]
    for number, bus in enumerate(BUSES):
        mine = frames_of(log, bus)
        theirs = [frame for frame in read if frame.bus == str(number)]
        assert [f[2:] for f in theirs] == [f[2:] for f in mine]
        for f, g in zip(mine, theirs, strict=True):
            since = (f.time_ns - mine[0].time_ns) - (g.time_ns - theirs[0].time_ns)
            assert abs(since) <= resolution_ns


def test_a_part_that_was_cut_keeps_its_frames(log: Path, tmp_path: Path) -> None:
    cut(log, tmp_path / "part.mcap", start_s=0.1, end_s=0.2)
    kept = [f for f in frames_of(log) if 100 * MS <= f.time_ns - EPOCH_NS <= 200 * MS]
    assert in_order(frames_of(tmp_path / "part.mcap")) == in_order(kept)


async def test_a_sessions_frames_go_back_onto_a_bus(log: Path) -> None:
    tape = load_tape(log, bus="engine")
    sender, send = bus_sender({"interface": "virtual", "channel": "session-frames"})
    receiver = can.Bus(interface="virtual", channel="session-frames")
    try:
        played = await play(tape, send, VirtualClock())
        got = []
        while (message := receiver.recv(0)) is not None:
            got.append(from_message(message))
    finally:
        receiver.shutdown()
        sender.shutdown()
    assert (played.sent, played.refused) == (COUNT, 0)
    assert played.took_s == pytest.approx((COUNT - 1) * 1e-3)
    mine = frames_of(log, "engine")
    assert [(f.identifier, f.data) for f in got] == [(f.identifier, f.data) for f in mine]
    assert {f.flags & FrameFlag.SENT for f in mine} == {0, FrameFlag.SENT}
