"""What is left of events that no recorder has written: the newest, bounded."""

import json

import pytest

from hilrt.record import unwritten_events
from hilrt.record.messages import RecordEvent
from hilrt.record.unwritten_events import UnwrittenEvents

S = 1_000_000_000


def event(t, text="t"):
    return RecordEvent(t * S, "error", "process_ended", "engine", text)


@pytest.fixture
def events(monkeypatch):
    monkeypatch.setattr(unwritten_events, "KEPT", 4)
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
