"""The log's writer makes the very file that the MCAP library's own writer makes, byte for byte."""

import io
import tracemalloc

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer

from hilrt import __version__
from hilrt.record import cdr
from hilrt.record.mcap_writer import McapWriter, RowLayout

EPOCH_NS = 1_700_000_000_000_000_000
FIRST = 2**32 - 70  # sequence numbers have 32 bits
COLUMNS = [slice(0, 2), slice(2, 3), slice(3, 7)]
TIMES = EPOCH_NS + np.arange(150) * 1_000_000
ROWS = np.random.default_rng(5).normal(size=(150, 7))


def by_library() -> bytes:
    file = io.BytesIO()
    writer = Writer(
        file, chunk_size=1 << 40, compression=CompressionType.ZSTD, enable_data_crcs=True
    )
    writer.start(library=f"hilrt {__version__}")
    writer.add_metadata("hilrt", {"session": "Prüfstand", "rows": "150"})
    writer.add_attachment(EPOCH_NS, EPOCH_NS + 1, "a.toml", "application/toml", b"x = 1")
    schema = writer.register_schema("hilrt/msg/X", "ros2msg", b"float64 x")
    channels = [writer.register_channel(f"/{name}", "cdr", schema) for name in "abc"]
    events = writer.register_channel("/events", "json", 0, {"of": "all"})
    writer.add_message(events, EPOCH_NS - 5, b"{}", EPOCH_NS - 4, 7)
    for i, (time, row) in enumerate(zip(TIMES.tolist(), ROWS, strict=True)):
        for channel, columns in zip(channels, COLUMNS, strict=True):
            data = cdr.HEADER + row[columns].tobytes()
            writer.add_message(channel, time, data, time, (FIRST + i) & 0xFFFFFFFF)
        if i == 99:
            writer.flush()
    writer.finish()
    return file.getvalue()


def ours() -> bytes:
    file = io.BytesIO()
    writer = McapWriter(file)
    writer.start()
    writer.add_metadata("hilrt", {"session": "Prüfstand", "rows": "150"})
    writer.add_attachment(EPOCH_NS, EPOCH_NS + 1, "a.toml", "application/toml", b"x = 1")
    schema = writer.register_schema("hilrt/msg/X", "ros2msg", b"float64 x")
    channels = [writer.register_channel(f"/{name}", "cdr", schema) for name in "abc"]
    events = writer.register_channel("/events", "json", 0, {"of": "all"})
    layout = RowLayout(channels, COLUMNS)
    writer.add_message(events, EPOCH_NS - 5, b"{}", 7, EPOCH_NS - 4)
    for start, stop in ((0, 1), (1, 64), (64, 100)):
        writer.add_rows(layout, FIRST + start, TIMES[start:stop], ROWS[start:stop])
    writer.flush()
    writer.add_rows(layout, FIRST + 100, TIMES[100:], ROWS[100:])
    writer.finish()
    return file.getvalue()


def test_file_is_that_of_the_librarys_writer():
    assert ours() == by_library()


@pytest.mark.parametrize("chunk_bytes", [1, 300, 5000])
def test_full_chunks_end_between_rows(chunk_bytes):
    file = io.BytesIO()
    writer = McapWriter(file, chunk_bytes)
    writer.start()
    layout = RowLayout([writer.register_channel(f"/{n}", "cdr", 0) for n in "abc"], COLUMNS)
    writer.add_rows(layout, 0, TIMES, ROWS)
    writer.finish()
    file.seek(0)
    reader = make_reader(file, validate_crcs=True)
    chunks = reader.get_summary().chunk_indexes
    assert all(set(chunk.message_index_offsets) == {1, 2, 3} for chunk in chunks)
    rows = -(-chunk_bytes // layout.kind.itemsize)  # the first chunk has the channels, too
    assert {chunk.uncompressed_size for chunk in chunks[1:-1]} == {rows * layout.kind.itemsize}
    found = [m for _, channel, m in reader.iter_messages() if channel.topic == "/b"]
    np.testing.assert_array_equal([m.log_time for m in found], TIMES)
    values = np.frombuffer(b"".join(m.data[4:] for m in found))
    np.testing.assert_array_equal(values, ROWS[:, 2])


def test_a_written_chunk_leaves_little_in_memory(tmp_path):
    """An hour of chunks, twice a second with nine topics, takes less than 2 MB."""
    with (tmp_path / "log.mcap").open("wb") as file:
        writer = McapWriter(file)
        writer.start()
        channels = [writer.register_channel(f"/{n}", "cdr", 0) for n in range(9)]
        layout = RowLayout(channels, [slice(i, i + 1) for i in range(9)])
        tracemalloc.start()
        try:
            for k in range(500):
                writer.add_rows(layout, k, TIMES[:1], np.zeros((1, 9)))
                writer.flush()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held / 500 * 7200 < 2e6
