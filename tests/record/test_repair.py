"""Logs cut off or damaged anywhere: a repair keeps every chunk that is whole, bit for bit."""

import contextlib

import numpy as np
import pytest
from mcap.reader import make_reader
from typer.testing import CliRunner

from hilrt.cli.main import app
from hilrt.errors import RecordError
from hilrt.record.messages import (
    ASIDE,
    SNAPSHOTS,
    Attachment,
    Begin,
    RecordEnd,
    RecordEvent,
    Signal,
    Topic,
)
from hilrt.record.reader import LogStream, load_log
from hilrt.record.recording import Recording
from hilrt.record.repair import repair

TOPICS = [
    Topic("outputs", [Signal("a.x", "m"), Signal("a.v", "m/s")]),
    Topic("sent", [Signal("b.x:sent", "m")]),
]
PER_CHUNK, CHUNKS = 20, 12
ROWS = np.random.default_rng(7).normal(size=(PER_CHUNK * CHUNKS, 3))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A log's bytes, and its size after each flush."""
    folder = tmp_path_factory.mktemp("whole")
    files = [Attachment("demo.toml", "text/plain", b"[session]\n" * 40)]
    recording = Recording(Begin(str(folder), "demo", 10**18, TOPICS, files, {"bonds": "{}"}))
    sizes = [recording.path.stat().st_size]
    for chunk in range(CHUNKS):
        first = chunk * PER_CHUNK
        recording.aside(SNAPSHOTS.encode(), ASIDE.pack(first, first * 10**6), b"state")
        times = np.arange(first, first + PER_CHUNK) * 10**6
        recording.batch(first, times, ROWS[first : first + PER_CHUNK])
        recording.event(RecordEvent(int(times[-1]), "info", "mark", "test", f"chunk {chunk}"))
        recording.flush()
        sizes.append(recording.path.stat().st_size)
    recording.finish(RecordEnd(b"{}", len(ROWS), CHUNKS))
    return recording.path.read_bytes(), sizes


def rows_of(log):
    return np.column_stack([log[name] for name in ("a.x", "a.v", "b.x:sent")])


def test_cut_off_at_200_random_bytes_at_most_one_chunk_is_lost(whole, tmp_path):
    data, sizes = whole
    cut, mended = tmp_path / "cut.mcap", tmp_path / "mended.mcap"
    for position in np.random.default_rng(8).integers(0, len(data), 200).tolist():
        cut.write_bytes(data[:position])
        kept = sum(position >= size for size in sizes) - 1  # chunks that were flushed by then
        if kept < 0:  # in the head: an error in words, or a log without steps
            with contextlib.suppress(RecordError):
                assert repair(cut, mended).rows == 0
            continue
        done = repair(cut, mended)
        rows = kept * PER_CHUNK
        # The last chunk may be whole while what the recorder writes after it is not.
        assert done.rows in (rows, rows + PER_CHUNK)
        assert (done.missing, done.whole) == (0, False)
        log = load_log(mended)
        assert log.truncated == ""
        assert rows_of(log).tobytes() == ROWS[: done.rows].tobytes()
        assert log.attachments["demo.toml"] == b"[session]\n" * 40
        assert log.metadata["rows"] == str(done.rows)
        assert log.events[-1].cause == "log_repaired"
        assert len(load_log(cut).t) == done.rows  # the reader gets as much without a repair


@pytest.mark.parametrize("data", [b"", b"\x89MCAP0\r\n", b"something else"])
def test_what_holds_nothing_is_an_error_in_words(data, tmp_path):
    (tmp_path / "cut.mcap").write_bytes(data)
    with pytest.raises(RecordError, match=r"nothing|is empty|not an MCAP"):
        repair(tmp_path / "cut.mcap", tmp_path / "mended.mcap")


def test_another_library_reads_a_repaired_log(whole, tmp_path):
    data, sizes = whole
    (tmp_path / "cut.mcap").write_bytes(data[: sizes[10] + 100])
    repair(tmp_path / "cut.mcap", tmp_path / "mended.mcap")
    with (tmp_path / "mended.mcap").open("rb") as file:
        reader = make_reader(file, validate_crcs=True)
        summary = reader.get_summary()
        assert len(summary.chunk_indexes) == 12  # head, ten of rows, what the repair says
        messages = list(reader.iter_messages(["/sent"]))
    assert [m.sequence for _, _, m in messages] == list(range(10 * PER_CHUNK))
    stream = LogStream(tmp_path / "mended.mcap", asides=[SNAPSHOTS])
    assert sum(len(block.values) for block in stream.blocks()) == 2 * 10 * PER_CHUNK
    assert [aside.row for aside in stream.asides] == list(range(0, 10 * PER_CHUNK, PER_CHUNK))


def test_damage_in_the_middle_costs_what_it_hit(whole, tmp_path):
    data, sizes = whole
    rng = np.random.default_rng(9)
    broken, mended = tmp_path / "broken.mcap", tmp_path / "mended.mcap"
    for position in rng.integers(sizes[1], sizes[-1], 20).tolist():
        damaged = bytearray(data)
        damaged[position : position + 3] = rng.bytes(3)
        broken.write_bytes(damaged)
        done = repair(broken, mended)
        assert done.rows >= len(ROWS) - 2 * PER_CHUNK
        assert done.rows + done.missing >= len(ROWS) - PER_CHUNK  # the last chunk may be the one
        log = load_log(mended)
        numbers = np.round(log.time("a.x") * 1e3).astype(int)
        assert rows_of(log).tobytes() == ROWS[numbers].tobytes()


def test_a_whole_log_is_copied(whole, tmp_path):
    (tmp_path / "whole.mcap").write_bytes(whole[0])
    done = repair(tmp_path / "whole.mcap", tmp_path / "copy.mcap")
    assert (done.whole, done.rows, done.missing, done.lost) == (True, len(ROWS), 0, [])
    first, second = load_log(tmp_path / "whole.mcap"), load_log(tmp_path / "copy.mcap")
    assert (first.metadata, first.attachments, first.events) == (
        second.metadata,
        second.attachments,
        second.events,
    )
    assert rows_of(second).tobytes() == ROWS.tobytes()


def test_the_command_says_what_it_kept(whole, tmp_path):
    data, sizes = whole
    path = tmp_path / "session.mcap"
    path.write_bytes(data[: sizes[3] + 50])
    result = CliRunner().invoke(app, ["log", "repair", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "left out: truncated after" in result.stdout
    assert "60 steps to 0.059000 s" in result.stdout
    assert len(load_log(tmp_path / "session.repaired.mcap").t) == 60
    again = CliRunner().invoke(app, ["log", "repair", str(path)])
    assert "exists already" in str(again.exception)
