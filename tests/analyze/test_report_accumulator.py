"""What the recorder keeps of a long log is what reading all of it gives."""

from pathlib import Path

import numpy as np
import pytest

from hilrt.analyze import log_analysis, report_accumulator
from hilrt.analyze.log_analysis import analyse_log
from hilrt.analyze.rows_summary import summarise_rows
from hilrt.logs.cut import cut, merge
from hilrt.record.messages import (
    REPORT_STATISTICS,
    Attachment,
    Begin,
    RecordEnd,
    RecordEvent,
    Signal,
    Topic,
)
from hilrt.record.reader import LogEvent, LogStream, load_log
from hilrt.record.recording import Recording
from hilrt.record.repair import repair

N = 6000
TIMES = np.arange(N) * 1_000_000
SESSION_FILE = b"""
[[bonds]]
name = "shaft"
effort = "engine.torque"
flow = "vehicle.engine_speed"
correction = { method = "energy", cap = 0.1, cap_abs = 3.0 }
"""
TOPICS = [
    Topic("outputs", [Signal("engine.torque", "N*m"), Signal("engine.coolant", "degC")]),
    Topic("corrected", [Signal("engine.torque:corrected", "N*m")]),
    Topic("bonds", [Signal("shaft:power", "W"), Signal("shaft:correction_computed", "N*m")]),
    Topic("flags", [Signal("flag:sample_late")]),
    Topic("timing", [Signal("master:step", "s"), Signal("master:lateness", "us")]),
]


def rows() -> np.ndarray:
    rng = np.random.default_rng(3)
    torque = np.cumsum(rng.normal(size=N))
    coolant = np.where(np.arange(N) % 10 == 0, 80.0 + torque, np.nan)
    computed = rng.choice([3.0, 1.0, -0.5], N)
    late = rng.random(N) < 0.01
    columns = [torque, coolant, torque, 1e3 * torque, computed, late, np.full(N, 1e-3)]
    return np.column_stack([*columns, rng.gamma(3.0, 22.0, N)])


def record(folder) -> Path:
    """Path of a log with a gap and events."""
    files = [Attachment("bench.toml", "application/toml", SESSION_FILE)]
    begin = Begin(str(folder), "keep", 10**18, TOPICS, files, {})
    recording = Recording(begin, report_accumulator.ReportAccumulator.of)
    data = rows()
    for first in range(0, N, 61):
        if first != 61 * 7:
            part = slice(first, min(first + 61, N))
            recording.batch(first, TIMES[part], data[part])
    recording.event(RecordEvent(1_500_000_000, "warning", "sample_late", "engine", "late"))
    recording.event(RecordEvent(1_600_000_000, "info", "operator", "page", "a note"))
    recording.finish(RecordEnd(summary=b'{"verdict": "good", "steps": 5999}', rows=N, events=1))
    return recording.path


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A log with attached statistics, as if it were a long one."""
    monkeypatch.setattr(report_accumulator, "LEAST_ROWS", N // 2)
    return record(tmp_path)


def test_attached_statistics_are_what_reading_gives(log, monkeypatch):
    read = log_analysis.read_rows(log)
    stream, _, statistics = read
    with monkeypatch.context() as patch:
        patch.setattr(LogStream, "blocks", None)  # no row is read
        found = analyse_log(log)
    assert REPORT_STATISTICS in stream.attachments
    del stream.attachments[REPORT_STATISTICS]
    stream.events = [event for event in stream.events if event.cause != "sample_late"]
    for name in ("metadata", "events", "attachments", "damage"):
        assert getattr(found.stream, name) == getattr(stream, name)
    assert list(found.stream.channels.values()) == list(stream.channels.values())
    assert found.statistics.worst_steps() == statistics.worst_steps()
    assert found.statistics.intervals == statistics.intervals
    assert found.statistics.rows == statistics.rows > 0
    assert found.statistics.stats.keys() == statistics.stats.keys()
    for name, stats in statistics.stats.items():
        assert vars(found.statistics.stats[name]) == pytest.approx(vars(stats), nan_ok=True)
    numbers, theirs = (summarise_rows(s, {}, []) for s in (found.statistics, statistics))
    assert numbers["lateness_us"] == theirs["lateness_us"]
    assert numbers["lateness_histogram"] == theirs["lateness_histogram"]


def test_curves_keep_the_extremes(log):
    read, found = log_analysis.read_rows(log)[1], analyse_log(log).curves
    assert found.keys() == read.keys()
    for name, curve in read.items():
        assert 250 <= len(found[name].t) <= 4 * report_accumulator.MAX_INTERVALS
        for end in (np.min, np.max):
            assert end(found[name].t) == end(curve.t)
            assert end(found[name].y) == end(curve.y)


@pytest.mark.parametrize(
    "content",
    [b"", b"nonsense", report_accumulator.zlib.compress(b"\x81\x00")],
    ids=["empty", "noise", "other"],
)
def test_statistics_of_another_version_is_not_used(log, monkeypatch, content):
    attached = [Attachment(REPORT_STATISTICS, "", content)]
    monkeypatch.setattr(report_accumulator, "read_attachments", lambda file: attached)
    assert report_accumulator.read_accumulated(log) is None


def test_parts_and_repaired_logs_have_none(log, tmp_path):
    part, whole, repaired = (tmp_path / f"{name}.mcap" for name in ("part", "whole", "repaired"))
    cut(log, part, end_s=2.0)
    merge([log, part], whole)
    repair(log, repaired)
    for path in (part, whole, repaired):
        assert REPORT_STATISTICS not in analyse_log(path).stream.attachments
        assert report_accumulator.read_accumulated(path) is None


def test_short_and_unfinished_logs_are_read(log, tmp_path, monkeypatch):
    cut_off = tmp_path / "cut_off.mcap"
    cut_off.write_bytes(log.read_bytes()[:-500])
    assert report_accumulator.read_accumulated(cut_off) is None
    monkeypatch.setattr(report_accumulator, "LEAST_ROWS", 11)
    accumulator = report_accumulator.ReportAccumulator(TOPICS)
    accumulator.take(0, np.arange(10), np.zeros((10, 8)))
    assert accumulator.attachment() == b""
    accumulator.take(10, np.arange(10), np.zeros((10, 8)))
    assert accumulator.attachment()
    monkeypatch.setattr(report_accumulator, "MOST_EVENTS", 1)
    for _ in range(2):
        accumulator.event(LogEvent(0.0, "info", "operator", "page", "a note"))
    assert accumulator.attachment() == b""


@pytest.mark.parametrize("method", ["take", "event", "attachment"])
def test_a_log_goes_on_without_statistics(tmp_path, monkeypatch, method):
    def fail(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(report_accumulator.ReportAccumulator, method, fail)
    log = load_log(record(tmp_path))
    assert not log.truncated
    assert len(log.t) == N - 61
    assert [e.text for e in log.events if "no statistics are attached" in e.text]
    assert REPORT_STATISTICS not in log.attachments
