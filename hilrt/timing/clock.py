"""Clocks with which tasks sleep.

`WallClock` wakes a little early on a kernel timer and busy-waits the last stretch. The event loop's
own timers are rounded to whole milliseconds by epoll. After any wake-up the loop needs two passes
before the sleeper runs, and with cold caches these take longer than the timer is late. The last
part of a sleep is therefore a blocking wait for a ``timerfd``, during which the loop does not run.
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
#: Last part of a sleep, during which the event loop is blocked, ns.
STANDSTILL_NS = 1_000_000
MIN_SPIN_NS = 50_000
MAX_SPIN_NS = 700_000
#: An adaptive spin grows by this for every wake-up later than the spin is long, ns.
SPIN_GROWS_NS = 20_000
#: Permitted share of such late wake-ups. While there are fewer, the spin shrinks.
LATE_WAKES = 0.002


class Clock(abc.ABC):
    """Monotonic clock with which tasks sleep."""

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
        """Return when the clock reads at least `target_ns`; at once if it already does.

        Parameters
        ----------
        target_ns : int
            ns.
        stand_still : bool
            Block the event loop for the last part; False lets other tasks run until the end.
        reception : EarlyReception, optional
            Receives messages while the event loop is blocked. Its exceptions end the sleep.

        Returns
        -------
        int
            The reading that ended the sleep, ns.
        """

    def wake_ns(self, target_ns: int) -> int:
        """Return when `sleep_until` needs the processor for that target, ns."""
        return target_ns

    def close(self) -> None:
        """Free the timer. May be called twice."""

    async def _turn(self) -> None:
        """Let the event loop run its callbacks if it has not done so for a while.

        A master that is behind schedule must still handle signals and heartbeats.
        """
        now = monotonic_ns()
        if now - self._last_turn >= TURN_NS:
            self._last_turn = now
            await asyncio.sleep(0)


class SleepTimer(Protocol):
    """Timer of a `WallClock`; times are readings of the monotonic clock, ns."""

    async def wait_until(self, target_ns: int) -> None:
        """Wait until `target_ns`, letting other tasks run."""

    def block_until(self, target_ns: int, fd: int | None = None) -> bool:
        """Block the event loop until `target_ns`; return False if `fd` was readable before."""

    def close(self) -> None:
        """Free it. May be called twice."""


class WallClock(Clock):
    """The host's monotonic clock. Only one task may sleep on an instance at a time.

    Parameters
    ----------
    spin_ns : int
        Time before a target at which the timer wakes; the rest is busy-waited, ns. The spin never
        lasts longer, because the kernel would throttle a real-time process.
    longest_spin_ns : int
        If given, the spin adapts to the timer's lateness, between `MIN_SPIN_NS` and this, ns,
        because the lateness changes during a session.
    timer : {"auto", "timerfd", "plain"} or SleepTimer
        "plain" is the event loop's own timer; "auto" uses it where there is no timerfd.

    Attributes
    ----------
    timer : SleepTimer or None
        None for the event loop's own timer.
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
            self._adapt_spin(self._last_turn - wake_ns if ahead_ns > 0 else 0)
        if reception is not None and ahead_ns <= 0:
            reception.receive_by(target_ns)  # no time was left to receive while asleep
        while (now_ns := monotonic_ns()) < target_ns:
            if reception is not None:
                reception.poll(now_ns)
        return now_ns

    def _adapt_spin(self, late_ns: int) -> None:
        """Adapt the spin to the 1 - `LATE_WAKES` quantile of the lateness (Robbins, Monro).

        Wake-ups later than the longest spin also count: they come in phases in which most others
        are less late, and a longer spin covers those.
        """
        if late_ns > self.spin_ns:
            self.spin_ns = min(self.spin_ns + SPIN_GROWS_NS, self._longest_spin_ns)
        else:
            self.spin_ns = max(self.spin_ns - round(LATE_WAKES * SPIN_GROWS_NS), MIN_SPIN_NS)

    async def _rest(
        self, ahead_ns: int, wake_ns: int, still_ns: int, reception: EarlyReception | None
    ) -> None:
        """Let other tasks run, at least once, until `still_ns` before `wake_ns`; then block."""
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
            time.sleep(left_ns * 1e-9)  # noqa: ASYNC251 - blocks the loop on purpose
        else:
            self.timer.block_until(wake_ns)

    def _receive_until(self, wake_ns: int, reception: EarlyReception) -> None:
        """Block until the timer expires; receive messages as they come.

        The event loop's own timer cannot be combined with a descriptor; with it, receive once.
        """
        reception.receive_by(wake_ns)
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
    """A timerfd on the monotonic clock, awaited by the event loop or with a blocking call."""

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
        """Return the descriptor; it is readable once the timer has expired, until it is read."""
        return self._fd

    async def wait_until(self, target_ns: int) -> None:
        """Wait until the clock reads `target_ns`, letting other tasks run."""
        if self._waiter is not None:
            raise RuntimeError("another task sleeps with this clock; give each task its own")
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
        """Block the event loop until the clock reads `target_ns`.

        Returns False if `fd` became readable before; the timer then stays set.
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
        """Poll `fd` together with the timer from now on."""
        if fd != self._watched:
            if self._watched is not None:
                self._both.unregister(self._watched)
            self._both.register(fd, select.POLLIN)
            self._watched = fd

    def _expired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # set again since it expired
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


# Python has timerfd since 3.13; older versions make the same three calls through the C library.
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
