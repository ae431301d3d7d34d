"""Logs that unpack to more than they say, and facts that are no numbers."""

from __future__ import annotations

import io
from pathlib import Path

import lz4.frame
import pytest
import zstandard
from mcap.writer import CompressionType, Writer

from hilrt.errors import RecordError
from hilrt.logs.import_file import LogWriter
from hilrt.logs.log_file import LogFile, read_contents
from hilrt.logs.open_source import open_source
from hilrt.logs.show import cat_events
from hilrt.record import record_file
from hilrt.record.logged_frame import LoggedFrame, encode
from hilrt.record.messages import EVENTS
from hilrt.record.reader import LogStream
from hilrt.record.record_file import unpack


def chunk(data: bytes, compression: str, stated: int) -> bytes:
    """A chunk record's content as the format has it."""
    head = bytes(16) + stated.to_bytes(8, "little") + bytes(4)
    name = len(compression).to_bytes(4, "little") + compression.encode()
    return head + name + len(data).to_bytes(8, "little") + data


@pytest.mark.parametrize(
    ("compression", "pack"),
    [
        ("zstd", zstandard.ZstdCompressor().compress),
        ("zstd", lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data)),
        ("lz4", lz4.frame.compress),
        ("", bytes),
    ],
)
def test_a_chunk_unpacks_to_what_it_says_and_no_more(compression, pack) -> None:
    data = bytes(1_000_000)
    assert unpack(chunk(pack(data), compression, len(data))).data == data
    for stated in (1000, 1_000_001):
        with pytest.raises(record_file.DAMAGE):
            unpack(chunk(pack(data), compression, stated))
    with pytest.raises(ValueError, match="a chunk of 1073741824 bytes"):
        unpack(chunk(pack(data), compression, 1 << 30))


def test_all_chunks_together_unpack_to_a_multiple_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.mcap"
    with path.open("wb") as file:
        writer = Writer(file, chunk_size=100_000, compression=CompressionType.ZSTD)
        writer.start()
        topic = writer.register_channel("/x", "cdr", 0)
        for i in range(10):
            writer.add_message(topic, i, bytes(200_000), i)
        writer.finish()
    monkeypatch.setattr(record_file, "RATIO_FROM", 1_000_000)
    log = LogFile(path)
    assert len(list(log.messages())) < 10
    assert "unpacks to more than" in log.damage


@pytest.mark.parametrize("value", ["17x", "", "9" * 5000, str(1 << 64)])
def test_a_fact_that_is_no_number_is_damage(value: str, tmp_path: Path) -> None:
    path = tmp_path / "log.mcap"
    writer = LogWriter(path, "x", 5)
    writer._writer.add_metadata("more", {"epoch_ns": value})
    writer.frame(LoggedFrame(10, "0", 1, 0, 0, b""))
    writer.close()
    assert "is not a number" in read_contents(path).damage
    source = open_source(path)
    assert list(source.frames()) == []


def test_a_frame_that_is_none_ends_the_log_there(tmp_path: Path) -> None:
    whole = encode(LoggedFrame(10, "0", 1, 0, 2, b"ab"))
    buffer = io.BytesIO()
    writer = Writer(buffer, compression=CompressionType.NONE)
    writer.start()
    writer.add_metadata("hilrt", {"epoch_ns": "0"})
    bus = writer.register_channel("/can/0", "cdr", 0, {"frames": "can"})
    for i, body in enumerate((whole, whole[:-1], whole)):
        writer.add_message(bus, i, body, i)
    writer.finish()
    path = tmp_path / "log.mcap"
    path.write_bytes(buffer.getvalue())
    source = open_source(path)
    assert len(list(source.frames())) == 1
    assert "a CAN frame with 1 of 2 data bytes" in source.notes[0]


@pytest.mark.parametrize("signals", ["[" * 100_000, "[[1]]", "{}x", '[["a"], 3]', '["ab"]'])
def test_a_list_of_signals_that_is_none_is_damage(signals: str, tmp_path: Path) -> None:
    path = tmp_path / "log.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start()
        writer.add_metadata("hilrt", {"epoch_ns": "0"})
        topic = writer.register_channel("/x", "cdr", 0, {"signals": signals})
        writer.add_message(topic, 1, bytes(12), 1)
        writer.finish()
    stream = LogStream(path)
    with pytest.raises(RecordError, match="has no signals"):
        list(stream.blocks())
    assert "damaged after" in stream.damage
    assert [topic.signals for topic in read_contents(path).topics] == [[]]


@pytest.mark.parametrize("event", [b"[" * 100_000, b"3", b"{", b"\xff"])
def test_an_event_that_is_none_is_told_with_its_time(event: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start()
        topic = writer.register_channel(EVENTS, "json", 0)
        writer.add_message(topic, 2_000_000_000, event, 1)
        writer.finish()
    with pytest.raises(RecordError, match=r"log\.mcap: the event at 2\.0+ s cannot be read"):
        cat_events(path, io.StringIO(), read_contents(path), (0, 1 << 62))
