"""Looks before the tick: bounded, never too late, polled in the spin alone; on a scripted clock."""

import socket

import pytest

from hilrt.errors import PeerLost
from hilrt.timing import clock as clock_module
from hilrt.timing.clock import WallClock
from hilrt.timing.early_reception import FIRST_LOOK_NS, FRUITLESS, EarlyReception
from tests.virtual_clock import VirtualClock

US = 1_000
MS = 1_000_000
STEP = MS
TICK = 10 * MS


class Time:
    """A clock's reading that tests and looks move."""

    def __init__(self):
        self.ns = TICK - STEP
        self.passed = lambda ns: None

    def __call__(self):
        self.ns += 10  # reading it takes time, so that busy-waiting ends
        self.passed(self.ns)
        return self.ns


class Peers:
    """Messages at scripted times; a real descriptor that is readable while one waits."""

    def __init__(self, time, *times_ns, takes_ns=10 * US):
        self.time, self.coming, self.takes_ns = time, list(times_ns), takes_ns
        time.passed = self.pass_until
        self.here, self.there = socket.socketpair()
        self.looks = []  # (when it began, by when it had to end, first)
        self.arrived = self.found = 0
        self.always_readable = False

    def fileno(self):
        return self.here.fileno()

    def pass_until(self, ns):
        """Let messages arrive until then; whether there are any."""
        while self.coming and self.coming[0] <= ns:
            self.coming.pop(0)
            self.there.send(b"x")
            self.arrived += 1
        return self.arrived > 0 or self.always_readable

    def receive_early(self, until_ns, *, first):
        self.looks.append((self.time.ns, until_ns, first))
        self.pass_until(self.time.ns)
        found, self.arrived = self.arrived, 0
        if found:
            self.here.recv(found)
            self.time.ns += self.takes_ns
        self.found += found
        return found

    def close(self):
        self.here.close()
        self.there.close()


class Timer:
    """Blocks in scripted time, until a message comes if it is to watch for one."""

    def __init__(self, time, peers):
        self.time, self.peers, self.watched = time, peers, 0

    async def wait_until(self, target_ns):
        self.time.ns = max(self.time.ns, target_ns)

    def block_until(self, target_ns, fd=None):
        if fd is not None:
            self.watched += 1
            assert fd == self.peers.fileno()
            if self.peers.pass_until(self.time.ns):
                return False
            if self.peers.coming and self.peers.coming[0] < target_ns:
                self.time.ns = self.peers.coming[0]
                self.peers.pass_until(self.time.ns)
                return False
        self.time.ns = max(self.time.ns, target_ns)
        return True

    def close(self):
        pass


@pytest.fixture
def sleep(monkeypatch):
    """Sleeps until `TICK` while messages come at the given times before it [µs]."""
    made = []

    async def sleep(*before_us, spin_us=50, takes_us=10, always_readable=False):
        time = Time()
        monkeypatch.setattr(clock_module, "monotonic_ns", time)
        peers = Peers(time, *(TICK - us * US for us in before_us), takes_ns=takes_us * US)
        peers.always_readable = always_readable
        made.append(peers)
        reception = EarlyReception(peers, STEP, time)
        timer = Timer(time, peers)
        wall = WallClock(spin_us * US, timer=timer)
        reception.begin(TICK)
        await wall.sleep_until(TICK, reception=reception)
        return peers, timer, reception

    yield sleep
    for peers in made:
        peers.close()


async def test_what_comes_while_the_master_sleeps_is_received_at_once(sleep):
    peers, _, _ = await sleep(900, 600, 300)
    begun = [at for at, _, _ in peers.looks]
    assert peers.found == 3
    for look, before_us in zip(begun[1:], (900, 600, 300), strict=True):
        assert look - (TICK - before_us * US) < 5 * US
    assert [first for _, _, first in peers.looks] == [True, False, False, False]


async def test_every_look_ends_by_the_tick(sleep):
    peers, _, _ = await sleep(900, 700, 500, 300, 120, 70)
    assert peers.found == 6
    for at, until, _ in peers.looks:
        assert at < until == TICK
    assert peers.time.ns < TICK + 2 * US


@pytest.mark.parametrize("before_us", [75, 45, 20, 5])
async def test_what_comes_shortly_before_the_tick_is_received_at_once(sleep, before_us):
    """Also where a look usually takes longer than is left: the cut would end later still."""
    peers, _, _ = await sleep(900, before_us, takes_us=40)
    assert peers.found == 2
    assert peers.time.ns - TICK < max(0, 40 - before_us) * US + 5 * US


async def test_the_first_look_of_a_sleep_needs_time(sleep):
    """Nothing says yet that there is something to receive."""
    peers, _, _ = await sleep(spin_us=980)
    assert not peers.looks


async def test_a_long_spin_polls_now_and_then_before_the_last_fifth_of_a_step(sleep):
    """What comes in it is received within a fortieth of a step, and not only in the last fifth."""
    peers, timer, _ = await sleep(600, 333, spin_us=700)
    begun = [at for at, _, _ in peers.looks]
    assert (peers.found, timer.watched) == (2, 1)
    for look, before_us in zip(begun[1:], (600, 333), strict=True):
        assert 0 <= look - (TICK - before_us * US) <= 25 * US + 100


async def test_a_spin_as_long_as_the_step_receives_too(sleep):
    """Such a spin begins without a rest, in which the first look would be."""
    peers, timer, _ = await sleep(950, 600, spin_us=1000)
    assert (peers.found, timer.watched) == (2, 0)
    assert [first for _, _, first in peers.looks] == [True, False, False]


async def test_few_polls_lie_before_the_last_fifth_of_a_step(sleep, monkeypatch):
    polls = []

    class Never:
        def register(self, fd, events):
            pass

        def poll(self, timeout):
            polls.append(timeout)
            return []

    monkeypatch.setattr("hilrt.timing.early_reception.POLLED", 0.0)
    monkeypatch.setattr("hilrt.timing.early_reception.select.poll", Never)
    await sleep(spin_us=700)
    assert 20 <= len(polls) <= 700 / 25 + 1


async def test_without_a_spin_nothing_is_polled(sleep):
    peers, timer, _ = await sleep(900, spin_us=0)
    assert (peers.found, timer.watched) == (1, 2)


async def test_a_descriptor_that_lies_is_left_alone(sleep):
    peers, timer, _ = await sleep(always_readable=True)
    assert len(peers.looks) == 1 + FRUITLESS
    assert timer.watched == FRUITLESS


async def test_a_flood_does_not_hold_the_master_up(sleep):
    """Messages without end, each read in 10 µs: the looks end well before the tick."""
    peers, _, _ = await sleep(*range(990, 0, -9))
    assert peers.time.ns - TICK < 2 * MS // 100
    assert peers.looks[-1][0] < TICK
    assert peers.found > 50


async def test_the_usual_duration_rises_quickly_and_falls_slowly(sleep):
    _, _, slow = await sleep(900, 800, takes_us=100)
    assert slow.usual_ns == pytest.approx(100 * US, rel=0.01)
    _, _, held_up = await sleep(900, takes_us=500)
    assert held_up.usual_ns == 2 * FIRST_LOOK_NS  # one that was held up is not believed
    _, _, quick = await sleep(900, takes_us=10)
    assert FIRST_LOOK_NS // 2 < quick.usual_ns < FIRST_LOOK_NS


async def test_a_loss_that_is_found_early_ends_the_sleep(sleep, monkeypatch):
    def lost(self, until_ns, *, first):
        raise PeerLost("engine", "its process ended")

    monkeypatch.setattr(Peers, "receive_early", lost)
    with pytest.raises(PeerLost, match="its process ended"):
        await sleep(500)


async def test_a_virtual_clock_looks_once_on_its_way():
    time = Time()
    peers = Peers(time, TICK - 500 * US)
    clock = VirtualClock(TICK - STEP)
    reception = EarlyReception(peers, STEP, clock.now_ns)
    time.ns = TICK - 100 * US
    reception.begin(TICK)
    await clock.sleep_until(TICK, reception=reception)
    assert (clock.now_ns(), peers.found, len(peers.looks)) == (TICK, 1, 1)
    peers.close()
