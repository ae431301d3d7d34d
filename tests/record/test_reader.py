"""Logs read back bit for bit, whole or cut anywhere."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hilrt.errors import RecordError
from hilrt.record.messages import Attachment, Begin, RecordEnd, RecordEvent, Signal, Topic
from hilrt.record.reader import LogChannel, load_log, make_log
from hilrt.record.recording import Recording

TOPICS = [
    Topic("outputs", [Signal("a.x", "m", "somewhere"), Signal("b.v", "m/s")]),
    Topic("sent", [Signal("b.x:sent", "m")]),
]
EPOCH_NS = 1_780_000_000_123_456_789
WEIRD = [np.nan, -np.nan, np.inf, -np.inf, -0.0, 5e-324, 1.7976931348623157e308]


def write(folder, times, rows, *, per_batch=16):
    attachments = [Attachment("demo.toml", "text/plain", b"[session]\n")]
    recording = Recording(
        Begin(str(folder), "demo", EPOCH_NS, TOPICS, attachments, {"bonds": "{}"})
    )
    for i in range(0, len(times), per_batch):
        recording.batch(i, times[i : i + per_batch], rows[i : i + per_batch])
        recording.flush()
    recording.event(RecordEvent(7, "warning", "sample_late", "a.x", "late – 3 ms", 3.0))
    recording.finish(RecordEnd(b"{}", len(times), 1))
    return recording.path


@settings(max_examples=40, deadline=None)
@given(
    rows=hnp.arrays(
        np.float64,
        st.tuples(st.integers(0, 40), st.just(3)),
        elements=st.floats(width=64) | st.sampled_from(WEIRD),
    ),
    start=st.integers(-(10**9), 10**12),
)
def test_round_trip_is_bit_exact(rows, start, tmp_path_factory):
    times = start + np.arange(len(rows), dtype=np.int64) * 333_333
    log = load_log(write(tmp_path_factory.mktemp("log"), times, rows))
    read = np.column_stack([log[name] for name in ("a.x", "b.v", "b.x:sent")])
    assert read.tobytes() == rows.tobytes()
    for name in log.names:
        np.testing.assert_array_equal(log.time_ns(name), times)
    np.testing.assert_array_equal(log.t, times / 1e9)


def test_everything_beside_the_rows(tmp_path):
    write(tmp_path, np.arange(5), np.zeros((5, 3)))
    log = load_log(tmp_path)
    assert log.names == ["a.x", "b.v", "b.x:sent"]
    assert log.units == {"a.x": "m", "b.v": "m/s", "b.x:sent": "m"}
    assert log.sources["a.x"] == "somewhere"
    assert log.attachments == {"demo.toml": b"[session]\n", "summary.json": b"{}"}
    assert log.metadata["epoch_ns"] == str(EPOCH_NS)
    assert log.metadata["bonds"] == "{}"
    assert log.truncated == ""
    event = next(event for event in log.events if event.cause == "sample_late")
    assert (event.t, event.level, event.source) == (7e-9, "warning", "a.x")
    assert (event.text, event.value) == ("late – 3 ms", 3.0)
    assert "a.x" in log
    assert "a.y" not in log


def test_a_log_is_a_mapping_from_signals_to_values(tmp_path):
    rows = np.arange(15.0).reshape(5, 3)
    write(tmp_path, np.arange(5), rows)
    log = load_log(tmp_path)
    assert list(log) == log.names
    assert len(log) == 3
    np.testing.assert_array_equal(np.column_stack([*log.values()]), rows)
    assert log.get("b.y") is None


def test_the_last_fresh_value_is_held_where_there_is_none(tmp_path):
    rows = np.arange(15.0).reshape(5, 3)
    rows[[0, 2, 3], 1] = np.nan
    write(tmp_path, np.arange(5), rows)
    log = load_log(tmp_path)
    name = log.names[1]
    np.testing.assert_array_equal(log.held(name), [np.nan, 4.0, 4.0, 4.0, 13.0])
    np.testing.assert_array_equal(log[name], rows[:, 1])


def test_unknown_signal_names_the_nearest(tmp_path):
    write(tmp_path, np.arange(5), np.zeros((5, 3)))
    with pytest.raises(KeyError, match=r"did you mean 'b\.x:sent'"):
        load_log(tmp_path)["b.x:snt"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    rows = np.random.default_rng(3).normal(size=(160, 3))
    folder = tmp_path_factory.mktemp("whole")
    path = write(folder, np.arange(160, dtype=np.int64), rows)
    return path.read_bytes(), rows


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_log_cut_anywhere_is_a_prefix(whole, data, tmp_path_factory):
    content, rows = whole
    size = data.draw(st.integers(0, len(content) - 1))
    path = tmp_path_factory.getbasetemp() / "cut.mcap"
    path.write_bytes(content[:size])
    log = load_or_none(path)
    if log is None:
        return
    n = len(log.t)
    read = np.column_stack([log[name] for name in log.names])
    assert read.tobytes() == rows[:n].tobytes()
    assert n == len(rows) or "truncated" in log.truncated


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_log_with_a_wrong_byte_says_so_or_is_right(whole, data, tmp_path_factory):
    content, rows = whole
    position = data.draw(st.integers(8, len(content) - 1))
    flipped = bytearray(content)
    flipped[position] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.getbasetemp() / "flipped.mcap"
    path.write_bytes(flipped)
    log = load_or_none(path)
    if log is not None and not log.truncated:
        read = np.column_stack([log[name] for name in log.names])
        assert read.tobytes() == rows.tobytes()
        assert log.metadata["epoch_ns"] == str(EPOCH_NS)


def load_or_none(path):
    try:
        return load_log(path)
    except RecordError:
        return None


def test_cut_log_keeps_all_but_the_last_flush(whole, tmp_path):
    content, rows = whole
    path = tmp_path / "cut.mcap"
    path.write_bytes(content[: content.rindex(b"summary.json", 0, len(content) - 600)])
    assert len(load_log(path).t) == len(rows)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an MCAP file"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "is not an MCAP file"),
        (b"\x89MCAP0\r\n", "has no signals"),
    ],
)
def test_file_of_another_kind_is_refused(tmp_path, content, message):
    path = tmp_path / "other.mcap"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=message):
        load_log(path)


def test_missing_log_is_named(tmp_path):
    with pytest.raises(RecordError, match=r"session\.mcap: there is no log"):
        load_log(tmp_path)


def test_a_table_of_pandas(whole, tmp_path):
    pytest.importorskip("pandas")
    content, rows = whole
    path = tmp_path / "session.mcap"
    path.write_bytes(content)
    log = load_log(path)
    frame = log.to_pandas()
    assert list(frame.columns) == log.names
    assert frame.index.name == "t"
    assert frame.to_numpy().tobytes() == rows.tobytes()
    assert np.array_equal(frame.index.to_numpy(), log.t)
    assert frame.attrs["units"] == log.units
    assert list(log.to_pandas(["b.v", "a.x"]).columns) == ["b.v", "a.x"]
    with pytest.raises(KeyError, match=r"no signal 'a.y'; did you mean 'a.x'"):
        log.to_pandas(["a.y"])


def imported(times):
    """A log whose signals have times of their own."""
    return make_log(
        Path("imported.mcap"),
        [LogChannel(name, [Signal(name, "m")]) for name in times],
        {name: np.array(stamps) for name, stamps in times.items()},
        {name: [np.arange(len(stamps), dtype=float)[:, None]] for name, stamps in times.items()},
        [],
        {},
    )


def test_signals_of_different_times_in_a_table_of_pandas():
    pytest.importorskip("pandas")
    frame = imported({"a": [0, 2_000_000_000], "b": [1_000_000_000, 2_000_000_000]}).to_pandas()
    assert frame.index.tolist() == [0.0, 1.0, 2.0]
    assert frame["a"].tolist()[::2] == [0.0, 1.0]
    assert frame["b"].tolist()[1:] == [0.0, 1.0]
    assert frame.isna().to_numpy().sum() == 2
    twice = imported({"a": [0, 1, 1], "b": [0, 2]})
    with pytest.raises(RecordError, match="a has several values at one time"):
        twice.to_pandas()
    assert len(twice.to_pandas(["a"])) == 3
    assert twice.to_pandas([]).empty


def test_without_pandas_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RecordError, match=r"install hilrt\[pandas\]"):
        imported({"a": [0]}).to_pandas()
