import itertools
from pathlib import Path

import can
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory

from hilrt import load_log
from hilrt.errors import ConfigError
from hilrt.logs.decode_frames import BusDatabase
from hilrt.logs.export_file import export_file
from hilrt.logs.import_file import LogWriter, import_file
from hilrt.logs.log_file import LogFile
from hilrt.logs.source_can import from_message
from hilrt.record.messages import Signal
from hilrt.record.reader import Block, LogChannel
from tests.logs.made import (
    EPOCH_NS,
    bits,
    frame_log,
    rows_of,
    session_log,
    some_frames,
    two_rates,
)

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="the recordings are not on this machine")


@pytest.mark.parametrize("suffix", ["mf4", "csv", "parquet"])
def test_round_trip_is_exact(tmp_path: Path, suffix: str) -> None:
    log = session_log(tmp_path)
    export_file(log, suffix)
    import_file(tmp_path / f"session.{suffix}", tmp_path / "back.mcap")
    back = load_log(tmp_path / "back.mcap")
    assert back.names == ["engine.torque", "engine.speed", "master:step", "master:lateness"]
    assert [back.units[name] for name in back.names] == ["N*m", "rad/s", "s", "us"]
    np.testing.assert_array_equal(bits(rows_of(back.path)), bits(rows_of(log)))
    np.testing.assert_array_equal(back.time_ns("engine.torque"), np.arange(3000) * 1_000_000)
    if suffix != "csv":
        assert back.metadata["epoch_ns"] == str(EPOCH_NS)
        assert back.sources["engine.torque"] == "EngineFast.ShaftTorque"
    if suffix == "mf4":
        assert back.attachments["session.toml"] == b"[session]\n"


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.integers(0, 10**12), min_size=1, max_size=20),
    data=st.data(),
    suffix=st.sampled_from(["mf4", "csv", "parquet"]),
)
def test_any_float64_at_any_nanosecond(
    tmp_path: Path, steps: list[int], data: st.DataObject, suffix: str
) -> None:
    values = data.draw(st.lists(st.floats(), min_size=len(steps), max_size=len(steps)))
    times = np.cumsum(steps)
    log = tmp_path / "log.mcap"
    writer = LogWriter(log, "x", EPOCH_NS)
    channel = LogChannel("t", [Signal("a.b", "m", "c", "d")])
    writer.block(Block(channel, times, np.array(values)[:, None]))
    writer.close()
    export_file(log, suffix, replace=True)
    import_file(tmp_path / f"log.{suffix}", tmp_path / "back.mcap", replace=True)
    back = load_log(tmp_path / "back.mcap")
    np.testing.assert_array_equal(bits(back["a.b"]), bits(np.array(values)))
    np.testing.assert_array_equal(back.time_ns("a.b"), times)


@pytest.mark.parametrize("suffix", ["blf", "mf4"])
def test_frames_come_back(tmp_path: Path, suffix: str) -> None:
    frames = some_frames()
    export_file(frame_log(tmp_path / "log.mcap", frames), suffix)
    done = import_file(tmp_path / f"log.{suffix}", tmp_path / "back.mcap")
    assert done.frames == len(frames)
    read = sorted(LogFile(tmp_path / "back.mcap").frames(), key=lambda f: f.time_ns)
    assert read == frames


def test_groups_keep_their_own_times(tmp_path: Path) -> None:
    export_file(two_rates(tmp_path / "log.mcap"), "mf4")
    import_file(tmp_path / "log.mf4", tmp_path / "back.mcap")
    back, log = load_log(tmp_path / "back.mcap"), load_log(tmp_path / "log.mcap")
    for name in ("fast.x", "slow.x"):
        np.testing.assert_array_equal(bits(back[name]), bits(log[name]))
        np.testing.assert_array_equal(back.time_ns(name), log.time_ns(name))


def test_other_readers_open_an_imported_log(tmp_path: Path) -> None:
    frames = some_frames(20)
    frame_log(tmp_path / "log.mcap", frames)
    with (tmp_path / "log.mcap").open("rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        read = [
            (message.log_time, decoded.id, decoded.dlc, bytes(decoded.data))
            for _, _, message, decoded in reader.iter_decoded_messages()
        ]
    assert read == [(f.time_ns, f.identifier, f.dlc, f.data) for f in frames]


@needs_data
def test_truck_has_the_frames_and_signals_of_the_recording(tmp_path: Path) -> None:
    asammdf = pytest.importorskip("asammdf")
    truck, database = DATA / "truck_j1939.mf4", DATA / "truck_j1939.dbc"
    done = import_file(truck, tmp_path / "truck.mcap", databases=[BusDatabase(database)])
    assert done.rows == 12719 + 1272
    log = load_log(tmp_path / "truck.mcap")
    assert log.units["EEC1.EngineSpeed"] == "rpm"
    with asammdf.MDF(truck) as mdf, mdf.extract_bus_logging({"CAN": [(database, 0)]}) as decoded:
        speed = decoded.get("EngineSpeed", group=decoded.whereis("EngineSpeed")[0][0])
        np.testing.assert_array_equal(log["EEC1.EngineSpeed"], speed.samples)
        np.testing.assert_allclose(log.time("EEC1.EngineSpeed"), speed.timestamps, atol=1e-12)
    with can.LogReader(truck) as reader:
        wanted = [from_message(message) for message in itertools.islice(reader, 5000)]
    mine = itertools.islice(LogFile(tmp_path / "truck.mcap").frames(), 5000)
    got = [f._replace(time_ns=round(f.time_ns / 1000) * 1000) for f in mine]
    assert sorted(got) == sorted(wanted)


@needs_data
def test_candump_log_keeps_every_frame_and_says_what_is_doubtful(tmp_path: Path) -> None:
    log, database = DATA / "car_pedal.candump.log", DATA / "car.dbc"
    done = import_file(log, tmp_path / "car.mcap", databases=[BusDatabase(database)])
    with can.LogReader(log) as reader:
        wanted = [from_message(message) for message in reader]
    assert list(LogFile(tmp_path / "car.mcap").frames()) == wanted
    assert done.frames == 1268
    assert any("shorter than in its database" in note for note in done.notes)
    pedal = load_log(tmp_path / "car.mcap")["COMMAND.ACC_PEDAL_MEAN"]
    assert (len(pedal), pedal.min(), pedal.max()) == (228, 0, 3726)


@needs_data
def test_reference_table(tmp_path: Path) -> None:
    import_file(DATA / "hydraulic_crane_reference.csv", tmp_path / "crane.mcap")
    log = load_log(tmp_path / "crane.mcap")
    assert log.names == ["s", "sd", "p1", "p2", "f"]
    assert (log.t[-1], len(log.t)) == (10.0, 1001)


def csv_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "time [s],a [N],b\n0,1,2\n0.5,,3\n",
        "# by hand\na [N];time (ms);b\n1;0;2\n;500;3\n",
        "t\ta\tb\ns\tN\t-\n0\t1\t2\n0,5\t\t3\n",
        "\ufeffa [N],b,Time\n1,2,0\n\n,3,5e-1\n",
    ],
)
def test_tables_of_all_kinds(tmp_path: Path, text: str) -> None:
    import_file(csv_file(tmp_path, text), tmp_path / "log.mcap")
    log = load_log(tmp_path / "log.mcap")
    np.testing.assert_array_equal(log["a"], [1.0, np.nan])
    np.testing.assert_array_equal(log["b"], [2.0, 3.0])
    np.testing.assert_array_equal(log.t, [0.0, 0.5])
    assert log.units == {"a": "N", "b": ""}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("1,2\n3,4\n", "has no line of names"),
        ("t,a\n0,1\n1,x\n", "line 3: a = 'x' is not a number"),
        ("t,a\n0,1\n1\n", "line 3: has 1 cells instead of 2"),
        ("t,a\n1,1\n0,2\n", "line 3: the time is missing or decreases"),
        ("t,a\n1,1\n,2\n", "line 3: the time is missing or decreases"),
        ("t,a,a\n1,1,1\n", "has several columns 'a'"),
        ("time [days],a\n1,1\n", "the time is in 'days'"),
        ("t,a\n", "has neither signals nor CAN frames"),
    ],
)
def test_what_is_wrong_with_a_table(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        import_file(csv_file(tmp_path, text), tmp_path / "log.mcap")
    assert message in str(caught.value)
    assert "table.csv" in str(caught.value)
    assert not (tmp_path / "log.mcap").exists()


def test_time_column_can_be_named(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "a,clock [ms]\n1,0\n2,10\n")
    import_file(path, tmp_path / "log.mcap", time="clock")
    assert load_log(tmp_path / "log.mcap").t.tolist() == [0.0, 0.01]
    with pytest.raises(ConfigError, match=r"no column 'clok' for the time; did you mean 'clock'"):
        import_file(path, tmp_path / "other.mcap", time="clok")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.mf4", None, "there is no such file"),
        ("bad.mf4", b"no mdf", "is not an MDF file"),
        ("bad.parquet", b"no parquet", "is not a Parquet file"),
        ("bad.log", b"no log at all", "is no candump log: line 1 is not a line"),
        ("bad.db", b"no database at all", "is not a log that python-can reads"),
        ("bad.mcap", b"no mcap", "is not an MCAP file"),
        ("bad.xlsx", b"", "the suffix is not a known format"),
    ],
)
def test_what_is_wrong_with_a_file(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        import_file(tmp_path / name, tmp_path / "log.mcap")
    assert message in str(caught.value)
    assert name in str(caught.value)


def test_older_log_is_not_replaced_without_being_told(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "t,a\n0,1\n")
    (tmp_path / "log.mcap").write_text("precious")
    with pytest.raises(ConfigError, match="exists already"):
        import_file(path, tmp_path / "log.mcap")
    assert (tmp_path / "log.mcap").read_text() == "precious"
    import_file(path, tmp_path / "log.mcap", replace=True)
    assert load_log(tmp_path / "log.mcap")["a"].tolist() == [1.0]


def test_a_file_of_mdf_3_is_imported(tmp_path: Path) -> None:
    from asammdf import MDF
    from asammdf import Signal as MdfSignal

    times = np.arange(50) * 0.01
    path = tmp_path / "old.mdf"
    with MDF(version="3.30") as file:
        file.append([MdfSignal(np.sin(times), times, name="x", unit="m")])
        file.save(path)
    log = load_log(import_file(path, tmp_path / "new.mcap").path)
    np.testing.assert_array_equal(log["x"], np.sin(times))
    assert log.units["x"] == "m"


def test_a_channel_with_fewer_values_than_times_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from asammdf import MDF

    from hilrt.logs.source_mf4 import Mf4Source

    path = export_file(two_rates(tmp_path / "log.mcap"), "mf4", tmp_path / "log.mf4").path
    source, get = Mf4Source(path), MDF.get

    def nothing_of_long_reads(mdf: MDF, *given: object, **window: object) -> object:
        found = get(mdf, *given, **window)
        return (found[0][:0], None) if window.get("record_offset") == 0 else found

    monkeypatch.setattr(MDF, "get", nothing_of_long_reads)
    with pytest.raises(ConfigError, match=r"log\.mf4: channel '\S+': 0 values for \d+ times"):
        list(source.blocks())
    source.close()
