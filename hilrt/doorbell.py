"""Waiting for any of several file descriptors without making a task for every wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable


class Doorbell:
    """Rings when a descriptor becomes readable; `close` it when the waiting is over.

    A ZeroMQ socket's descriptor reports edges, so `wait` also returns after `again_s`, for the
    caller to look at the sockets themselves.
    """

    def __init__(self, fds: Iterable[int], again_s: float = 0.01) -> None:
        self._loop = asyncio.get_running_loop()
        self._fds = set(fds)
        self._again_s = again_s
        self._waiter: asyncio.Future[None] | None = None
        try:
            for fd in self._fds:
                self._loop.add_reader(fd, self.ring)
        except NotImplementedError:  # Windows' default loop: look often instead
            self._fds.clear()
            self._again_s = min(again_s, 0.001)

    def ring(self) -> None:
        """End a wait."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, nothing_yet: Callable[[], bool]) -> None:
        """Wait for the next ring, unless `nothing_yet` turns out false after watching began."""
        self._waiter = self._loop.create_future()
        if not nothing_yet():
            return
        timer = self._loop.call_later(self._again_s, self.ring)
        try:
            await self._waiter
        finally:
            timer.cancel()

    def close(self) -> None:
        """Stop watching."""
        for fd in self._fds:
            self._loop.remove_reader(fd)
