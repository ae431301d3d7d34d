"""The feed never waits, counts what it drops, and sends what it says."""

import contextlib
import json
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import zmq

from hilrt.monitor.status import StatusPublisher
from hilrt.record import recorder_feed
from hilrt.record.feed import Feed
from hilrt.record.messages import (
    BATCH,
    ROWS,
    Begin,
    RecordEnd,
    RecordEvent,
    Signal,
    Topic,
    decode,
)
from hilrt.record.recorder_feed import (
    BATCH_BYTES,
    BATCH_ROWS,
    RecorderFeed,
    UnwrittenEvents,
    close_feed_socket,
    open_feed_socket,
)
from hilrt.session.event_log import EventLog

TOPICS = [Topic("outputs", [Signal("a.x", "m"), Signal("a.v", "m/s")]), Topic("empty", [])]


FREE = "tcp://127.0.0.1:*"


def make_feed(address=FREE, **options):
    opened = open_feed_socket(address)
    feed = RecorderFeed(TOPICS, opened, **options)
    feed.address = opened.getsockopt_string(zmq.LAST_ENDPOINT)
    return feed


@pytest.fixture
def feed():
    feed = make_feed()
    yield feed
    feed.close()


@pytest.fixture
def puller():
    context = zmq.Context()
    socket = context.socket(zmq.PULL)
    yield socket
    context.destroy(linger=0)


def receive(socket):
    assert socket.poll(5000), "nothing arrived"
    return socket.recv_multipart()


def wait_ready(feed):
    deadline = time.monotonic() + 5.0
    while not feed.ready:
        assert time.monotonic() < deadline, "no recorder"
        time.sleep(0.001)


def test_rows_arrive_in_batches_after_the_head(feed, puller, tmp_path):
    puller.connect(feed.address)
    wait_ready(feed)
    assert feed.ready
    feed.begin(tmp_path, "demo", 123, metadata={"key": "value"})
    for k in range(70):
        feed.row[:] = k, -k
        feed.commit(k)
    feed.event(5, "warning", "cause", "source", "text")
    assert feed.end(b"{}")
    head = decode(receive(puller)[0])
    assert head == Begin(str(tmp_path), "demo", 123, TOPICS[:1], [], {"key": "value"})
    kind, index, times, rows = receive(puller)
    assert (kind, BATCH.unpack(index)[0]) == (ROWS, 0)
    np.testing.assert_array_equal(np.frombuffer(times, "<i8"), np.arange(64))
    np.testing.assert_array_equal(np.frombuffer(rows).reshape(-1, 2)[:, 1], -np.arange(64.0))
    assert decode(receive(puller)[0]) == RecordEvent(5, "warning", "cause", "source", "text")
    assert BATCH.unpack(receive(puller)[1])[0] == 64
    assert decode(receive(puller)[0]) == RecordEnd(b"{}", 70, 1)
    assert feed.dropped == 0


def test_as_fast_as_possible_a_batch_is_as_long_as_fits_into_its_bytes(
    puller, tmp_path, monkeypatch
):
    monkeypatch.setattr("hilrt.record.recorder_feed.BATCH_NS", 1 << 60)
    rows = BATCH_BYTES // 16
    with contextlib.closing(make_feed(holds_back=True)) as feed:
        puller.connect(feed.address)
        wait_ready(feed)
        feed.begin(tmp_path, "demo", 0)
        receive(puller)
        for t_ns in range(rows + 1):
            feed.row[:] = t_ns
            feed.commit(t_ns)
        _, index, times, sent = receive(puller)
        assert BATCH.unpack(index)[0] == 0
        np.testing.assert_array_equal(np.frombuffer(times, "<i8"), np.arange(rows))
        assert np.frombuffer(sent).reshape(-1, 2)[:, 0].tolist() == list(range(rows))


def test_batch_leaves_after_its_time(feed, puller, tmp_path):
    puller.connect(feed.address)
    wait_ready(feed)
    feed.begin(tmp_path, "demo", 0)
    receive(puller)
    feed.commit(0)
    feed.commit(20_000_000)
    assert not puller.poll(20)
    feed.commit(50_000_000)
    assert len(receive(puller)[2]) == 3 * 8


def test_without_recorder_everything_is_dropped_and_counted(feed, tmp_path):
    assert not feed.ready
    feed.begin(tmp_path, "demo", 0)
    for k in range(640):
        feed.commit(k)
    assert feed.rows == feed.dropped == 640
    assert not feed.end(timeout_s=0.05)


def test_who_runs_the_session_hears_of_the_first_loss(feed, tmp_path):
    published = []
    publisher = StatusPublisher(SimpleNamespace(publish=published.append), "demo", 1.0)
    events = EventLog(publisher)
    events.open(feed, lambda: 5)
    feed.begin(tmp_path, "demo", 0)
    for k in range(640):
        feed.commit(k)
    (told,) = published[-1].events
    assert "recorder: does not keep up" in told.text
    assert published[-1].message in told.text
    assert feed.events == 1  # in the log, as soon as the recorder takes anything again


def commit_all(feed, ticks):
    for k in ticks:
        feed.commit(k * 1_000_000)
    feed.flush()


def test_rows_lost_for_too_long_in_one_piece_are_told(feed, puller, tmp_path):
    told = []
    feed.max_gap_ns, feed.on_gap = 1e9, told.append
    feed.begin(tmp_path, "demo", 0)
    commit_all(feed, range(900))
    puller.connect(feed.address)
    wait_ready(feed)
    commit_all(feed, range(900, 1000))  # taken: a later loss is another one
    puller.close()
    while feed.ready:
        time.sleep(0.001)
    commit_all(feed, range(1000, 1900))
    assert told == []
    commit_all(feed, range(1900, 2100))
    lost = "the recording is lost: no step from 1.000 s to 2.0"
    assert [text[: len(lost)] for text in told[:1]] == [lost]


def test_slow_recorder_costs_rows_not_time(puller, tmp_path):
    """The queue is bounded: what does not fit is dropped, and the index shows where."""
    feed = make_feed(queue_bytes=1)
    puller.rcvhwm = 1
    puller.setsockopt(zmq.RCVBUF, 1024)
    puller.connect(feed.address)
    wait_ready(feed)
    feed.begin(tmp_path, "demo", 0)
    k = 0
    while feed.dropped == 0:
        feed.commit(k)
        k += 1
        assert k < 5_000_000, "a queue without bound"
    receive(puller)
    indices = []
    while puller.poll(200):
        _, index, times, _ = receive(puller)
        indices.append((BATCH.unpack(index)[0], len(times) // 8))
    before = indices[-1][0] + indices[-1][1]
    assert before == k - feed.dropped
    for _ in range(64):
        feed.commit(k)
        k += 1
    assert BATCH.unpack(receive(puller)[1])[0] == before + feed.dropped
    feed.close()


def test_recorder_that_comes_late_gets_the_head_first(feed, puller, tmp_path):
    feed.begin(tmp_path, "demo", 0)
    for k in range(64):
        feed.commit(k)
    puller.connect(feed.address)
    wait_ready(feed)
    for k in range(64):
        feed.commit(64 + k)
    assert isinstance(decode(receive(puller)[0]), Begin)
    assert BATCH.unpack(receive(puller)[1])[0] == 64
    assert feed.dropped == 64


def test_events_are_bounded(feed, monkeypatch):
    monkeypatch.setattr(recorder_feed, "MAX_WAITING", 10)
    for k in range(25):
        feed.event(k, "info", "c", "s", "t")
    assert feed.events == 25
    assert feed.events_dropped == 15


@pytest.fixture
def never_waits(monkeypatch):
    """The system call in which a feed that blocks would stand."""

    def waits(*_: object) -> int:
        raise AssertionError("the feed waits for another process")

    monkeypatch.setattr(zmq.Socket, "poll", waits)


def never_read(puller, folder, *, holds_back):
    """A feed whose other end is there, and reads nothing; connected as in a session."""
    address = f"ipc://{folder}/feed" if sys.platform == "linux" else FREE
    feed = make_feed(address, queue_bytes=1, holds_back=holds_back)
    puller.rcvhwm = 1
    puller.setsockopt(zmq.RCVBUF, 1024)  # of TCP
    puller.connect(feed.address)
    wait_ready(feed)
    return feed


@pytest.mark.parametrize("holds_back", [False, True])
def test_nothing_that_the_master_calls_waits_for_a_recorder_that_never_reads(
    puller, tmp_path, request, holds_back
):
    with contextlib.closing(never_read(puller, tmp_path, holds_back=holds_back)) as feed:
        request.getfixturevalue("never_waits")
        feed.begin(tmp_path, "demo", 0)
        for _ in range(2000):  # 2 MB: more than sockets and the system take, however fast they are
            if feed.dropped:
                break
            feed.aside("snapshots", feed.rows, feed.rows, b"s" * 1000)
            for _ in range(BATCH_ROWS):
                feed.commit(feed.rows * BATCH_ROWS)
            feed.event(feed.rows, "info", "cause", "source", "text")
            feed.stretched(0, 1)
        rows = feed.rows
        feed.flush()
        assert bool(feed.dropped) is not holds_back
        feed.give_up()
        assert feed.dropped
        assert feed.rows == rows
        assert not feed.behind


def test_what_is_held_back_arrives_in_order_and_whole(puller, tmp_path):
    with contextlib.closing(never_read(puller, tmp_path, holds_back=True)) as feed:
        feed.begin(tmp_path, "demo", 0)
        while not feed.behind:
            feed.row[:] = feed.rows
            feed.commit(feed.rows)
        rows = []
        deadline = time.monotonic() + 30.0
        while len(rows) < feed.rows:  # a batch was just held back, so that none has begun
            arrived = f"{len(rows)} of {feed.rows} rows arrived, behind: {feed.behind}"
            assert time.monotonic() < deadline, arrived
            feed.hand_over()
            # A queue whose every message was read has room only when its other end has told so.
            if not puller.poll(1):
                continue
            frames = puller.recv_multipart()
            if frames[0] == ROWS:
                rows += np.frombuffer(frames[3]).reshape(-1, 2)[:, 0].tolist()
        assert rows == list(range(len(rows)))
        assert (feed.dropped, feed.behind) == (0, False)


def test_the_end_does_not_wait_for_a_recorder_that_has_ended(feed, tmp_path):
    feed.begin(tmp_path, "demo", 0)
    feed.commit(0)
    feed.event(0, "info", "c", "s", "t")
    feed.recorder_runs = lambda: False
    told = []
    feed.on_first_loss, feed.max_gap_ns, feed.on_gap = lambda: told.append("loss"), -1, told.append
    assert not feed.end(b"{}", timeout_s=3600.0)
    assert told == []  # from a thread that is none of the session's
    assert (feed.dropped, feed.events_dropped) == (1, 1)


def test_signal_recorded_twice_is_refused():
    opened = open_feed_socket(FREE)
    with pytest.raises(ValueError, match=r"a\.x"):
        RecorderFeed([TOPICS[0], Topic("again", [Signal("a.x")])], opened)
    close_feed_socket(opened)


def test_a_feed_that_keeps_nothing_has_the_same_row():
    feed = Feed(TOPICS)
    feed.row[:] = 1.0
    feed.commit(0)
    assert (feed.row.shape, feed.rows, feed.dropped, feed.losses()) == ((2,), 1, 0, [])
    feed.close()


def test_a_recorder_that_was_there_first_has_the_whole_queue(puller):
    opened = open_feed_socket(FREE)
    puller.rcvhwm = 1
    puller.connect(opened.getsockopt_string(zmq.LAST_ENDPOINT))
    with contextlib.closing(RecorderFeed(TOPICS, opened)) as feed:
        assert opened.poll(5000, zmq.POLLOUT)
        assert feed.ready
        for tick in range(100 * BATCH_ROWS):
            feed.commit(tick)
        assert feed.dropped == 0


S = 1_000_000_000


def event(t, text="t"):
    return RecordEvent(t * S, "error", "process_ended", "engine", text)


@pytest.fixture
def events(monkeypatch):
    monkeypatch.setattr(recorder_feed, "KEPT", 4)
    return UnwrittenEvents()


def times(events, *, failed=True):
    return [entry["t"] for entry in events.lost(failed=failed)]


def test_what_is_written_is_lost_no_longer(events):
    for t in range(3):
        events.send(event(t))
    events.written(2)
    assert (times(events), len(events)) == ([2.0], 1)
    events.written(1)  # older news
    assert (times(events), len(events)) == ([2.0], 1)
    events.written(9)  # more than were sent
    assert (times(events), len(events)) == ([], 0)


def test_the_newest_are_kept_and_all_are_counted(events):
    for t in range(10):
        events.send(event(t))
    assert (times(events), len(events)) == ([6.0, 7.0, 8.0, 9.0], 10)
    events.written(5)  # of which none is kept any longer
    assert (times(events), len(events)) == ([6.0, 7.0, 8.0, 9.0], 5)
    events.written(8)
    assert times(events) == [8.0, 9.0]


def test_what_was_never_sent_is_lost_whatever_the_recorder_did(events):
    for t in range(3):
        events.send(event(t))
    events.refuse(event(1, "x" * 10_000))
    assert times(events, failed=False) == [1.0]
    assert times(events) == [0.0, 1.0, 1.0, 2.0]
    (entry,) = events.lost(failed=False)
    assert len(json.dumps(entry)) < 1000  # room in the summary is bounded
    assert (entry["level"], entry["cause"], entry["source"]) == (
        "error",
        "process_ended",
        "engine",
    )
