"""Clocks to sleep on.

`WallClock` wakes a little early on a kernel timer and busy-waits the last stretch. The event loop's
own timers are rounded to whole milliseconds by epoll, and whatever wakes the loop takes two passes
through it until the sleeper runs: cold, they take longer than the timer is late. So the loop stands
still for the last moment of a sleep, in a blocking wait for a ``timerfd``.
Measured on two processors at 1 kHz: ``asyncio.sleep`` wakes 545 µs late (median); this clock 23 µs
(p99 42) without the busy-wait and 0.02 µs (p99 2) with it (`tools/benchmarks/bench_pacing.py`).
`VirtualClock` jumps to the next target, for tests.
"""

from __future__ import annotations

import abc
import asyncio
import ctypes
import functools
import os
import select
import sys
import time
from typing import Literal, Protocol

from hilrt.timing.early_reception import EarlyReception
from hilrt.timing.monotonic import monotonic_ns

#: The event loop gets a turn at least this often, even when every target has already passed.
TURN_NS = 2_000_000
#: The end of a sleep, in which the event loop stands still.
STANDSTILL_NS = 1_000_000
MIN_SPIN_NS = 50_000
MAX_SPIN_NS = 700_000
#: A spin that follows the timer grows by this for every wake-up after its beginning, ns.
SPIN_GROWS_NS = 20_000
#: Share of wake-ups that may come so late. As long as fewer do, the spin shrinks.
LATE_WAKES = 0.002


class Clock(abc.ABC):
    """A monotonic clock to sleep on."""

    def __init__(self) -> None:
        self._last_turn = monotonic_ns()

    @abc.abstractmethod
    def now_ns(self) -> int:
        """Reading, ns."""

    @abc.abstractmethod
    async def sleep_until(
        self,
        target_ns: int,
        *,
        stand_still: bool = True,
        reception: EarlyReception | None = None,
    ) -> int:
        """Return when the reading is at least `target_ns`; at once if it already is.

        Parameters
        ----------
        target_ns : int
            ns.
        stand_still : bool
            False if other tasks are to run until the end.
        reception : EarlyReception, optional
            Receives what arrives while the event loop stands still. Its exceptions end the sleep.

        Returns
        -------
        int
            The reading that ended the sleep, ns.
        """

    def wake_ns(self, target_ns: int) -> int:
        """Time at which `sleep_until` needs the processor for that target, ns."""
        return target_ns

    def close(self) -> None:
        """Free the timer. May be called twice."""

    async def _turn(self) -> None:
        """Let the event loop run its callbacks if it has not for a while.

        A master that is behind must still see signals and heartbeats.
        """
        now = monotonic_ns()
        if now - self._last_turn >= TURN_NS:
            self._last_turn = now
            await asyncio.sleep(0)


class VirtualClock(Clock):
    """A clock that stands still between sleeps and jumps to their targets."""

    def __init__(self, start_ns: int = 0) -> None:
        super().__init__()
        self._now = start_ns

    def now_ns(self) -> int:
        """Reading, ns."""
        return self._now

    def advance(self, duration_ns: int) -> None:
        """Let time pass without sleeping, like a computation."""
        self._now += duration_ns

    async def sleep_until(
        self,
        target_ns: int,
        *,
        stand_still: bool = True,
        reception: EarlyReception | None = None,
    ) -> int:
        """Jump to `target_ns`, never back, after one look for samples."""
        if reception is not None and target_ns > self._now:
            reception.look(target_ns)
        self._now = max(self._now, target_ns)
        await self._turn()
        return self._now


class SleepTimer(Protocol):
    """Timer that a `WallClock` sleeps with; times are readings of the monotonic clock, ns."""

    async def wait_until(self, target_ns: int) -> None:
        """Let other tasks run until then."""

    def block_until(self, target_ns: int, fd: int | None = None) -> bool:
        """Block, and the event loop with it, until then; False if `fd` was readable before."""

    def close(self) -> None:
        """Free it. May be called twice."""


class WallClock(Clock):
    """The host's monotonic clock. Only one task may sleep on an instance at a time.

    Parameters
    ----------
    spin_ns : int
        How long before a target the timer wakes, to busy-wait the rest, ns. The spin never lasts
        longer: under a real-time scheduling class that would run into the kernel's throttling.
    longest_spin_ns : int
        With it the spin follows the timer's lateness, between `MIN_SPIN_NS` and this, ns: a host
        does not stay as punctual as it was at the start.
    timer : {"auto", "timerfd", "plain"} or SleepTimer
        "plain" is the event loop's own timer; "auto" takes it where there is no timerfd.

    Attributes
    ----------
    timer : SleepTimer or None
        None with the event loop's own.
    """

    def __init__(
        self,
        spin_ns: int = 0,
        longest_spin_ns: int = 0,
        timer: Literal["auto", "timerfd", "plain"] | SleepTimer = "auto",
    ) -> None:
        super().__init__()
        self.spin_ns, self._longest_spin_ns = spin_ns, longest_spin_ns
        if timer == "auto":
            timer = "timerfd" if sys.platform == "linux" else "plain"
        self.timer: SleepTimer | None
        if isinstance(timer, str):
            self.timer = TimerFd() if timer == "timerfd" else None
        else:
            self.timer = timer

    def now_ns(self) -> int:
        """Reading, ns."""
        return monotonic_ns()

    def wake_ns(self, target_ns: int) -> int:
        """See `Clock.wake_ns`."""
        return target_ns - self.spin_ns

    async def sleep_until(
        self,
        target_ns: int,
        *,
        stand_still: bool = True,
        reception: EarlyReception | None = None,
    ) -> int:
        """Wake `spin_ns` before `target_ns`, then busy-wait."""
        wake_ns = self.wake_ns(target_ns)
        ahead_ns = wake_ns - monotonic_ns()
        if ahead_ns <= 0:
            await self._turn()
        else:
            await self._rest(ahead_ns, wake_ns, STANDSTILL_NS if stand_still else 0, reception)
            self._last_turn = monotonic_ns()
        if self._longest_spin_ns:
            self._follow(self._last_turn - wake_ns if ahead_ns > 0 else 0)
        if reception is not None and ahead_ns <= 0:
            reception.look(target_ns)  # there was no rest to do it in
        while (now_ns := monotonic_ns()) < target_ns:
            if reception is not None:
                reception.poll(now_ns)
        return now_ns

    def _follow(self, late_ns: int) -> None:
        """Bring the spin nearer to the lateness that all but `LATE_WAKES` keep (Robbins, Monro).

        Wake-ups later than any spin count, too: they come in phases, in which most of the others
        are late by less.
        """
        if late_ns > self.spin_ns:
            self.spin_ns = min(self.spin_ns + SPIN_GROWS_NS, self._longest_spin_ns)
        else:
            self.spin_ns = max(self.spin_ns - round(LATE_WAKES * SPIN_GROWS_NS), MIN_SPIN_NS)

    async def _rest(
        self, ahead_ns: int, wake_ns: int, still_ns: int, reception: EarlyReception | None
    ) -> None:
        """Let other tasks run until `still_ns` before `wake_ns`, once at least; then block."""
        if ahead_ns <= still_ns:
            await asyncio.sleep(0)
        elif self.timer is None:
            await asyncio.sleep((ahead_ns - still_ns) * 1e-9)
        else:
            await self.timer.wait_until(wake_ns - still_ns)
        if reception is not None:
            self._receive_until(wake_ns, reception)
        if (left_ns := wake_ns - monotonic_ns()) <= 0:
            return
        if self.timer is None:
            time.sleep(left_ns * 1e-9)  # noqa: ASYNC251 - the loop is to stand still
        else:
            self.timer.block_until(wake_ns)

    def _receive_until(self, wake_ns: int, reception: EarlyReception) -> None:
        """Block for the timer and the descriptor together; receive messages meanwhile.

        The event loop's own timer cannot be combined with a descriptor: it gets one look.
        """
        reception.look(wake_ns)
        while self.timer is not None and reception.watches:
            if self.timer.block_until(wake_ns, reception.fd):
                return
            reception.receive()

    def close(self) -> None:
        """Free the timer. May be called twice."""
        if self.timer is not None:
            self.timer.close()


async def measure_spin_ns(
    clock: Clock | None = None, wakes: int = 60, interval_ns: int = 1_000_000
) -> int:
    """Measure how early to wake on this host: the 99 % quantile of the timer's lateness, ns.

    Parameters
    ----------
    clock : Clock, optional
        Default: a `WallClock` that does not spin.
    wakes, interval_ns : int
        Number of wake-ups to measure, and the time between them, ns.

    Returns
    -------
    int
        ns, between `MIN_SPIN_NS` and `MAX_SPIN_NS`.
    """
    measured = clock if clock is not None else WallClock()
    lateness: list[int] = []
    try:
        for _ in range(wakes):
            target_ns = measured.now_ns() + interval_ns
            lateness.append(await measured.sleep_until(target_ns) - target_ns)
    finally:
        if clock is None:
            measured.close()
    p99 = sorted(lateness)[-1 - wakes // 100]
    return min(max(p99, MIN_SPIN_NS), MAX_SPIN_NS)


# A timer of the Linux kernel as a file descriptor (``timerfd``).
#
# Watched by the event loop it wakes a sleeper 42 µs late (median), the loop's own timers 545 µs;
# `hilrt.timing.clock.WallClock` ends each sleep with a blocking wait for it.


class TimerFd:
    """A timerfd on the monotonic clock, awaited through the running event loop, or blocking."""

    def __init__(self) -> None:
        self._fd = -1
        self._fd = _timerfd_create()
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._both = select.poll()  # the timer and the descriptor of the last call
        self._both.register(self._fd, select.POLLIN)
        self._watched: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[None] | None = None

    def fileno(self) -> int:
        """The descriptor: readable when the timer has expired and was not read."""
        return self._fd

    async def wait_until(self, target_ns: int) -> None:
        """Let other tasks run until the clock reads `target_ns`."""
        if self._waiter is not None:
            raise RuntimeError("another task sleeps on this clock; give each task its own")
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._unwatch()
            loop.add_reader(self._fd, self._expired)
            self._loop = loop
        self._waiter = loop.create_future()
        _timerfd_settime(self._fd, target_ns)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def block_until(self, target_ns: int, fd: int | None = None) -> bool:
        """Block, and the event loop with it, until the clock reads `target_ns`.

        Returns False when `fd` became readable before; the timer is then set all the same.
        """
        _timerfd_settime(self._fd, target_ns)
        if fd is None:
            self._poll.poll()
        else:
            self._watch(fd)
            if not any(ready == self._fd for ready, _ in self._both.poll()):
                return False
        os.read(self._fd, 8)
        return True

    def _watch(self, fd: int) -> None:
        """Wait for `fd` together with the timer from now on."""
        if fd != self._watched:
            if self._watched is not None:
                self._both.unregister(self._watched)
            self._both.register(fd, select.POLLIN)
            self._watched = fd

    def _expired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # set again since the loop saw it
            return
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _unwatch(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._loop = None

    def close(self) -> None:
        """Free the descriptor. May be called twice."""
        if self._fd >= 0:
            self._unwatch()
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


# Python offers timerfd from 3.13 on; before, the same three calls go through the C library.
if sys.version_info >= (3, 13) and sys.platform == "linux":

    def _timerfd_create() -> int:
        return os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)

    def _timerfd_settime(fd: int, target_ns: int) -> None:
        os.timerfd_settime_ns(fd, flags=os.TFD_TIMER_ABSTIME, initial=max(target_ns, 1))

else:
    _TFD_TIMER_ABSTIME = 1

    class _ITimerSpec(ctypes.Structure):
        _fields_ = [(name, ctypes.c_long) for name in ("every_s", "every_ns", "s", "ns")]

    @functools.cache
    def _libc() -> ctypes.CDLL:
        return ctypes.CDLL(None, use_errno=True)

    def _timerfd_create() -> int:
        if sys.platform != "linux":
            raise OSError("only Linux has timerfd; use the plain timer")
        clock_monotonic = 1
        fd: int = _libc().timerfd_create(clock_monotonic, os.O_NONBLOCK | os.O_CLOEXEC)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        return fd

    def _timerfd_settime(fd: int, target_ns: int) -> None:
        s, ns = divmod(max(target_ns, 1), 1_000_000_000)
        spec = _ITimerSpec(0, 0, s, ns)
        if _libc().timerfd_settime(fd, _TFD_TIMER_ABSTIME, ctypes.byref(spec), None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")
