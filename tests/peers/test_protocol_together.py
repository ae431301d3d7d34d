"""Both sides of the protocol, joined by a network of delays: no sockets, and no time passes."""

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilrt.peers import wire
from hilrt.peers.master_protocol import MasterProtocol
from hilrt.peers.peer_events import Accepted, CameBack, Left, Lost, NotUsed
from hilrt.peers.peer_protocol import PeerProtocol

SECOND = 1_000_000_000
MS = 1_000_000
LOOK = MS // 2


class Network:
    """One master and one solver whose clock is ahead; each looks every half millisecond.

    Parameters
    ----------
    offset_ns : int
        The solver's clock minus the master's.
    delays : sequence of int
        Of one message after the other, over and over, ns.
    """

    def __init__(self, offset_ns=0, delays=(MS,)):
        self.now, self.offset_ns = 50 * SECOND, offset_ns
        self.delays, self.carried = delays, 0
        self.on_the_way = []
        self.connection, self.connected = 0, True
        self.master = MasterProtocol("demo", self.now)
        self.link = self.master.expect("model", "solver", readmits=True)
        self.solver = self.started()
        self.events, self.messages, self.used = [], [], []

    def started(self):
        hello = wire.Hello(version=1, role="solver", name="model", inputs=[], outputs=[])
        solver = PeerProtocol(hello, self.now + self.offset_ns)
        solver.connect(self.now + self.offset_ns)
        return solver

    def carry(self, to, connection, data):
        if self.connected and connection == self.connection:
            at = self.now + self.delays[self.carried % len(self.delays)]
            heapq.heappush(self.on_the_way, (at, self.carried, to, connection, data))
            self.carried += 1

    def master_hears(self, connection, data):
        if (peer := self.master.connections.get(connection)) is None:
            self.master.greet(connection, data, self.now)
        elif (message := peer.receive(data, self.now)) is not None:
            self.used.append(message)

    def run(self, seconds):
        until = self.now + round(seconds * SECOND)
        while self.now < until:
            self.now += LOOK
            while self.on_the_way and self.on_the_way[0][0] <= self.now:
                _, _, to, connection, data = heapq.heappop(self.on_the_way)
                if connection != self.connection:
                    continue
                if to == "master":
                    self.master_hears(connection, data)
                elif (message := self.solver.receive(data, self.now + self.offset_ns)) is not None:
                    self.messages.append(message)
            self.master.keep_alive(self.now)
            self.solver.keep_alive(self.now + self.offset_ns)
            self.events += self.master.events()
            for connection, data in self.master.data_to_send():
                self.carry("solver", connection, data)
            for data in self.solver.data_to_send():
                self.carry("master", self.connection, data)
                self.solver.sent(self.now + self.offset_ns)

    def told(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


def test_both_live_on_heartbeats_alone():
    network = Network()
    network.run(60.0)
    assert [type(event) for event in network.events] == [Accepted]
    assert not network.solver.master_silent(network.now)
    assert not network.master.counters
    assert not network.solver.counters


@settings(max_examples=30, deadline=None)
@given(
    st.integers(-(10**12), 10**12),
    st.lists(st.integers(0, 20 * MS), min_size=1, max_size=7),
)
def test_the_offset_is_known_to_half_of_the_least_round_trip(offset_ns, delays):
    network = Network(offset_ns, delays)
    network.run(5.0)
    clock = network.link.clock
    assert clock.round_trip_ns is not None
    assert abs(clock.offset_ns - offset_ns) <= clock.round_trip_ns / 2 + 1


def test_a_network_that_is_away_for_longer_than_the_silence_makes_both_lose_the_other():
    network = Network()
    network.run(1.0)
    network.connected = False
    network.run(6.0)
    [lost] = network.told(Lost)
    assert "silent" in lost.reason
    assert network.solver.master_silent(network.now)


def test_a_short_gap_is_not_noticed():
    network = Network()
    network.run(1.0)
    network.connected = False
    network.run(0.9)
    network.connected = True
    network.run(5.0)
    assert not network.told(Lost)
    assert not network.solver.master_silent(network.now)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_solver_comes_back_over_another_connection(restarted):
    """Its process was started anew; or it goes on and learns of the loss by the silence."""
    network = Network()
    network.master.running = True
    network.run(1.0)
    old, network.connection = network.connection, 1
    if restarted:
        network.solver = network.started()
    network.master.connection_lost(old, "its connection closed")
    network.run(2.0)
    changes = [type(event) for event in network.events if not isinstance(event, NotUsed)]
    assert changes == [Accepted, Left, CameBack]
    again = wire.Initialize(t0=3.0, u0=b"")
    network.carry("solver", 1, network.link.initialize_again(again))
    network.run(0.1)
    assert again in network.messages
    network.carry("master", 1, wire.encode(wire.Initialized(y=wire.pack(np.zeros(0)))))
    network.run(10.0)
    assert len(network.used) == 1
    assert not network.told(Lost)
