"""From the recorder's frames to the stream: what is sent, when, and to whom it costs something."""

import msgspec
import numpy as np
import pytest

from hilrt.monitor import stream
from hilrt.monitor.broadcast import Broadcast
from hilrt.monitor.stream import (
    BondEdge,
    Full,
    Happening,
    Head,
    SessionGraph,
    Signals,
    SubsystemNode,
)
from hilrt.record.messages import BATCH, ROWS, Begin, RecordEvent, Signal, Topic, encode

TOPOLOGY = SessionGraph([SubsystemNode("a", "inprocess")], [], [BondEdge("b", ["a.x"], "a.v")])


@pytest.fixture
def broadcast():
    made = Broadcast(Head(session="s", rate=10.0))
    topics = [Topic("outputs", [Signal("a.x", "m"), Signal("a.v", "m/s")])]
    metadata = {"duration_s": "30.0", "topology": msgspec.json.encode(TOPOLOGY).decode()}
    made.process([encode(Begin("out", "s", 10**18, topics, [], metadata))])
    made.outbox.clear()
    return made


def rows(first, n, value=1.0):
    times = ((first + np.arange(n)) * 10**6).astype("<i8")
    block = np.full((n, 2), value)
    block[:, 1] = np.arange(first, first + n)
    return [ROWS, BATCH.pack(first), times.tobytes(), block.tobytes()]


def sent(broadcast, topic):
    found = [stream.decode(t, frame) for t, frame in broadcast.outbox if t == topic]
    broadcast.outbox.clear()
    return found


def test_head_tells_everything_a_view_needs(broadcast):
    broadcast.subscribe(b"\x01head")
    (head,) = sent(broadcast, stream.HEAD)
    assert [signal.name for signal in head.signals] == ["a.x", "a.v"]
    assert (head.duration, head.epoch_ns, head.topology) == (30.0, 10**18, TOPOLOGY)


def test_signals_come_at_the_rate_with_extremes(broadcast):
    broadcast.tick(0.0)
    broadcast.process(rows(0, 50))
    broadcast.process(rows(50, 1, value=9.0))
    broadcast.process(rows(51, 9))
    broadcast.tick(1.0)
    broadcast.process(rows(60, 40))
    broadcast.tick(1.05)
    first = sent(broadcast, stream.SIGNALS)
    broadcast.tick(1.11)
    second = sent(broadcast, stream.SIGNALS)
    assert [message.rows for message in first] == [60]
    assert stream.array(first[0].maximum).tolist() == [9.0, 59.0]
    assert stream.array(first[0].minimum).tolist() == [1.0, 0.0]
    assert stream.array(first[0].last).tolist() == [1.0, 59.0]
    assert (second[0].rows, second[0].number) == (40, 2)
    assert second[0].t_until == pytest.approx(0.099)


def test_rows_that_never_came_are_counted(broadcast):
    broadcast.process(rows(0, 10))
    broadcast.process(rows(25, 5))
    broadcast.tick(1.0)
    (message,) = sent(broadcast, stream.SIGNALS)
    assert isinstance(message, Signals)
    assert (message.lost, message.rows) == (15, 15)


def test_full_rate_only_while_somebody_asks(broadcast):
    broadcast.process(rows(0, 5))
    assert broadcast.outbox == []
    broadcast.subscribe(b"\x01full/a.v")
    broadcast.subscribe(b"\x01full/nonsense")
    broadcast.process(rows(5, 5))
    (message,) = sent(broadcast, b"full/a.v")
    assert isinstance(message, Full)
    assert stream.array(message.value).tolist() == [5.0, 6.0, 7.0, 8.0, 9.0]
    assert stream.array(message.t) == pytest.approx(np.arange(5, 10) * 1e-3)
    broadcast.subscribe(b"\x00full/a.v")
    broadcast.process(rows(10, 5))
    assert broadcast.outbox == []


def test_maps_for_plotting_programs(broadcast):
    """Flat names, and a field ``timestamp`` in s since 1970."""
    broadcast.subscribe(b"\x01minmax")
    broadcast.subscribe(b"\x01each/a.v")
    broadcast.process(rows(0, 2))
    broadcast.tick(1.0)
    frames = [(t, msgspec.msgpack.decode(f)) for t, f in broadcast.outbox if t != stream.SIGNALS]
    each = [table for topic, table in frames if topic == b"each/a.v"]
    assert [table["a.v"] for table in each] == [0.0, 1.0]
    assert each[0]["timestamp"] == pytest.approx(1e9)
    (table,) = [table for topic, table in frames if topic == b"minmax"]
    assert table["a.v"] == {"last": 1.0, "min": 0.0, "max": 1.0}
    assert table["timestamp"] == pytest.approx(1e9 + 1e-3)


def flat(prefix, value):
    """Numbers of a document by path, as PlotJuggler names its series."""
    if not isinstance(value, dict):
        return {prefix: value}
    return {k: v for key, inner in value.items() for k, v in flat(f"{prefix}/{key}", inner).items()}


def test_plotjuggler_reads_the_maps(broadcast):
    """Its ZeroMQ source takes the first of two frames for the topic, which is part of the name."""
    broadcast.subscribe(b"\x01minmax")
    broadcast.subscribe(b"\x01each/a.v")
    broadcast.process(rows(0, 2))
    broadcast.tick(1.0)
    series = {}
    for topic, frame in broadcast.outbox:
        if topic.startswith((b"minmax", b"each/")):  # what it has subscribed to
            for name, number in flat(topic.decode(), msgspec.msgpack.decode(frame)).items():
                series.setdefault(name, []).append(number)
    assert series["each/a.v/a.v"] == [0.0, 1.0]
    assert (series["minmax/a.v/min"], series["minmax/a.v/max"]) == ([0.0], [1.0])
    assert all(isinstance(number, float) for numbers in series.values() for number in numbers)


def test_a_reader_that_takes_every_frame_for_a_message_sees_only_the_maps(broadcast):
    """Older versions of PlotJuggler parse each frame by itself, strictly to its end, and pass over
    those that are no document."""
    broadcast.subscribe(b"\x01minmax")
    broadcast.subscribe(b"\x01each/a.v")
    broadcast.process(rows(0, 2))
    broadcast.tick(1.0)
    read, passed_over = [], 0
    for topic, frame in broadcast.outbox:
        if topic.startswith((b"minmax", b"each/")):
            for part in (topic, frame):
                try:
                    read.append(msgspec.msgpack.decode(part))
                except msgspec.DecodeError:
                    passed_over += 1
    assert passed_over == len(read) == 3
    assert all(isinstance(document["timestamp"], float) for document in read)


def test_late_subscriber_gets_the_events_and_acknowledgements(broadcast):
    broadcast.process(
        [encode(RecordEvent(10**9, "warning", "sample_late", "a", "sample_late raised: a"))]
    )
    broadcast.outbox.clear()
    broadcast.acknowledge(1, "Ada")
    assert [e.acknowledged for e in sent(broadcast, stream.EVENT)] == ["Ada"]
    broadcast.subscribe(b"\x01event")
    (event,) = sent(broadcast, stream.EVENT)
    assert isinstance(event, Happening)
    assert (event.t, event.acknowledged, event.number) == (1.0, "Ada", 1)


def test_a_flag_is_acknowledged_with_its_changes_before_and_everything_on_request(broadcast):
    for i, (place, change) in enumerate(
        [("a", "raised"), ("b", "raised"), ("a", "cleared"), ("a", "raised"), ("b", "cleared")]
    ):
        event = RecordEvent(i, "warning", "sample_late", place, f"sample_late {change}: {place}")
        broadcast.process([encode(event)])
    broadcast.outbox.clear()
    broadcast.acknowledge(3, "Ada")
    assert [e.number for e in sent(broadcast, stream.EVENT)] == [1, 3]
    broadcast.acknowledge(4, "Eve", everything=True)
    told = sent(broadcast, stream.EVENT)
    assert [(e.number, e.acknowledged) for e in told] == [(2, "Eve"), (4, "Eve")]


@pytest.mark.parametrize("frames", [[], [b"junk"], [ROWS], [ROWS, b"", b"", b""]])
def test_nonsense_is_ignored(broadcast, frames):
    broadcast.process(frames)
    assert broadcast.outbox == []


def test_an_alarm_is_acknowledged_whatever_came_after(broadcast):
    for text, cause in (
        ("alarm raised: hot", "alarm"),
        ("bang", "x"),
        ("alarm cleared: hot", "alarm"),
    ):
        broadcast.process([encode(RecordEvent(0, "warning", cause, "hot", text))])
    assert [broadcast.alarm_of(number) for number in range(5)] == ["", "hot", "", "hot", ""]
    assert (broadcast.newest_of_alarm("hot"), broadcast.newest_of_alarm("cold")) == (3, 0)
    broadcast.outbox.clear()
    broadcast.acknowledge(broadcast.newest_of_alarm("hot"), "Ada")
    told = [(event.number, event.acknowledged) for event in sent(broadcast, stream.EVENT)]
    assert told == [(1, "Ada"), (3, "Ada")]


def test_events_of_one_kind_are_acknowledged_together(broadcast):
    for number, text in enumerate(("late by 3 ms", "a mark", "late by 5 ms")):
        level = "warning" if "late" in text else "info"
        broadcast.process([encode(RecordEvent(number, level, "x", "a", text))])
    broadcast.outbox.clear()
    broadcast.acknowledge(3, "Ada")
    assert [event.number for event in sent(broadcast, stream.EVENT)] == [1, 3]
