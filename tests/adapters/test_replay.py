from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import can
import cantools
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt import load_log
from hilrt.config.from_toml import build
from hilrt.config.session_file import load_session
from hilrt.config.units import UNSTATED
from hilrt.errors import ConfigError
from hilrt.logs.export_file import export_file
from hilrt.logs.import_file import LogWriter, import_file
from hilrt.record.logged_frame import LoggedFrame
from hilrt.record.messages import Signal
from hilrt.record.reader import Block, LogChannel
from hilrt.session.run import RunOptions
from hilrt.session.session import run_session
from hilrt.solver import Sample
from hilrt_adapters.recorded_tracks import Track
from hilrt_adapters.replay import ReplayLink, ReplayOptions
from tests.collected import received
from tests.logs.made import frame_log

DATA = Path(__file__).parents[3] / "shared" / "data"
NOTHING = np.zeros((1, 0))

DATABASE = """VERSION ""
BU_: A
BO_ 256 Fast: 8 A
 SG_ Speed : 0|16@1+ (0.5,0) [0|100] "rad/s" A
 SG_ Late : 32|16@1+ (1,0) [0|100] "N*m" A
BO_ 257 Slow: 2 A
 SG_ Level : 0|16@1- (0.25,-10) [0|1] "" A
BO_ 258 Never: 1 A
 SG_ Nothing : 0|8@1+ (1,0) [0|1] "" A
BO_ 259 Muxed: 2 A
 SG_ Page M : 0|8@1+ (1,0) [0|1] "" A
 SG_ Zero m0 : 8|8@1+ (1,0) [0|255] "" A
 SG_ One m1 : 8|8@1+ (1,0) [0|255] "" A
"""


def frame(t: float, identifier: int, data: bytes, **more: Any) -> can.Message:
    return can.Message(
        timestamp=1e9 + t, arbitration_id=identifier, data=data, is_extended_id=False, **more
    )


def fast(t: float, speed: int, late: int = 0) -> can.Message:
    return frame(t, 256, speed.to_bytes(4, "little") + late.to_bytes(4, "little"))


#: Speed 5, 10, 15, 20 rad/s at 0.1, 0.2, 0.3, 0.4 s of a log that lasts 0.5 s.
SIMPLE = [
    frame(0.0, 0x7FF, b""),
    fast(0.1, 10, 1),
    fast(0.2, 20, 2),
    frame(0.2, 257, b"\x04\x00"),
    fast(0.3, 30, 3),
    fast(0.4, 40, 4),
    frame(0.5, 0x7FF, b""),
]


def write(folder: Path, frames: Sequence[can.Message] = SIMPLE, name: str = "log.log") -> None:
    (folder / "log.dbc").write_text(DATABASE)
    with can.Logger(folder / name) as logger:
        for item in frames:
            logger(item)


def link(folder: Path, outputs: dict[str, str] | None = None, **options: Any) -> ReplayLink:
    table = {
        "adapter": "replay",
        "log": "log.log",
        "database": "log.dbc",
        "outputs": outputs or {"speed": "Fast.Speed"},
        **options,
    }
    problems: list[str] = []
    built = build(ReplayOptions, table, "subsystems.pedal", problems)
    assert built is not None, problems
    return ReplayLink("pedal", built, folder)


async def opened(folder: Path, outputs: dict[str, str] | None = None, **options: Any) -> ReplayLink:
    made = link(folder, outputs, **options)
    await made.open()
    return made


def step(made: ReplayLink, t: float, h: float = 0.0, tick: int = 0) -> Sample:
    made.dispatch(tick, t, h, NOTHING)
    (arrival,) = received(made)
    assert received(made) == []
    return arrival.sample


# ---- real recordings ---------------------------------------------------------------------------


@pytest.mark.skipif(not DATA.exists(), reason="the recordings are not on this machine")
async def test_real_pedal_recording_sample_by_sample() -> None:
    log, database = DATA / "car_pedal.candump.log", DATA / "car.dbc"
    message = cantools.database.load_file(database, strict=False).get_message_by_name("COMMAND")
    frames = list(can.LogReader(log))
    wanted = [f for f in frames if f.arbitration_id == message.frame_id]
    times = [round((f.timestamp - frames[0].timestamp) * 1e6) / 1e6 for f in wanted]
    values = [message.decode(f.data, decode_choices=False)["ACC_PEDAL_MEAN"] for f in wanted]
    assert len(values) == 228
    assert (min(values), max(values)) == (0, 3726)

    made = await opened(
        DATA, {"pedal": "COMMAND.ACC_PEDAL_MEAN"}, log=str(log), database=str(database)
    )
    assert made.outputs[0].unit == UNSTATED
    first = await made.initialize(0.0, np.zeros(0))
    assert first.info == {"frames": 228, "truncated": 0, "decode_errors": 0}
    seen: list[tuple[float, float]] = []
    for tick in range(7300):
        now = tick * 1e-3 + 1e-3
        sample = step(made, tick * 1e-3, 1e-3, tick)
        assert sample.t_valid is not None
        pair = (float(sample.t_valid[0]), float(sample.y[0]))
        assert pair[0] <= now
        if pair[0] < now and (not seen or pair != seen[-1]):
            seen.append(pair)
            assert now - pair[0] < 1e-3 + 1e-9  # at the first tick that it can arrive at
    assert seen == list(zip(times, values, strict=True))


@pytest.mark.skipif(not DATA.exists(), reason="the recordings are not on this machine")
async def test_real_j1939_recording_is_matched_by_parameter_group() -> None:
    pytest.importorskip("asammdf")
    made = await opened(
        DATA,
        {"engine": "EEC1.EngineSpeed", "vehicle": "CCVS1.WheelBasedVehicleSpeed"},
        log="truck_j1939.mf4",
        database="truck_j1939.dbc",
    )
    assert [port.unit for port in made.outputs] == ["rpm", "km/h"]
    assert made.recording is not None
    engine = made.recording.tracks["engine"]
    assert len(engine.times) == 12719
    assert 600.0 < engine.values.min() < engine.values.max() < 700.0
    assert made.recording.duration == pytest.approx(128.0, abs=1.0)
    assert step(made, 50.0).y[0] == pytest.approx(650.0, abs=5.0)


# ---- timing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "log.log",
        "log.asc",
        "log.blf",
        "log.trc",
        "log.log.gz",
        "log.csv",
        "log.csv.gz",
        "log.db",
    ],
)
async def test_formats_that_python_can_writes(tmp_path: Path, name: str) -> None:
    write(tmp_path, name=name)
    made = await opened(tmp_path, log=name)
    assert made.recording is not None
    track = made.recording.tracks["speed"]
    np.testing.assert_allclose(track.times, [0.1, 0.2, 0.3, 0.4], atol=1e-3)
    np.testing.assert_array_equal(track.values, [5.0, 10.0, 15.0, 20.0])


async def test_hold_gives_the_newest_sample_with_its_recorded_time(tmp_path: Path) -> None:
    write(tmp_path)
    made = await opened(tmp_path, {"speed": "Fast.Speed", "level": "Slow.Level"})
    sample = step(made, 0.2, 0.05)
    assert sample.t_valid is not None
    np.testing.assert_array_equal(sample.y, [10.0, -9.0])
    np.testing.assert_allclose(sample.t_valid, [0.2, 0.2], atol=1e-6)


async def test_before_the_first_sample_its_value_is_held(tmp_path: Path) -> None:
    write(tmp_path)
    made = await opened(tmp_path)
    sample = await made.initialize(0.0, np.zeros(0))
    assert sample.t_valid is not None
    assert (sample.y[0], sample.t_valid[0]) == (5.0, 0.0)
    later = step(made, 0.04, 0.01)
    assert later.t_valid is not None
    assert (later.y[0], later.t_valid[0]) == (5.0, 0.05)


async def test_linear_interpolates_to_the_time_asked_for(tmp_path: Path) -> None:
    write(tmp_path)
    made = await opened(tmp_path, interpolation="linear")
    sample = step(made, 0.1, 0.05)
    assert sample.y[0] == pytest.approx(7.5, abs=1e-4)
    assert sample.t_valid is None  # the end of the step
    assert step(made, 9.0).y[0] == 20.0


async def test_start_shifts_the_recording(tmp_path: Path) -> None:
    write(tmp_path)
    made = await opened(tmp_path, start=0.25)
    first = await made.initialize(0.0, np.zeros(0))
    assert first.t_valid is not None
    assert first.y[0] == 10.0
    assert first.t_valid[0] == pytest.approx(-0.05, abs=1e-6)
    assert step(made, 0.06).y[0] == 15.0


async def test_end_hold_keeps_the_last_value(tmp_path: Path) -> None:
    write(tmp_path)
    made = await opened(tmp_path)
    sample = step(made, 100.0)
    assert sample.t_valid is not None
    assert sample.y[0] == 20.0
    assert sample.t_valid[0] == pytest.approx(0.4, abs=1e-6)


async def test_end_stop_tells_when_there_is_nothing_more(tmp_path: Path) -> None:
    write(tmp_path)
    made = await opened(tmp_path, end="stop", start=0.1)
    assert made.ends == pytest.approx(0.4, abs=1e-6)
    assert step(made, 0.39, 0.02).y[0] == 20.0  # the last step may reach beyond it
    assert (await opened(tmp_path, end="hold")).ends == np.inf


async def test_end_loop_begins_again_at_start(tmp_path: Path) -> None:
    write(tmp_path)
    made = await opened(tmp_path, end="loop", start=0.25)  # a pass of 0.25 s
    values = {t: step(made, t) for t in (0.1, 0.24, 0.26, 0.31, 0.51, 0.56)}
    assert [s.y[0] for s in values.values()] == [15.0, 20.0, 10.0, 15.0, 10.0, 15.0]
    stamps = [float(s.t_valid[0]) for s in values.values() if s.t_valid is not None]
    np.testing.assert_allclose(stamps, [0.05, 0.15, 0.25, 0.3, 0.5, 0.55], atol=1e-6)


@given(
    gaps=st.lists(st.integers(0, 50), min_size=1, max_size=30),
    asked=st.lists(st.integers(0, 2000), min_size=1, max_size=30),
)
def test_hold_is_the_last_sample_not_later_than_asked(gaps: list[int], asked: list[int]) -> None:
    times = np.cumsum(gaps) * 0.01
    made = ReplayLink("x", ReplayOptions(adapter="replay", log="", database=""), Path())
    made._tracks = [Track(times, np.arange(len(times), dtype=float))]
    for ms in asked:
        t = ms * 1e-3
        sample = made._sample(t)
        assert sample.t_valid is not None
        assert sample.t_valid[0] <= t
        before = [i for i, stamp in enumerate(times) if stamp <= t]
        assert sample.y[0] == (before[-1] if before else 0)


# ---- damaged and unusual logs ------------------------------------------------------------------


async def test_short_frames_are_decoded_as_far_as_they_go_and_counted(tmp_path: Path) -> None:
    write(tmp_path, [*SIMPLE, frame(0.6, 256, b"\x64\x00"), frame(0.7, 256, b"")])
    made = await opened(tmp_path, {"speed": "Fast.Speed", "late": "Fast.Late"})
    assert made.recording is not None
    assert made.recording.truncated == 2
    assert made.recording.tracks["speed"].values[-1] == 50.0
    assert len(made.recording.tracks["speed"].values) == 5
    assert len(made.recording.tracks["late"].values) == 4


async def test_multiplexed_signals_come_with_their_own_frames(tmp_path: Path) -> None:
    pages = [frame(0.1 * i, 259, bytes([i % 2, 10 * i])) for i in range(4)]
    write(tmp_path, [*pages, frame(0.9, 259, b"\x07\x00")])
    made = await opened(tmp_path, {"zero": "Muxed.Zero", "one": "Muxed.One"})
    assert made.recording is not None
    np.testing.assert_array_equal(made.recording.tracks["zero"].values, [0.0, 20.0])
    np.testing.assert_array_equal(made.recording.tracks["one"].values, [10.0, 30.0])
    assert made.recording.failures == made.dropped == 1
    assert made.lost == 0


async def test_frames_out_of_order_are_sorted(tmp_path: Path) -> None:
    write(tmp_path, [SIMPLE[0], SIMPLE[4], SIMPLE[1], SIMPLE[6]])
    made = await opened(tmp_path)
    assert made.recording is not None
    np.testing.assert_array_equal(made.recording.tracks["speed"].values, [5.0, 15.0])


async def test_remote_error_and_extended_frames_are_no_samples(tmp_path: Path) -> None:
    remote = can.Message(
        timestamp=1e9 + 0.45, arbitration_id=256, is_remote_frame=True, is_extended_id=False
    )
    extended = can.Message(timestamp=1e9 + 0.45, arbitration_id=256, data=bytes(8))
    write(tmp_path, [*SIMPLE, remote, extended])
    made = await opened(tmp_path)
    assert made.recording is not None
    assert made.recording.frames == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"log": "none.log"}, "[subsystems.pedal] log: "),
        ({"log": "log.dbc"}, "the suffix is not a known format"),
        ({"log": "wrong.mf4"}, "is not an MDF file"),
        ({"log": "broken.log"}, "is no candump log"),
        ({"log": "empty.log"}, "has no frames"),
        ({"database": "none.dbc"}, "[subsystems.pedal] database: "),
        ({"outputs": {"a": "Fast.Spede"}}, "no signal 'Spede'; did you mean 'Speed'"),
        ({"outputs": {"a": "Fats.Speed"}}, "no message 'Fats'; did you mean 'Fast'"),
        ({"outputs": {"a": "Speed"}}, "write it as Message.Signal"),
        ({"outputs": {"a": "Never.Nothing"}}, "contains no frames of message Never (0x102)"),
        ({"start": 0.5}, "the log ends after 0.5 s"),
        ({"inputs": {"u": {"min": 0.0}}}, "a recording has no inputs"),
    ],
)
async def test_what_is_wrong_is_said(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    write(tmp_path)
    (tmp_path / "empty.log").write_text("")
    (tmp_path / "wrong.mf4").write_text("no mdf")
    (tmp_path / "broken.log").write_text("nonsense here and there\n")
    with pytest.raises(ConfigError) as caught:
        await opened(tmp_path, **changes)
    assert message in str(caught.value)
    assert "[subsystems.pedal]" in str(caught.value)


async def test_signal_that_no_frame_is_long_enough_for(tmp_path: Path) -> None:
    write(tmp_path, [frame(0.0, 256, b"\x64\x00"), frame(0.1, 256, b"\x64\x00")])
    with pytest.raises(ConfigError, match=r"none of the 2 frames of message Fast .* 'Late'"):
        await opened(tmp_path, {"late": "Fast.Late"})


async def test_what_cannot_be_read_of_a_log_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)
    with (tmp_path / "log.log").open("a") as file:
        file.write("nonsense here and there\n")
    await opened(tmp_path)
    told = capsys.readouterr().err
    assert told.startswith("[subsystems.pedal] log: log.log is read without 1 line")


async def test_several_j1939_senders_must_be_told_apart(tmp_path: Path) -> None:
    truck = 'VERSION ""\nBU_: A\nBO_ 2364540158 EEC1: 8 A\n SG_ N : 0|8@1+ (1,0) [0|1] "" A\n'
    truck += 'BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","J1939PG";\n'
    truck += 'BA_DEF_DEF_ "VFrameFormat" "J1939PG";\nBA_ "VFrameFormat" BO_ 2364540158 1;\n'
    frames = [
        can.Message(timestamp=1e9 + i, arbitration_id=identifier, data=bytes([i] * 8))
        for i, identifier in enumerate((0x0CF00400, 0x0CF00401, 0x18F00400))
    ]
    write(tmp_path, frames)
    (tmp_path / "log.dbc").write_text(truck)
    with pytest.raises(ConfigError, match=r"several senders \(0xCF00400, 0xCF00401\)"):
        await opened(tmp_path, {"n": "EEC1.N"})
    write(tmp_path, [*frames, can.Message(timestamp=1e9 + 9, arbitration_id=0x0CF004FE, data=b"9")])
    (tmp_path / "log.dbc").write_text(truck)
    made = await opened(tmp_path, {"n": "EEC1.N"})
    assert made.recording is not None
    assert made.recording.frames == 1


SHARED = """VERSION ""
BU_: A
BO_ 2565799937 Mine: 8 A
 SG_ Speed : 0|16@1+ (0.125,0) [0|8031.875] "rpm" A
BO_ 2565799938 Other: 8 A
 SG_ Oil : 0|16@1+ (1,0) [0|0] "" A
BO_ 2364473346 Urgent: 8 A
 SG_ Fuel : 0|16@1+ (1,0) [0|0] "" A
BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","J1939PG";
BA_DEF_DEF_ "VFrameFormat" "J1939PG";
"""


async def test_another_message_of_the_j1939_group_and_what_is_not_available_are_no_samples(
    tmp_path: Path,
) -> None:
    sent = [(0x18EF0001, 80), (0x18EF0002, 88), (0x0CEF0001, 0xFFFF), (0x0CEF0001, 96)]
    frames = [
        can.Message(timestamp=1e9 + i, arbitration_id=a, data=v.to_bytes(2, "little") + bytes(6))
        for i, (a, v) in enumerate(sent)
    ]
    write(tmp_path, frames)
    (tmp_path / "log.dbc").write_text(SHARED)
    made = await opened(tmp_path, {"n": "Mine.Speed"})
    assert made.recording is not None
    np.testing.assert_array_equal(made.recording.tracks["n"].values, [10.0, 12.0])
    np.testing.assert_array_equal(made.recording.tracks["n"].times, [0.0, 3.0])


async def test_a_message_on_several_buses_needs_the_bus(tmp_path: Path) -> None:
    write(tmp_path)
    frames = [
        LoggedFrame(1000 * i, bus, 256, 0, 8, bytes([speed, *bytes(7)]))
        for i, (bus, speed) in enumerate([("0", 10), ("1", 20), ("0", 30)])
    ]
    frame_log(tmp_path / "two.mcap", frames)
    with pytest.raises(ConfigError, match=r"on several buses \('0', '1'\); choose one with bus"):
        await opened(tmp_path, {"n": "Fast.Speed"}, log="two.mcap")
    made = await opened(tmp_path, {"n": "Fast.Speed"}, log="two.mcap", bus="0")
    assert made.recording is not None
    np.testing.assert_array_equal(made.recording.tracks["n"].values, [5.0, 15.0])
    with pytest.raises(ConfigError, match="no frames on bus '2'"):
        await opened(tmp_path, {"n": "Fast.Speed"}, log="two.mcap", bus="2")


async def test_the_part_of_a_database_for_one_bus(tmp_path: Path) -> None:
    """Also where the log calls its buses as the file does."""
    kcd = """<NetworkDefinition xmlns="http://kayak.2codeornot2code.org/1.0"><Document/>
<Bus name="Motor"><Message id="0x100" name="Engine" length="8">
<Signal name="Speed" offset="0" length="8"/></Message></Bus>
<Bus name="Comfort"><Message id="0x100" name="Door" length="8">
<Signal name="Open" offset="0" length="8"/></Message></Bus></NetworkDefinition>
"""
    (tmp_path / "car.kcd").write_text(kcd)
    sent = [("Motor", 10), ("Comfort", 20)]
    frames = [LoggedFrame(i, bus, 256, 0, 8, bytes([v] * 8)) for i, (bus, v) in enumerate(sent)]
    frame_log(tmp_path / "log.mcap", frames)
    for database in ("car.kcd", "car.kcd:Comfort"):
        made = await opened(tmp_path, {"n": "Door.Open"}, log="log.mcap", database=database)
        assert made.recording is not None
        np.testing.assert_array_equal(made.recording.tracks["n"].values, [20.0])
        assert list(made.files) == [tmp_path / "car.kcd"]


def test_j1939_messages_that_no_frame_tells_apart_are_both_named(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "log.dbc").write_text(SHARED)
    made = link(tmp_path, {"o": "Other.Oil"})
    problems = ReplayLink.describe("pedal", made.options, tmp_path).problems
    assert "Other (0x18EF0002) or Urgent (0xCEF0002)" in " ".join(problems)


# ---- the table ---------------------------------------------------------------------------------


def test_ports_and_files(tmp_path: Path) -> None:
    write(tmp_path)
    made = link(tmp_path, {"speed": "Fast.Speed", "level": "Slow.Level"})
    ports = ReplayLink.describe("pedal", made.options, tmp_path).ports
    assert ports is not None
    assert ports.inputs == ()
    assert [(p.name, p.unit) for p in ports.outputs] == [("speed", "rad/s"), ("level", UNSTATED)]
    assert list(made.files) == [tmp_path / "log.dbc"]


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("none.log", "there is no such file"),
        ("log.dbc", "the suffix is not a known format"),
        ("empty.log", "has no frames"),
        ("broken.log", "is no candump log"),
        ("broken.db", "is not a log that python-can reads"),
        ("broken.mf4", "is not an MDF file"),
        ("broken.mcap", "is not an MCAP file"),
    ],
)
def test_what_is_wrong_with_the_log_is_known_before_it_is_read(
    tmp_path: Path, log: str, message: str
) -> None:
    write(tmp_path)
    (tmp_path / "empty.log").write_text("")
    for suffix in ("log", "db", "mf4", "mcap"):
        (tmp_path / f"broken.{suffix}").write_text("nonsense here and there\n")
    made = link(tmp_path, {"speed": "Fast.Speed", "x": "Fast.Spede"}, log=log)
    description = ReplayLink.describe("pedal", made.options, tmp_path)
    assert description.ports is not None
    wrong_output, wrong_log = description.problems
    assert "outputs.x = 'Fast.Spede'" in wrong_output
    assert wrong_log.startswith("[subsystems.pedal] log: ")
    assert message in wrong_log
    ports = description.ports.outputs
    assert [(p.name, p.unit) for p in ports] == [("speed", "rad/s"), ("x", UNSTATED)]
    assert description.unclear == {"x"}


def test_of_a_long_log_only_the_beginning_is_looked_at(tmp_path: Path) -> None:
    write(tmp_path, SIMPLE * 3)
    with (tmp_path / "log.log").open("a") as file:
        file.write("nonsense here and there\n")
    made = link(tmp_path)
    ports = ReplayLink.describe("pedal", made.options, tmp_path).ports
    assert ports is not None
    assert ports.outputs[0].unit == "rad/s"


def test_one_signal_that_is_missing_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("t,a [rad/s]\n0,1\n1,2\n")
    made = link(tmp_path, {"x": "a", "y": "b"}, log="log.csv", database=None)
    description = ReplayLink.describe("pedal", made.options, tmp_path)
    assert description.ports is not None
    assert [p.unit for p in description.ports.outputs] == ["rad/s", UNSTATED]


def test_every_wrong_output_is_named_at_once(tmp_path: Path) -> None:
    write(tmp_path)
    made = link(tmp_path, {"a": "Fast.X", "b": "Y.Speed"})
    assert len(ReplayLink.describe("pedal", made.options, tmp_path).problems) == 2


def test_options_are_checked() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(
            {"adapter": "replay", "log": "a", "database": "b", "end": "explode"}, ReplayOptions
        )


async def test_paths_may_start_at_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    made = await opened(tmp_path / "elsewhere")
    assert step(made, 0.25).y[0] == 10.0


# ---- logs of signals ---------------------------------------------------------------------------


def signal_log(folder: Path, name: str) -> ReplayLink:
    """The same two signals in any format: x = 10 t each 0.1 s, y each second one."""
    times = 5_000_000_000 + np.arange(11) * 100_000_000
    values = np.column_stack([np.arange(11.0), np.where(np.arange(11) % 2, np.nan, np.arange(11))])
    channel = LogChannel("t", [Signal("a.x", "rad/s", "", "how fast"), Signal("a.y")])
    writer = LogWriter(folder / "log.mcap", "x", 1_000_000_000)
    writer.block(Block(channel, times, values))
    writer.close()
    if name != "log.mcap":
        export_file(folder / "log.mcap", Path(name).suffix[1:])
    return link(folder, {"x": "a.x", "y": "a.y"}, log=name, database=None)


@pytest.mark.parametrize("name", ["log.mcap", "log.mf4", "log.csv", "log.parquet"])
async def test_formats_of_signals(tmp_path: Path, name: str) -> None:
    made = signal_log(tmp_path, name)
    ports = ReplayLink.describe("pedal", made.options, tmp_path).ports
    assert ports is not None
    assert [(p.name, p.unit) for p in ports.outputs] == [("x", "rad/s"), ("y", UNSTATED)]
    assert list(made.files) == []
    await made.open()
    assert [p.name for p in made.outputs] == ["x", "y"]
    sample = step(made, 0.3, 0.05)
    assert sample.t_valid is not None
    np.testing.assert_array_equal(sample.y, [3.0, 2.0])  # NaN is no sample
    np.testing.assert_allclose(sample.t_valid, [0.3, 0.2], atol=1e-12)


async def test_interpolation_goes_past_missing_values(tmp_path: Path) -> None:
    signal_log(tmp_path, "log.csv")
    table = {"x": "a.x", "y": "a.y"}
    made = await opened(
        tmp_path, table, log="log.csv", database=None, interpolation="linear", end="loop", start=0.2
    )
    np.testing.assert_allclose(step(made, 0.33).y, [5.3, 5.3])
    np.testing.assert_allclose(step(made, 0.8 + 0.33).y, [5.3, 5.3])


async def test_frames_in_our_own_log(tmp_path: Path) -> None:
    write(tmp_path)
    import_file(tmp_path / "log.log", tmp_path / "log.mcap")
    made = await opened(tmp_path, log="log.mcap")
    assert made.recording is not None
    np.testing.assert_array_equal(made.recording.tracks["speed"].values, [5.0, 10.0, 15.0, 20.0])


@pytest.mark.parametrize(
    ("log", "outputs", "message"),
    [
        ("log.csv", {"x": "a.z"}, "outputs.x = 'a.z': "),
        ("log.log", {"x": "a.x"}, 'holds CAN frames; add database = "'),
        ("none.csv", {"x": "a.x"}, "there is no such file"),
        ("nan.csv", {"x": "b"}, "has no value of signal 'b' of output 'x'"),
    ],
)
async def test_what_is_wrong_with_a_log_of_signals(
    tmp_path: Path, log: str, outputs: dict[str, str], message: str
) -> None:
    write(tmp_path)
    signal_log(tmp_path, "log.csv")
    (tmp_path / "nan.csv").write_text("t,a,b\n0,1,\n1,2,\n")
    with pytest.raises(ConfigError) as caught:
        await opened(tmp_path, outputs, log=log, database=None)
    assert message in str(caught.value)
    assert "[subsystems.pedal]" in str(caught.value)


# ---- a whole session ---------------------------------------------------------------------------

SESSION = """
[session]
name = "again"
duration = 10.0
pace = "asap"

[master]
step = 0.01

[subsystems.past]
adapter = "replay"
log = "log.csv"
outputs = { x = "a.x" }
start = 0.2
end = "stop"

[subsystems.load]
adapter = "inprocess"
model = "hilrt.models.linear:Linear"
params = { A = [[-1.0]], B = [[1.0]], C = [[1.0]], inputs = ["u [rad/s]"] }

[[connections]]
from = "past.x"
to = "load.u"
order = 0
"""


def test_a_session_ends_in_order_with_its_recording(tmp_path: Path) -> None:
    signal_log(tmp_path, "log.csv")
    (tmp_path / "session.toml").write_text(SESSION)
    file = load_session(tmp_path / "session.toml")
    result = run_session(file, options=RunOptions(out=tmp_path / "runs", view=False))
    assert result.exit_status == 0
    assert result.summary["state"] == "STOPPED"
    assert result.summary["time_s"] == pytest.approx(0.8, abs=1e-9)
    log = load_log(result.folder)
    np.testing.assert_allclose(log["past.x"][-1], 10.0)
