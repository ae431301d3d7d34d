"""Expectations on one recording in every format, as other tools write it."""

import json

import asammdf
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mcap.writer import CompressionType, Writer

from hilrt.analyze.judge_log import judge_file, log_files
from hilrt.errors import ConfigError
from hilrt.expect.expectation import read_spec
from hilrt.logs.import_file import LogWriter, import_file
from hilrt.logs.log_file import read_contents
from hilrt.logs.show import list_lines
from hilrt.record.messages import Signal
from hilrt.record.reader import Block, LogChannel
from tests.expect.faulty_logs import NAMES, UNITS, faulty_log, write_csv
from tests.logs.made import EPOCH_NS, frame_log, some_frames

SPEC = """
[[expect]]
name = "speed"
always = "engine.speed < 1e6"

[[expect]]
name = "torque"
always = "engine.torque < 120"
while = "driver.pedal < 50"

[[expect]]
name = "follows"
when = "driver.pedal > 50"
eventually = "engine.torque > 100"
within = 0.4

[[expect]]
name = "never asked"
when = "driver.pedal > 1e6"
eventually = "engine.speed > 0"
within = 0.1
"""
T, VALUES = faulty_log(3)


def write_own(path):
    writer = LogWriter(path, "engine", EPOCH_NS)
    signals = [Signal(*pair) for pair in zip(NAMES, UNITS, strict=True)]
    writer.block(Block(LogChannel("table", signals), T, VALUES))
    writer.close()


def write_mf4(path):
    columns = zip(VALUES.T, NAMES, UNITS, strict=True)
    with asammdf.MDF() as mdf:
        mdf.append([asammdf.Signal(y, T * 1e-9, name=n, unit=unit) for y, n, unit in columns])
        mdf.save(path)


def write_parquet(path):
    columns = {name: pa.array(y, from_pandas=True) for name, y in zip(NAMES, VALUES.T, strict=True)}
    pq.write_table(pa.table({"time": T * 1e-9, **columns}), path)


def write_json(path, compression=CompressionType.ZSTD, late=0, begin=EPOCH_NS):
    """A topic for each subsystem; `late`: rows by which the pedal's messages are written late."""
    with path.open("wb") as file:
        writer = Writer(file, chunk_size=4096, compression=compression)
        writer.start(profile="", library="another tool")
        schema = writer.register_schema("any", "jsonschema", b'{"type": "object"}')
        topics = {
            name: writer.register_channel(f"/{name}", "json", schema)
            for name in ("engine", "driver")
        }
        times = [*(begin + T).tolist()]
        for k in range(len(T) + late):
            if k < len(T):
                speed, torque = (None if np.isnan(y) else y for y in VALUES[k, :2])
                message = {"speed": speed, "torque": torque, "state": "on", "image": [0] * 500}
                data = json.dumps(message).encode()
                writer.add_message(topics["engine"], times[k], data, times[k])
            if k >= late:
                data = json.dumps({"pedal": VALUES[k - late, 2]}).encode()
                writer.add_message(topics["driver"], times[k - late], data, times[k - late])
        writer.finish()


def write_protobuf(path):
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start(profile="", library="another tool")
        schema = writer.register_schema("Engine", "protobuf", b"\x0a\x00")
        topic = writer.register_channel("/engine", "protobuf", schema)
        writer.add_message(topic, 0, b"\x09\x00\x00\x00\x00\x00\x00\x59\x40", 0)
        writer.finish()


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC)
    return read_spec(tmp_path / "spec.toml")


def outcomes(path, spec):
    found = judge_file(path, spec).outcomes
    return [(o.name, o.result, o.robustness, o.error, o.t, o.since, o.until) for o in found]


def test_a_folder_of_mixed_formats_has_one_verdict(tmp_path, spec):
    folder = tmp_path / "logs"
    folder.mkdir()
    write_own(folder / "own.mcap")
    write_mf4(folder / "a.mf4")
    write_parquet(folder / "a.parquet")
    write_csv(folder / "a.csv", T, VALUES)
    write_json(folder / "a.mcap")
    expected = outcomes(folder / "own.mcap", spec)
    names = [line.split("\t")[0] for line in list_lines(read_contents(folder / "a.mcap"))]
    assert {"engine.speed", "driver.pedal"} <= set(names)
    assert {result for _, result, *_ in expected} == {"passed", "failed", "inconclusive"}
    files = log_files([folder])
    assert len(files) == 5
    for file in files:
        assert outcomes(file, spec) == expected, file


@pytest.mark.parametrize(
    "written",
    [
        {"compression": CompressionType.LZ4},
        {"compression": CompressionType.NONE, "late": 30},
        {"begin": 0},
    ],
)
def test_messages_in_json_are_taken_however_they_are_written(tmp_path, spec, written):
    write_own(tmp_path / "own.mcap")
    write_json(tmp_path / "a.mcap", **written)
    assert outcomes(tmp_path / "a.mcap", spec) == outcomes(tmp_path / "own.mcap", spec)
    imported = import_file(tmp_path / "a.mcap", tmp_path / "imported.mcap")
    assert (imported.rows, imported.signals) == (2 * len(T), 3)
    assert outcomes(tmp_path / "imported.mcap", spec) == outcomes(tmp_path / "own.mcap", spec)


def test_messages_far_out_of_order_are_refused(tmp_path, spec, monkeypatch):
    monkeypatch.setattr("hilrt.logs.source_mcap.MESSAGES", 64)
    write_json(tmp_path / "a.mcap", late=300)
    with pytest.raises(ConfigError, match="topic 'driver' decrease by more than 1 s; sort"):
        outcomes(tmp_path / "a.mcap", spec)


def test_what_cannot_be_read_is_said_with_the_file_and_a_remedy(tmp_path, spec):
    write_protobuf(tmp_path / "p.mcap")
    message = r"p\.mcap: has no signals .*topic 'engine', in protobuf, not JSON: 1 messages"
    with pytest.raises(ConfigError, match=message):
        outcomes(tmp_path / "p.mcap", spec)
    frame_log(tmp_path / "frames.mcap", some_frames())
    with pytest.raises(ConfigError, match=r"frames\.mcap: .*engine\.speed"):
        outcomes(tmp_path / "frames.mcap", spec)
    (tmp_path / "drive.blf").write_bytes(b"LOGG")
    with pytest.raises(ConfigError, match=r"drive\.blf: "):
        outcomes(tmp_path / "drive.blf", spec)
    for name, data in {"a.mf4": b"MDF", "a.parquet": b"PAR1", "a.csv": b"", "a.mcap": b"x"}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ConfigError, match=name):
            outcomes(tmp_path / name, spec)


def test_a_cut_off_file_of_another_tool_is_judged_as_far_as_it_is_whole(tmp_path, spec):
    write_json(tmp_path / "a.mcap")
    data = (tmp_path / "a.mcap").read_bytes()
    (tmp_path / "cut.mcap").write_bytes(data[: len(data) // 2])
    judged = judge_file(tmp_path / "cut.mcap", spec)
    assert 0.5 < judged.time_s < T[-1] * 1e-9
    assert "the file is incomplete: truncated after" in judged.notes[0]
