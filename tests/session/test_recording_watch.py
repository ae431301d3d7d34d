"""The recording is watched: a recorder that stands still and a disk that fills up are told of."""

import asyncio
from types import SimpleNamespace

import pytest

from hilrt.monitor.status import StatusPublisher
from hilrt.record import recorder
from hilrt.record.feed import LogProgress
from hilrt.record.messages import RecordEvent
from hilrt.record.recorder_feed import UnwrittenEvents
from hilrt.session import recording_watch
from hilrt.session.event_log import EventLog
from hilrt.session.recording_watch import LogsWatch, RecordingWatch

S = 1_000_000_000
GB = 1_000_000_000


class Told:
    """A recorder's progress, told by hand."""

    def __init__(self):
        self.newest = LogProgress(0, 0, 0, 10 * GB)
        self.fresh = False

    def send(self, *progress):
        self.newest, self.fresh = LogProgress(*progress), True

    def poll(self):
        fresh, self.fresh = self.fresh, False
        return fresh


@pytest.fixture
def watch(monkeypatch, tmp_path):
    monkeypatch.setattr(recording_watch, "monotonic_ns", lambda: 0)
    events = EventLog(StatusPublisher(None, "s", 1.0))
    feed = SimpleNamespace(rows=0, recorder_runs=lambda: True, unwritten=UnwrittenEvents())
    progress = Told()
    logs = LogsWatch(tmp_path, events)
    watch = RecordingWatch(
        progress, feed, events, logs, 3600.0, lambda reason: watch.ends.append(reason)
    )
    watch.ends, watch.feed, watch.told = [], feed, progress.send
    texts = []
    events.open(SimpleNamespace(event=lambda *note: texts.append(note[-1])), lambda: 0)
    watch.texts = lambda: texts
    return watch


def test_a_recorder_that_stands_still_is_told_of_once(watch):
    watch.feed.rows = 1000
    watch.told(900, 0, 10_000, 10 * GB)
    watch.check(1.0, S)
    watch.check(3.9, 3 * S + 9 * S // 10)
    assert watch.texts() == []
    watch.feed.rows = 4000
    for second in (5, 6):
        watch.check(float(second), second * S)
    (text,) = watch.texts()
    assert text.startswith("has written nothing for 4 s, and 3100 steps wait for it")
    assert watch.ends == []  # it may still write them


def test_a_recorder_with_nothing_to_write_does_not_stand_still(watch):
    watch.feed.rows = 900
    watch.told(900, 0, 10_000, 10 * GB)
    watch.check(1.0, S)
    watch.check(60.0, 60 * S)
    assert watch.texts() == []


def test_events_that_the_recorder_tells_of_as_written_are_not_kept(watch):
    for k in range(3):
        watch.feed.unwritten.send(RecordEvent(k * S, "info", "c", "s", "t"))
    watch.told(0, 0, 10_000, 10 * GB, 2)
    watch.check(1.0, S)
    assert [event["t"] for event in watch.feed.unwritten.lost(failed=True)] == [2.0]


def test_a_disk_that_is_full_ends_the_session_while_its_log_can_be_closed(watch):
    watch.told(900, 0, 10_000, 15 << 20)
    watch.check(1.0, S)
    assert watch.ends == ["the disk of the recording is full: 16 MB are free"]
    assert watch.texts() == ["the disk is full: 16 MB are free"]


@pytest.mark.parametrize(("free", "told"), [(GB, 1), (100 * GB, 0)])
def test_a_disk_that_will_be_full_before_the_end_is_told_of(watch, free, told):
    watch.told(100_000, 0, GB // 10, free)  # 100 MB in 100 s: 3.5 GB to go
    watch.check(100.0, 100 * S)
    assert [text[:31] for text in watch.texts()] == ["the disk will be full in 16 min"] * told
    assert watch.ends == []


def test_a_process_whose_log_is_cut_is_named_once(watch):
    for second in (1, 2):
        watch.told(0, 0, 10_000, 10 * GB, 0, ["plant"])
        watch.check(float(second), second * S)
    (text,) = watch.texts()
    assert text.startswith("logs/plant.log grew above 16 MB")


def test_logs_are_bounded_where_no_recorder_does_it(watch, tmp_path, monkeypatch):
    for name, value in {"LARGEST": 1000, "FIRST": 100, "LAST": 50, "PERIOD_S": 0.0}.items():
        monkeypatch.setattr(recorder, name, value)
    chatty = tmp_path / "plant.log"
    chatty.write_bytes(b"x" * 5000)
    watch.told(1, 0, 10_000, 10 * GB)
    watch.check(1.0, S)
    assert chatty.stat().st_size == 5000  # the recorder's task
    watch.feed.recorder_runs = lambda: False
    watch.check(2.0, 2 * S)
    watch.check(3.0, 3 * S)
    assert chatty.stat().st_size < 1000
    (text,) = watch.texts()
    assert text.startswith("logs/plant.log grew above 16 MB")


def test_a_session_without_a_recording_bounds_its_logs(tmp_path, monkeypatch):
    for name, value in {"LARGEST": 1000, "FIRST": 100, "LAST": 50}.items():
        monkeypatch.setattr(recorder, name, value)
    monkeypatch.setattr(recording_watch, "PERIOD_S", 0.0)
    told, chatty = [], tmp_path / "plant.log"
    chatty.write_bytes(b"x" * 5000)

    async def until_told():
        cut, events = asyncio.Event(), EventLog(StatusPublisher(None, "s", 1.0))

        def note(*event):
            told.append(event[-1])
            cut.set()

        events.open(SimpleNamespace(event=note), lambda: 0)
        task = asyncio.ensure_future(LogsWatch(tmp_path, events).run())
        await asyncio.wait_for(cut.wait(), 60.0)
        task.cancel()

    asyncio.run(until_told())
    assert chatty.stat().st_size < 1000
    assert told[0].startswith("logs/plant.log grew above")
