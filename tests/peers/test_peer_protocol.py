"""A peer's side of the protocol with hand-made times."""

import logging
from itertools import pairwise

import pytest

from hilrt.peers import wire
from hilrt.peers.peer_protocol import POLLS_PER_HEARTBEAT, PeerProtocol

SECOND = 1_000_000_000


class Process:
    """A `PeerProtocol`, its clock, and what the master would see."""

    def __init__(self, role="solver"):
        hello = wire.Hello(version=1, role=role, name="model", inputs=[], outputs=[])
        self.now = 100 * SECOND
        self.protocol = PeerProtocol(hello, self.now)

    def welcomed(self):
        self.protocol.connect(self.now)
        self.hears(wire.Welcome(session="demo", heartbeat_s=0.5))
        self.sent()
        return self

    def hears(self, message):
        return self.protocol.receive(wire.encode(message), self.now)

    def sent(self):
        messages = [wire.decode_from_peer(data) for data in self.protocol.data_to_send()]
        if messages:
            self.protocol.sent(self.now)
        return messages

    def passes(self, seconds):
        """Time passes in pieces, with a look at each; what was sent meanwhile."""
        sent = []
        for _ in range(round(seconds / 0.1)):
            self.now += SECOND // 10
            self.protocol.keep_alive(self.now)
            sent += self.sent()
        return sent


@pytest.fixture
def process():
    return Process().welcomed()


def test_it_says_hello_and_takes_the_welcome():
    process = Process()
    process.protocol.connect(process.now)
    assert process.sent() == [process.protocol.hello]
    welcome = wire.Welcome(session="demo", heartbeat_s=0.5)
    assert process.hears(welcome) == welcome
    assert process.protocol.welcome == welcome
    assert process.protocol.heartbeat_s == 0.5


@pytest.mark.parametrize("heartbeat_s", [float("nan"), float("inf"), 0.0, -1.0])
def test_a_welcome_without_a_usable_interval_is_counted_and_not_taken(heartbeat_s):
    process = Process()
    assert process.hears(wire.Welcome(session="demo", heartbeat_s=heartbeat_s)) is None
    assert process.protocol.welcome is None
    assert process.protocol.counters == {"malformed": 1}
    assert process.protocol.heartbeat_s > 0.0


def test_before_the_welcome_it_sends_nothing_by_itself():
    process = Process()
    process.protocol.connect(process.now)
    process.sent()
    assert process.passes(10.0) == []


def test_a_rejection_is_passed_on():
    process = Process()
    assert process.hears(wire.Reject(reason="no")) == wire.Reject(reason="no")
    assert process.protocol.welcome is None


def test_a_question_is_answered_at_once_and_passed_on(process):
    question = wire.Heartbeat(sent_ns=7)
    assert process.hears(question) == question
    assert process.sent() == [wire.Heartbeat(sent_ns=process.now, echo_ns=7)]


def test_an_answer_is_not_answered(process):
    process.hears(wire.Heartbeat(sent_ns=7, echo_ns=3))
    assert process.sent() == []


def test_a_heartbeat_is_sent_only_when_nothing_else_was(process):
    process.now += SECOND // 2 - 1
    process.protocol.keep_alive(process.now)
    process.protocol.sent(process.now)  # another message
    process.now += SECOND // 2 - 1
    process.protocol.keep_alive(process.now)
    assert process.sent() == []
    process.now += 1
    process.protocol.keep_alive(process.now)
    assert process.sent() == [wire.Heartbeat(sent_ns=process.now)]


def test_while_messages_come_a_look_is_due_often_enough(process):
    sent = []
    while len(sent) < 8:
        process.now += SECOND // 100
        process.hears(wire.Safe(reason=""))
        if process.now > process.protocol.poll_ns:
            process.protocol.keep_alive(process.now)
        sent += [message.sent_ns for message in process.sent()]
    late = SECOND // 2 // POLLS_PER_HEARTBEAT + SECOND // 50
    assert all(SECOND // 2 <= b - a <= SECOND // 2 + late for a, b in pairwise(sent))


def test_a_solver_repeats_its_hello_when_the_master_has_been_silent(process):
    assert all(isinstance(message, wire.Heartbeat) for message in process.passes(2.5))
    assert process.protocol.hello in process.passes(0.5)
    assert process.hears(wire.Welcome(session="demo", heartbeat_s=0.5)) is None
    assert process.hears(wire.Initialize(t0=3.0, u0=b"")) == wire.Initialize(t0=3.0, u0=b"")
    assert not process.protocol.counters
    assert process.protocol.hello in process.passes(3.0)
    assert process.hears(wire.Reject(reason="no longer")) == wire.Reject(reason="no longer")


def test_it_repeats_its_hello_again_and_again_but_not_at_every_look(process):
    hellos = [m for m in process.passes(10.0) if m == process.protocol.hello]
    assert len(hellos) == 3


def test_a_gateway_does_not_repeat_its_hello():
    process = Process("gateway").welcomed()
    assert all(isinstance(message, wire.Heartbeat) for message in process.passes(10.0))


def test_the_master_is_lost_after_silence(process):
    process.passes(5.0)  # ten heartbeats
    assert not process.protocol.master_silent(process.now)
    process.passes(0.1)
    assert process.protocol.master_silent(process.now)
    assert process.protocol.silence(process.now) == pytest.approx(5.1)


@pytest.mark.parametrize("data", [b"not even a message", wire.encode(wire.Heartbeat(sent_ns=1))])
def test_anything_heard_ends_the_silence(process, data):
    for _ in range(3):
        process.passes(4.5)
        process.protocol.receive(data, process.now)
        assert process.protocol.silence(process.now) == 0.0
    assert not process.protocol.master_silent(process.now)


def test_after_a_long_step_the_peer_listens_before_it_judges(process):
    process.now += 60 * SECOND  # computing, or suspended
    process.protocol.keep_alive(process.now)
    assert not process.protocol.master_silent(process.now)
    process.passes(4.5)
    assert process.protocol.master_silent(process.now)


def test_what_cannot_be_used_is_counted_and_each_kind_logged_once(process, caplog):
    with caplog.at_level(logging.WARNING, "hilrt.peers.peer"):
        for data in (
            b"\xc1",
            b"\x81\xa4type\xa4save",
            wire.encode(wire.Stopped()),
            b"x" * (wire.MAX_MESSAGE_BYTES + 1),
            wire.encode(wire.Welcome(session="again", heartbeat_s=9.0)),
        ):
            assert process.protocol.receive(data, process.now) is None
    counted = {"malformed": 1, "unknown_type": 2, "oversized": 1, "unexpected": 1}
    assert process.protocol.counters == counted
    assert len(caplog.records) == len(counted)
    assert process.protocol.heartbeat_s == 0.5
    assert process.hears(wire.Safe(reason="real")) == wire.Safe(reason="real")
