import itertools
from pathlib import Path

import can
import numpy as np
import pytest

from hilrt.errors import ConfigError
from hilrt.logs.playback import LEAD_NS, Tape, bus_sender, describe, load_tape, play, play_on_bus
from hilrt.logs.source_can import from_message
from hilrt.record.logged_frame import FrameFlag, LoggedFrame
from hilrt.timing import realtime
from tests.logs.made import frame_log, session_log, some_frames
from tests.virtual_clock import VirtualClock

DATA = Path(__file__).parents[3] / "shared" / "data"


def tape_of(tmp_path: Path, frames: list[LoggedFrame], **options: object) -> Tape:
    return load_tape(frame_log(tmp_path / "log.mcap", frames), **options)


class Line:
    """Notes when each frame was sent; a frame takes `cost_ns`."""

    def __init__(self, cost_ns: int = 0) -> None:
        self.clock = VirtualClock(7_000_000_000)
        self.seen: list[tuple[int, LoggedFrame]] = []
        self.cost_ns = cost_ns

    def __call__(self, frame: LoggedFrame) -> bool:
        self.seen.append((self.clock.now_ns() - 7_000_000_000 - LEAD_NS, frame))
        self.clock.advance(self.cost_ns)
        return True


@pytest.mark.skipif(not DATA.exists(), reason="the recordings are not on this machine")
async def test_truck_on_a_bus_has_the_recorded_frames_in_the_recorded_order() -> None:
    pytest.importorskip("asammdf")
    path = DATA / "truck_j1939.mf4"
    tape = load_tape(path, end_s=20.0)
    clock = VirtualClock()
    sender, send = bus_sender({"interface": "virtual", "channel": "truck"})
    receiver = can.Bus(interface="virtual", channel="truck")
    try:
        played = await play(tape, send, clock)
        got = []
        while (message := receiver.recv(0)) is not None:
            got.append(from_message(message))
    finally:
        receiver.shutdown()
        sender.shutdown()
    with can.LogReader(path) as reader:
        first = next(iter(reader)).timestamp
    with can.LogReader(path) as reader:
        until = itertools.takewhile(lambda m: m.timestamp <= first + 20.0, reader)
        wanted = [from_message(message) for message in until]
    recorded = [(f.identifier, f.flags & FrameFlag.EXTENDED, f.data) for f in wanted]
    assert [(f.identifier, f.flags & FrameFlag.EXTENDED, f.data) for f in got] == recorded
    assert (played.sent, played.refused) == (len(wanted), 0)
    assert played.error_us.max() == 0.0
    span = wanted[-1].time_ns - wanted[0].time_ns
    assert played.took_s == played.due_s == pytest.approx(span / 1e9, abs=1e-6)


async def test_every_frame_at_its_recorded_nanosecond(tmp_path: Path) -> None:
    frames, line = some_frames(), Line()
    await play(tape_of(tmp_path, frames), line, line.clock)
    assert [at for at, _ in line.seen] == [f.time_ns - frames[0].time_ns for f in frames]
    assert [f._replace(time_ns=0) for _, f in line.seen] == [f._replace(time_ns=0) for f in frames]


async def test_lateness_does_not_accumulate(tmp_path: Path) -> None:
    frames = [LoggedFrame(10**18 + i * 1_000_000, "0", i, 0, 0, b"") for i in range(1000)]
    line = Line(cost_ns=700_000)
    played = await play(tape_of(tmp_path, frames), line, line.clock)
    assert played.took_s == played.due_s == 0.999
    np.testing.assert_array_equal(played.error_us, 700.0)


async def test_a_burst_catches_up(tmp_path: Path) -> None:
    times = [0, 0, 0, 0, 10_000_000]
    frames = [LoggedFrame(10**18 + t, "0", i, 0, 0, b"") for i, t in enumerate(times)]
    line = Line(cost_ns=1_000_000)
    await play(tape_of(tmp_path, frames), line, line.clock)
    assert [at for at, _ in line.seen] == [0, 1_000_000, 2_000_000, 3_000_000, 10_000_000]


async def test_speed_and_passes(tmp_path: Path) -> None:
    frames = [LoggedFrame(10**18 + i * 1_000_000, "0", i, 0, 0, b"") for i in range(3)]
    line = Line()
    played = await play(tape_of(tmp_path, frames), line, line.clock, speed=0.5, passes=2)
    assert [at // 1_000_000 for at, _ in line.seen] == [0, 2, 4, 6, 8, 10]
    assert [f.identifier for _, f in line.seen] == [0, 1, 2, 0, 1, 2]
    assert played.due_s == 0.01


def test_frames_can_be_chosen(tmp_path: Path) -> None:
    frames = some_frames()
    frames[3] = frames[3]._replace(flags=int(FrameFlag.ERROR))
    frames[50] = frames[50]._replace(flags=0, dlc=8, data=b"")  # as zeros it would be another one
    assert tape_of(tmp_path, frames).left_out == 2
    only = load_tape(tmp_path / "log.mcap", identifiers=[frames[5].identifier])
    assert {only.frame(i).identifier for i in range(len(only.packed))} == {frames[5].identifier}
    assert set(load_tape(tmp_path / "log.mcap", bus="1").buses) == {"1"}
    end = (frames[9].time_ns - frames[0].time_ns) / 1e9
    assert len(load_tape(tmp_path / "log.mcap", end_s=end).packed) == 9
    with pytest.raises(ConfigError, match="no CAN frames to play; its buses are 0, 1"):
        load_tape(tmp_path / "log.mcap", bus="2")
    with pytest.raises(ConfigError, match="no CAN frames to play"):
        load_tape(session_log(tmp_path))


async def test_refused_frames_are_counted_and_playing_can_be_stopped(tmp_path: Path) -> None:
    tape = tape_of(tmp_path, some_frames(10))
    clock = VirtualClock()
    seen: list[LoggedFrame] = []

    def send(frame: LoggedFrame) -> bool:
        seen.append(frame)
        return len(seen) != 2

    played = await play(tape, send, clock, stopping=lambda: len(seen) == 5)
    assert (played.sent, played.refused) == (4, 1)
    assert "4 frames sent, 1 refused" in describe(played)[0]


def test_bus_that_cannot_be_opened() -> None:
    with pytest.raises(ConfigError, match=r"--bus: .*no interface 'virtul'; did you mean"):
        bus_sender({"interface": "virtul"})
    with pytest.raises(ConfigError, match=r"--bus: .* cannot be opened"):
        bus_sender({"interface": "socketcan", "channel": "no_such_can"})


def test_played_on_the_wall_clock_with_a_priority_that_is_not_permitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(realtime, "set_priority", lambda priority: f"priority {priority}: no")
    tape = tape_of(tmp_path, some_frames(10))
    bus = {"interface": "virtual", "channel": "wall"}
    receiver = can.Bus(interface="virtual", channel="wall")
    try:
        played = play_on_bus(tape, bus, priority=20)
        got = [receiver.recv(0) for _ in range(10)]
    finally:
        receiver.shutdown()
    assert [message and message.arbitration_id for message in got] == [
        tape.frame(i).identifier for i in range(10)
    ]
    assert played.sent == 10
    assert played.error_us.min() >= 0.0  # late, perhaps, but never early
    assert describe(played)[-1] == "priority 20: no"
    assert played.as_json()["within_1_ms"] == np.mean(played.error_us <= 1e3)
