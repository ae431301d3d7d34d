"""What holds for every `Link`: subclass `LinkContract` and give it the `link` fixture."""

import asyncio
import time

import numpy as np
import pytest

from hilrt import Port, Sample, Solver
from hilrt.errors import PeerLost
from tests.collected import collect, dispatch, received

DEADLINE_S = 10.0
H = 0.001


class Reference(Solver):
    """Outputs that show what arrived: the inputs at the end of the step, and where that is."""

    inputs = (Port("u", "V"), Port("v", "", size=2))
    outputs = (Port("u_end", "V", feedthrough=("u",)), Port("v_end", size=2), Port("t_end", "s"))

    def __init__(self, fail_at: float = np.inf) -> None:
        self.fail_at = fail_at
        self.stopped: list[str] = []

    def initialize(self, t0, u0):
        return Sample(np.array([*u0, t0]))

    def advance(self, t, h, u):
        if t >= self.fail_at:
            raise ZeroDivisionError("asked to fail")
        return Sample(
            np.array([*u(t + h), t + h]), dy=u.derivative(t + h)[[0, 1, 2, 2]][None], y_mid=None
        )

    def stop(self, reason):
        self.stopped.append(reason)


async def arrivals(link, count=1):
    """The next arrivals, waiting for them without blocking the loop."""
    found = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} arrivals of {count}"
        found.extend(received(link))
        await asyncio.sleep(0.001)
    return found


class LinkContract:
    """The contract.

    The subclass has an async fixture `link` that yields a link that is not open, with whatever is
    behind it running, and closes it; and `fail`, a coroutine that makes the subsystem fail after
    it has been initialized. Stepped links are expected to reach a `Reference`.
    """

    async def fail(self, link):
        raise NotImplementedError

    async def started(self, link):
        collect(link)
        await link.open()
        n = sum(port.size for port in link.inputs)
        u0 = np.array([port.start for port in link.inputs for _ in range(port.size)])
        assert u0.shape == (n,)
        return await link.initialize(0.0, u0)

    def dispatch(self, link, tick):
        """Dispatch start values and spoil the array: it belongs to the caller again."""
        start = [port.start for port in link.inputs for _ in range(port.size)]
        coefficients = np.array([start, np.zeros(len(start))])
        dispatch(link, tick, tick * H, H, coefficients)
        coefficients[:] = np.nan

    async def test_open_tells_the_ports(self, link):
        await link.open()
        for ports in (link.inputs, link.outputs):
            assert isinstance(ports, tuple)
            assert all(isinstance(port, Port) for port in ports)
        assert link.outputs

    async def test_ports_known_before_are_those_of_open(self, link):
        before = type(link).describe(link.name, link.options, link.folder)
        await link.open()
        assert not before.problems
        assert before.ports is None or before.ports == (link.inputs, link.outputs)

    async def test_initialize_returns_every_output(self, link):
        sample = await self.started(link)
        assert isinstance(sample, Sample)
        assert sample.y.shape == (sum(port.size for port in link.outputs),)
        assert np.isfinite(sample.y).all()

    async def test_samples_arrive_after_dispatch(self, link):
        await self.started(link)
        for tick in range(3):
            self.dispatch(link, tick)
            (arrival, *_) = await arrivals(link)
            assert arrival.sample.y.shape == (sum(port.size for port in link.outputs),)
            assert np.isfinite(arrival.sample.y).all()
            assert np.isfinite(arrival.t_arrived)

    async def test_a_stepped_link_answers_each_dispatch_once(self, link):
        if link.physical:
            pytest.skip("a bench sends by itself")
        await self.started(link)
        assert received(link) == []
        for tick in (0, 5):
            self.dispatch(link, tick)
            assert len(await arrivals(link)) == 1
            assert received(link) == []

    async def test_a_stepped_link_gets_the_whole_polynomial(self, link):
        if link.physical:
            pytest.skip("a bench is not stepped")
        await self.started(link)
        coefficients = np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0], [1e3, 2e3, 3e3]])
        dispatch(link, 1, 0.5, 0.1, coefficients)
        coefficients[:] = np.nan
        (arrival,) = await arrivals(link)
        expected = np.array([1.0, 2.0, 3.0]) * (1 + 10 * 0.1 + 1e3 * 0.1**2 / 2)
        np.testing.assert_allclose(arrival.sample.y, [*expected, 0.6], rtol=1e-14)
        slopes = np.array([1.0, 2.0, 3.0, 3.0]) * (10 + 1e3 * 0.1)
        np.testing.assert_allclose(arrival.sample.dy, [slopes], rtol=1e-14)
        assert arrival.sample.compute_us > 0

    async def test_fileno_is_a_descriptor_or_none(self, link):
        await link.open()
        fd = link.fileno()
        assert fd is None or fd >= 0

    async def test_a_failure_is_a_lost_peer_that_names_the_subsystem(self, link):
        await self.started(link)
        await self.fail(link)
        with pytest.raises(PeerLost) as lost:
            await arrivals(link, 10**9)
        assert lost.value.name == link.name
        assert lost.value.reason
        with pytest.raises(PeerLost):  # and stays lost
            link.receive()

    async def test_the_end_never_raises_after_a_failure(self, link):
        await self.started(link)
        await self.fail(link)
        with pytest.raises(PeerLost):
            await arrivals(link, 10**9)
        await link.safe("test")
        await link.stop("test")
        await link.close()

    async def test_the_end_never_raises_before_open_nor_twice(self, link):
        await link.safe("test")
        await link.stop("test")
        await link.close()
        await link.stop("again")
        await link.close()

    async def test_the_end_never_raises_after_work(self, link):
        await self.started(link)
        self.dispatch(link, 0)
        await link.safe("test")
        await link.stop("test")
        await link.stop("again")
        await link.close()
        await link.close()
