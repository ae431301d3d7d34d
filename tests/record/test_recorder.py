"""The log file: complete, readable elsewhere, honest about gaps, and safe on a bad disk."""

import itertools
import json
import operator
import os
import threading
import time

import numpy as np
import pytest
import zmq
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory

from hilrt.cli import recorder_process
from hilrt.isolation.temporary_folder import LocalAddresses
from hilrt.logs.log_file import LogFile, read_contents
from hilrt.record import cdr, gate, mcap_writer
from hilrt.record import recorder as recorder_module
from hilrt.record import recording as file_writer
from hilrt.record.feed import ProgressReceiver
from hilrt.record.frame_feed import FrameFeed, Pass, encode
from hilrt.record.logged_frame import FrameFlag
from hilrt.record.messages import (
    ASIDE,
    Attachment,
    Begin,
    Limit,
    RecordEnd,
    RecordEvent,
    Signal,
    Topic,
    Trigger,
)
from hilrt.record.reader import load_log
from hilrt.record.recorder import ClockWatch, Recorder
from hilrt.record.recorder_feed import RecorderFeed, open_feed_socket
from hilrt.record.recording import Recording

TOPICS = [
    Topic(
        "outputs", [Signal("engine.torque", "N*m", "EngineFast"), Signal("vehicle.speed", "m/s")]
    ),
    Topic("sent", [Signal("vehicle.engine_torque:sent", "N*m")]),
]
EPOCH_NS = 1_780_000_000_000_000_000
CLOCK_NS = 77_000_000_000
MS = 1_000_000


def begin_in(folder, topics=TOPICS):
    return Begin(
        out_dir=str(folder),
        session="demo",
        epoch_ns=EPOCH_NS,
        topics=topics,
        attachments=[Attachment("demo.toml", "text/plain", b"[session]\n")],
        metadata={"python": "3.11"},
    )


def test_second_library_reads_the_same_numbers(tmp_path):
    recording = Recording(begin_in(tmp_path))
    rows = np.random.default_rng(1).normal(size=(50, 3))
    recording.batch(0, np.arange(50) * 1_000_000, rows)
    recording.finish(RecordEnd(b'{"verdict": "good"}', 50, 0))
    read = {topic.name: [] for topic in TOPICS}
    with recording.path.open("rb") as file:
        reader = make_reader(file, validate_crcs=True, decoder_factories=[DecoderFactory()])
        topics = [f"/{name}" for name in read]
        for _, channel, message, decoded in reader.iter_decoded_messages(topics):
            topic = next(t for t in TOPICS if f"/{t.name}" == channel.topic)
            paths = cdr.field_paths(topic)
            read[topic.name].append([operator.attrgetter(path)(decoded) for path in paths])
            assert message.log_time == EPOCH_NS + 1_000_000 * message.sequence
        np.testing.assert_array_equal(np.column_stack([read["outputs"], read["sent"]]), rows)
        names = {attachment.name for attachment in reader.iter_attachments()}
        assert names == {"demo.toml", "summary.json"}
        assert reader.get_summary().statistics.channel_message_counts[1] == 50


def test_viewer_shows_subsystem_and_port():
    assert cdr.field_paths(TOPICS[0]) == ["engine.torque", "vehicle.speed"]


def test_events_fit_a_viewers_log_panel(tmp_path):
    recording = Recording(begin_in(tmp_path))
    recording.event(
        RecordEvent(1_500_000_000, "error", "peer_lost", "vehicle", "vehicle fell silent")
    )
    recording.finish(RecordEnd(b"", 0, 1))
    with recording.path.open("rb") as file:
        messages = list(make_reader(file).iter_messages(["/events"]))
    schema, channel, message = messages[-1]
    body = json.loads(message.data)
    assert (schema.name, schema.encoding, channel.message_encoding) == (
        "foxglove.Log",
        "jsonschema",
        "json",
    )
    assert body["timestamp"] == {"sec": 1_780_000_001, "nsec": 500_000_000}
    assert (body["level"], body["name"], body["message"]) == (4, "vehicle", "vehicle fell silent")


def test_missing_rows_leave_an_event_with_both_ends(tmp_path):
    recording = Recording(begin_in(tmp_path))
    recording.batch(0, np.arange(10) * 1_000_000, np.zeros((10, 3)))
    recording.batch(30, np.arange(30, 40) * 1_000_000, np.ones((10, 3)))
    recording.finish(RecordEnd(b"", 45, 0))
    log = load_log(tmp_path)
    gaps = [event for event in log.events if event.cause == "record_gap"]
    assert [(gap.t, gap.until) for gap in gaps] == [(0.009, 0.03), (0.039, 0.039)]
    assert "20 rows" in gaps[0].text
    assert "5 rows" in gaps[1].text
    assert log.metadata["rows"] == "20"
    assert log.metadata["rows_missing"] == "25"


def frame_batch(first, at_ms, count, sent=False):
    """A batch of the bus `engine`; identifiers count on, times are session time."""
    frames = [(first + i, bytes([i]), 0, False) for i in range(count)]
    return encode("engine", first, [Pass(sent, CLOCK_NS + at_ms * MS, 0, frames)])


def with_frames(folder, trigger=None):
    begin = begin_in(folder)
    begin.buses, begin.clock_ns, begin.trigger = ["engine"], CLOCK_NS, trigger
    return Recording(begin)


def test_frames_stand_beside_the_rows(tmp_path):
    recording = with_frames(tmp_path)
    recording.batch(0, np.arange(10) * MS, np.zeros((10, 3)))
    recording.raw_frames(frame_batch(0, 4, 2))
    recording.raw_frames(frame_batch(2, 6, 1, sent=True))
    recording.raw_frames(frame_batch(8, 9, 1))
    recording.finish(RecordEnd(b"", 10, 0))
    found = list(LogFile(recording.path).frames())
    assert [(f.time_ns - EPOCH_NS, f.bus, f.identifier, f.flags) for f in found] == [
        (4 * MS, "engine", 0, 0),
        (4 * MS, "engine", 1, 0),
        (6 * MS, "engine", 2, FrameFlag.SENT),
        (9 * MS, "engine", 8, 0),
    ]
    log = load_log(tmp_path)
    assert (log.metadata["frames"], log.metadata["frames_missing"]) == ("4", "5")
    (gap,) = [event for event in log.events if event.cause == "frame_gap"]
    assert (gap.level, gap.t, gap.until) == ("warning", 0.006, 0.009)
    assert "5 CAN frames of engine" in gap.text
    assert len(log.t) == 10


def test_a_bus_without_a_frame_is_in_the_log(tmp_path):
    recording = with_frames(tmp_path)
    recording.finish(RecordEnd(b"", 0, 0))
    (topic,) = [topic for topic in read_contents(recording.path).topics if topic.frames]
    assert (topic.name, topic.messages) == ("can/engine", 0)


def test_around_a_trigger_rows_and_frames_are_written_and_what_is_left_out_is_named(
    tmp_path, monkeypatch
):
    trigger = Trigger(10 * MS, 20 * MS, [Limit("engine.torque", above=1.0)])
    monkeypatch.setattr(gate, "MARGIN_NS", 0)  # the first state is out of reach at the first hit
    recording = with_frames(tmp_path, trigger)
    rows = np.zeros((300, 3))
    rows[[100, 250], 0] = 2.0
    for first in range(0, 300, 50):
        if first == 150:
            continue  # lost on the way, and not for want of a trigger
        recording.raw_frames(frame_batch(first, first, 1))
        times = np.arange(first, first + 50) * MS
        recording.batch(first, times, rows[first : first + 50])
    recording.aside(b"/snapshots", ASIDE.pack(300, 299 * MS), b"\x80")
    recording.event(RecordEvent(299 * MS, "info", "session", "session", "the end"))
    recording.finish(RecordEnd(b"", 300, 1))
    log = load_log(tmp_path)
    kept = [*range(90, 121), *range(240, 271)]
    np.testing.assert_array_equal(np.round(log.t * 1000), kept)
    frames = LogFile(recording.path).frames()
    assert [(f.time_ns - EPOCH_NS) // MS for f in frames] == [100, 250]
    pauses = [(e.t, e.until) for e in log.events if e.cause == "record_pause"]
    assert pauses == [(0.0, 0.09), (0.12, 0.24), (0.27, 0.299)]
    assert [(e.t, e.until) for e in log.events if e.cause == "record_gap"] == [(0.149, 0.2)]
    assert log.metadata["rows"] == "62"
    assert log.metadata["rows_missing"] == "50"
    assert log.metadata["rows_left_out"] == str(250 - 62)
    assert log.events[-1].text == "the end"
    contents = {topic.name: topic.messages for topic in read_contents(recording.path).topics}
    assert contents["snapshots"] == 1


def test_a_master_that_vanished_leaves_what_came_before(tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "MARGIN_NS", 0)
    recording = with_frames(tmp_path, Trigger(10 * MS, 0))
    for first in (0, 50):
        recording.batch(first, np.arange(first, first + 50) * MS, np.zeros((50, 3)))
    recording.finish(None)
    np.testing.assert_array_equal(np.round(load_log(tmp_path).t * 1000), range(89, 100))


def test_chunk_never_splits_a_row(tmp_path, monkeypatch):
    monkeypatch.setattr(mcap_writer, "CHUNK_BYTES", 500)
    recording = Recording(begin_in(tmp_path))
    recording.batch(0, np.arange(200), np.zeros((200, 3)))
    recording.finish(RecordEnd(b"", 200, 0))
    with recording.path.open("rb") as file:
        chunks = make_reader(file).get_summary().chunk_indexes
    assert len(chunks) > 20
    for chunk in chunks[1:]:  # the first one holds the channels and the first event
        lengths = set(chunk.message_index_offsets)
        assert {1, 2} <= lengths


def test_flush_brings_rows_to_the_file(tmp_path):
    """What has been flushed survives a kill: nothing of it is in the process any more."""
    recording = Recording(begin_in(tmp_path))
    recording.batch(0, np.arange(10), np.ones((10, 3)))
    recording.flush()
    log = load_log(tmp_path)
    assert log.truncated
    assert len(log["engine.torque"]) == 10
    recording.abandon()


def test_older_log_is_never_overwritten(tmp_path):
    Recording(begin_in(tmp_path)).finish(None)
    with pytest.raises(FileExistsError):
        Recording(begin_in(tmp_path))


class FullDisk:
    """A file whose disk takes so many bytes."""

    def __init__(self, path, mode, room):
        self.file, self.room = open(path, mode), room  # noqa: SIM115 - it is the file

    def write(self, data):
        fits = min(len(data), self.room)
        self.file.write(bytes(data)[:fits])
        self.room -= fits
        if fits < len(data):
            raise OSError(28, "No space left on device")
        return fits

    def __getattr__(self, name):
        return getattr(self.file, name)


@pytest.mark.parametrize("room", [4000, 6000, 20_000])
def test_full_disk_leaves_a_log_that_reads(tmp_path, monkeypatch, room):
    monkeypatch.setattr(
        file_writer, "open", lambda path, mode: FullDisk(path, mode, room), raising=False
    )
    recording = Recording(begin_in(tmp_path))
    rng = np.random.default_rng(2)
    written = 0

    def fill():
        nonlocal written
        while written < 10_000:
            times = np.arange(written, written + 10)
            recording.batch(written, times, rng.normal(size=(10, 3)))
            recording.flush()
            written += 10

    with pytest.raises(OSError, match="No space left"):
        fill()
    recording.abandon()
    log = load_log(tmp_path)
    assert len(log["vehicle.engine_torque:sent"]) == written
    assert "truncated" in log.truncated


# -- the process's loop, in this process -------------------------------------------------------


@pytest.fixture
def local():
    made = LocalAddresses()
    yield made
    made.close()


@pytest.fixture
def address(local):
    """Of the feed."""
    return local.get("feed")


@pytest.fixture
def opened(address):
    """The socket of the feed."""
    return open_feed_socket(address)


@pytest.fixture
def master(opened, address):
    feed = RecorderFeed(TOPICS, opened)
    recorder = Recorder(address)
    assert opened.poll(5000, zmq.POLLOUT)
    assert feed.ready
    yield feed, recorder
    feed.close()


def test_recorder_ends_when_told(master, tmp_path):
    feed, recorder = master
    feed.begin(tmp_path / "new", "demo", EPOCH_NS)
    for k in range(100):
        feed.row[:] = k
        feed.commit(k)
    feed.end(b'{"steps": 100}')
    assert recorder.run() == 0
    log = load_log(tmp_path / "new")
    np.testing.assert_array_equal(log["engine.torque"], np.arange(100.0))
    assert log.attachments["summary.json"] == b'{"steps": 100}'
    assert not log.truncated


def test_frames_of_a_gateway_that_ended_are_in_the_log(opened, local, address, tmp_path):
    feed = RecorderFeed(TOPICS, opened)
    handed = local.get("frames")
    recorder = Recorder(address, frames=handed)
    frames = FrameFeed(handed, "engine", lambda: CLOCK_NS + 5 * MS)
    assert opened.poll(5000, zmq.POLLOUT)
    assert feed.ready
    feed.begin(tmp_path / "run", "demo", EPOCH_NS, clock_ns=CLOCK_NS, buses=["engine"])
    feed.end()
    for i in range(100):
        frames.sent([(i, b"", 0, False)])
        if i % 10 == 9:
            frames.flush()
    frames.close()
    assert recorder._frames.poll(5000)
    assert recorder._socket.poll(5000)  # frames that overtake the beginning are of no session
    assert recorder.run() == 0
    feed.close()
    found = list(LogFile(tmp_path / "run" / "session.mcap").frames())
    assert [frame.identifier for frame in found] == list(range(100))
    assert {frame.time_ns - EPOCH_NS for frame in found} == {5 * MS}


def test_frames_follow_a_grid_that_was_stretched(master, tmp_path):
    feed, recorder = master
    feed.begin(tmp_path, "demo", EPOCH_NS, clock_ns=CLOCK_NS, buses=["engine"])
    feed.stretched(CLOCK_NS + 4 * MS, 2 * MS)
    feed.end()
    recorder._take_frames(frame_batch(0, 3, 1))  # before the session: of no interest
    for _ in range(2):
        recorder._take(recorder._socket.recv_multipart())
    for i, at in enumerate((3, 5, 9)):
        recorder._take_frames(frame_batch(i, at, 1))
    assert recorder.run() == 0
    times = [f.time_ns - EPOCH_NS for f in LogFile(tmp_path / "session.mcap").frames()]
    assert times == [3 * MS, 4 * MS, 7 * MS]


def test_recorder_closes_the_log_when_the_master_is_gone(master, opened, tmp_path, monkeypatch):
    monkeypatch.setattr(recorder_module, "GONE_S", 0.1)
    feed, recorder = master
    feed.begin(tmp_path, "demo", EPOCH_NS)
    for k in range(64):
        feed.commit(k)
    opened.linger = 1000  # what was handed over is on its way, as after a kill
    opened.close()
    assert recorder.run() == 0
    log = load_log(tmp_path)
    assert len(log.t) == 64
    assert not log.truncated
    assert log.events[-1].cause == "master_lost"


def test_sigterm_drains_first(master, tmp_path):
    feed, recorder = master
    feed.begin(tmp_path, "demo", EPOCH_NS)
    for k in range(640):
        feed.commit(k)
    recorder.stop = True
    assert recorder.run() == 0
    assert len(load_log(tmp_path).t) == 640


def test_nonsense_is_counted_and_ignored(master, opened, tmp_path, capsys):
    feed, recorder = master
    feed.begin(tmp_path, "demo", EPOCH_NS)
    opened.send(b"nonsense")
    opened.send_multipart([b"rows", b"short", b"", b""])
    opened.send_multipart([b"rows", bytes(8), bytes(8), bytes(5)])
    feed.end()
    assert recorder.run() == 0
    assert "3 invalid messages" in capsys.readouterr().err


def test_folder_that_cannot_be_made_is_named(master, tmp_path, capsys):
    feed, recorder = master
    (tmp_path / "file").write_text("in the way")
    feed.begin(tmp_path / "file" / "run", "demo", EPOCH_NS)
    assert recorder.run() == 1
    error = capsys.readouterr().err
    assert str(tmp_path / "file") in error
    assert "choose another folder" in error


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_disk_error_ends_recording_with_a_message(master, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        file_writer, "open", lambda *_: FullDisk("/dev/full", "wb", 1 << 20), raising=False
    )
    feed, recorder = master
    feed.begin(tmp_path, "demo", EPOCH_NS)
    assert recorder.run() == 1
    assert "No space left on device" in capsys.readouterr().err


class SlowDisk:
    """A file whose disk takes its time for every write."""

    def __init__(self, path, mode):
        self.file = open(path, mode)  # noqa: SIM115 - it is the file

    def write(self, data):
        time.sleep(0.01)
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_slow_disk_costs_rows_that_are_counted_and_named(opened, address, tmp_path, monkeypatch):
    monkeypatch.setattr(file_writer, "open", SlowDisk, raising=False)
    wide = [Topic("outputs", [Signal(f"a.x{i}", "") for i in range(500)])]
    feed = RecorderFeed(wide, opened, queue_bytes=1 << 20)
    recorder = Recorder(address)
    assert opened.poll(5000, zmq.POLLOUT)
    assert feed.ready
    feed.begin(tmp_path, "slow", EPOCH_NS)
    thread = threading.Thread(target=recorder.run)
    thread.start()
    rng = np.random.default_rng(3)
    k = 0
    deadline = time.monotonic() + 20.0
    while k < 64_000 and (feed.dropped == 0 or k % 6400) and time.monotonic() < deadline:
        feed.row[:] = rng.normal(size=500) if k % 64 == 0 else k
        feed.commit(k * 1_000_000)
        k += 1
    assert feed.end(b"{}", timeout_s=10.0)
    thread.join(20.0)
    feed.close()
    assert feed.dropped > 0
    assert feed.losses() == [
        f"recorder: did not keep up: {feed.dropped} of {k} steps are not in the log"
    ]
    log = load_log(tmp_path)
    assert log.metadata["rows_missing"] == str(feed.dropped)
    assert len(log.t) == k - feed.dropped
    gaps = [event for event in log.events if event.cause == "record_gap"]
    assert sum(int(gap.text.split()[0]) for gap in gaps) == feed.dropped


def test_a_clock_that_is_set_is_noted_and_moves_no_time(master, tmp_path, monkeypatch):
    feed, recorder = master
    monkeypatch.setattr(recorder_module, "CHUNK_S", 0.0)
    wall = itertools.chain([0] * 20, itertools.repeat(-3_600_000_000_000))
    recorder._clock_watch = ClockWatch(lambda: next(wall), lambda: 0)
    feed.begin(tmp_path, "demo", EPOCH_NS)
    for k in range(2000):
        feed.row[:] = k
        feed.commit(k * MS)
    feed.end(b"{}")
    assert recorder.run() == 0
    log = load_log(tmp_path)
    np.testing.assert_array_equal(log.time_ns("engine.torque"), np.arange(2000) * MS)
    assert log.metadata["epoch_ns"] == str(EPOCH_NS)
    (event,) = [event for event in log.events if event.cause == "clock_step"]
    assert event.level == "warning"
    assert "was changed by -3600.000 s" in event.text


def test_recorder_without_a_master_gives_up(capsys):
    recorder = Recorder("tcp://127.0.0.1:9", connect_s=0.0)
    assert recorder.run() == 1
    assert "no master" in capsys.readouterr().err


def test_bad_address_is_an_error_in_words(capsys):
    assert recorder_process.main(["--connect", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_the_master_is_told_how_far_the_log_has_come(opened, local, address, tmp_path, monkeypatch):
    monkeypatch.setattr("hilrt.record.recorder.CHUNK_S", 0.0)
    told = local.get("progress")
    receiver, feed = ProgressReceiver(told), RecorderFeed(TOPICS, opened)
    recorder = Recorder(address, progress=told)
    assert opened.poll(5000, zmq.POLLOUT)
    assert feed.ready
    feed.begin(tmp_path, "demo", EPOCH_NS)
    feed.event(0, "info", "c", "s", "t")
    for k in range(128):
        feed.commit(k)
    feed.event(1, "info", "c", "s", "t")
    feed.end()
    assert recorder.run() == 0
    feed.close()
    while receiver.newest.events < 2:
        assert receiver._socket.poll(5000)
        assert receiver.poll()
    newest = receiver.newest
    receiver.close()
    assert (newest.rows, newest.missing, newest.events) == (128, 0, 2)
    assert 0 < newest.size <= (tmp_path / "session.mcap").stat().st_size
    assert newest.free > 0
