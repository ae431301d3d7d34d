import asyncio
import contextlib
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
import zmq

from hilrt.errors import ConfigError, PeerLost
from hilrt.peers import hub as hub_module
from hilrt.peers import wire
from hilrt.peers.hub import Hub
from hilrt.peers.peer_events import STRANGER
from hilrt.peers.transport import local
from hilrt_adapters.zeromq import ZeroMQLink, ZeroMQOptions
from tests.collected import collect, dispatch, received

DEADLINE_S = 10.0
linux = pytest.mark.skipif(sys.platform != "linux", reason="the transport within a machine")
SECOND = 1_000_000_000


class ManualClock:
    """Stands still until a test moves it."""

    def __init__(self):
        self.ns = 100 * SECOND

    def __call__(self):
        return self.ns


class Dealer:
    """A bare connection to the hub, which can send anything."""

    def __init__(self, hub):
        self.hub = hub
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.rcvhwm = 1
        self.socket.connect(hub.address)

    def send(self, message):
        self.socket.send(wire.encode(message))

    def hello(self, name="model", **changes):
        fields = {
            "version": wire.PROTOCOL_VERSION,
            "role": "solver",
            "name": name,
            "inputs": [wire.PortInfo(name="u")],
            "outputs": [wire.PortInfo(name="y")],
        }
        self.send(wire.Hello(**{**fields, **changes}))

    def receive(self, kind):
        """The next message of a kind; others before it are skipped."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            self.hub.drain()
            if self.socket.poll(1):
                message = wire.decode_from_master(self.socket.recv())
                if isinstance(message, kind):
                    return message
        raise AssertionError(f"no {kind.__name__}")

    def close(self):
        self.socket.close()
        self.context.term()


class Neighbour(Dealer):
    """One that leaves ZeroMQ out: it is heard although no connection is expected."""

    def __init__(self, hub):
        self.hub = hub
        self.client = local.connect(hub.address)

    def send(self, message):
        self.client.send(wire.encode(message))

    def receive(self, kind):
        """See `Dealer.receive`; a manual clock moves, so that the hub looks for it."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            self.hub.clock.ns += SECOND // 20
            self.hub.drain()
            if data := self.client.receive(1):
                message = wire.decode_from_master(data)
                if isinstance(message, kind):
                    return message
        raise AssertionError(f"no {kind.__name__}")

    def close(self):
        self.client.close(0)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def hub(clock):
    hub = Hub("demo", connect_timeout=DEADLINE_S, clock=clock)
    yield hub
    hub.close()


@pytest.fixture
def dealers(hub):
    """Makes connections and closes them."""
    with contextlib.ExitStack() as made:
        yield lambda: made.enter_context(contextlib.closing(Dealer(hub)))


def add_link(hub, name="model"):
    link = ZeroMQLink(name, ZeroMQOptions(adapter="zeromq"), Path())
    hub.add(link)
    return link


@pytest.fixture
def link(hub):
    return add_link(hub)


@pytest.fixture
def dealer(link, dealers):
    """The accepted connection of `link`."""
    dealer = dealers()
    dealer.hello()
    dealer.receive(wire.Welcome)
    return dealer


def drain_until(hub, condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        hub.drain()
        time.sleep(0.001)


# --- address --------------------------------------------------------------------------------------


def test_a_free_port_is_taken_and_told(hub):
    assert hub.address.startswith("tcp://127.0.0.1:")
    assert int(hub.address.rpartition(":")[2]) > 0


def test_an_address_that_cannot_be_bound_is_named_with_the_remedy(hub):
    with pytest.raises(ConfigError, match=r"\[master\] listen = 'tcp://127.0.0.1:\d+'.*choose"):
        Hub("second", hub.address)


# --- handshake ------------------------------------------------------------------------------------


async def test_hello_is_welcomed_and_tells_the_ports(hub, link, dealers):
    dealer = dealers()
    dealer.hello()
    await link.open()
    assert dealer.receive(wire.Welcome) == wire.Welcome(session="demo", heartbeat_s=0.2)
    assert [port.name for port in link.inputs + link.outputs] == ["u", "y"]


def test_a_hello_that_is_rejected_is_answered_with_the_reason(hub, link, dealers):
    dealer = dealers()
    dealer.hello(name="modell")
    reason = dealer.receive(wire.Reject).reason
    assert "no remote subsystem is called 'modell'; the session has: model" in reason
    assert link.peer.connection is None
    dealer.hello()  # the right one is still welcome
    dealer.receive(wire.Welcome)


async def test_no_peer_connects(link):
    link.hub.connect_timeout = 0.02
    with pytest.raises(
        PeerLost, match=r"no connection within 0.02 s.*hilrt solver MODULE:CLASS --connect tcp"
    ):
        await link.open()


async def refusal(hub, link):
    hub.connect_timeout = 0.02
    with pytest.raises(PeerLost) as lost:
        await link.open()
    assert "no connection within 0.02 s; " in lost.value.reason
    assert "hilrt solver MODULE:CLASS" in lost.value.reason
    return lost.value.reason


async def test_a_wait_without_end_says_why_the_hello_was_rejected(hub, link, dealers, clock):
    dealer = dealers()
    dealer.hello(outputs=[wire.PortInfo(name="y", size=0)])
    dealer.receive(wire.Reject)
    clock.ns += 3 * SECOND
    assert "its hello was rejected 3.0 s ago: outputs: " in await refusal(hub, link)


@pytest.mark.parametrize(
    ("message", "kind", "reason"),
    [
        ({"type": "hello", "version": 1}, "malformed", "missing required field"),
        ({"type": "stopped"}, "unknown_sender", "Stopped before a hello"),
        (
            {"type": "hello", "version": 1, "role": "solver", "name": "modell"}
            | {"inputs": [], "outputs": []},
            "rejected",
            "no remote subsystem is called 'modell'",
        ),
    ],
)
async def test_a_wait_without_end_says_what_else_was_refused(
    hub, link, dealers, message, kind, reason
):
    dealers().socket.send(msgspec.msgpack.encode(message))
    drain_until(hub, lambda: hub.counters[STRANGER, kind])
    said = await refusal(hub, link)
    assert "a connection was refused 0.0 s ago: " in said
    assert reason in said


# --- what is dropped ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        ([b"\xc1\xff"], "malformed"),
        ([wire.encode(wire.Stopped()), b"more"], "malformed"),
        ([b"a"] * 5, "malformed"),
        ([msgspec.msgpack.encode({"type": "save"})], "unknown_type"),
        ([wire.encode(wire.Stopped())], "unexpected"),
    ],
)
def test_what_cannot_be_used_counts_as_the_links_and_is_dropped(hub, link, dealer, frames, kind):
    for _ in range(3):
        dealer.socket.send_multipart(frames)
    drain_until(hub, lambda: hub.counters["model", kind] == 3)
    assert (link.dropped, link.lost) == (0 if kind == "unexpected" else 3, 0)
    dealer.send(wire.Event(level="info", cause="x", text="still heard"))
    drain_until(hub, lambda: link.events)


def test_one_drain_takes_a_bounded_number_of_messages(hub, link, dealer, monkeypatch):
    monkeypatch.setattr(hub_module, "MAX_PER_DRAIN", 10)
    for i in range(35):
        dealer.send(wire.Event(level="info", cause="x", text=str(i)))
    drains = []
    deadline = time.monotonic() + DEADLINE_S
    while len(link.events) < 35 and time.monotonic() < deadline:
        before = len(link.events)
        hub.drain()
        drains.append(len(link.events) - before)
    assert max(drains) <= 10
    assert [event.text for event in link.events] == [str(i) for i in range(35)]


# --- sending --------------------------------------------------------------------------------------


def test_dispatch_sends_the_polynomial(link, dealer):
    dispatch(link, 7, 0.25, 0.5, np.array([[1.0], [2.0]]))
    message = dealer.receive(wire.Advance)
    assert (message.tick, message.t, message.h) == (7, 0.25, 0.5)
    assert wire.unpack(message.coefficients, -1, 1).tolist() == [[1.0], [2.0]]


def test_what_does_not_fit_the_queue_is_lost_and_counted_never_waited_for(hub, link, dealer):
    text = "x" * 20_000
    sent = [link.send(wire.Stop(reason=text)) for _ in range(5000)]  # more than any buffer holds
    assert not all(sent)
    assert hub.counters["model", "send_lost"] == sent.count(False) == link.lost


def test_a_connection_that_closes_is_noticed_when_sending(hub, link, dealer):
    dealer.socket.close()
    deadline = time.monotonic() + DEADLINE_S
    while link.send(wire.Heartbeat(sent_ns=1)):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    with pytest.raises(PeerLost, match="connection closed"):
        link.receive()


# --- requests -------------------------------------------------------------------------------------


async def test_a_request_returns_the_answer(link, dealer):
    task = asyncio.create_task(link.initialize(0.5, np.array([3.0])))
    await asyncio.sleep(0)
    message = dealer.receive(wire.Initialize)
    assert (message.t0, message.u0) == (0.5, wire.pack(np.array([3.0])))
    dealer.send(wire.Initialized(y=wire.pack(np.array([4.0]))))
    assert (await task).y.tolist() == [4.0]


async def test_an_answer_in_time_is_needed(link, dealer):
    link.hub.connect_timeout = 0.02
    with pytest.raises(PeerLost, match=r"no answer to Initialize within 0.02 s"):
        await link.initialize(0.0, np.zeros(1))
    assert not link.peer.computing


async def test_an_answer_that_was_dropped_is_named_when_it_is_missed(hub, link, dealer, clock):
    for sent, why in (("initialised", "value 'initialised'"), ("initialized", "field `y`")):
        dealer.socket.send(msgspec.msgpack.encode({"type": sent}))
        # An unknown type explains less than a broken answer.
        dealer.socket.send(msgspec.msgpack.encode({"type": "initialised"}))
        dropped = link.dropped
        drain_until(hub, lambda before=dropped: link.dropped == before + 2)
        clock.ns += SECOND // 2
        expected = (
            "no answer to Stop within 0.02 s; .* dropped message arrived 0.5 s ago: "
            f".*{why}.*; see its"
        )
        with pytest.raises(PeerLost, match=expected):
            await link.request(wire.Stop(reason=""), wire.Stopped, 0.02)


async def test_an_answer_of_the_wrong_size_is_a_lost_peer(link, dealer):
    dealer.send(wire.Initialized(y=wire.pack(np.zeros(2))))
    with pytest.raises(PeerLost, match="invalid: array of 16 bytes"):
        await link.initialize(0.0, np.zeros(1))


@pytest.mark.parametrize("how", ["error", "gone"])
async def test_a_peer_that_goes_during_a_request_ends_it_at_once(link, dealer, how):
    if how == "error":
        dealer.send(wire.Error(text="no licence"))
    else:
        asyncio.get_running_loop().call_soon(link.gone, "ended with status 1: no licence")
    with pytest.raises(PeerLost, match="no licence"):
        await asyncio.wait_for(link.initialize(0.0, np.zeros(1)), DEADLINE_S / 2)


async def test_a_helper_that_ends_before_the_start_ends_a_request_at_once(hub, link, dealer):
    said = "ended with status 2"
    asyncio.get_running_loop().call_soon(hub.process_ended, "model.emulator", 4711, said)
    with pytest.raises(PeerLost, match=f"'model': its emulator {said}"):
        await asyncio.wait_for(link.initialize(0.0, np.zeros(1)), DEADLINE_S / 2)


def test_a_helper_that_ends_later_is_left_to_the_session(hub, link):
    hub.epoch_ns = 1
    assert not hub.process_ended("model.emulator", 4711, "ended with status 2")
    assert not hub.process_ended("recorder", 4711, "ended with status 2")
    assert not link.peer.lost


@pytest.mark.parametrize("stopping", [False, True])
def test_a_loss_is_told_unless_the_peer_was_stopped(hub, link, stopping):
    told = []
    hub.on_loss = told.append
    link.peer.stopping = stopping
    link.gone("its connection closed")
    said = [] if stopping else ["subsystem 'model': its connection closed"]
    assert [str(error) for error in told] == said


async def test_two_links_wait_at_the_same_time(hub, link, dealer, dealers):
    other_link, other = add_link(hub, "other"), dealers()
    other.hello("other")
    await other_link.open()
    tasks = [asyncio.create_task(x.initialize(0.0, np.zeros(1))) for x in (link, other_link)]
    for peer, value in ((other, 2.0), (dealer, 1.0)):
        await asyncio.sleep(0)
        peer.receive(wire.Initialize)
        peer.send(wire.Initialized(y=wire.pack(np.array([value]))))
    assert [sample.y.tolist() for sample in await asyncio.gather(*tasks)] == [[1.0], [2.0]]


def test_the_first_reason_is_kept(link, dealer):
    link.gone("first")
    link.gone("second")
    with pytest.raises(PeerLost, match="first"):
        link.receive()


# --- heartbeats and clocks ------------------------------------------------------------------------


def test_a_question_is_answered_with_the_masters_clock(dealer, clock):
    dealer.send(wire.Heartbeat(sent_ns=42))
    while (beat := dealer.receive(wire.Heartbeat)).echo_ns == 0:
        pass
    assert beat == wire.Heartbeat(sent_ns=clock.ns, echo_ns=42)


def test_a_silent_peer_is_lost(hub, link, dealer, clock):
    for _ in range(30):  # in pieces, so that the hub does not seem to have been held up itself
        clock.ns += SECOND // 10
        hub.drain()
    with pytest.raises(PeerLost, match=r"silent for 2\.\d s"):
        link.receive()


async def test_heartbeats_go_on_while_nothing_polls(link, dealers):
    hub = Hub("real clock", heartbeat_s=0.01)
    link = add_link(hub)
    dealer = Dealer(hub)
    try:
        dealer.hello()
        await link.open()
        count = 0
        deadline = time.monotonic() + DEADLINE_S
        while count < 30 and time.monotonic() < deadline:  # more than the questions at the start
            await asyncio.sleep(0.005)
            while dealer.socket.poll(0):
                count += isinstance(wire.decode_from_master(dealer.socket.recv()), wire.Heartbeat)
            dealer.send(wire.Event(level="info", cause="x", text=""))
        assert count >= 30
    finally:
        dealer.close()
        hub.close()


# --- looks that must end in time ------------------------------------------------------------------


@linux
def test_a_flooding_peer_keeps_no_other_peer_waiting(hub, clock):
    links = [add_link(hub, name) for name in ("loud", "quiet")]
    with contextlib.ExitStack() as made:
        loud, quiet = (made.enter_context(contextlib.closing(Neighbour(hub))) for _ in links)
        for peer, name in ((loud, "loud"), (quiet, "quiet")):
            peer.hello(name)
            peer.receive(wire.Welcome)
        hub.drain()
        for link in links:
            link.events.clear()
        for _ in range(200):
            loud.send(wire.Event(level="info", cause="x", text=""))
        quiet.send(wire.Event(level="info", cause="x", text=""))
        assert hub.receive(clock.ns) == 4  # two turns for each, although there is no time
        assert [len(link.events) for link in links] == [3, 1]
        assert not hub.counters[STRANGER, "flood"]
        for _ in range(hub_module.FLOODED_POLLS):
            hub.receive(clock.ns)
        assert hub.counters[STRANGER, "flood"] == 1
        assert hub.receive(clock.ns + SECOND) > 100  # with time left, all of them


@linux
def test_a_look_before_the_tick_neither_accepts_nor_sends(hub, clock):
    link = add_link(hub)
    with contextlib.closing(Neighbour(hub)) as peer:
        peer.hello()
        clock.ns += SECOND
        hub.receive(clock.ns)
        assert link.peer.connection is None
        hub.upkeep(clock.ns)
        hub.upkeep(clock.ns)
        assert link.peer.connection is not None
        while peer.client.receive(1):
            pass
        clock.ns += SECOND
        hub.receive(clock.ns + SECOND)
        assert peer.client.receive(1) is None
        hub.upkeep(clock.ns)
        assert isinstance(wire.decode_from_master(peer.client.receive(1)), wire.Heartbeat)


# --- time and end ---------------------------------------------------------------------------------


def test_arrivals_carry_session_time(hub, link, dealer, clock):
    hub.epoch_ns = clock.ns - 3 * SECOND
    assert hub.session_time() == 3.0
    collect(link)
    dispatch(link, 0, 0.0, 0.1, np.zeros((1, 1)))
    dealer.receive(wire.Advance)
    dealer.send(wire.Advanced(tick=0, y=wire.pack(np.zeros(1))))
    drain_until(hub, lambda: not link.peer.computing)
    (arrived,) = received(link)
    assert arrived.t_arrived == 3.0


def test_after_close_nothing_raises(hub, link, dealer):
    hub.close()
    hub.close()
    hub.drain()
    assert not link.send(wire.Stop(reason="too late"))
    link.receive()
