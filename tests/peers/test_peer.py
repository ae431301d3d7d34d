import threading
import time
from itertools import pairwise

import pytest
import zmq

from hilrt import Port
from hilrt.errors import ConfigError, SessionFault
from hilrt.peers import wire
from hilrt.peers.peer import Peer
from hilrt.peers.peer_protocol import POLLS_PER_HEARTBEAT

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


def test_heartbeats_leave_while_it_waits_and_while_it_looks(peer, master, clock):
    for look in (peer.receive, lambda: peer.wait(0.0)):
        clock.ns += SECOND // 2
        look()
        assert master.receive() == wire.Heartbeat(sent_ns=clock.ns)


def test_heartbeats_leave_although_messages_come_all_the_time(peer, master, clock):
    sent = [clock.ns]
    for _ in range(100):
        clock.ns += SECOND // 20
        master.send(wire.Heartbeat(sent_ns=7, echo_ns=3))  # an answer: it wants none
        assert peer.wait(5.0)
    for _ in range(8):
        sent.append(master.receive().sent_ns)
    late = SECOND // 2 // POLLS_PER_HEARTBEAT + SECOND // 20
    assert all(SECOND // 2 <= b - a <= SECOND // 2 + late for a, b in pairwise(sent))


def test_a_message_that_leaves_stands_for_a_heartbeat(peer, master, clock):
    clock.ns += SECOND // 2 - 1
    peer.send(wire.Armed())
    clock.ns += SECOND // 2 - 1
    peer.receive()
    clock.ns += 1
    peer.receive()
    assert master.receive() == wire.Armed()
    assert master.receive() == wire.Heartbeat(sent_ns=clock.ns)


def test_the_master_is_lost_after_silence(peer, clock):
    for _ in range(51):  # ten heartbeats are 5 s
        assert peer.master_lost() is None
        clock.ns += SECOND // 10
        peer.receive()
    assert "silent for 5.1 s" in peer.master_lost()


def test_what_cannot_be_used_is_counted_and_dropped(peer, master):
    master.send_raw(b"\xc1")
    master.send(wire.Safe(reason="real"))
    assert received(peer) == [wire.Safe(reason="real")]
    assert peer.counters == {"malformed": 1}


def test_what_does_not_fit_the_queue_is_counted_never_waited_for(peer, master):
    message = wire.Error(text="x" * 20_000)
    sent = [peer.send(message) for _ in range(5000)]
    assert not all(sent)
    assert peer.counters["send_lost"] == sent.count(False)


def test_a_master_that_sends_too_much_does_not_hold_up_a_process_with_deadlines(master, peer):
    for _ in range(10):
        master.send(wire.Heartbeat(sent_ns=1))
    deadline, taken = time.monotonic() + DEADLINE_S, 0
    while taken < 10 and time.monotonic() < deadline:
        looked = peer.receive(0)  # no time is left, by a clock that stands still
        assert len(looked) <= 1
        taken += len(looked)
    assert taken == 10


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        (
            [Port(f"y{i}") for i in range(100_000)],
            "plant: 100,000 outputs, and a subsystem may have at most 10,000",
        ),
        ([Port("y", size=10_001)], "plant: 10,001 outputs"),
        ([Port("y", description="x" * 2_000_000)], "announcing its ports takes 2,000,.* bytes"),
    ],
)
def test_ports_that_fit_into_no_message_are_refused_with_the_reason(outputs, said):
    with pytest.raises(ConfigError, match=said):
        Peer("tcp://127.0.0.1:9", "plant", "solver", [], outputs)
