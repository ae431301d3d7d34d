"""Threads of a session: one with its event loop, and others with work that may be abandoned.

A thread cannot be stopped, and compiling takes long, so a session that ends does not wait for it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Answer = TypeVar("Answer")

#: Name of a thread that may be abandoned.
NAME = "hilrt: may be abandoned"
#: Python's switch interval: time for which another thread may compute before this one runs, s
#: (default: 5 ms). Measured at 1 kHz for 3 s beside a program that never stops computing, on two
#: busy processors: 1018 and 748 steps instead of 528 and 435, lateness 4.4 and 6.8 ms (p99) instead
#: of 12.
SWITCH_INTERVAL_S = 1e-4


class _ShortSwitchInterval:
    """Context in which Python's switch interval is `SWITCH_INTERVAL_S`, for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads, self._before = 0, 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._threads:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(SWITCH_INTERVAL_S)
            self._threads += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._threads -= 1
            if not self._threads:
                sys.setswitchinterval(self._before)


_short_switch_interval = _ShortSwitchInterval()


class LoopThread(Generic[T]):
    """Runs a coroutine to its end in a thread.

    Parameters
    ----------
    work : callable
        Creates the coroutine; called in the thread.
    punctual : bool
        Whether other threads of the process yield to it after `SWITCH_INTERVAL_S`.

    Attributes
    ----------
    ended : Future
        The coroutine's result, or its exception.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]], punctual: bool = False) -> None:
        self._work, self._punctual = work, punctual
        self.ended: Future[T] = Future()
        self.ended.set_running_or_notify_cancel()  # so that cancelled waiters do not cancel it
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[T] | None = None
        self._open = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="hilrt-session")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def call(self, function: Callable[[], Answer], otherwise: Answer) -> Future[Answer]:
        """Schedule a function in the thread's loop; its result is `otherwise` if no loop runs."""
        answer: Future[Answer] = Future()
        answer.set_running_or_notify_cancel()

        def answered() -> None:
            try:
                answer.set_result(function())
            except Exception as error:
                answer.set_exception(error)

        with self._open:
            if self._loop is None:
                answer.set_result(otherwise)
            else:
                self._loop.call_soon_threadsafe(answered)
        return answer

    def cancel(self) -> None:
        """Cancel the coroutine."""
        self.call(lambda: self._task is not None and self._task.cancel(), False)

    def result(self) -> T:
        """Wait for the end; Ctrl-C cancels the coroutine and is raised after its end."""
        try:
            return self.ended.result()
        except KeyboardInterrupt:
            self.cancel()
            self._thread.join()
            raise

    def _run(self) -> None:
        try:
            with _short_switch_interval if self._punctual else contextlib.nullcontext():
                result = asyncio.run(self._main())
        except BaseException as error:
            self.ended.set_exception(error)
        else:
            self.ended.set_result(result)

    async def _main(self) -> T:
        self._task = asyncio.ensure_future(self._work())
        with self._open:
            self._loop = asyncio.get_running_loop()
        try:
            return await self._task
        finally:
            with self._open:
                self._loop = None
            await asyncio.sleep(0)  # runs the calls scheduled so far


def run_in_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine and return its result; in a new thread if a loop runs in the caller's."""
    if not loop_runs():
        return asyncio.run(work())
    thread = LoopThread(work)
    thread.start()
    return thread.result()


def loop_runs() -> bool:
    """Whether an event loop runs in this thread, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def in_abandonable_thread(work: Callable[[], None]) -> None:
    """Run `work` in a thread and await its end; if cancelled, let the work continue.

    The exception of `work` is re-raised. The process waits for the work before it ends, because
    ending during compilation may crash; but see `leave_threads`.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def report(error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(report, error)
        atexit.unregister(thread.join)

    thread = threading.Thread(target=run, name=NAME, daemon=True)
    atexit.register(thread.join)
    thread.start()
    await done


def leave_threads(status: int) -> None:
    """End the process at once with this exit status, if it contains abandoned work."""
    if any(thread.name == NAME for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
