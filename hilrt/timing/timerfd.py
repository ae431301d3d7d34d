"""A timer of the Linux kernel as a file descriptor (``timerfd``).

Watched by the event loop it wakes a sleeper 42 µs late (median), the loop's own timers 545 µs; a
blocking wait for it is what `hilrt.timing.clock.WallClock` ends each sleep with.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import os
import select
import sys
import time


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
        except BlockingIOError:  # set anew since the loop saw it
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
            raise OSError("only Linux has timerfd; take the plain timer")
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
