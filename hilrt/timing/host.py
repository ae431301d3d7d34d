"""The host: processors, garbage collection, ties to the parent process, and a report of it."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from typing import Any

from hilrt.timing.scheduler_slice import schedule_when_idle

_PR_SET_PDEATHSIG = 1
_PACKAGES = ("hilrt", "numpy", "pyzmq", "msgspec", "mcap", "pint", "python-can", "cantools")


def available_cpus() -> list[int]:
    """Processors that this process may run on."""
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


# Taken at import: once the master is pinned, it no longer sees the processors of the others.
ALL_CPUS = available_cpus()


def other_cpus(cpus: Iterable[int]) -> list[int]:
    """Processors of the host that are not in `cpus`; all of them where none would be left."""
    taken = set(cpus)
    return [cpu for cpu in ALL_CPUS if cpu not in taken] or list(ALL_CPUS)


def set_affinity(cpus: Iterable[int], pid: int = 0) -> str | None:
    """Run a process on these processors only.

    Parameters
    ----------
    cpus : iterable of int
        Processors; empty leaves everything as it is.
    pid : int
        The process; 0 is this one (its calling thread, and threads started from it later).

    Returns
    -------
    str or None
        A warning for people when it did not take effect.
    """
    wanted = sorted(set(cpus))
    if not wanted:
        return None
    if sys.platform != "linux":
        return f"affinity {wanted} is ignored: only Linux can pin a process here"
    try:
        os.sched_setaffinity(pid, wanted)
    except OSError as error:
        return (
            f"affinity {wanted} is ignored: {error.strerror}; "
            f"this process may use the processors {ALL_CPUS}"
        )
    return None


def move_other_threads(cpus: Iterable[int]) -> None:
    """Let all threads but the calling one run on these processors only.

    The threads that put messages on the wire must not wait for the processor that the master
    busy-waits on, nor interrupt it there.
    """
    if sys.platform != "linux":
        return
    mine = threading.get_native_id()
    for name in os.listdir("/proc/self/task"):
        if int(name) != mine:
            with contextlib.suppress(OSError):  # the thread has just ended
                os.sched_setaffinity(int(name), cpus)


def give_idle_priority(pid: int, cpus: Iterable[int]) -> None:
    """Let a process run only when no other wants these processors.

    For recorder and views of a session on the wall clock. Measured with a process that computes for
    0.4 ms every 2 ms, on one processor with a busy one (10 alternating blocks of 500 turns): it is
    done 28 µs late (median) where the other one has idle priority, and 851 µs elsewhere. Their
    priority is lowered only when they have started, which a busy host would delay for long
    otherwise.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):  # it may have just ended
        for name in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(name), cpus)
            schedule_when_idle(int(name))


@contextlib.contextmanager
def freeze_gc() -> Iterator[Callable[[int], bool]]:
    """Keep the garbage collector out of the ticks; as it was on leaving.

    What exists is never collected, and the collector no longer runs by itself: a full collection
    takes milliseconds, with the compiler loaded a tenth of a second. So there is none at the
    beginning either: what was garbage then stays until the end.

    Yields
    ------
    callable
        ``collect(slack_ns) -> bool``: collects recent cycles if that fits into the slack, going by
        how long it took last time, and says whether it did.
    """
    enabled = gc.isenabled()
    gc.freeze()
    gc.disable()
    took_ns = 0

    def collect(slack_ns: int) -> bool:
        nonlocal took_ns
        if 2 * took_ns >= slack_ns:
            took_ns -= took_ns // 64  # one slow collection must not end them all
            return False
        start_ns = time.perf_counter_ns()
        gc.collect(1)
        took_ns = time.perf_counter_ns() - start_ns
        return True

    try:
        yield collect
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


@contextlib.contextmanager
def load_without_gc() -> Iterator[None]:
    """Keep the garbage collector away from what is being loaded, also afterwards.

    It would look through it again and again: a tenth of the processor time of a session's start.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # else the next collection would begin with all of it
        if enabled:
            gc.enable()


def die_with_parent(sig: int = signal.SIGTERM, parent_pid: int | None = None) -> bool:
    """Have the kernel send this process `sig` when its parent ends, however that ends.

    It survives an exec, but not a fork; "parent" is the parent's thread that started this process.

    Parameters
    ----------
    sig : int
        The signal.
    parent_pid : int, optional
        The parent, if this process was told: when it has already ended, `sig` is sent at once.

    Returns
    -------
    bool
        False where the system has no such thing (anything but Linux): watch `parent_alive`.
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


def host_report() -> dict[str, Any]:
    """What a log should say of the host: system, processors, versions of what matters."""
    return {
        "platform": platform.platform(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "cpus": os.cpu_count() or 1,
        "cpus_available": len(ALL_CPUS),
        "versions": dict(_versions()),
    }


@functools.cache
def _versions() -> dict[str, str]:
    """Versions of the packages that are installed."""
    versions = {}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions
