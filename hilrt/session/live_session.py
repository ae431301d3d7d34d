"""A session that runs inside a program, in parallel with it: `LiveSession`, `AsyncLiveSession`.

Benches are always brought to rest: at the end of the ``with`` block, by `stop`, and when the
program's main thread ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from types import TracebackType

from hilrt.errors import CommandRefused
from hilrt.monitor.operator_commands import Action, Reply
from hilrt.session.result import RunResult
from hilrt.session.session_readings import SessionReadings

#: Interval of checks of a condition, s.
POLL_S = 0.01


def _check(reply: Reply) -> None:
    """Raise `CommandRefused`, with the reason, if a command was not carried out."""
    if not reply.ok:
        raise CommandRefused(reply.text)


class LiveSession(SessionReadings):
    """A session that runs in parallel with the program; its methods block.

    ::

        with hilrt.LiveSession("bench.toml", {"session.duration": 60.0}) as session:
            session.wait_until(lambda s: s["engine.speed"] > 100.0, timeout=20.0)
            session.set("bonds.shaft.cap", 0.2)
        print(session.wait().verdict)

    The ``with`` block, or `start` and `stop`, start and stop the session. In real time the program
    should wait rather than compute, because both share an interpreter.

    Parameters
    ----------
    session : str, Path or SessionFile
        The session file, or one from `load_session`.
    overrides : mapping, optional
        Values that replace the file's, by ``"table.key"``.
    options : RunOptions, optional
    """

    def start(self) -> LiveSession:
        """Start the session, and wait for its first tick or until it waits for `arm`.

        Raises
        ------
        ConfigError
            For an address or a folder that cannot be used.
        SessionFault
            If the session ended before its first tick.
        """
        self._begin()
        try:
            self._ready.result()
        except BaseException:  # Ctrl-C
            self._abandon()
            raise
        self._check_start()
        return self

    def wait(self, timeout: float | None = None) -> RunResult:
        """Wait until the session has ended: benches at rest, log closed.

        Raises
        ------
        TimeoutError
            After `timeout` [s].
        """
        self._must_have_begun()
        return self._thread.ended.result(timeout)

    def wait_until(
        self, condition: Callable[[LiveSession], object], timeout: float | None = None
    ) -> None:
        """Wait for a condition on values of the session, checked every 10 ms.

        Raises
        ------
        SessionFault
            If the session ends before the condition holds.
        TimeoutError
            After `timeout` [s].
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._held(condition):
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"the condition did not hold within {timeout:g} s")
            time.sleep(POLL_S)

    def stop(self) -> RunResult:
        """End the session as an operator's command would, and wait until benches are at rest."""
        if not self.ended:
            self._command_session("stop", refusable=True)
        return self.wait()

    def set(self, name: str, value: float | None) -> None:
        """Change a number that ``[monitor.adjust]`` lists, within its bounds.

        ``inputs.SUBSYSTEM.PORT`` takes over an input; None releases it.

        Raises
        ------
        CommandRefused
            If the number is not listed, or the value is out of bounds.
        """
        self._command_session("adjust", name, math.nan if value is None else value)

    def shadow(self, on: bool) -> None:
        """Switch shadow mode: compute corrections without applying them, or apply them again."""
        self._command_session("shadow", value=float(on))

    def mark(self, text: str) -> None:
        """Write a note into the log."""
        self._command_session("mark", text)

    def arm(self) -> None:
        """Arm the benches that wait for it."""
        self._command_session("arm")

    def safe(self) -> None:
        """Bring the benches to rest; the session stays in the state ``SAFE`` until `stop`."""
        self._command_session("safe")

    def _command_session(
        self, action: Action, text: str = "", value: float = 0.0, refusable: bool = False
    ) -> None:
        reply = self._command(action, text, value).result()
        if not refusable:
            _check(reply)

    def __enter__(self) -> LiveSession:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(Exception) if error is not None else contextlib.nullcontext():
            self.stop()


class AsyncLiveSession(SessionReadings):
    """`LiveSession` for programs with an event loop: ``async with``, and methods to await.

    The session runs in its own loop; the caller's loop only waits.
    """

    async def start(self) -> AsyncLiveSession:
        """See `LiveSession.start`."""
        self._begin()
        try:
            await asyncio.wrap_future(self._ready)
        except BaseException:  # cancelled
            self._abandon()
            raise
        self._check_start()
        return self

    async def wait(self) -> RunResult:
        """See `LiveSession.wait`."""
        self._must_have_begun()
        return await asyncio.wrap_future(self._thread.ended)

    async def wait_until(self, condition: Callable[[AsyncLiveSession], object]) -> None:
        """See `LiveSession.wait_until`."""
        while True:
            if self._held(condition):
                return
            await asyncio.sleep(POLL_S)

    async def stop(self) -> RunResult:
        """See `LiveSession.stop`."""
        if not self.ended:
            await self._command_session("stop", refusable=True)
        return await self.wait()

    async def set(self, name: str, value: float | None) -> None:
        """See `LiveSession.set`."""
        await self._command_session("adjust", name, math.nan if value is None else value)

    async def shadow(self, on: bool) -> None:
        """See `LiveSession.shadow`."""
        await self._command_session("shadow", value=float(on))

    async def mark(self, text: str) -> None:
        """See `LiveSession.mark`."""
        await self._command_session("mark", text)

    async def arm(self) -> None:
        """See `LiveSession.arm`."""
        await self._command_session("arm")

    async def safe(self) -> None:
        """See `LiveSession.safe`."""
        await self._command_session("safe")

    async def _command_session(
        self, action: Action, text: str = "", value: float = 0.0, refusable: bool = False
    ) -> None:
        reply = await asyncio.wrap_future(self._command(action, text, value))
        if not refusable:
            _check(reply)

    async def __aenter__(self) -> AsyncLiveSession:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(Exception) if error is not None else contextlib.nullcontext():
            await self.stop()
