"""Work in a thread that may be left: no thread can be stopped, and a compiler takes long."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable

NAME = "hilrt: may be left"


async def in_left_thread(work: Callable[[], None]) -> None:
    """Await the end of `work`; what it raises is raised. Cancelled, this leaves the work alone.

    The process waits for it at its end, as ending beside a compiler may crash; but see
    `leave_threads`.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def tell(error: BaseException | None) -> None:
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
            loop.call_soon_threadsafe(tell, error)
        atexit.unregister(thread.join)

    thread = threading.Thread(target=run, name=NAME, daemon=True)
    atexit.register(thread.join)
    thread.start()
    await done


def leave_threads(status: int) -> None:
    """End the process at once, if work was left alone in it, with this exit status."""
    if any(thread.name == NAME for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
