import logging
import threading
import time
from itertools import pairwise

import pytest
import zmq

from hilrt import Port
from hilrt.errors import ConfigError, SessionFault
from hilrt.exchange import wire
from hilrt.exchange.peer import LOOKS_PER_HEARTBEAT, Peer

DEADLINE_S = 10.0
SECOND = 1_000_000_000


class ManualClock:
    def __init__(self):
        self.ns = 100 * SECOND

    def __call__(self):
        return self.ns


class Master:
    """A bare ROUTER."""

    def __init__(self):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.rcvtimeo = int(DEADLINE_S * 1000)
        port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.address = f"tcp://127.0.0.1:{port}"
        self.identity = b""

    def receive(self, kind=wire.Message):
        while True:
            self.identity, data = self.socket.recv_multipart()
            message = wire.decode_from_peer(data)
            if isinstance(message, kind):
                return message

    def send(self, message):
        self.send_raw(wire.encode(message))

    def send_raw(self, *frames):
        self.socket.send_multipart([self.identity, *frames])

    def answer_hello(self, message):
        """In a thread: `connect` blocks."""

        def answer():
            self.hello = self.receive(wire.Hello)
            self.send(message)

        thread = threading.Thread(target=answer)
        thread.start()
        return thread


@pytest.fixture
def master():
    master = Master()
    yield master
    master.socket.close()
    master.context.term()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def make_peer(master):
    peers = []

    def make(**kwargs):
        ports = [Port("u", "V", max_rate=3.0)], [Port("y", feedthrough=("u",))]
        peers.append(Peer(master.address, "model", "solver", *ports, **kwargs))
        return peers[-1]

    yield make
    for peer in peers:
        peer.close()


@pytest.fixture
def peer(make_peer, master, clock):
    """Accepted; its clock stands still."""
    peer = make_peer(clock=clock)
    thread = master.answer_hello(wire.Welcome(session="demo", heartbeat_s=0.5))
    peer.connect()
    thread.join()
    return peer


def received(peer, count=1):
    messages = []
    deadline = time.monotonic() + DEADLINE_S
    while len(messages) < count:
        assert time.monotonic() < deadline
        messages += peer.receive()
    return messages


def test_connect_says_hello_and_returns_the_welcome(make_peer, master):
    peer = make_peer(capabilities=["fly"])
    thread = master.answer_hello(wire.Welcome(session="demo", heartbeat_s=0.5))
    assert peer.connect().session == "demo"
    thread.join()
    assert peer.heartbeat_s == 0.5
    hello = master.hello
    assert (hello.version, hello.role, hello.name) == (wire.PROTOCOL_VERSION, "solver", "model")
    assert hello.inputs == [wire.PortInfo(name="u", unit="V", max_rate=3.0)]
    assert hello.outputs == [wire.PortInfo(name="y", feedthrough=["u"])]
    assert hello.capabilities == ["fly"]
    assert hello.pid > 0


def test_a_solver_says_hello_again_when_the_master_has_been_silent(peer, master, clock):
    def pass_(heartbeats):  # looking now and then: who was away himself waits for what came
        for _ in range(heartbeats):
            clock.ns += SECOND // 2
            peer.receive()

    pass_(5)
    pass_(1)
    assert master.receive(wire.Hello) == master.hello
    master.send(wire.Welcome(session="demo", heartbeat_s=0.5))
    master.send(wire.Initialize(t0=3.0, u0=b""))
    assert received(peer) == [wire.Initialize(t0=3.0, u0=b"")]
    assert not peer.counters
    pass_(6)
    master.receive(wire.Hello)
    master.send(wire.Reject(reason="no longer"))
    assert received(peer) == [wire.Reject(reason="no longer")]


def test_a_gateway_does_not(master, clock):
    peer = Peer(master.address, "bench", "gateway", [], [], clock=clock)
    thread = master.answer_hello(wire.Welcome(session="demo", heartbeat_s=0.5))
    peer.connect()
    thread.join()
    for _ in range(8):
        clock.ns += SECOND // 2
        peer.receive()
    peer.send(wire.Stopped())
    assert isinstance(master.receive((wire.Hello, wire.Stopped)), wire.Stopped)
    peer.close()


def test_a_rejection_is_told_with_its_reason(make_peer, master):
    peer = make_peer()
    thread = master.answer_hello(wire.Reject(reason="already connected"))
    with pytest.raises(SessionFault, match="does not accept 'model': already connected"):
        peer.connect()
    thread.join()


def test_no_answer_in_time(make_peer, master):
    with pytest.raises(SessionFault, match=r"no answer from a master at tcp.*within 0\.05 s"):
        make_peer().connect(0.05)


def test_an_address_that_is_none():
    with pytest.raises(ConfigError, match=r"--connect localhost: .*tcp://HOST:PORT"):
        Peer("localhost", "model", "solver", [], [])


@pytest.mark.parametrize("method", ["wait", "receive"])
def test_messages_come_in_order_by_either_way(peer, master, method):
    sent = [wire.Safe(reason=str(i)) for i in range(5)]
    for message in sent:
        master.send(message)
    messages = []
    while len(messages) < 5:
        messages += peer.wait(DEADLINE_S) if method == "wait" else peer.receive()
    assert messages == sent


def test_wait_ends_in_time_and_receive_at_once(peer):
    assert peer.wait(0.01) == []
    assert peer.wait(0.0) == []
    assert peer.receive() == []


def test_a_question_is_answered_at_once_and_passed_on(peer, master, clock):
    master.send(wire.Heartbeat(sent_ns=7))
    assert received(peer) == [wire.Heartbeat(sent_ns=7)]
    assert master.receive() == wire.Heartbeat(sent_ns=clock.ns, echo_ns=7)


def test_an_answer_is_not_answered(peer, master):
    master.send(wire.Heartbeat(sent_ns=7, echo_ns=3))
    received(peer)
    peer.send(wire.Stopped())
    assert master.receive() == wire.Stopped()


def test_a_heartbeat_is_sent_only_when_nothing_else_was(peer, master, clock):
    clock.ns += SECOND // 2 - 1
    peer.receive()
    peer.send(wire.Armed())
    clock.ns += SECOND // 2 - 1
    peer.receive()
    clock.ns += 1
    peer.receive()
    assert master.receive() == wire.Armed()
    assert master.receive() == wire.Heartbeat(sent_ns=clock.ns)


def test_heartbeats_leave_although_messages_come_all_the_time(peer, master, clock):
    sent = [clock.ns]
    for _ in range(100):
        clock.ns += SECOND // 20
        master.send(wire.Heartbeat(sent_ns=7, echo_ns=3))  # an answer: it wants none
        assert peer.wait(5.0)
    for _ in range(8):
        sent.append(master.receive().sent_ns)
    late = SECOND // 2 // LOOKS_PER_HEARTBEAT + SECOND // 20
    assert all(SECOND // 2 <= b - a <= SECOND // 2 + late for a, b in pairwise(sent))


def test_the_master_is_lost_after_silence(peer, clock):
    for _ in range(50):  # ten heartbeats are 5 s
        clock.ns += SECOND // 10
        peer.receive()
    assert peer.master_lost() is None
    clock.ns += SECOND // 10
    assert "silent for 5.1 s" in peer.master_lost()


def test_anything_heard_ends_the_silence(peer, master, clock):
    for _ in range(3):
        for _ in range(45):
            clock.ns += SECOND // 10
            peer.receive()
        master.send_raw(b"not even a message")
        heard = peer.counters["malformed"]
        while peer.counters["malformed"] == heard:
            peer.receive()
        assert peer.silence() == 0.0
    assert peer.master_lost() is None


def test_after_a_long_absence_the_peer_listens_before_it_judges(peer, clock):
    clock.ns += 60 * SECOND  # computing, or stopped
    peer.receive()
    assert peer.master_lost() is None
    for _ in range(45):
        clock.ns += SECOND // 10
        peer.receive()
    assert peer.master_lost() is not None


def test_garbage_is_counted_logged_once_and_dropped(peer, master, caplog):
    with caplog.at_level(logging.WARNING, "hilrt.exchange.peer"):
        master.send_raw(b"\xc1")
        master.send_raw(b"\x81\xa4type\xa4save")
        master.send_raw(wire.encode(wire.Stopped()))
        master.send_raw(b"x" * (wire.MAX_MESSAGE_BYTES + 1))
        master.send(wire.Welcome(session="again", heartbeat_s=9.0))
        master.send(wire.Safe(reason="real"))
        assert received(peer) == [wire.Safe(reason="real")]
    counted = {"malformed": 1, "unknown_type": 2, "oversized": 1, "unexpected": 1}
    assert peer.counters == counted
    assert len(caplog.records) == len(counted)
    assert peer.heartbeat_s == 0.5


def test_what_does_not_fit_the_queue_is_counted_never_waited_for(peer, master):
    message = wire.Error(text="x" * 20_000)
    sent = [peer.send(message) for _ in range(5000)]
    assert not all(sent)
    assert peer.counters["send_lost"] == sent.count(False)
