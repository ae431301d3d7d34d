"""A viewer keeps the newest, counts what it missed, and lets a newer event win over a status."""

import pytest

from hilrt.monitor import stream
from hilrt.monitor.stream import Full, Happening, Head, Signals, binary, encode
from hilrt.monitor.telemetry import RaisedFlag, Status
from hilrt.monitor.telemetry import encode as encode_status
from hilrt.monitor.viewer import SILENCE_S, Viewer

FLAG = RaisedFlag("sample_late", "engine")


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def viewer(clock):
    made = Viewer("tcp://127.0.0.1:9", clock=clock)
    yield made
    made.close()


def status(t, flags=(), **values):
    frame = Status(session="s", state="RUNNING", t=t, values={"a": 1.0}, flags=list(flags))
    return [stream.STATUS, encode_status(frame)]


def event(number, t, text):
    message = Happening(
        number=number, t=t, level="info", cause="sample_late", source="engine", text=text
    )
    return [stream.EVENT, encode(message)]


def test_event_is_ahead_of_the_status(viewer):
    viewer.receive(status(1.0))
    viewer.receive(event(1, 1.1, "sample_late raised: engine"))
    assert viewer.flags == [FLAG]
    viewer.receive(status(1.05))  # was under way already
    assert viewer.flags == [FLAG]
    viewer.receive(status(1.3, [FLAG]))
    viewer.receive(event(2, 1.4, "sample_late cleared: engine"))
    assert viewer.flags == []


def test_old_events_raise_nothing(viewer):
    viewer.receive(status(9.0))
    viewer.receive(event(1, 1.1, "sample_late raised: engine"))
    assert viewer.flags == []
    assert list(viewer.events) == [1]


def test_gaps_are_counted_by_topic(viewer):
    data = binary(stream.array(b""))
    for number in (5, 6, 9):
        message = Signals(
            number=number,
            t_from=0,
            t_until=0,
            rows=1,
            lost=0,
            minimum=data,
            maximum=data,
            last=data,
        )
        viewer.receive([stream.SIGNALS, encode(message)])
    assert viewer.missed == 2


def test_events_that_were_dropped_are_counted_and_those_told_again_are_not(viewer):
    for number in (501, 502, 505, 501, 502, 506):
        viewer.receive(event(number, 1.0, "hello"))
    assert viewer.missed == 2


def test_full_rate_of_others_is_left_alone(viewer):
    taken = []
    viewer.on_full = taken.append
    viewer.want_full("a.x")
    for name in ("a.x", "a.xy"):
        frame = encode(Full(number=1, name=name, t=b"", value=b""))
        viewer.receive([stream.FULL + name.encode(), frame])
    assert [message.name for message in taken] == ["a.x"]
    viewer.drop_full("a.x")


def test_silence(viewer, clock):
    viewer.heard_at = 0.0
    assert not viewer.silent
    clock.now = SILENCE_S + 0.1
    assert viewer.silent


def test_only_what_the_session_itself_says_counts_as_life(viewer, clock):
    clock.now = SILENCE_S + 0.1
    viewer.receive([stream.HEAD, encode(Head(session="s"))])  # the relay repeats it
    viewer.receive(event(1, 0.0, "hello"))
    assert viewer.silent
    viewer.receive(status(1.0))
    assert not viewer.silent


@pytest.mark.parametrize("first_word", ["head", "status"])
def test_another_session_begins_with_an_empty_picture(viewer, first_word):
    old = Status(session="old", run="1", state="RUNNING", t=623.7, values={"a": 1.0}, flags=[FLAG])
    new = Status(session="new", run="2", state="INITIALIZED")
    viewer.receive([stream.HEAD, encode(Head(session="old", run="1", commands=9))])
    viewer.receive([stream.STATUS, encode_status(old)])
    viewer.receive(event(7, 600.0, "hello"))
    assert (viewer.run, viewer.client().run) == ("1", "1")
    if first_word == "head":
        viewer.receive([stream.HEAD, encode(Head(session="new", run="2"))])
        assert viewer.status is None
    else:
        viewer.receive([stream.STATUS, encode_status(new)])
        assert viewer.status == new
    assert (viewer.run, viewer.client().run) == ("2", "2")
    assert (viewer.flags, list(viewer.events)) == ([], [])


def test_commands_follow_the_port_of_the_session(viewer):
    clients = []
    for run, port in (("1", 9), ("1", 9), ("2", 10)):
        viewer.receive([stream.HEAD, encode(Head(session="s", run=run, commands=port))])
        clients.append(viewer.client())
    assert clients[0] is clients[1] is not clients[2]
    assert clients[2].run == "2"


@pytest.mark.parametrize(
    ("telemetry", "commands"), [("ipc:///nowhere/telemetry", ""), ("tcp://127.0.0.1:9", None)]
)
def test_the_port_of_a_session_needs_a_machine_and_a_viewer_that_commands(telemetry, commands):
    watching = Viewer(telemetry, commands)
    try:
        watching.receive([stream.HEAD, encode(Head(session="s", run="1", commands=5571))])
        assert watching.client() is None
    finally:
        watching.close()


@pytest.mark.parametrize("frames", [[], [b"status"], [b"signals", b"\xc1"], [b"other", b"x"]])
def test_nonsense_is_ignored(viewer, frames):
    viewer.receive(frames)
    assert viewer.status is None
