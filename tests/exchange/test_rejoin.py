"""A solver that was lost comes back: a real hub, bare connections, an exchange without a loop."""

import asyncio
import contextlib
import os
from pathlib import Path

import numpy as np
import pytest

from hilrt.config.structs import Late
from hilrt.errors import PeerLost
from hilrt.exchange.exchange import Exchange
from hilrt.link import Ports
from hilrt.peers import wire
from hilrt.peers.hub import Hub
from hilrt.peers.peer import Peer
from hilrt.peers.peer_events import STRANGER
from hilrt.solver import Sample
from hilrt_adapters.zeromq import ZeroMQLink, ZeroMQOptions
from tests.peers.test_hub import DEADLINE_S, Dealer, ManualClock, Neighbour, drain_until
from tests.stepping import make_numerics

MS = 1_000_000


@pytest.fixture
def hub():
    hub = Hub("demo", connect_timeout=DEADLINE_S, clock=ManualClock())
    yield hub
    hub.close()


@pytest.fixture
def dealers(hub):
    with contextlib.ExitStack() as made:
        yield lambda: made.enter_context(contextlib.closing(Dealer(hub)))


class Rig:
    """One solver "model" that may come back, connected, and what the master does with it."""

    def __init__(self, hub, dealers, max_misses=3, **late):
        late = Late(**{"rejoin": True, "max_misses": max_misses, **late})
        self.hub, self.dealers = hub, dealers
        self.link = ZeroMQLink("model", ZeroMQOptions(adapter="zeromq", late=late), Path())
        hub.add(self.link)
        self.dealer = self.connect()
        hub.epoch_ns = hub.clock()
        self.numerics = make_numerics(
            {"model": Ports(self.link.inputs, self.link.outputs)},
            subsystems={"model": {"inputs": {"u": {"max": 5.0}}}},
        )
        catch_up = [late.steps == "catch_up"]
        self.numerics.plan.session["coefficients"] = 2
        self.exchange = Exchange(self.numerics, [self.link], 1e-3, [max_misses], catch_up)
        self.exchange.start([Sample(np.zeros(1))])

    def connect(self):
        dealer = self.dealers()
        dealer.hello()
        dealer.receive(wire.Welcome)
        return dealer

    def turn(self, tick):
        """Cut, dispatch and slack at `tick` of a 1 ms grid; the input is 2 + 1000 (t - now)."""
        exchange = self.exchange
        exchange.cut(tick, tick * MS, MS if tick else 0)
        given, state = self.numerics.given, self.numerics.state
        subsystems = given.subsystems
        state.subsystems["dispatch"] = subsystems["due"] & (1 - subsystems["busy"])
        state.subsystems["t_start"] = subsystems["reached"]
        state.subsystems["h"] = 1e-3 + given.session["t"] - subsystems["reached"]
        state.inputs["polynomial"][0, :2] = state.inputs["extrapolated"][0, :2] = 2.0, 1000.0
        exchange.dispatch(tick * MS, MS)
        exchange.readmit()
        return given

    def answer(self, y, dealer=None):
        """Answer the outstanding advance and have it read."""
        dealer = dealer or self.dealer
        advance = dealer.receive(wire.Advance)
        dealer.send(wire.Advanced(tick=advance.tick, y=wire.pack(np.array([y]))))
        drain_until(self.hub, lambda: not self.link.peer.computing)
        return advance

    def lose(self):
        """Its process dies."""
        self.dealer.close()
        drain_until(self.hub, lambda: not self.link.send(wire.Heartbeat(sent_ns=1)))

    def causes(self):
        return [event.cause for _, event in self.exchange.reports.take()]


@pytest.fixture
def rig(hub, dealers):
    return Rig(hub, dealers)


def test_it_initializes_at_the_next_point_from_the_inputs_there(rig):
    rig.turn(0)
    rig.lose()
    assert rig.turn(1).subsystems["late"][0]
    second = rig.connect()
    rig.turn(2)
    again = second.receive(wire.Initialize)
    assert again.t0 == pytest.approx(3e-3)
    assert wire.unpack(again.u0, 1)[0] == pytest.approx(3.0)  # 2 + 1000 · 1 ms
    assert rig.turn(3).subsystems["late"][0]  # it is not waited for
    second.send(wire.Initialized(y=wire.pack(np.array([7.0]))))
    drain_until(rig.hub, lambda: not rig.link.peer.computing)
    given = rig.turn(4)
    assert given.subsystems["rejoined"][0]
    assert given.subsystems["event"][0]  # nothing is extrapolated across the gap
    assert not given.session["regular"][0]
    assert (given.outputs["y"][0], given.outputs["t_valid"][0]) == (7.0, pytest.approx(3e-3))
    step = rig.answer(8.0, second)  # merged: from where it initialized to the next point
    assert (step.t, step.h) == (pytest.approx(3e-3), pytest.approx(2e-3))
    given = rig.turn(5)
    assert not given.subsystems["rejoined"][0]
    assert given.session["regular"][0]
    assert given.outputs["y"][0] == 8.0
    assert rig.exchange.channels["rejoined"][0] == 1
    assert rig.causes() == ["peer_lost", "peer_back"]


def test_the_end_of_an_old_process_is_not_the_end_of_a_new_connection(rig):
    rig.turn(0)
    with contextlib.closing(Neighbour(rig.hub)) as second:
        second.hello()
        second.receive(wire.Welcome)
        rig.link.process_ended(4711, "was ended by SIGKILL")
        assert rig.link.returned
        rig.link.process_ended(os.getpgid(0), "was ended by SIGKILL")
        assert not rig.link.returned
    takeover, lost, ended, left = rig.link.events
    assert (takeover.cause, lost.cause) == ("takeover", "peer_lost")
    assert (ended.cause, left.cause) == ("process_ended", "peer_lost")
    assert f"belongs to another: process {os.getpid()} of this account" in ended.text


def test_a_process_that_was_not_let_in_does_not_end_the_one_that_was(hub):
    """One was started by hand, earlier than the session's own."""
    link = ZeroMQLink("model", ZeroMQOptions(adapter="zeromq"), Path())
    hub.add(link)
    with contextlib.closing(Neighbour(hub)) as by_hand:
        by_hand.hello()
        by_hand.receive(wire.Welcome)
        link.process_ended(4711, "ended with status 3")
        assert not link.peer.lost


def test_the_inputs_it_starts_from_keep_their_bounds(rig):
    rig.turn(0)
    rig.lose()
    second = rig.connect()
    rig.exchange.cut(9, 9 * MS, 9 * MS)
    state = rig.numerics.state
    state.subsystems["dispatch"] = False
    state.inputs["extrapolated"][0, :2] = 4.9, 1000.0
    rig.exchange.dispatch(9 * MS, MS)
    rig.exchange.readmit()
    assert wire.unpack(second.receive(wire.Initialize).u0, 1)[0] == 5.0


def test_one_that_stays_away_ends_the_session_and_the_reason_is_told(rig):
    rig.turn(0)
    rig.lose()
    for tick in (1, 2, 3):
        assert rig.turn(tick).subsystems["late"][0]
    with pytest.raises(PeerLost, match=r"no sample for 4 ticks.*not returned: its connection"):
        rig.turn(4)


def test_another_connection_takes_the_place_of_one_that_lives(rig):
    """A supervisor may be quicker than the master's notice of the end; or the network was away."""
    rig.turn(0)
    second = rig.connect()
    assert "replaced it" in rig.dealer.receive(wire.Error).text
    rig.turn(1)
    second.receive(wire.Initialize)
    rig.dealer.send(wire.Advanced(tick=0, y=wire.pack(np.ones(1))))  # too late
    drain_until(rig.hub, lambda: rig.hub.counters[STRANGER, "unknown_sender"] == 1)
    assert rig.turn(2).subsystems["late"][0]


def test_a_solver_in_catch_up_starts_anew_too(hub, dealers):
    rig = Rig(hub, dealers, steps="catch_up")
    rig.turn(0)
    rig.lose()
    rig.turn(1)
    second = rig.connect()
    rig.turn(2)
    assert second.receive(wire.Initialize).t0 == pytest.approx(3e-3)
    second.send(wire.Initialized(y=wire.pack(np.array([7.0]))))
    drain_until(rig.hub, lambda: not rig.link.peer.computing)
    assert rig.turn(3).subsystems["rejoined"][0]
    step = rig.answer(8.0, second)
    assert (step.t, step.h) == (pytest.approx(3e-3), pytest.approx(1e-3))


async def test_as_fast_as_possible_the_session_waits_for_it(rig):
    rig.turn(0)
    rig.lose()

    async def restarted():
        second = rig.dealers()
        second.hello()
        await asyncio.to_thread(second.socket.poll, 10_000)
        messages = []
        while not any(isinstance(m, wire.Initialize) for m in messages):
            data = await asyncio.to_thread(second.socket.recv)
            messages.append(wire.decode_from_master(data))
        second.send(wire.Initialized(y=wire.pack(np.array([7.0]))))
        return messages[-1].t0

    task = asyncio.ensure_future(restarted())
    await rig.exchange.collect(MS, DEADLINE_S, lambda: False)
    assert await task == pytest.approx(1e-3)
    given = rig.turn(1)
    assert given.subsystems["rejoined"][0]
    assert not given.subsystems["late"][0]
    rig.exchange.close()


@pytest.mark.parametrize(
    ("late", "hello", "words"),
    [
        ({}, {"outputs": [wire.PortInfo(name="z")]}, "has different ports than before"),
        ({"rejoin": False}, {}, "already connected"),
    ],
)
def test_one_that_is_not_taken_back_is_told_why(hub, dealers, late, hello, words):
    rig = Rig(hub, dealers, **late)
    with contextlib.closing(Neighbour(hub)) as second:
        second.hello(**hello)
        assert words in second.receive(wire.Reject).reason
    drain_until(hub, lambda: rig.link.events)
    [told] = rig.link.events
    assert told.cause == "takeover"
    assert f"process {os.getpid()} of this account requested the name of 127.0.0.1" in told.text
    assert words in told.text


def test_without_leave_a_lost_one_is_told_how_to_get_it(hub, dealers):
    rig = Rig(hub, dealers, rejoin=False)
    rig.lose()
    with pytest.raises(PeerLost, match="connection closed"):
        rig.link.receive()
    with contextlib.closing(Neighbour(hub)) as second:
        second.hello()
        reason = second.receive(wire.Reject).reason
    assert "connection closed" in reason
    assert "rejoin = true" in reason


@pytest.mark.parametrize(("leaving", "ends"), [(True, False), (False, True)])
def test_a_solver_that_failed_does_not_come_back_one_that_was_told_to_end_does(rig, leaving, ends):
    rig.turn(0)
    rig.dealer.send(wire.Error(text="it is enough", leaving=leaving))
    drain_until(rig.hub, lambda: rig.link.absent or rig.link.peer.lost)
    if ends:
        with pytest.raises(PeerLost, match="it is enough"):
            rig.turn(1)
    else:
        assert rig.turn(1).subsystems["late"][0]


def test_a_solver_whose_connection_broke_comes_back_by_itself(hub, dealers):
    """Its process goes on without notice of the loss; the network gives it another one."""
    clock = hub.clock
    rig = Rig(hub, dealers)
    rig.turn(0)
    ports = rig.link.inputs, rig.link.outputs
    peer = Peer(hub.address, "model", "solver", *ports, clock=clock)
    peer.protocol.receive(wire.encode(wire.Welcome(session="demo", heartbeat_s=0.2)), clock())
    rig.lose()
    rig.turn(1)
    for _ in range(8):
        clock.ns += 200 * MS
        peer.receive()
    drain_until(hub, lambda: rig.link.returned)
    rig.turn(2)
    messages = []
    while not messages:
        messages = [m for m in peer.wait(DEADLINE_S) if not isinstance(m, wire.Heartbeat)]
    assert isinstance(messages[0], wire.Initialize)
    peer.close()


def test_hello_again_on_a_connection_that_stands_is_no_news(rig):
    rig.dealer.hello()
    rig.dealer.send(wire.Event(level="info", cause="x", text="after it"))
    drain_until(rig.hub, lambda: rig.link.events)
    assert not rig.link.returned
    assert not rig.hub.counters
