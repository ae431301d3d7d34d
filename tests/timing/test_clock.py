"""The virtual clock, and the wall clock's promises that do not depend on load."""

import asyncio
import contextlib
import select
import socket
import sys

import pytest

from hilrt.timing import clock as clock_module
from hilrt.timing.clock import (
    MAX_SPIN_NS,
    MIN_SPIN_NS,
    Clock,
    TimerFd,
    WallClock,
    measure_spin_ns,
    monotonic_ns,
)
from tests.virtual_clock import VirtualClock

linux = pytest.mark.skipif(sys.platform != "linux", reason="timerfd is a Linux call")
MS = 1_000_000


@pytest.fixture(params=["plain", pytest.param("timerfd", marks=linux)])
def wall(request):
    clock = WallClock(timer=request.param)
    yield clock
    clock.close()


async def test_virtual_clock_jumps_and_never_goes_back():
    clock = VirtualClock(100)
    await clock.sleep_until(10**15)
    assert clock.now_ns() == 10**15
    await clock.sleep_until(5)
    assert clock.now_ns() == 10**15
    clock.advance(3)
    assert clock.now_ns() == 10**15 + 3


@pytest.mark.parametrize("make", [VirtualClock, WallClock])
async def test_the_loop_gets_turns_although_every_target_has_passed(make, monkeypatch):
    readings = iter(range(0, 10**12, clock_module.TURN_NS // 4))
    monkeypatch.setattr(clock_module, "monotonic_ns", lambda: next(readings))
    clock = make()
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(count())
    for _ in range(100):
        await clock.sleep_until(-1)
    task.cancel()
    clock.close()
    assert 10 <= turns < 100  # now and then, not every time


async def test_wall_clock_never_returns_early(wall):
    for spin_ns in (0, 100_000, 10 * MS):
        wall.spin_ns = spin_ns
        for _ in range(3):
            target = wall.now_ns() + 2 * MS
            await wall.sleep_until(target)
            assert monotonic_ns() >= target


class ScriptedTimer:
    """Wakes a clock late by `late_ns`, in a time of its own."""

    def __init__(self):
        self.ns = self.late_ns = 0
        self.waits = []

    def __call__(self):
        self.ns += 5_000
        return self.ns

    async def wait_until(self, target_ns):
        self.block_until(target_ns)

    def block_until(self, target_ns, fd=None):
        self.waits.append(target_ns)
        self.ns = target_ns + self.late_ns
        return True

    def close(self):
        pass


async def test_wall_clock_returns_at_once_for_the_past():
    timer = ScriptedTimer()
    wall = WallClock(timer=timer)
    await wall.sleep_until(wall.now_ns() - 1)
    await wall.sleep_until(-5)
    assert timer.waits == []


async def test_wall_clock_sleeps_while_others_run(wall):
    ran = []

    async def other():
        ran.append(True)

    task = asyncio.create_task(other())
    await wall.sleep_until(wall.now_ns() + 2 * MS)
    assert ran
    await task


async def passes_while_it_sleeps(clock, length_ns, stand_still):
    """Passes through the event loop during a sleep that ends in time."""
    passes = 0

    def count():
        nonlocal passes
        passes += 1
        loop.call_soon(count)

    loop = asyncio.get_running_loop()
    loop.call_soon(count)
    target = clock.now_ns() + length_ns
    woke = await clock.sleep_until(target, stand_still=stand_still)
    assert target <= woke <= clock.now_ns()
    return passes


async def test_the_loop_stands_still_at_the_end_of_a_sleep(wall):
    still = clock_module.STANDSTILL_NS
    assert await passes_while_it_sleeps(wall, still // 2, True) == 1  # others get their turn first
    assert await passes_while_it_sleeps(wall, 4 * still, True) > 1
    assert await passes_while_it_sleeps(wall, still // 2, False) > 1


@linux
async def test_the_loop_does_not_hear_of_a_timer_that_rang_while_it_stood_still():
    clock = WallClock(timer="timerfd")
    await clock.sleep_until(clock.now_ns() + 2 * clock_module.STANDSTILL_NS)  # the loop watches it
    await clock.sleep_until(clock.now_ns() + clock_module.STANDSTILL_NS // 2)
    readable, _, _ = select.select([clock.timer], [], [], 0)
    assert readable == []
    clock.close()


@linux
async def test_a_blocking_wait_ends_for_a_descriptor_or_at_its_time():
    here, there = socket.socketpair()
    with contextlib.closing(TimerFd()) as timer, here, there:
        there.send(b"x")
        assert not timer.block_until(monotonic_ns() + 3600 * 1000 * MS, here.fileno())
        here.recv(1)
        target = monotonic_ns() + MS
        assert timer.block_until(target, here.fileno())
        assert monotonic_ns() >= target
        others, _ = pair = socket.socketpair()
        assert timer.block_until(monotonic_ns() + MS, others.fileno())
        for one in pair:
            one.close()


async def test_a_cancelled_sleep_leaves_the_clock_usable(wall):
    task = asyncio.create_task(wall.sleep_until(wall.now_ns() + 3600 * 1000 * MS))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    target = wall.now_ns() + MS
    await asyncio.wait_for(wall.sleep_until(target), 30)
    assert wall.now_ns() >= target


@linux
async def test_a_second_sleeper_is_refused():
    clock = WallClock(timer="timerfd")
    far = clock.now_ns() + 60_000 * MS
    first = asyncio.create_task(clock.sleep_until(far))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="another task"):
        await clock.sleep_until(far)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    clock.close()


def test_a_clock_outlives_an_event_loop(wall):
    async def overslept():
        target = wall.now_ns() + MS
        await wall.sleep_until(target)
        return wall.now_ns() - target

    assert asyncio.run(overslept()) >= 0
    assert asyncio.run(overslept()) >= 0
    wall.close()
    wall.close()


@pytest.mark.parametrize("longest_ns", [0, 300_000])
async def test_the_spin_follows_the_timer_if_it_may(monkeypatch, longest_ns):
    async def spin_after(wakes, late_ns):
        time.late_ns = late_ns
        for _ in range(wakes):
            await clock.sleep_until(time.ns + MS)
        return clock.spin_ns

    time = ScriptedTimer()
    monkeypatch.setattr(clock_module, "monotonic_ns", time)
    clock = WallClock(60_000, longest_ns, timer=time)
    found = [await spin_after(n, late) for n, late in ((100, 150_000), (100, 10 * MS), (8_000, 0))]
    if longest_ns:
        assert 150_000 <= found[0] <= 150_000 + clock_module.SPIN_GROWS_NS
        assert found[1:] == [longest_ns, MIN_SPIN_NS]
    else:
        assert found == [60_000] * 3


class LateClock(Clock):
    """Wakes late by the given amounts, ns."""

    def __init__(self, lateness):
        super().__init__()
        self.now = 0
        self.lateness = iter(lateness)

    def now_ns(self):
        return self.now

    async def sleep_until(self, target_ns, *, stand_still=True):
        self.now = target_ns + next(self.lateness)
        return self.now


async def test_spin_is_the_lateness_that_most_wakes_keep():
    steady = [100_000] * 98 + [200_000, 5 * MS]
    assert await measure_spin_ns(LateClock(steady), wakes=100) == 200_000
    assert await measure_spin_ns(LateClock([1] * 60)) == MIN_SPIN_NS
    assert await measure_spin_ns(LateClock([9 * MS] * 60)) == MAX_SPIN_NS


async def test_spin_is_measured_on_this_host():
    assert MIN_SPIN_NS <= await measure_spin_ns(wakes=5) <= MAX_SPIN_NS
