"""Wait for any of several file descriptors, without a task per wait."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable, Iterable

from hilrt.timing.monotonic import monotonic_ns

#: Time for which a blocking wait first polls, to keep the processor awake, ns. Waking a sleeping
#: processor takes longer than a fast solver's step. For longer steps the master should sleep, so
#: that its processor is free for others. Measured with 4 solver processes on 2 processors
#: (`tools/benchmarks/bench_exchange.py`, two runs each): an exchange takes 104 µs instead of 131,
#: one of a whole session 209 instead of 231.
POLLING_NS = 100_000


class Waiter:
    """Object that waits until a descriptor becomes readable; call `close` at the end.

    A ZeroMQ socket's descriptor reports edges, so `wait` also returns after `again_s`, so that the
    caller polls the sockets themselves.

    Parameters
    ----------
    fds : iterable of int
        The descriptors.
    again_s : float
        Longest wait, s.
    block_s : float
        Initial part of a wait, s, during which the whole event loop blocks: two passes through it
        cost more than an exchange. Never twice in a row without a readable descriptor, so that
        other tasks run. For the first `POLLING_NS` it only yields to other processes and does not
        sleep.
    """

    def __init__(self, fds: Iterable[int], again_s: float = 0.01, block_s: float = 0.0) -> None:
        self._loop = asyncio.get_running_loop()
        self._fds = set(fds)
        self._again_s = again_s
        self._waiter: asyncio.Future[None] | None = None
        self._block_ms = 1e3 * block_s
        self._poll = select.poll() if block_s and hasattr(select, "poll") else None
        try:
            for fd in self._fds:
                self._loop.add_reader(fd, self.wake)
                if self._poll is not None:
                    self._poll.register(fd, select.POLLIN)
        except NotImplementedError:  # Windows' default loop: poll often instead
            self._fds.clear()
            self._again_s = min(again_s, 0.001)

    def wake(self) -> None:
        """End a wait."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, nothing_yet: Callable[[], bool]) -> None:
        """Wait until `wake`, unless `nothing_yet` becomes false after watching has begun.

        Call it after polling, so that the initial blocking wait detects later messages.
        """
        if self._poll is not None and self._readable_soon(self._poll):
            return
        self._waiter = self._loop.create_future()
        if not nothing_yet():
            return
        timer = self._loop.call_later(self._again_s, self.wake)
        try:
            await self._waiter
        finally:
            timer.cancel()

    def _readable_soon(self, poll: select.poll) -> bool:
        """Whether a descriptor becomes readable while the event loop blocks."""
        until_ns = monotonic_ns() + POLLING_NS
        while monotonic_ns() < until_ns:
            if poll.poll(0):
                return True
            os.sched_yield()
        return bool(poll.poll(self._block_ms))

    def close(self) -> None:
        """Stop watching."""
        for fd in self._fds:
            self._loop.remove_reader(fd)
