import threading
import time
from pathlib import Path

import numpy as np
import pytest

from hilrt import Port
from hilrt.errors import HilrtError, PeerLost, SolverError
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.solver_process import MasterGone, serve
from hilrt.peers import wire
from hilrt.peers.authenticator import KeyAuthenticator
from hilrt.peers.hub import Hub
from hilrt.peers.keys import VARIABLE, make_keys
from hilrt.peers.peer import Peer
from hilrt.peers.peer_protocol import MASTER_SILENCE_S
from hilrt.peers.transport import local
from hilrt.peers.transport.local import LocalClient, LocalServer
from hilrt.peers.transport.zeromq_sockets import Dealer, Router
from hilrt_adapters.zeromq import ZeroMQLink, ZeroMQOptions
from tests.adapters.link_contract import LinkContract, Reference, arrivals
from tests.collected import collect, dispatch, received


class SolverThread(threading.Thread):
    """The solver process's loop, in a thread."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address = address
        self.ended_with = None
        self.solver = Reference(fail_at=1000.0)

    def run(self):
        hosted = HostedSolver(self.solver)
        peer = Peer(self.address, "model", "solver", hosted.inputs, hosted.outputs)
        try:
            peer.connect(10.0)
            self.ended_with = serve(peer, hosted)
        except (HilrtError, MasterGone) as error:
            self.ended_with = error
        finally:
            peer.close()


@pytest.fixture
def direct():
    """Whether peers of this machine may leave ZeroMQ out."""
    return True


@pytest.fixture
def hub(direct):
    hub = Hub("test", connect_timeout=10.0, direct=direct)
    yield hub
    hub.close()


@pytest.fixture
async def served(hub):
    """A link and the thread behind it."""
    link = ZeroMQLink("model", ZeroMQOptions(adapter="zeromq"), Path())
    hub.add(link)
    collect(link)
    thread = SolverThread(hub.address)
    thread.start()
    yield link, thread
    if thread.is_alive():
        await link.open()
        link.send(wire.Stop(reason="the test is over"))
    thread.join(10.0)
    assert not thread.is_alive()
    await link.close()


class TestZeroMQ(LinkContract):
    @pytest.fixture
    async def link(self, served):
        return served[0]

    async def fail(self, link):
        dispatch(link, 9, 2000.0, 0.1, np.zeros((1, 3)))


class TestZeroMQByTCP(TestZeroMQ):
    @pytest.fixture
    def direct(self):
        return False


async def greeted(hub):
    """A link, and the peer behind it, which only says hello."""
    link = ZeroMQLink("model", ZeroMQOptions(adapter="zeromq"), Path())
    hub.add(link)
    peer = Peer(hub.address, "model", "solver", Reference.inputs, Reference.outputs)
    peer.say_hello()
    await link.open()
    return link, peer


@pytest.mark.skipif(not local.available(), reason="this system has no such sockets")
class TestTheWayThatIsTaken:
    async def test_within_this_machine(self, served):
        link, _ = served
        await link.open()
        assert isinstance(link.peer.connection[0], LocalServer)

    async def test_the_name_belongs_to_another_process(self, caplog, monkeypatch):
        """Nothing but time is lost."""
        squatter = LocalServer("tcp://squatted")
        with monkeypatch.context() as patched:
            patched.setattr(local, "abstract_name", lambda address: b"\0hilrt tcp://squatted")
            hub = Hub("second", connect_timeout=10.0)
        assert "slower: " in caplog.text
        link, peer = await greeted(hub)
        assert isinstance(link.peer.connection[0], Router)
        for end in (peer, hub):
            end.close()
        squatter.close(0)

    def test_messages_that_may_be_large(self, hub):
        many = [Port("y", size=5000)]
        small = Peer(hub.address, "model", "solver", [], [Port("y")])
        large = Peer(hub.address, "model", "solver", many, many)
        assert isinstance(small.transport, LocalClient)
        assert isinstance(large.transport, Dealer)
        small.close()
        large.close()

    def test_with_keys(self, hub, tmp_path, monkeypatch):
        make_keys(tmp_path, ["model"])
        guarded = Hub("guarded", authenticator=KeyAuthenticator(tmp_path))
        assert local.connect(guarded.address) is None
        guarded.close()
        monkeypatch.setenv(VARIABLE, str(tmp_path))
        peer = Peer(hub.address, "model", "solver", [], [])
        assert isinstance(peer.transport, Dealer)
        peer.close()

    async def test_a_transport_that_no_peer_uses_is_still_asked_now_and_then(self, hub):
        stranger = Dealer(hub.address)
        stranger.send(wire.encode(wire.Stopped()))
        deadline = time.monotonic() + 10.0
        while not hub.counters["?", "unknown_sender"]:
            assert time.monotonic() < deadline
            hub.drain()
        link, peer = await greeted(hub)
        stranger.send(wire.encode(wire.Stopped()))
        while hub.counters["?", "unknown_sender"] < 2:
            assert time.monotonic() < deadline
            link.receive()
        stranger.close(0)
        peer.close()

    async def test_a_master_that_ends_ends_the_solver(self, hub):
        """At once, not after the silence that TCP has to wait for."""
        link = ZeroMQLink("model", ZeroMQOptions(adapter="zeromq"), Path())
        hub.add(link)
        thread = SolverThread(hub.address)
        thread.start()
        await link.open()
        hub.close()
        thread.join(0.5 * MASTER_SILENCE_S)
        assert not thread.is_alive()
        assert "closed the connection" in str(thread.ended_with)

    async def test_a_solver_that_dies_is_lost_at_once(self, hub):
        link, peer = await greeted(hub)
        peer.close()
        with pytest.raises(PeerLost, match="its connection closed"):
            await arrivals(link)


async def test_stop_reaches_the_solver_once(served):
    link, thread = served
    await link.open()
    await link.stop("finished")
    thread.join(10.0)
    assert thread.solver.stopped == ["finished"]
    assert thread.ended_with == "finished"


async def test_what_a_solver_raises_is_told_with_its_place(served):
    link, thread = served
    await link.open()
    dispatch(link, 0, 1000.0, 0.1, np.zeros((1, 3)))
    with pytest.raises(PeerLost, match=r"ZeroDivisionError: asked to fail \(.*contract.py:\d+\)"):
        await arrivals(link)
    thread.join(10.0)
    assert isinstance(thread.ended_with, SolverError)


class Scripted:
    """A link whose peer is played by the test."""

    def __init__(self, hub):
        self.link = ZeroMQLink("model", ZeroMQOptions(adapter="zeromq"), Path())
        hub.add(self.link)
        collect(self.link)
        self.peer = Peer(hub.address, "model", "solver", Reference.inputs, Reference.outputs)

    async def open(self):
        self.peer.say_hello()
        await self.link.open()


@pytest.fixture
async def scripted(hub):
    scripted = Scripted(hub)
    await scripted.open()
    yield scripted
    scripted.peer.close()


def advanced(tick, y):
    return wire.Advanced(tick=tick, y=wire.pack(np.array(y)))


async def test_a_solver_that_came_back_gets_the_parameters_that_were_changed(scripted):
    link, heard, used = scripted.link, [], (wire.Initialize, wire.SetParameter)
    assert link.set_parameter("k", 2.0) == ""
    assert link.set_parameter("m", 3.0) == ""
    assert link.set_parameter("k", 4.0) == ""
    link.initialize_again(1.0, np.zeros(3))
    while len(heard) < 6:
        heard += [m for m in scripted.peer.wait(10.0) if isinstance(m, used)]
    changes = [(m.name, m.value) for m in heard if isinstance(m, wire.SetParameter)]
    assert changes == [("k", 2.0), ("m", 3.0), ("k", 4.0), ("k", 4.0), ("m", 3.0)]
    assert isinstance(heard[3], wire.Initialize)


async def test_a_parameter_of_a_process_that_is_gone_is_refused(scripted):
    scripted.link.gone("its process ended")
    assert scripted.link.set_parameter("k", 2.0) == "its process cannot be reached"


async def test_answers_to_other_ticks_are_dropped(scripted, hub):
    dispatch(scripted.link, 3, 0.0, 0.1, np.zeros((1, 3)))
    scripted.peer.send(advanced(2, [0.0] * 4))
    scripted.peer.send(advanced(3, [1.0] * 4))
    scripted.peer.send(advanced(3, [2.0] * 4))
    scripted.peer.send(wire.Armed())
    (arrival,) = await arrivals(scripted.link)
    assert arrival.sample.y.tolist() == [1.0] * 4
    while hub.counters["model", "unexpected"] < 3:
        assert received(scripted.link) == []


async def test_an_answer_of_the_wrong_size_is_counted_as_dropped_not_as_lost(scripted, hub):
    dispatch(scripted.link, 3, 0.0, 0.1, np.zeros((1, 3)))
    scripted.peer.send(advanced(3, [1.0] * 5))
    scripted.peer.send(advanced(3, [1.0] * 4))
    assert len(await arrivals(scripted.link)) == 1
    assert hub.counters["model", "malformed"] == 1
    assert (scripted.link.dropped, scripted.link.lost) == (1, 0)


async def test_outputs_that_are_not_finite_end_it_by_name(scripted):
    dispatch(scripted.link, 3, 0.0, 0.1, np.zeros((1, 3)))
    scripted.peer.send(advanced(3, [1.0, np.nan, 0.0, np.inf]))
    with pytest.raises(PeerLost, match=r"v_end\[0\], t_end are not finite"):
        await arrivals(scripted.link)


async def test_it_is_computing_from_dispatch_to_answer(scripted):
    assert not scripted.link.peer.computing
    dispatch(scripted.link, 3, 0.0, 0.1, np.zeros((1, 3)))
    assert scripted.link.peer.computing
    scripted.peer.send(advanced(3, [1.0] * 4))
    await arrivals(scripted.link)
    assert not scripted.link.peer.computing
