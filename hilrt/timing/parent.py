"""End this process when the process that started it ends."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
from typing import Final

_PR_SET_PDEATHSIG = 1
#: Signal that Linux itself never sends; number 16.
_LIMIT: Final[int | None] = getattr(signal, "SIGSTKFLT", None)


def die_with_parent(sig: int = signal.SIGTERM, parent_pid: int | None = None) -> bool:
    """Have the kernel send this process `sig` when its parent ends for any reason.

    The setting survives an exec, but not a fork. "Parent" is the thread that started this process.

    Parameters
    ----------
    sig : int
        The signal.
    parent_pid : int, optional
        The parent, if known: if it has already ended, `sig` is sent at once.

    Returns
    -------
    bool
        False where this is not supported (anything but Linux): poll `parent_alive` there.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(sig), 0, 0, 0) != 0:
        return False
    if parent_pid is not None and not parent_alive(parent_pid):
        os.kill(os.getpid(), sig)
    return True


def parent_alive(parent_pid: int) -> bool:
    """Whether `parent_pid`, from `os.getppid` at the start, still is this process's parent."""
    return os.getppid() == parent_pid


def end_with_parent() -> None:
    """End this process within 16 s after its parent, even if its code hangs outside Python (Linux).

    SIGTERM comes first, see `die_with_parent`, but Python cannot handle it while other code hangs.
    Therefore the kernel also sends `_LIMIT`, on behalf of another thread. Its handler is the C
    library's alarm(2), which takes its argument, the signal's number, as a time in s. SIGALRM then
    writes the stacks of all threads to standard error and ends the process.
    """
    if not die_with_parent() or _LIMIT is None:
        return
    limit, libc = _LIMIT, ctypes.CDLL(None)
    libc.signal(ctypes.c_int(limit), ctypes.cast(libc.alarm, ctypes.c_void_p))
    faulthandler.register(signal.SIGALRM, file=2, chain=True)

    def stand_by() -> None:
        die_with_parent(limit)
        threading.Event().wait()

    threading.Thread(target=stand_by, name="end_with_parent", daemon=True).start()
