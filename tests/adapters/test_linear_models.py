"""What a subsystem tells of itself before the first tick, by whichever link it is reached."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hilrt.coupling.closed_loop import sensitivities_of
from hilrt.errors import PeerLost
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linear_model import find_linear_model
from hilrt.hosting.solver_process import MasterGone, serve
from hilrt.link import LARGEST_STATE, LinearModel
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.models.vehicle import Vehicle
from hilrt.peers import wire
from hilrt.peers.announced_ports import linear_answer, linear_model
from hilrt.peers.hub import Hub
from hilrt.peers.peer import Peer
from hilrt.solver import Ports
from hilrt_adapters.inprocess import InProcessLink, InProcessOptions
from hilrt_adapters.zeromq import ZeroMQLink, ZeroMQOptions
from tests.adapters.link_contract import Reference
from tests.stepping import make_network

H = 1e-3


@pytest.fixture
def hub():
    hub = Hub("test", connect_timeout=5.0)
    yield hub
    hub.close()


async def remote(hub, solver, capabilities=("linearise",), name="model"):
    """A link, and the thread of the solver process's loop behind it, which ends with the hub."""
    link = ZeroMQLink(name, ZeroMQOptions(adapter="zeromq"), Path())
    hub.add(link)
    hosted = HostedSolver(solver)

    def run():
        peer = Peer(
            hub.address, name, "solver", hosted.inputs, hosted.outputs, capabilities=capabilities
        )
        try:
            peer.connect(5.0)
            serve(peer, hosted)
        except MasterGone:
            pass
        finally:
            peer.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    await link.open()
    await link.initialize(0.0, np.zeros(hosted.n_inputs))
    return link, thread


@pytest.mark.parametrize("solver", [Mass1, Mass2])
async def test_a_remote_solver_answers_as_in_process_bit_for_bit(hub, solver):
    options = InProcessOptions(
        adapter="inprocess", model=f"hilrt.models.two_mass:{solver.__name__}"
    )
    local = InProcessLink("model", options, Path())
    await local.open()
    u = np.zeros(sum(port.size for port in local.inputs))
    await local.initialize(0.0, u)
    expected = await local.probes.linear_model(H, u)
    link, thread = await remote(hub, solver())
    found = await link.probes.linear_model(H, u)
    assert found.linear
    for array, reference in zip(found[:5], expected[:5], strict=True):
        np.testing.assert_array_equal(array, reference, strict=True)
    await link.stop("done")
    await asyncio.to_thread(thread.join, 5.0)


async def test_a_remote_solver_is_tried_out_again_between_two_steps_bit_for_bit(hub):
    options = InProcessOptions(adapter="inprocess", model="hilrt.models.two_mass:Mass1")
    local = InProcessLink("model", options, Path())
    await local.open()
    u = np.array([0.1, -2.0])
    await local.initialize(0.0, np.zeros(2))
    link, thread = await remote(hub, Mass1(), ("linearise", "linearise_again"))
    again, other = [await each.probes.renewed_model(0.5, H, u) for each in (link, local)]
    for array, reference in zip(again[:5], other[:5], strict=True):
        np.testing.assert_array_equal(array, reference, strict=True)
    np.testing.assert_allclose(again.A, [[0.0, 1.0], [-110.0, 0.0]], atol=1e-2)
    await link.stop("done")
    await asyncio.to_thread(thread.join, 5.0)
    link, thread = await remote(hub, Mass1(), name="other")
    assert await link.probes.renewed_model(0.5, H, u) is None
    await link.stop("done")
    await asyncio.to_thread(thread.join, 5.0)


async def test_a_solver_that_cannot_go_back_has_none_and_one_that_does_not_know_is_not_asked(hub):
    link, thread = await remote(hub, Reference())
    assert await link.probes.linear_model(H, np.zeros(3)) is None
    link._linearises = False
    link.send = lambda message: pytest.fail("it was asked")
    assert await link.probes.linear_model(H, np.zeros(3)) is None
    del link.send
    await link.stop("done")
    await asyncio.to_thread(thread.join, 5.0)


def packed(shape, value=0.0):
    return wire.pack(np.full(shape, value))


def answer(nx=1, **other):
    """An answer for three inputs and four outputs."""
    fits = {"A": (nx, nx), "B": (nx, 3), "C": (4, nx), "D": (4, 3)}
    return wire.Linearised(**{**{key: packed(shape) for key, shape in fits.items()}, **other})


WRONG = {
    "shape": answer(D=packed((3, 4, 2))),
    "not square": answer(A=packed(3)),
    "not finite": answer(B=packed((1, 3), np.nan)),
    "too many": answer(nx=LARGEST_STATE + 1),
    "fineness": answer(fineness=packed(3, 1.5)),
    "half a number": answer(C=b"123"),
    "own steps of other inputs": answer(own=packed((1, 15))),
    "own steps that are not finite": answer(own=packed((1, 17), np.inf)),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_matrices_that_make_no_sense_are_counted_and_mean_none(hub, wrong):
    link = ZeroMQLink("model", ZeroMQOptions(adapter="zeromq"), Path())
    hub.add(link)
    ports = Reference.inputs, Reference.outputs
    peer = Peer(hub.address, "model", "solver", *ports, capabilities=["linearise"])
    peer.say_hello()
    await link.open()
    asked = asyncio.create_task(link.probes.linear_model(H, np.zeros(3)))
    await asyncio.sleep(0)
    peer.send(wrong)
    assert await asked is None
    assert hub.counters["model", "malformed"] == link.dropped == 1
    # A solver that does not answer is not lost, one that is gone is.
    hub.connect_timeout = 0.01
    assert await link.probes.linear_model(H, np.zeros(3)) is None
    assert not link.peer.lost
    hub.connect_timeout = 5.0
    asked = asyncio.create_task(link.probes.linear_model(H, np.zeros(3)))
    await asyncio.sleep(0)
    peer.send(wire.Error(text="diverged"))
    with pytest.raises(PeerLost, match="diverged"):
        await asked
    peer.close()


def test_what_fits_no_message_is_not_sent_and_no_states_are_a_model():
    sizes: list[Any] = [(0, 0), (0, 400), (400, 0), (400, 400), 400]
    A, B, C, D, rest = (np.zeros(s) for s in sizes)
    large = LinearModel(A, B, C, D, rest, True)
    assert linear_answer(large) == wire.Linearised()
    sizes = [(0, 0), (0, 3), (4, 0), (4, 3), 3]
    A, B, C, D, rest = (np.ones(s) for s in sizes)
    small = LinearModel(A, B, C, D, rest, True)
    found = linear_model(linear_answer(small), 3, 4)
    assert found.own is None
    own = linear_model(linear_answer(small._replace(own=np.zeros((0, 15)))), 3, 4).own
    assert own.shape == (0, 15)
    assert found.A.shape == (0, 0)
    np.testing.assert_array_equal(found.D, np.ones((4, 3)))


def test_a_trial_that_takes_too_long_is_given_up():
    hosted = HostedSolver(Mass1())
    hosted.initialize(0.0, np.zeros(2))
    assert find_linear_model(hosted, np.zeros(2), H, within=-1.0) is None
    assert hosted.solver.save_state() == (0.0, 100.0)


def test_the_vehicle_at_a_standstill_answers_with_flywheel_and_converter():
    """By its data: J w' = T - k w²; the brake holds the wheels."""
    cycle = Path(__file__).parents[2] / "bench_configs" / "wltc_class3b.csv"
    vehicle = Vehicle(str(cycle))
    hosted = HostedSolver(vehicle)
    hosted.initialize(0.0, np.zeros(1))
    before = vehicle.save_state()
    found = find_linear_model(hosted, np.array([10.0]), H)
    data = vehicle.data
    speed = int(np.flatnonzero(found.C[0] > 0.5)[0])
    assert found.B[speed, 0] == pytest.approx(1.0 / data.input_inertia, rel=1e-4)
    slope = -2.0 * data.converter_capacity * data.idle_speed / data.input_inertia
    assert found.A[speed, speed] == pytest.approx(slope, rel=1e-3)
    assert not found.linear
    assert vehicle.save_state() == before


class Stuck(Mass1):
    """Goes back once only."""

    def restore_state(self, state):
        if self.x != 0.0:
            raise RuntimeError("no way back")


async def test_a_solver_that_stays_where_it_was_tried_out_is_lost():
    """It would go on from there, and nothing would tell."""
    link = InProcessLink("model", InProcessOptions(adapter="inprocess", model="-"), Path())
    link.host(Stuck())
    await link.initialize(0.0, np.zeros(2))
    with pytest.raises(PeerLost, match=r"restore_state raised after a probe: .*no way"):
        await link.probes.linear_model(H, np.zeros(2))


def test_matrices_out_of_all_proportion_are_no_loop():
    ports = {"a": Ports(Mass2.inputs, Mass2.outputs), "b": Ports(Mass1.inputs, Mass1.outputs)}
    connections = [{"from": "b.force", "to": "a.force"}, {"from": "a.x", "to": "b.x2"}]
    network, _ = make_network(ports, connections=connections)
    models = [
        LinearModel(
            np.full((1, 1), 1e300),
            np.full((1, nu), 1e300),
            np.full((ny, 1), 1e300),
            np.zeros((ny, nu)),
            np.ones(nu),
            False,
        )
        for nu, ny in [(1, 2), (2, 3)]
    ]
    assert sensitivities_of(network, models, H).states == 0
