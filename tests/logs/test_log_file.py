from pathlib import Path

import pytest

from hilrt.errors import RecordError
from hilrt.logs.import_file import LogWriter
from hilrt.logs.log_file import read_attachments, read_contents
from hilrt.logs.show import as_json, info_lines, list_lines
from tests.logs.made import EPOCH_NS, session_log


def test_index_and_reading_through_say_the_same(tmp_path: Path) -> None:
    log = session_log(tmp_path)
    indexed = read_contents(log)
    whole = log.read_bytes()
    log.write_bytes(whole[:-40])  # the footer is gone, and with it the way to the index
    read = read_contents(log)
    assert not indexed.damage
    assert read.damage
    for key in ("epoch_ns", "start_ns", "end_ns", "chunks", "uncompressed", "metadata"):
        assert getattr(read, key) == getattr(indexed, key), key
    assert {t.name: (t.messages, t.signals) for t in read.topics} == {
        t.name: (t.messages, t.signals) for t in indexed.topics
    }
    assert read.attachments == indexed.attachments
    assert read.epoch_ns == EPOCH_NS
    assert (read.start_ns, read.end_ns) == (0, 2_999_000_000)
    assert [a.name for a in read_attachments(log)] == ["session.toml", "summary.json"]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_cut_off_log_is_read_as_far_as_it_is_whole(tmp_path: Path, share: float) -> None:
    log = session_log(tmp_path)
    whole = log.read_bytes()
    log.write_bytes(whole[: int(share * len(whole))])
    contents = read_contents(log)
    assert "truncated after" in contents.damage
    assert "complete     no" in "\n".join(info_lines(contents))


def test_lines_say_what_there_is(tmp_path: Path) -> None:
    contents = read_contents(session_log(tmp_path))
    text = "\n".join(info_lines(contents))
    assert "session      drive" in text
    assert "0.000000000 s to 2.999000000 s" in text
    assert "1000.00 Hz  2 signals" in text
    assert list(list_lines(contents, ["engine.*"])) == [
        "engine.torque\tN*m\toutputs\tEngineFast.ShaftTorque",
        "engine.speed\trad/s\toutputs",
    ]
    found = as_json(contents)
    assert found["topics"][0]["signals"][0]["unit"] == "N*m"
    assert found["end_s"] == 2.999


@pytest.mark.parametrize("indexed", [True, False])
def test_a_log_without_messages_begins_and_ends_at_time_zero(tmp_path: Path, indexed: bool) -> None:
    log = tmp_path / "empty.mcap"
    LogWriter(log, "empty", EPOCH_NS).close()
    if not indexed:
        log.write_bytes(log.read_bytes()[:-40])
    contents = read_contents(log)
    assert (contents.start_ns, contents.end_ns) == (0, 0)
    assert contents.epoch_ns == EPOCH_NS
    text = "\n".join(info_lines(contents))
    assert "began        2026-" in text
    assert "0.000000000 s to 0.000000000 s" in text


def test_what_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot be read"):
        read_contents(tmp_path / "none.mcap")
    (tmp_path / "text.mcap").write_text("hello")
    with pytest.raises(RecordError, match="is not an MCAP file"):
        read_contents(tmp_path / "text.mcap")
