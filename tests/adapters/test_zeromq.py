import threading
from pathlib import Path

import numpy as np
import pytest

from hilrt import wire
from hilrt.errors import HilrtError, PeerLost, SolverError
from hilrt.hosting import HostedSolver
from hilrt.hub import Hub
from hilrt.peer import Peer
from hilrt.solver_process import serve
from hilrt_adapters.zeromq import Options, ZeroMQLink
from tests.adapters.link_contract import LinkContract, Reference, arrivals


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
        except HilrtError as error:
            self.ended_with = error
        finally:
            peer.close()


@pytest.fixture
def hub():
    hub = Hub("test", connect_timeout=10.0)
    yield hub
    hub.close()


@pytest.fixture
async def served(hub):
    """A link and the thread behind it."""
    link = ZeroMQLink("model", Options(adapter="zeromq"), Path())
    hub.add(link)
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
        link.dispatch(9, 2000.0, 0.1, np.zeros((1, 3)))


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
    link.dispatch(0, 1000.0, 0.1, np.zeros((1, 3)))
    with pytest.raises(PeerLost, match=r"ZeroDivisionError: asked to fail \(.*contract.py:\d+\)"):
        await arrivals(link)
    thread.join(10.0)
    assert isinstance(thread.ended_with, SolverError)


class Scripted:
    """A link whose peer is played by the test."""

    def __init__(self, hub):
        self.link = ZeroMQLink("model", Options(adapter="zeromq"), Path())
        hub.add(self.link)
        self.peer = Peer(hub.address, "model", "solver", Reference.inputs, Reference.outputs)

    async def open(self):
        self.peer.socket.connect(self.peer.address)
        self.peer.send(self.peer._hello)
        await self.link.open()


@pytest.fixture
async def scripted(hub):
    scripted = Scripted(hub)
    await scripted.open()
    yield scripted
    scripted.peer.close()


def advanced(tick, y):
    return wire.Advanced(tick=tick, y=wire.pack(np.array(y)))


async def test_answers_to_other_ticks_are_dropped(scripted, hub):
    scripted.link.dispatch(3, 0.0, 0.1, np.zeros((1, 3)))
    scripted.peer.send(advanced(2, [0.0] * 4))
    scripted.peer.send(advanced(3, [1.0] * 4))
    scripted.peer.send(advanced(3, [2.0] * 4))
    scripted.peer.send(wire.Armed())
    (arrival,) = await arrivals(scripted.link)
    assert arrival.sample.y.tolist() == [1.0] * 4
    while hub.counters["model", "unexpected"] < 3:
        assert list(scripted.link.poll()) == []


async def test_an_answer_of_the_wrong_size_is_counted_as_dropped_not_as_lost(scripted, hub):
    scripted.link.dispatch(3, 0.0, 0.1, np.zeros((1, 3)))
    scripted.peer.send(advanced(3, [1.0] * 5))
    scripted.peer.send(advanced(3, [1.0] * 4))
    assert len(await arrivals(scripted.link)) == 1
    assert hub.counters["model", "malformed"] == 1
    assert (scripted.link.dropped, scripted.link.lost) == (1, 0)


async def test_outputs_that_are_not_finite_end_it_by_name(scripted):
    scripted.link.dispatch(3, 0.0, 0.1, np.zeros((1, 3)))
    scripted.peer.send(advanced(3, [1.0, np.nan, 0.0, np.inf]))
    with pytest.raises(PeerLost, match=r"v_end\[0\], t_end are not finite"):
        await arrivals(scripted.link)


async def test_it_is_computing_from_dispatch_to_answer(scripted):
    assert not scripted.link.computing
    scripted.link.dispatch(3, 0.0, 0.1, np.zeros((1, 3)))
    assert scripted.link.computing
    scripted.peer.send(advanced(3, [1.0] * 4))
    await arrivals(scripted.link)
    assert not scripted.link.computing
